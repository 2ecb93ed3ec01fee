"""Interrupted runs: a world, a leader cut off at each of its writes, and a new one that goes on.

The next leader begins with a fresh view and nothing in memory. In the end everything stands as it
does without the interruption, or as good; a case that is only as good says why.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from gpu import keys
from gpu.cluster import errors
from gpu.config import Config
from gpu.objects import kinds, pods
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome
from tests.binder import raws
from tests.binder.rig import Rig
from tests.fakes.cluster import FakeCluster

Raw = raws.Raw
OURS = {"finalizers": [keys.CLAIM_FINALIZER]}
SETTLES = (200.0, 200.0)
"""Waits after which there is evidence: a new leader sees absent pods anew (releaseSettle)."""


@dataclass
class Cut:
    """A line to the cluster that is cut at the `at`-th write: that one `executed` or not, no more."""

    cluster: FakeCluster
    at: int
    executed: bool
    sent: int = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.cluster, name)
        return self._write(found) if name in {"create", "patch", "apply", "delete"} else found

    def _write(self, send: Callable[..., Any]) -> Callable[..., Any]:
        async def write(*args: Any, **how: Any) -> Any:
            self.sent += 1
            if self.sent < self.at:
                return await send(*args, **how)
            if self.sent == self.at and self.executed:
                await send(*args, **how)
            raise errors.Unreachable("the line was cut", sent=True)

        return write


@dataclass(frozen=True)
class Case:
    """A cluster at the moment a leader begins its pass; units of nodes by name, or whole nodes."""

    nodes: dict[str, int] | list[Raw]
    claims: list[Raw]
    quotas: dict[str, int] = field(default_factory=dict)
    more: dict[str, list[Raw]] = field(default_factory=dict)
    """Further objects, by field of World; classes and inventory instead of the usual ones."""
    config: Config = field(default_factory=Config)
    waits: tuple[float, ...] = ()
    """Seconds that pass, each time after everything is still."""
    in_flight: int = 8
    as_good: Callable[[dict[str, Any]], Any] | None = None
    """What of the end must be equal, where not all of it can be; the case's comment says why."""


def held(name: str, node: str = "n1", *, at: int = 0, **more: Any) -> Raw:
    """A claim that is Bound; `count`, `class_name`, `tenant` as of a_claim, the rest is status."""
    of_claim = {key: more.pop(key) for key in ("count", "class_name", "tenant") if key in more}
    meta = OURS | more.pop("meta", {})
    return raws.a_claim(name, at=at, meta=meta, status=raws.bound(node) | more, **of_claim)


def lost(name: str, node: str = "n1", *, at: int = 0, **more: Any) -> Raw:
    """A claim that is Lost, an hour ago."""
    left = {"at": "2026-01-02T02:00:00Z", "node": node, "cause": "NodeGone"}
    return held(name, node, at=at, phase="Lost", displaced=left, **more)


def used(name: str, *, vm: str = "vm", pod: str = "pod-1", node: str = "n1", **more: Any) -> Raw:
    """A claim that is Bound and used by a VMI, its pod noted."""
    admission = f"adm-{name}"
    return held(
        name,
        node,
        **raws.attached(vm, uid=f"vmi-{vm}", admission=admission, pods={pod: node}),
        **more,
    )


def vmi(
    *claims: str, vm: str = "vm", pod: str = "pod-1", node: str = "n1", phase: str = "Running"
) -> Raw:
    """The VMI that uses these claims."""
    return raws.a_vmi(
        vm,
        uid=f"vmi-{vm}",
        phase=phase,
        node=node if phase == "Running" else "",
        pods={pod: node},
        admissions={name: f"adm-{name}" for name in claims},
    )


def lease(node: str) -> Raw:
    """A kubelet that lives as long as the test."""
    return {
        "metadata": {"name": node, "namespace": "kube-node-lease"},
        "spec": {"renewTime": "2026-01-03T00:00:00.000000Z"},
    }


def a_rig(case: Case) -> Rig:
    pace = replace(case.config.pace, sets_in_flight=case.in_flight)
    rig = Rig(config=replace(case.config, pace=pace))
    nodes = (
        [raws.a_node(name, units=units) for name, units in case.nodes.items()]
        if isinstance(case.nodes, dict)
        else case.nodes
    )
    usual: dict[str, list[Raw]] = {
        "classes": [raws.a_class(meta={"finalizers": []})],
        "nodes": nodes,
        "inventory": [raws.an_inventory(node["metadata"]["name"]) for node in nodes],
        "namespaces": [raws.a_tenant(it) for it in ("tenant-root", "tenant-a", "tenant-b")],
        "releases": [raws.a_release(**case.quotas)] if case.quotas else [],
        "claims": case.claims,
    }
    for node in nodes:
        rig.cluster.put(kinds.LEASES, lease(node["metadata"]["name"]))
    rig.store(**(usual | case.more))
    return rig


