"""Launchers that nobody held at the gate: said on the claims of their VM, and let run.

One that is neither gated nor pinned came while the webhook was away. Where it runs beside its claims
all is as it should be; elsewhere it takes units that were not given to it, and its claims hold units
that nobody uses. It counts where it runs, and is never ended for it.
"""

from collections.abc import Iterator

from gpu.binder import conditions
from gpu.binder.changes import Change, Degrade
from gpu.binder.phase import Scene
from gpu.model import at_gate, coverage
from gpu.objects.claims import Alarm, GPUClaim
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield what the claims of such VMs say, and take the word back from all others."""
    astray = _astray(scene)
    said = {claim.key for claim in scene.draft.degraded if _is_told(claim)}
    if not astray and not said:
        return
    for found in scene.draft.sets:
        pod = astray.get(found.vm) if found.vm else None
        if scene.leaves_alone(found.id):
            continue
        for claim in found.kept:
            is_apart = pod is not None and _is_apart(claim, pod)
            told = conditions.reason_of(claim, conditions.DEGRADED)
            if pod is not None and is_apart and not told:
                yield scene.plan(_degrade(scene, claim, pod, found.id))
            elif not is_apart and claim.key in said:
                yield scene.plan(_degrade(scene, claim, None, found.id))


def _astray(scene: Scene) -> dict[ObjectKey, Pod]:
    """Return launchers past no gate, by the VM that lists them."""
    found: dict[ObjectKey, Pod] = {}
    for pod in scene.draft.snapshot.pods.values():
        if pod.pinned is not None or not pod.live or not at_gate.is_launcher(pod):
            continue
        vmi = None if coverage.is_at_gate(pod) else at_gate.owner_of(scene.draft, pod)
        if vmi is not None:
            found[vmi.meta.key] = pod
    return found


def _is_apart(claim: GPUClaim, pod: Pod) -> bool:
    node = coverage.node_held(claim)
    return claim.attached_to is not None and node is not None and node != pod.node


def _is_told(claim: GPUClaim) -> bool:
    return conditions.reason_of(claim, conditions.DEGRADED) == Alarm.LAUNCHER_UNPINNED


def _degrade(scene: Scene, claim: GPUClaim, pod: Pod | None, set_id: str) -> Degrade:
    if pod is None:
        return Degrade(claim=claim, cause=None, words="", at=scene.now, set_id=set_id)
    words = (
        f"launcher {pod.meta.name} of its VM passed no gate and is not on node {claim.node}, where "
        "the claim is held: its VM does not use these units; stop the VM and start it again"
    )
    return Degrade(
        claim=claim, cause=Alarm.LAUNCHER_UNPINNED, words=words, at=scene.now, set_id=set_id
    )
