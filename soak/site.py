"""Site: one simulated cluster, its API objects and the truth behind them, and its leaders."""

import random
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpu import keys
from gpu.config import Binding, Config, Guard, Pace, RunningGuests, UsageRecordMonitor
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from gpu.settings import RawNames
from soak import machines
from soak.api import Api
from soak.leader import Hold, Leader, Skewed
from soak.line import Line
from soak.machines import Guest, Machine
from soak.watch import Watch
from soak.webhooks import Webhooks
from tests.binder import raws
from tests.fakes.clock import FakeClock

Raw = dict[str, Any]
RESOURCES = ("nvidia.com/A", "nvidia.com/B", "amd.com/C", "intel.com/D")
SKEWS = 5.0
"""Seconds by which the clock of a leader's machine is at most wrong."""
AMPLE, SCARCE = (1, 2, 4, 8, 8), (1, 1, 2, 2, 4)
"""Units of a resource on a node; few where two passes are to reach for the same ones."""
ASKS = 0.35
"""Share of clusters with `binding: request`."""
TENANTS = ("tenant-root", "tenant-a", "tenant-b", "tenant-a-x", "tenant-c")


def asks(seed: str) -> bool:
    """Say whether starts ask the leader first on the cluster of a seed (`binding: request`)."""
    return random.Random(f"{seed}/binding").random() < ASKS


@dataclass
class Shape:
    """How large a cluster is, drawn from its seed."""

    nodes: int
    resources: int
    tenants: int
    running_guests: RunningGuests
    monitor: UsageRecordMonitor

    @classmethod
    def drawn(cls, rng: random.Random) -> "Shape":
        return cls(
            nodes=rng.randint(2, 6),
            resources=rng.randint(2, 4),
            tenants=rng.randint(3, 5),
            running_guests=rng.choice(list(RunningGuests)),
            monitor=rng.choice(list(UsageRecordMonitor)),
        )


