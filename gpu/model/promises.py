"""Promises: nodes that starts were granted before their VMI was there, and the launchers a webhook pinned there.

Under `binding: request` no leader's term is on such a pin: that the VM's claims were promised that very
node says as much (decision 26).
"""

from dataclasses import dataclass

from gpu.model import bind_requests
from gpu.model.snapshot import Snapshot
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import LAUNCHER_LABEL, LAUNCHER_VALUE, MIGRATION_LABEL, Pod
from gpu.units import NodeName

_Promise = tuple[ObjectKey, str, NodeName | None]
"""VM, uid of its VMI (empty until it is known), and node."""


@dataclass(slots=True, eq=False)
class Promises:
    """Those of the claims of one snapshot; gathered when a launcher is first asked about."""

    attached: tuple[GPUClaim, ...]
    _made: frozenset[_Promise] | None = None

    def is_kept(self, pod: Pod, vm: ObjectKey) -> bool:
        """Say whether a pod of a VM is a launcher pinned to the node that its start was promised."""
        labels = pod.meta.labels
        if pod.pinned is None or labels.get(LAUNCHER_LABEL) != LAUNCHER_VALUE:
            return False
        if MIGRATION_LABEL in labels:
            return False
        if self._made is None:
            self._made = frozenset(
                (
                    ObjectKey(claim.meta.namespace, claim.attached_to.vmi),
                    claim.attached_to.uid,
                    claim.node,
                )
                for claim in self.attached
                if claim.attached_to is not None and bind_requests.is_promised(claim)
            )
        return any((vm, uid, pod.pinned) in self._made for uid in ("", pod.vmi_uid))


def unbound(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return such launchers that have no node yet, as far as their VMI lists them or a claim noted them.

    What only says that it is a VMI's is left out: anybody may name a node in a pod that never runs.
    """
    promises = Promises(snapshot.attached)
    return tuple(
        pod
        for key, pod in snapshot.pod_units.known.items()
        if pod.node is None
        and pod.pinned is not None
        and pod.term is None
        and promises.is_kept(pod, snapshot.pod_units.owned[key])
    )
