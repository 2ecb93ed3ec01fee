"""Machines, kubelets, device plugins and node agents: what is really there, and what they tell of it.

A machine may be off, or on and cut off: then its guests run on and nobody sees it. A kubelet that is
connected ends a guest whose pod is being deleted, or is gone, within `KILLS` seconds.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from gpu.objects import kinds
from soak.api import Api
from tests.fakes.clock import FakeClock

Raw = dict[str, Any]
KILLS = 20.0
"""Seconds a connected kubelet needs at most to end a guest without a pod."""
NOTICED = 40.0
"""Seconds after which the node controller says NotReady."""
EVICTS = 300.0
HEARTBEAT = 30.0
ROOM = {
    "cpu": "64",
    "memory": "1Ti",
    "ephemeral-storage": "1Ti",
    "pods": "110",
    "devices.kubevirt.io/kvm": "1k",
    "devices.kubevirt.io/tun": "1k",
    "devices.kubevirt.io/vhost-net": "1k",
}
"""What a node has of what pods ask for beside devices."""


def stamp(clock: FakeClock, ago: float = 0.0) -> str:
    """The instant as the API writes it."""
    return (clock.now() - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Guest:
    """A process on a machine that holds units: the truth, whatever the API says."""

    pod: str
    vm: str
    """`namespace/name`."""
    node: str
    units: dict[str, int]
    claims: dict[str, str]
    """Uid to `namespace/name` of the claims it uses."""
    came: tuple[str, ...] = ()
    """The nodes it came from by live migrations, or is coming from."""
    went: tuple[str, ...] = ()
    """Of the target of a migration that failed, and that runs on: the nodes its VM migrated to since."""
    followed: set[str] = field(default_factory=set)
    """Uids of its claims that were seen to be held where it has migrated to: they go elsewhere no more."""
    orphan: float | None = None
    """Since when its connected kubelet knows of no pod."""
    source: str = ""
    """The pod it comes from by a live migration."""
    start: str = ""
    """The ids of its start as its VMI bears them; empty where it names no claim."""


@dataclass
class Machine:
    """One machine."""

    name: str
    units: dict[str, int]
    """Devices really there, by resource name."""
    on: bool = True
    connected: bool = True
    since: float = 0.0
    """When it was last connected or cut off."""
    down: set[str] = field(default_factory=set)
    """Resources whose device plugin is away."""
    refuses: bool = False
    """Its kubelet takes no launcher, whatever is free."""
    agent: str = "honest"
    """honest, silent, empty, small, or strange: heldBy names pods that hold nothing as well."""

    @property
    def works(self) -> bool:
        return self.on and self.connected


def report_node(api: Api, clock: FakeClock, machine: Machine) -> None:
    """What kubelet and the node controller write on the Node, if it is there."""
    raw = node_of(api, machine.name)
    if raw is None:
        return
    now = clock.monotonic()
    ready = machine.works or (now - machine.since < NOTICED)
    allocatable = {
        **ROOM,
        **{
            name: str(0 if name in machine.down else units) for name, units in machine.units.items()
        },
    }
    condition = raw["status"]["conditions"][0]
    status = "True" if ready else "Unknown"
    if condition["status"] == status and (
        not machine.works or raw["status"]["allocatable"] == allocatable
    ):
        return

    def change(it: Raw) -> None:
        if machine.works:
            it["status"]["allocatable"] = allocatable
        it["status"]["conditions"][0] |= {"status": status}
        if condition["status"] != status:
            it["status"]["conditions"][0]["lastTransitionTime"] = stamp(clock)

    api.edit(kinds.NODES, raw, change)


def renew_lease(api: Api, clock: FakeClock, machine: Machine) -> None:
    """Kubelet's sign of life."""
    if machine.works and node_of(api, machine.name) is not None:
        meta = {"name": machine.name, "namespace": "kube-node-lease"}
        now = clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        api.put(kinds.LEASES, {"metadata": meta, "spec": {"renewTime": now}})


def node_of(api: Api, name: str) -> Raw | None:
    return next((raw for raw in api.all(kinds.NODES) if raw["metadata"]["name"] == name), None)


def report_inventory(api: Api, clock: FakeClock, machine: Machine, guests: list[Guest]) -> None:
    """What the node agent writes, honest or not."""
    if not machine.works or machine.agent == "silent":
        return
    found = next((it for it in api.all(kinds.GPU_NODES) if _name(it) == machine.name), None)
    if found is None:
        return
    devices = [] if machine.agent == "empty" else list(_devices(machine, guests))
    if machine.agent == "small":
        devices = [{**device, "healthy": False} for device in devices[:1]] + devices[1:]

    told = found.get("status") or {}
    if told.get("devices") == devices and _is_recent(told.get("observedAt"), clock):
        return

    def change(it: Raw) -> None:
        it.setdefault("status", {})["devices"] = devices
        it["status"]["observedAt"] = stamp(clock)

    api.edit(kinds.GPU_NODES, found, change)


def _is_recent(observed: str | None, clock: FakeClock) -> bool:
    """Say whether no heartbeat is due; text of this form orders as time does."""
    return observed is not None and observed > stamp(clock, HEARTBEAT)


def _devices(machine: Machine, guests: list[Guest]) -> Any:
    for resource, units in machine.units.items():
        holders = [
            guest.pod
            for guest in guests
            if guest.node == machine.name
            for _ in range(guest.units.get(resource, 0))
        ]
        for index in range(units):
            held = holders[index : index + 1]
            if machine.agent == "strange":
                held = [*held, f"nobody-{index}"]
            short = resource.rpartition("/")[2].lower()
            yield {
                "id": f"{short}-{index}",
                "resourceName": resource,
                "healthy": True,
                "heldBy": held,
            }


def _name(raw: Raw) -> str:
    return str(raw["metadata"]["name"])
