"""House: a cluster as typed objects in memory, as full as asked, and what passes make of it."""

import operator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any, Final

from gpu import keys, settings
from gpu.binder import changes, phases, results
from gpu.binder.changes import Change
from gpu.binder.course import Course
from gpu.binder.phase import Scene
from gpu.config import Config, Grace
from gpu.model import sightings, usage
from gpu.model.draft import Draft
from gpu.model.ground import Ground
from gpu.model.snapshot import Snapshot
from gpu.objects import claims, classes, nodes, tenants
from gpu.objects.claims import GPUClaim
from gpu.objects.config_maps import ConfigMap
from gpu.objects.meta import HasMeta, ObjectKey, ObjectMeta, OwnerRef
from gpu.objects.workloads import Workload
from gpu.units import NodeName
from gpu.world import World

_OWNER: Final = operator.itemgetter(1)
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
NODE_UNITS: Final = 16
CLASSES: Final = ("h100", "a100", "l40s", "vgpu")
"""By fours of nodes: each class has its own resource and a quarter of them."""
TENANTS: Final = 100
MOST_A_TENANT: Final = 10_000
"""Budget of each tenant: never what an order waits for, always looked at."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One pass: what was decided, and how long each part took, in seconds."""

    wanted: tuple[Change, ...]
    seconds: dict[str, float]

    @property
    def total(self) -> float:
        """Seconds of all parts."""
        return sum(self.seconds.values())


@dataclass(slots=True)
class House:
    """The present World; `work` runs one pass over it and stores what it wanted."""

    world: World
    now: datetime = START + timedelta(days=1)
    before: Snapshot | None = None
    seen: sightings.Sightings = field(default_factory=sightings.Sightings)
    ground: Ground = field(default_factory=Ground)
    orders: int = 0

    def work(self, *, keep: bool = True) -> Timed:
        """Run one pass, judged by the checker; `keep` stores its writes, as an API server would."""
        took: dict[str, float] = {}
        began = perf_counter()
        world = replace(self.world).follow(self.before)
        draft = Draft.of(world.snapshot)
        self.seen = _observed(self.seen, world, self.now)
        took["reading"] = perf_counter() - began
        scene = Scene(world=world, draft=draft, config=Config(), now=self.now, sightings=self.seen)
        course = Course(scene=scene, ground=self.ground)
        wanted: list[Change] = []
        for phase in phases.PASS:
            began = perf_counter()
            planned = course.plan(phase)
            course.settle(planned)
            took[phase.name] = perf_counter() - began
            wanted += planned
        if course.problem:
            raise RuntimeError(f"the checker refused a plan: {course.problem}")
        self.before = world.snapshot
        if keep:
            self.world = stored(self.world, wanted)
            self.now += timedelta(seconds=1)
        return Timed(tuple(wanted), took)

    def order(self, count: int = 1, units: int = 1, name: str = CLASSES[0]) -> None:
        """Place orders, each by the next tenant."""
        fresh = tuple(_claim(self.orders + index, name, units) for index in range(count))
        self.orders += count
        self.world = replace(self.world, claims=_sorted((*self.world.claims, *fresh)))


