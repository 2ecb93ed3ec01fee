"""Given: the objects a snapshot is made of; the next one is made of them and of what changed."""

from dataclasses import dataclass

from gpu.model import tenancy
from gpu.model.tenancy import Tree
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.kubevirt import VM, VMI, KubeVirt
from gpu.objects.nodes import GPUNode, Node
from gpu.objects.pods import Pod
from gpu.objects.tenants import Namespace, TenantQuota, TenantRelease


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Objects:
    """What a snapshot is made of."""

    classes: tuple[GPUClass, ...]
    claims: tuple[GPUClaim, ...]
    inventory: tuple[GPUNode, ...]
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    vmis: tuple[VMI, ...]
    vms: tuple[VM, ...]
    namespaces: tuple[Namespace, ...]
    releases: tuple[TenantRelease, ...]
    quotas: tuple[TenantQuota, ...]
    kubevirts: tuple[KubeVirt, ...]

    def tree(self) -> Tree:
        """Return the tenants they make."""
        return tenancy.build(namespaces=self.namespaces, releases=self.releases, quotas=self.quotas)