def check(rig: Rig, case: Case) -> None:
    """No unit is booked twice, and no budget exceeded, that was not so from the start."""
    began = a_rig(case)
    before, now = in_use(began), in_use(rig)
    served = {
        (raw["metadata"]["name"], resource): int(units)
        for raw in rig.cluster._objects.get(kinds.NODES, {}).values()
        for resource, units in raw["status"]["allocatable"].items()
    }
    over = {
        place: units
        for place, units in now.items()
        if place in served and units > max(served[place], before[place])
    }
    assert over == {}
    total = sum(_units(raw) for raw in _claims(rig) if _settled(raw, "tenant-a"))
    was = sum(_units(raw) for raw in _claims(began) if _settled(raw, "tenant-a"))
    assert total <= max(case.quotas.get("total", total), was)


def in_use(rig: Rig) -> Counter[tuple[str, str]]:
    """Units by node and resource: of each VM what its claims hold or its pods ask, if that is more."""
    classes = rig.cluster._objects.get(kinds.GPU_CLASSES, {})
    held_by: Counter[tuple[str, str, str]] = Counter()
    asked_by: Counter[tuple[str, str, str]] = Counter()
    vm_of: dict[str, str] = {}
    for raw in _claims(rig):
        status = raw.get("status") or {}
        attached = status.get("attachedTo") or {}
        vm_of |= {pod["uid"]: attached["name"] for pod in attached.get("pods", [])}
        offer = classes.get(ObjectKey("", raw["spec"]["className"]))
        if status.get("phase") == "Bound" and offer is not None:
            resource = offer["spec"]["source"]["devicePlugin"]["resourceName"]
            who = attached.get("name") or raw["metadata"]["uid"]
            held_by[status["nodeName"], resource, who] += _units(raw)
    for raw in rig.cluster._objects.get(kinds.PODS, {}).values():
        node = raw["spec"].get("nodeName")
        if node and raw["status"]["phase"] not in {"Succeeded", "Failed"}:
            for resource, units in raw["spec"]["containers"][0]["resources"]["requests"].items():
                uid = raw["metadata"]["uid"]
                asked_by[node, resource, vm_of.get(uid, uid)] += int(units)
    found: Counter[tuple[str, str]] = Counter()
    for place in held_by.keys() | asked_by.keys():
        found[place[:2]] += max(held_by[place], asked_by[place])
    return found


def picture(rig: Rig) -> dict[str, Any]:
    """What stands in the end, without times, terms, versions and words."""
    stored = rig.cluster._objects
    return {
        "claims": {str(key): _stand(raw) for key, raw in _of(stored, kinds.GPU_CLAIMS)},
        "classes": {
            key.name: (raw["metadata"].get("finalizers"), _numbers(raw["status"]))
            for key, raw in _of(stored, kinds.GPU_CLASSES)
            if raw.get("status")
        },
        "nodes": {
            key.name: (raw.get("status") or {}).get("resources")
            for key, raw in _of(stored, kinds.GPU_NODES)
        },
        "pins": {key.name: _pin(raw) for key, raw in _of(stored, kinds.PODS) if _is_gated(raw)},
        "vmis": sorted(str(key) for key, _ in _of(stored, kinds.VMIS)),
        "records": {
            str(key): (raw["status"]["resources"], raw["metadata"].get("labels"))
            for key, raw in _of(stored, kinds.WORKLOADS)
        },
        "monitors": sorted(str(key) for key, _ in _of(stored, kinds.WORKLOAD_MONITORS)),
        "settings": sorted(str(key) for key, _ in _of(stored, kinds.CONFIG_MAPS)),
    }


def _is_gated(pod: Raw) -> bool:
    """Say whether a launcher is at the gate, or was let through."""
    return keys.TERM_ANNOTATION in pod["metadata"].get("annotations", {}) or bool(
        pod["spec"].get("schedulingGates")
    )


def _pin(pod: Raw) -> str | None:
    """The node a launcher is pinned to; None at the gate, empty where it may go anywhere."""
    return None if pod["spec"].get("schedulingGates") else pods.decode(pod).pinned or ""


def bound(end: dict[str, Any]) -> Any:
    """As good: the same claims are there, and the same of them are Bound."""
    return {name: it[0] for name, it in end["claims"].items()}


def but_for_causes(end: dict[str, Any]) -> Any:
    """As good: all but the node and cause noted of the move: what was torn by the cut is gathered."""
    return end | {"claims": {name: (*it[:6], *it[7:]) for name, it in end["claims"].items()}}


async def goes_on(rig: Rig, case: Case) -> Rig:
    """Run until still, let time pass as the case says, and give evidence its time."""
    await rig.until_still()
    rig.lag = False
    for seconds in case.waits:
        rig.clock.advance(seconds)
        world_moves(rig)
        await rig.until_still()
    return rig


