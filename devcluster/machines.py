"""Machine: a simulated node's own state: its units and who has them, its pace, what it does wrong.

Every attribute may be changed while it runs; `Simulation` (simulated.py) then has pods looked at again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

UNEXPECTED: Final = "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long each step takes on a machine, in seconds."""

    start: float = 0.1
    """From a pod's admission to its containers running."""
    guest: float = 0.05
    """From a VMI Scheduled to its guest running."""
    stop: float = 0.1
    """From the wish to stop to a guest that is down; of a pod without a guest, to its end."""
    exit: float = 0.05
    """From a guest that is down to the end of its launcher."""
    remove: float = 0.02
    """From the end of a deleted pod to the removal of its object."""
    migrate: float = 0.2
    """From the start of a migration to the hand-over."""

    def times(self, factor: float) -> "Pace":
        """Return a pace so many times slower."""
        return Pace(**{name: getattr(self, name) * factor for name in Pace.__slots__})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why kubelet does not take a pod, as its event says it."""

    reason: str
    message: str

    @property
    def told(self) -> str:
        """The message in the pod's status."""
        return f"Pod was rejected: {self.message}"


def out_of(resource: str, *, requested: int, used: int, capacity: int) -> Refusal:
    """Return the refusal of kubelet's own count: what the node reports does not suffice."""
    return Refusal(
        f"OutOf{resource}",
        f"Node didn't have enough resource: {resource}, "
        f"requested: {requested}, used: {used}, capacity: {capacity}",
    )


def unavailable(resource: str, *, requested: int, available: int, healthy: int) -> Refusal:
    """Return the refusal of kubelet's device manager, which has the units of a plugin in its hands."""
    words = (
        f"requested number of devices unavailable for {resource}. "
        f"Requested: {requested}, Available: {available}"
        if healthy
        else f"no healthy devices present; cannot allocate unhealthy devices {resource}"
    )
    return Refusal(UNEXPECTED, f"Allocate failed due to {words}, which is unexpected")


class Units:
    """Which pod has which units of each extended resource of one node.

    A unit's id is its place: as many ids as the node was ever seen to serve. Which of them are gone
    when it serves fewer nobody says, so those that nobody has go first.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, tuple[str, ...]]] = {}

    def of(self, pod_uid: str) -> Mapping[str, tuple[str, ...]]:
        """Return a pod's unit ids by resource name, empty when it was not admitted."""
        return self._held.get(pod_uid, {})

    @property
    def holders(self) -> tuple[str, ...]:
        """The UIDs of all pods that were admitted and have not ended."""
        return tuple(self._held)

    def used(self, resource: str) -> int:
        """Return how many units all pods together have of a resource."""
        return sum(len(given.get(resource, ())) for given in self._held.values())

    def give(self, pod_uid: str, requests: Mapping[str, int]) -> None:
        """Give a pod the lowest free ids of each resource; nothing checks here whether there are any."""
        self._held[pod_uid] = {
            resource: self._lowest(resource, count) for resource, count in requests.items()
        }

    def take_back(self, pod_uid: str) -> None:
        """Take back all that a pod has."""
        self._held.pop(pod_uid, None)

    def keep(self, pod_uids: Iterable[str]) -> None:
        """Take back what pods other than these have: their objects are gone."""
        known = set(pod_uids)
        for uid in [uid for uid in self._held if uid not in known]:
            del self._held[uid]

    def _lowest(self, resource: str, count: int) -> tuple[str, ...]:
        taken = {unit for given in self._held.values() for unit in given.get(resource, ())}
        found: list[str] = []
        number = 0
        while len(found) < count:
            unit = f"0000:{number:02x}:00.0"
            if unit not in taken:
                found.append(unit)
            number += 1
        return tuple(found)


@dataclass(slots=True, kw_only=True, eq=False)
class Machine:
    """One node's state. Set an attribute to have it behave otherwise."""

    name: str
    pace: Pace = Pace()
    alive: bool = True
    """False: neither kubelet nor virt-handler does anything, and its Lease runs out."""
    holding: bool = False
    """True: kubelet leaves every pod as it is; virt-handler goes on."""
    beating: bool = True
    """False: virt-handler sends no heartbeat, and does everything else."""
    stubborn: bool = False
    """True: guests do not shut down; they are killed when their grace period is over."""
    migratable: bool = False
    """True: a VMI with GPUs is said to be migratable, which virt-handler never says."""
    migrations_fail: bool = False
    """True: a migration away from here fails where it would be handed over."""
    plugin_judges: bool = False
    """True: too few units are told by the device manager, as when a plugin's count decides."""
    refusals: list[Refusal] = field(default_factory=list)
    """Of the next pods that ask for an extended resource, one each."""
    lost: set[str] = field(default_factory=set)
    """UIDs of pods whose containers went with a reboot."""
    units: Units = field(default_factory=Units)

    def slow(self, factor: float) -> None:
        """Have every later step take so many times as long as now."""
        self.pace = self.pace.times(factor)

    def refuses(
        self, requests: Mapping[str, int], allocatable: Mapping[str, int]
    ) -> Refusal | None:
        """Return why a pod with these requests is not taken; None when it is.

        A resource that the node does not report at all is passed over, as kubelet does.
        """
        if requests and self.refusals:
            return self.refusals.pop(0)
        for resource, wanted in sorted(requests.items()):
            total = allocatable.get(resource)
            used = self.units.used(resource)
            if total is None or used + wanted <= total:
                continue
            if self.plugin_judges:
                free = max(total - used, 0)
                return unavailable(resource, requested=wanted, available=free, healthy=total)
            return out_of(resource, requested=wanted, used=used, capacity=total)
        return None