def full(held: int, node_count: int, kinds: int = len(CLASSES)) -> House:
    """Return a house in which `held` single units are Bound and nothing is left to be written.

    `kinds` classes have an equal share of the nodes each, and of the units.
    """
    offers = CLASSES[:kinds]
    made = House(
        World(
            classes=tuple(_class(name) for name in offers),
            nodes=tuple(_node(index, offers) for index in range(node_count)),
            inventory=tuple(_inventory(index) for index in range(node_count)),
            namespaces=tuple(_namespace(index) for index in range(TENANTS)),
            releases=tuple(_release(index) for index in range(TENANTS)),
        )
    )
    for index, name in enumerate(offers):
        made.order(held // kinds + (index < held % kinds), name=name)
    bound = tuple(_bound(made.world.claims, node_count, offers))
    made.world = replace(made.world, claims=bound)
    for _ in range(10):
        made.before = None
        if not made.work().wanted:
            made.before = None
            return made
    raise RuntimeError("passes over a full house go on writing")


def stored(world: World, wanted: list[Change]) -> World:
    """Return the World after an API server took every write; only the kinds a house has."""
    tables: dict[str, dict[ObjectKey, HasMeta]] = {}

    def put(name: str, item: HasMeta) -> None:
        if name not in tables:
            tables[name] = {one.meta.key: one for one in getattr(world, name)}
        tables[name][item.meta.key] = item

    for change in wanted:
        match change:
            case changes.AddFinalizer():
                name = "classes" if change.kind.plural == "gpuclasses" else "claims"
                table = tables.get(name) or {one.meta.key: one for one in getattr(world, name)}
                item: Any = table[change.key]
                put(name, replace(item, meta=replace(item.meta, finalizers=change.finalizers)))
            case changes.Place() | changes.Explain():
                put("claims", results.after(change))
            case changes.WriteRecord():
                put("workloads", _workload(change))
            case changes.ReportNode():
                put("inventory", replace(change.node, resources=change.resources))
            case changes.ReportClass():
                put("classes", replace(change.offer, status=_status(change)))
            case changes.WriteSettings():
                put("config_maps", _settings(change))
            case _:
                raise TypeError(f"a house has no {type(change).__name__}")
    found: dict[str, Any] = {name: _sorted(tuple(table.values())) for name, table in tables.items()}
    return replace(world, **found)


def _observed(old: sightings.Sightings, world: World, now: datetime) -> sightings.Sightings:
    """Look as `run_pass` does."""
    known = world.snapshot.memo.records
    known.follow(world.workloads, usage.owner_of, usage.is_ours)
    records = usage.remember(
        old.records,
        alive=known.living(world.claims, frozenset()),
        owners=map(_OWNER, known.there.values()),
        now=now,
    )
    found = sightings.look(old, world.snapshot, Grace(), now)
    return replace(found, records=records)


def _bound(
    orders: tuple[GPUClaim, ...], node_count: int, offers: tuple[str, ...]
) -> list[GPUClaim]:
    """Put claims on the nodes of their class in turn, as long ago stored."""
    turn = dict.fromkeys(offers, 0)
    found = []
    for claim in orders:
        own = offers.index(claim.class_name)
        places = range(own, node_count, len(offers))
        node = places[turn[claim.class_name] % len(places)]
        turn[claim.class_name] += 1
        place = changes.Place(
            claim=replace(claim, meta=replace(claim.meta, finalizers=(keys.CLAIM_FINALIZER,))),
            node=_node_name(node),
            at=START + timedelta(hours=1),
            set_id=str(claim.key),
        )
        found.append(results.after(place))
    return found


def _sorted(items: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(items, key=lambda item: item.meta.key))


def resource_of(name: str) -> str:
    return f"nvidia.com/{name.upper()}"


def _class(name: str) -> classes.GPUClass:
    spec = {
        "mode": "passthrough",
        "source": {"devicePlugin": {"resourceName": resource_of(name)}},
        "displayName": name,
    }
    meta = {"name": name, "uid": name, "finalizers": [keys.CLASS_FINALIZER]}
    return classes.decode({"metadata": meta, "spec": spec})


def _node_name(index: int) -> NodeName:
    return NodeName(f"node-{index:05d}")


def _node(index: int, offers: tuple[str, ...]) -> nodes.Node:
    name = _node_name(index)
    units = {resource_of(offers[index % len(offers)]): str(NODE_UNITS), "cpu": "64"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return nodes.decode(
        {
            "metadata": {"name": name, "uid": name},
            "spec": {},
            "status": {"allocatable": units, "conditions": [ready]},
        }
    )


def _inventory(index: int) -> nodes.GPUNode:
    name = _node_name(index)
    return nodes.decode_inventory({"metadata": {"name": name, "uid": f"inventory-{name}"}})


def _tenant(index: int) -> str:
    return f"tenant-{index % TENANTS:03d}"


def _namespace(index: int) -> tenants.Namespace:
    return tenants.decode_namespace({"metadata": {"name": _tenant(index), "uid": _tenant(index)}})


def _release(index: int) -> tenants.TenantRelease:
    quotas = {keys.QUOTA_TOTAL: str(MOST_A_TENANT)}
    return tenants.decode_release(
        {
            "metadata": {
                "name": _tenant(index),
                "namespace": keys.TENANT_ROOT,
                "uid": f"release-{index}",
                "labels": {keys.APPLICATION_KIND_LABEL: "Tenant"},
            },
            "spec": {"values": {"resourceQuotas": quotas}},
        }
    )


def _claim(index: int, name: str, units: int) -> GPUClaim:
    created = (START + timedelta(milliseconds=100 * index)).isoformat().replace("+00:00", "Z")
    meta = {
        "name": f"order-{index:06d}",
        "namespace": _tenant(index),
        "uid": f"claim-{index:06d}",
        "creationTimestamp": created,
    }
    return claims.decode({"metadata": meta, "spec": {"className": name, "count": units}})


def _workload(change: changes.WriteRecord) -> Workload:
    owner = OwnerRef(
        api_version=f"{keys.GROUP}/v1alpha1",
        kind="GPUClaim",
        name=change.claim.meta.name,
        uid=change.claim.meta.uid,
    )
    record = change.record
    return Workload(
        meta=ObjectMeta(
            name=record.name,
            namespace=change.claim.meta.namespace,
            uid=f"record-{change.claim.meta.uid}",
            labels=dict(record.labels),
            owners=(owner,),
        ),
        kind=record.kind,
        type=record.type,
        resources={name: str(units) for name, units in record.resources},
        operational=record.operational,
    )


def _status(change: changes.ReportClass) -> Any:  # the type has no public name
    return replace(
        change.offer.status,
        observed_generation=change.offer.meta.generation,
        capacity=change.capacity,
        allocatable=change.allocatable,
        held=change.held,
        free=change.free,
        nodes=change.nodes,
        node_count=change.node_count,
        conditions=change.conditions,
    )


def _settings(change: changes.WriteSettings) -> ConfigMap:
    meta = ObjectMeta(name=keys.SETTINGS_NAME, namespace=keys.SETTINGS_NAMESPACE, uid="settings")
    return ConfigMap(meta=meta, data=dict(settings.format_data(change.settings)))