async def whole_run(case: Case) -> tuple[int, dict[str, Any]]:
    """How many writes an uninterrupted run makes, and what stands in the end."""
    rig = await goes_on(a_rig(case), case)
    check(rig, case)
    return len(rig.cluster.writes), picture(rig)


async def cut_at(case: Case, at: int, *, executed: bool) -> Rig:
    """Cut the first leader off at a write; returns the next one when it has gone on to the end."""
    rig = a_rig(case)
    cut = Cut(rig.cluster, at, executed)
    rig.writer.api = cut  # type: ignore[assignment]  # a Writer by __getattr__
    waits = iter(case.waits)
    while cut.sent < at:
        report = await rig.once()
        if any(item.outcome is Outcome.UNKNOWN for item in report.failed):
            break
        if not report.written and cut.sent < at:
            rig.clock.advance(next(waits))
            world_moves(rig)
    check(rig, case)
    heir = rig.next_leader(lag=True)
    await heir.view.begin()
    await goes_on(heir, case)
    check(heir, case)
    return heir


async def survives(case: Case) -> dict[str, Any]:
    """Cut at every write, executed or not; the end is as without it each time. Returns that end."""
    total, end = await whole_run(case)
    assert total > 0
    for at in range(1, total + 1):
        for executed in (True, False):
            heir = await cut_at(case, at, executed=executed)
            where = f"cut at write {at} of {total}, executed={executed}"
            assert same(case, picture(heir)) == same(case, end), where
    return end


def told(end: dict[str, Any]) -> str:
    """The claims of an end in one line: phase, node, and the VM if it has one."""
    stands = {key.partition("/")[2]: stand for key, stand in end["claims"].items()}
    return ", ".join(
        " ".join(filter(None, (name, it[0], it[1], it[3] and f"used by {it[3]}")))
        for name, it in stands.items()
    )


def same(case: Case, end: dict[str, Any]) -> Any:
    """The part of an end that is compared."""
    return case.as_good(end) if case.as_good else end


def world_moves(rig: Rig) -> None:
    """What others do by themselves: agents look, pods end with their VMI, records with their claim."""
    stored = rig.cluster._objects
    now = rig.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    for _, raw in _of(stored, kinds.GPU_NODES):
        if raw["status"].get("devices"):
            rig.cluster.put(kinds.GPU_NODES, raw | {"status": raw["status"] | {"observedAt": now}})
    listed = {
        uid for _, raw in _of(stored, kinds.VMIS) for uid in raw["status"].get("activePods") or {}
    }
    for _, raw in _of(stored, kinds.PODS):
        live = raw["status"]["phase"] not in {"Succeeded", "Failed"}
        if live and raw["metadata"]["uid"] not in listed and _is_of_a_vmi(raw):
            rig.cluster.put(kinds.PODS, {**raw, "status": {"phase": "Succeeded"}})
    alive = {raw["metadata"]["uid"] for raw in _claims(rig)}
    for key, raw in _of(stored, kinds.WORKLOADS):
        owners = raw["metadata"].get("ownerReferences") or []
        if owners and all(owner["uid"] not in alive for owner in owners):
            del stored[kinds.WORKLOADS][key]


def _is_of_a_vmi(pod: Raw) -> bool:
    return not pod["metadata"]["name"].startswith("lives-")


def _stand(raw: Raw) -> tuple[Any, ...]:
    status = raw.get("status") or {}
    attached = status.get("attachedTo") or {}
    gone = status.get("displaced") or {}
    return (
        status.get("phase"),
        status.get("nodeName"),
        sorted(raw["metadata"].get("finalizers") or []),
        attached.get("name"),
        attached.get("uid"),
        sorted(tuple(sorted(pod.items())) for pod in attached.get("pods") or []),
        (gone.get("node"), gone.get("cause")),
        status.get("reasons"),
        sorted((it["type"], it["status"]) for it in status.get("conditions") or []),
        (status.get("bindRequest") or {}).get("result"),
        [owner["uid"] for owner in raw["metadata"].get("ownerReferences") or []],
        [item["node"] for item in status.get("rejectedNodes") or []],
    )


def _numbers(status: Raw) -> dict[str, Any]:
    return {name: status.get(name) for name in ("capacity", "allocatable", "held", "free", "nodes")}


def _of(stored: Any, kind: Any) -> Iterable[tuple[ObjectKey, Raw]]:
    return sorted(stored.get(kind, {}).items())


def _claims(rig: Rig) -> list[Raw]:
    return list(rig.cluster._objects.get(kinds.GPU_CLAIMS, {}).values())


def _units(raw: Raw) -> int:
    return int(raw["spec"]["count"])


def _settled(raw: Raw, tenant: str) -> bool:
    phase = (raw.get("status") or {}).get("phase")
    return raw["metadata"]["namespace"] == tenant and phase in {"Bound", "Lost"}