@dataclass
class Site:
    """Everything of one run; `tally` counts what was done to it."""

    seed: str
    api: Api = field(default_factory=Api)
    clock: FakeClock = field(default_factory=FakeClock)
    machines: dict[str, Machine] = field(default_factory=dict)
    guests: list[Guest] = field(default_factory=list)
    leader: Leader | None = None
    old: list[Leader] = field(default_factory=list)
    """Leaders frozen in the middle of a pass."""
    late: list[Any] = field(default_factory=list)
    """Writes still on their way."""
    tally: Counter[str] = field(default_factory=Counter)
    config: Config = field(default_factory=Config)
    rng: random.Random = field(default_factory=random.Random)
    """Of the step under way; not to be kept."""
    dice: str = ""
    host_deletes_records: bool = False
    ended: list[str] = field(default_factory=list)
    """VMIs that leaders deleted, by key."""
    refused: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Launchers that a kubelet refused, by uid: the version of the API server then, and when."""
    looked: int = -1
    """The version when a leader last began a pass."""
    replays: Path | None = None
    """Where every pass is saved."""
    most_claims: int = 25
    raw: bool = False
    """Tenants may ask for a resource by its name."""
    acknowledged: float = -1e9
    """When losses were last acknowledged."""
    webhooks: Webhooks = field(init=False)

    def __post_init__(self) -> None:
        self.api.now = self.now
        rng = random.Random(f"{self.seed}/site")
        self.shape = Shape.drawn(rng)
        self.config = replace(
            Config(),
            running_guests=self.shape.running_guests,
            usage_record_monitor=self.shape.monitor,
            guard=Guard(at_least=rng.choice((2, 4, 10))),
            pace=replace(Pace(), fence_wait=0.0, sets_in_flight=rng.choice((1, 2, 8))),
        )
        self.tenants = TENANTS[: self.shape.tenants]
        self.resources = RESOURCES[: self.shape.resources]
        self.host_deletes_records = rng.random() < 0.3
        self.most_claims = rng.choice((6, 10, 14, 25))
        self.raw = random.Random(f"{self.seed}/raw").random() < 0.4
        if self.raw:
            self.config = replace(self.config, raw_names=RawNames.ALLOWED)
        if asks(self.seed):
            self.config = replace(self.config, binding=Binding.REQUEST)
        self._furnish(rng)
        self.webhooks = Webhooks(
            self.api, self.clock, self.config, Watch(self.api), tally=self.tally
        )

    # Reading.

    def now(self) -> str:
        return machines.stamp(self.clock)

    def claims(self) -> list[Raw]:
        return self.api.all(kinds.GPU_CLAIMS)

    def claim(self, namespace: str, name: str) -> Raw | None:
        return self.api.find(kinds.GPU_CLAIMS, ObjectKey(namespace, name))

    def resource_of(self, class_name: str) -> str | None:
        found = self.api.find(kinds.GPU_CLASSES, ObjectKey("", class_name))
        return found["spec"]["source"]["devicePlugin"]["resourceName"] if found else None

    # Dice. A step that is left out must not change what the others do, or nothing could be shrunk:
    # each step has dice of its own, and things are picked by name, not by their place in a list.

    def begin(self, dice: str) -> None:
        """Take the dice of a step."""
        self.dice = dice
        self.rng = random.Random(dice)

    def pick(self, items: Iterable[Any]) -> Any:
        """One of them, or None when there is none."""
        return min(items, key=lambda item: self._lot(_named(item)), default=None)

    def chance(self, share: float, what: Any) -> bool:
        """Say whether something happens to one thing in this step."""
        return self._lot(_named(what)) < share * 2**32

    def name(self, prefix: str) -> str:
        """Return a name for what this step makes."""
        return prefix + self.dice.rpartition("/")[2]

    def _lot(self, name: str) -> int:
        return zlib.crc32(f"{name}/{self.dice}".encode())

    # Making.

    def add_class(self, name: str, resource: str, **spec: Any) -> None:
        self.api.put(
            kinds.GPU_CLASSES,
            raws.a_class(name, resource=resource, meta={"finalizers": []}, **spec),
        )

    def add_node(self, machine: Machine) -> None:
        raw = raws.a_node(machine.name)
        raw["status"]["allocatable"] = machines.ROOM | {
            name: str(units) for name, units in machine.units.items()
        }
        raw["status"]["conditions"][0]["lastTransitionTime"] = self.now()
        raw["metadata"]["labels"] = {"kubevirt.io/schedulable": "true"}
        self.api.put(kinds.NODES, raw)
        if self.api.find(kinds.GPU_NODES, ObjectKey("", machine.name)) is None:
            self.api.put(kinds.GPU_NODES, raws.an_inventory(machine.name))

    def set_budget(self, tenant: str, quotas: dict[str, int]) -> None:
        name = tenant.removeprefix("tenant-a-") if tenant == "tenant-a-x" else tenant
        namespace = "tenant-a" if tenant == "tenant-a-x" else keys.TENANT_ROOT
        name = f"tenant-{name}" if tenant == "tenant-a-x" else name
        raw = raws.a_release(name, **quotas)
        raw["metadata"]["namespace"] = namespace
        self.api.put(kinds.HELM_RELEASES, raw)

    def draw_budget(self, rng: random.Random) -> dict[str, int]:
        names = [*(f"c{index}" for index in range(len(self.resources))), "total"]
        return {
            name: rng.choice((0, 2, 4, 6, 8, 12, 16, 24)) for name in names if rng.random() < 0.3
        }

    def new_leader(self, *, enabled: bool = True, blind: bool = False) -> Leader:
        skew = random.Random(f"{self.dice}/skew").choice((0.0, 0.0, -SKEWS, -2.0, 2.0, SKEWS))
        return Leader(
            api=self.api,
            clock=Skewed(self.clock, skew),
            config=replace(self.config, enabled=enabled),
            line=Line(self.api, tally=self.tally, ended=self.ended),
            watch=Watch(self.api),
            hold=Hold(self.clock, self.clock.monotonic() + 15, blind),
            replays=self.replays,
        )

    def _furnish(self, rng: random.Random) -> None:
        self.api.put(kinds.GPU_BINDERS, {"metadata": {"name": keys.BINDER_NAME}})
        for name in self.tenants:
            self.api.put(kinds.NAMESPACES, raws.a_tenant(name))
            if rng.random() < 0.5:
                self.set_budget(name, self.draw_budget(rng))
        for index, resource in enumerate(self.resources):
            more: dict[str, Any] = {}
            if rng.random() < 0.25:
                more["onCordon"] = "Stay"
            if rng.random() < 0.25:
                more["tolerations"] = [{"operator": "Exists"}]
            self.add_class(f"c{index}", resource, **more)
        if rng.random() < 0.5:  # two classes of one resource
            self.add_class("c9", self.resources[0])
        for index in range(self.shape.nodes):
            units = {
                name: rng.choice(SCARCE if asks(self.seed) else AMPLE)
                for name in self.resources
                if rng.random() < 0.7 or index == 0
            }
            machine = Machine(f"n{index}", units)
            self.machines[machine.name] = machine
            self.add_node(machine)

    # Time.

    def pass_time(self, seconds: float) -> None:
        """Let time go by for machines, agents and leases."""
        while seconds > 0:
            step = min(seconds, 10.0)
            self.clock.advance(step)
            seconds -= step
            self._kubelets()
        self.tick()

    def tick(self) -> None:
        """What machines and garbage collection do without anybody asking."""
        self._kubelets()
        for machine in self.machines.values():
            machines.report_node(self.api, self.clock, machine)
            machines.renew_lease(self.api, self.clock, machine)
            machines.report_inventory(self.api, self.clock, machine, self.guests)
        self._collect()
        alive = {raw["metadata"]["uid"] for raw in self.claims()}
        for raw in self.api.all(kinds.WORKLOADS):
            owners = raw["metadata"].get("ownerReferences") or []
            is_orphan = owners and all(owner["uid"] not in alive for owner in owners)
            if is_orphan or (
                self.host_deletes_records
                and keys.WORKLOAD_MONITOR_LABEL not in raw["metadata"].get("labels", {})
            ):
                self.api.erase(kinds.WORKLOADS, raw)

    def _collect(self) -> None:
        """Delete what was made for a VMI that is gone: template claims."""
        alive = {raw["metadata"]["uid"] for raw in self.api.all(kinds.VMIS)}
        for raw in self.claims():
            owners = raw["metadata"].get("ownerReferences") or []
            is_left = owners and all(owner["uid"] not in alive for owner in owners)
            if is_left and "deletionTimestamp" not in raw["metadata"]:
                self.api.remove(kinds.GPU_CLAIMS, raw, self.now())

    def _kubelets(self) -> None:
        """Connected kubelets end guests whose pods are gone or going."""
        pods = {raw["metadata"]["uid"]: raw for raw in self.api.all(kinds.PODS)}
        now = self.clock.monotonic()
        for guest in list(self.guests):
            machine = self.machines[guest.node]
            pod = pods.get(guest.pod)
            if not machine.works or (pod and "deletionTimestamp" not in pod["metadata"]):
                guest.orphan = None
            elif guest.orphan is None:
                guest.orphan = now
            elif now - guest.orphan >= machines.KILLS / 2:
                self.end_guest(guest)

    def end_guest(self, guest: Guest) -> None:
        self.guests.remove(guest)
        pod = next(
            (it for it in self.api.all(kinds.PODS) if it["metadata"]["uid"] == guest.pod), None
        )
        if pod is not None and self.machines[guest.node].works:
            self.api.edit(kinds.PODS, pod, lambda it: it["status"].update({"phase": "Succeeded"}))


def _named(item: Any) -> str:
    match item:
        case {"metadata": meta}:
            return f"{meta.get('namespace', '')}/{meta['name']}"
        case Machine():
            return item.name
        case Guest():
            return item.vm
        case _:
            return str(item)
