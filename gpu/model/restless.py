"""Restless: attached claims to be looked at closely, found by looking only where something changed.

It is memory of what was compared, never of what was decided: without it the same comes out, later.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from gpu.model import ordered
from gpu.objects.claims import GPUClaim
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod


@dataclass(slots=True, eq=False)
class Restless:
    """Claims, VMIs and pods as last looked at. It belongs to the one who runs passes."""

    _keys: set[ObjectKey] = field(default_factory=set)
    _attached: tuple[GPUClaim, ...] = ()
    _vmis: tuple[VMI, ...] = ()
    _pods: tuple[Pod, ...] = ()

    def follow(
        self,
        attached: tuple[GPUClaim, ...],
        vmis: tuple[VMI, ...],
        pods: tuple[Pod, ...],
        is_restless: Callable[[GPUClaim], bool],
    ) -> AbstractSet[ObjectKey]:
        """Return the attached claims that are restless, by key.

        Whether one is must follow from the claims, VMIs and pods of its namespace.
        """
        claims = ordered.changes(self._attached, attached)
        dirty = {claim.meta.namespace for part in claims for claim in part}
        for some in ordered.changes(self._vmis, vmis):
            dirty.update(vmi.meta.namespace for vmi in some)
        for several in ordered.changes(self._pods, pods):
            dirty.update(pod.meta.namespace for pod in several)
        if dirty:
            kept = {key for key in self._keys if key.namespace not in dirty}
            again = [claim for claim in attached if claim.meta.namespace in dirty]
            self._keys = kept.union(claim.key for claim in again if is_restless(claim))
        self._attached, self._vmis, self._pods = attached, vmis, pods
        return self._keys
