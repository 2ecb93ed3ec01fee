"""Kind: how one kind of object is addressed over HTTP; and the kinds this product reads or writes."""

from dataclasses import dataclass
from typing import Final

from gpu import keys


@dataclass(frozen=True, slots=True)
class Kind:
    """Group, version, plural, kind and scope: all a URL and a body need."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`v1` for the core group, `group/version` for any other."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`plural` or `plural.group`, as error texts and RBAC name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


GPU_CLASSES: Final = Kind(keys.GROUP, keys.VERSION, "gpuclasses", "GPUClass", namespaced=False)
GPU_CLAIMS: Final = Kind(keys.GROUP, keys.VERSION, "gpuclaims", "GPUClaim")
GPU_NODES: Final = Kind(keys.GROUP, keys.VERSION, "gpunodes", "GPUNode", namespaced=False)
GPU_BINDERS: Final = Kind(keys.GROUP, keys.VERSION, "gpubinders", "GPUBinder", namespaced=False)

NAMESPACES: Final = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Kind("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = Kind("", "v1", "pods", "Pod")
VOLUME_CLAIMS: Final = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES: Final = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES: Final = Kind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False
)
CSI_NODES: Final = Kind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CONFIG_MAPS: Final = Kind("", "v1", "configmaps", "ConfigMap")
RESOURCE_QUOTAS: Final = Kind("", "v1", "resourcequotas", "ResourceQuota")
EVENTS: Final = Kind("events.k8s.io", "v1", "events", "Event")
ENDPOINT_SLICES: Final = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
LEASES: Final = Kind("coordination.k8s.io", "v1", "leases", "Lease")
HELM_RELEASES: Final = Kind("helm.toolkit.fluxcd.io", "v2", "helmreleases", "HelmRelease")
WORKLOADS: Final = Kind("cozystack.io", "v1alpha1", "workloads", "Workload")
KUBEVIRTS: Final = Kind("kubevirt.io", "v1", "kubevirts", "KubeVirt")
WORKLOAD_MONITORS: Final = Kind("cozystack.io", "v1alpha1", "workloadmonitors", "WorkloadMonitor")
VMS: Final = Kind("kubevirt.io", "v1", "virtualmachines", "VirtualMachine")
VMIS: Final = Kind("kubevirt.io", "v1", "virtualmachineinstances", "VirtualMachineInstance")
NETWORK_DEFINITIONS: Final = Kind(
    "k8s.cni.cncf.io", "v1", "network-attachment-definitions", "NetworkAttachmentDefinition"
)
CRDS: Final = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
API_SERVICES: Final = Kind(
    "apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False
)
POLICIES: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
POLICY_BINDINGS: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
CLUSTER_ROLES: Final = Kind(
    "rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False
)
VALIDATING_WEBHOOKS: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_WEBHOOKS: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_POLICIES: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    namespaced=False,
)
MUTATING_POLICY_BINDINGS: Final = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    namespaced=False,
)
SUBJECT_ACCESS_REVIEWS: Final = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
TOKEN_REVIEWS: Final = Kind(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
