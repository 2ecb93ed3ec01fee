"""What is read past the cache before a change that lets something go (domain contract 6, Release).

A watch may lag; a VMI that came just now, or a pod that lives after all, must not be overlooked.
Nothing is sent when the world has moved on: the next pass decides anew. What a claim holds, which only the
leader writes, is told by the answer to its own write as well, if nothing has been written since (decision 47).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from gpu.binder import changes, confirms
from gpu.binder.changes import Change
from gpu.binder.confirms import Confirm
from gpu.binder.rejection_changes import DeletePod
from gpu.binder.start_changes import Pin
from gpu.errors import DecodeError
from gpu.model import attaching, coverage, rejections
from gpu.objects import claims, kubevirt, nodes, pods
from gpu.objects.claims import Phase
from gpu.objects.decode import Fields
from gpu.objects.kinds import GPU_CLAIMS, LEASES, NODES, PODS, VMIS, Kind
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome, Writer
from gpu.units import ClaimName

NODE_LEASES: Final = "kube-node-lease"
_OVER: Final = frozenset({"Succeeded", "Failed"})
_RENEWS: Final = timedelta(seconds=10)
"""kubelet renews its Lease this often; one renewal may be on its way."""

_CONFIRMED: Final = (
    changes.Place,
    changes.Attach,
    changes.Detach,
    changes.DropFinalizer,
    changes.DeleteClaim,
    changes.EndGuest,
    Pin,
    DeletePod,
)


Stored = Callable[[ObjectKey, str], dict[str, Any] | None]
"""A claim as this pass stored it, or as this leader did in the version it was decided on; None otherwise."""


def _nothing(_: ObjectKey, __: str) -> None:
    """Nothing was stored."""


async def unmet(change: Change, api: Writer, stored: Stored = _nothing) -> str:
    """Return why the change must not be sent now; empty when all it relies on holds.

    Raises what the Writer raises when something cannot be read.
    """
    if isinstance(change, _CONFIRMED):
        listed = _Listed(api)
        for confirm in change.confirm:
            if words := await _unmet(confirm, api, stored, listed):
                return words
    return ""


@dataclass(slots=True)
class _Listed:
    """Pods of a namespace, listed once for all that one change relies on: none that ended lives again."""

    api: Writer
    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    async def pods(self, namespace: str, *, anew: bool = False) -> list[dict[str, Any]]:
        """`anew`: none may be missing that was made until now."""
        if anew or namespace not in self.found:
            self.found[namespace] = list((await self.api.list_all(PODS, namespace)).items)
        return self.found[namespace]


async def _unmet(confirm: Confirm, api: Writer, stored: Stored, listed: _Listed) -> str:
    """Return why it does not hold. What cannot be read proves nothing, and must not end the pass."""
    try:
        return await _asked(confirm, api, stored, listed)
    except DecodeError as error:
        return f"{_object(confirm)} cannot be read: {error}"


def _object(confirm: Confirm) -> str:
    match confirm:
        case confirms.VMIEnded() | confirms.VMINeverCame() | confirms.NoOtherPods():
            return f"VMI {confirm.key}"
        case confirms.NodeOff() | confirms.NodeLooked():
            return f"node {confirm.node}"
        case (
            confirms.PodsEnded()
            | confirms.PodsAbsent()
            | confirms.NoneGated()
            | confirms.NoLaunchers()
        ):
            return f"a pod of {confirm.namespace}"
        case confirms.ClaimsHeld():
            return f"a claim of {confirm.namespace}"
        case confirms.Refused():
            return f"pod {confirm.key}"
        case _:
            assert_never(confirm)


async def _asked(confirm: Confirm, api: Writer, stored: Stored, listed: _Listed) -> str:
    match confirm:
        case (
            confirms.PodsEnded()
            | confirms.PodsAbsent()
            | confirms.NoneGated()
            | confirms.NoLaunchers()
        ):
            return await _pods_there(listed, confirm)
        case confirms.VMIEnded() | confirms.VMINeverCame():
            return await _vmi_there(api, confirm)
        case confirms.NoOtherPods():
            return await _others(api, confirm, listed)
        case confirms.NodeOff() | confirms.NodeLooked():
            return await _not_off(api, confirm)
        case confirms.ClaimsHeld():
            return await _not_held(api, confirm, stored)
        case confirms.Refused():
            return await _not_refused(api, confirm)
        case _:
            assert_never(confirm)


async def _pods_there(
    listed: _Listed,
    confirm: confirms.PodsEnded | confirms.PodsAbsent | confirms.NoneGated | confirms.NoLaunchers,
) -> str:
    if not isinstance(confirm, confirms.NoLaunchers) and not confirm.uids:
        return ""
    looks_for_new = isinstance(confirm, confirms.NoLaunchers)
    for raw in await listed.pods(confirm.namespace, anew=looks_for_new):
        if isinstance(confirm, confirms.NoLaunchers):
            words = _launcher_of(raw, confirm.vmis)
        else:
            words = _lives(raw, confirm) if raw["metadata"]["uid"] in confirm.uids else ""
        if words:
            return f"pod {_name(raw)} {words}"
    return ""


def _lives(
    raw: dict[str, Any], confirm: confirms.PodsEnded | confirms.PodsAbsent | confirms.NoneGated
) -> str:
    match confirm:
        case confirms.PodsAbsent():
            return "is there"
        case confirms.PodsEnded() if (raw.get("status") or {}).get("phase") not in _OVER:
            return "lives"
        case confirms.NoneGated() if coverage.is_at_gate(pods.decode(raw)):
            return "waits at the gate"
    return ""


def _launcher_of(raw: dict[str, Any], vmis: Iterable[tuple[str, str]]) -> str:
    """Say that a pod is a launcher of one of the VMIs; any other pod, readable or not, is not asked."""
    labels = raw["metadata"].get("labels") or {}
    if labels.get(pods.LAUNCHER_LABEL) != pods.LAUNCHER_VALUE:
        return ""
    pod = pods.decode(raw)
    is_one = pod.live and any(attaching.is_launcher_of(pod, *vmi) for vmi in vmis)
    return "is a launcher that nobody has noted" if is_one else ""


async def _vmi_there(api: Writer, confirm: confirms.VMIEnded | confirms.VMINeverCame) -> str:
    raw = await _find(api, VMIS, confirm.key)
    if raw is None:
        return ""
    if isinstance(confirm, confirms.VMIEnded):
        lives = raw["metadata"]["uid"] == confirm.uid and not kubevirt.decode_vmi(raw).ended
        return f"VMI {confirm.key} is there and not ended" if lives else ""
    came = kubevirt.decode_vmi(raw).admissions.get(ClaimName(confirm.claim)) == confirm.admission
    return f"VMI {confirm.key} came after all" if came else ""


async def _others(api: Writer, confirm: confirms.NoOtherPods, listed: _Listed) -> str:
    raw = await _find(api, VMIS, confirm.key)
    if raw is None or raw["metadata"]["uid"] != confirm.uid:
        return await _targets(confirm, listed)
    vmi = kubevirt.decode_vmi(raw)
    if others := vmi.active_pods.keys() - confirm.pods:
        return f"VMI {confirm.key} has another pod, {min(others)}"
    return await _targets(confirm, listed) if vmi.ended or vmi.meta.deleting else ""


async def _targets(confirm: confirms.NoOtherPods, listed: _Listed) -> str:
    """Say that a migration of a VMI that is over has a target: nothing may list that any more."""
    vmi = {(confirm.key.name, confirm.uid)}
    for raw in await listed.pods(confirm.key.namespace, anew=True):
        is_target = pods.MIGRATION_LABEL in (raw["metadata"].get("labels") or {})
        is_known = raw["metadata"]["uid"] in confirm.pods
        if is_target and not is_known and (words := _launcher_of(raw, vmi)):
            return f"pod {_name(raw)} {words}"
    return ""


async def _not_off(api: Writer, confirm: confirms.NodeOff | confirms.NodeLooked) -> str:
    if isinstance(confirm, confirms.NodeLooked):
        return await _not_looked(api, confirm)
    raw = await _find(api, NODES, ObjectKey("", confirm.node))
    is_off = raw is None or nodes.decode(raw).out_of_service
    return "" if is_off else f"node {confirm.node} is there and not tainted out-of-service"


async def _not_looked(api: Writer, confirm: confirms.NodeLooked) -> str:
    name, at = confirm.node, confirm.at_or_after
    raw = await _find(api, NODES, ObjectKey("", name))
    node = nodes.decode(raw) if raw is not None else None
    if node is None or not node.ready:
        return f"node {name} is not Ready"
    if node.ready_since is None or node.ready_since > confirm.ready_since:
        return f"node {name} has not been Ready since {_time(confirm.ready_since)} without a break"
    lease = await _find(api, LEASES, ObjectKey(NODE_LEASES, name))
    try:
        renewed = Fields(lease).child("spec").time("renewTime")
    except DecodeError as error:
        return f"Lease of node {name}: {error}"
    if renewed is None or renewed < at - _RENEWS:
        return f"node {name} has not renewed its Lease since {_time(at)}"
    return ""


async def _not_held(api: Writer, confirm: confirms.ClaimsHeld, stored: Stored) -> str:
    for name, version in confirm.claims:
        key = ObjectKey(confirm.namespace, name)
        raw = stored(key, version) or await _find(api, GPU_CLAIMS, key)
        claim = claims.decode(raw) if raw is not None else None
        if claim is None or (claim.phase, claim.node) != (Phase.BOUND, confirm.node):
            return f"claim {name} is not held on node {confirm.node}"
        found = claim.attached_to
        pods = {(pod.uid, pod.node) for pod in found.pods} if found else set()
        if found is None or found.uid != confirm.vmi_uid or (confirm.pod, confirm.node) not in pods:
            return f"claim {name} does not note the launcher on node {confirm.node}"
    return ""


async def _not_refused(api: Writer, confirm: confirms.Refused) -> str:
    raw = await _find(api, PODS, confirm.key)
    if raw is None:
        return ""  # the deletion is told so, and the view with it
    pod = pods.decode(raw)
    if pod.meta.uid != confirm.uid or pod.meta.deleting:
        return f"pod {confirm.key} is another one, or going"
    is_so = rejections.is_refused(pod) or rejections.is_unschedulable(pod)
    return "" if is_so else f"pod {confirm.key} is not refused by its node"


def _time(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


async def _find(api: Writer, kind: Kind, key: ObjectKey) -> dict[str, Any] | None:
    try:
        return await api.get(kind, key.name, key.namespace or None)
    except Exception as error:
        if api.outcome(error) is Outcome.GONE:
            return None
        raise


def _name(raw: dict[str, Any]) -> str:
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"
