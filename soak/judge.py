"""The judge: after every step it compares the stored claims with the truth, by its own sums.

It imports nothing of `gpu.model` or `gpu.binder`. What it knows and the binder does not: which
guests really run, and where.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from soak import finish, migrations, requests, starts
from soak import kubevirt as virt
from soak.launchers import Launchers, Seat
from soak.machines import Guest
from soak.refusals import Refusals
from soak.site import SKEWS, Raw, Site

ANSWERED: Final = 10.0
"""Seconds within which a start is answered that is answered at all."""
Place = tuple[str, str]
"""Node and resource."""


@dataclass(frozen=True)
class Stand:
    """A claim as the judge looks at it."""

    name: str
    phase: str
    node: str
    class_name: str
    units: int
    vm: str
    """`namespace/name` of the VM it is attached to; empty when it is attached to nothing."""
    deleting: bool = False


@dataclass(frozen=True)
class Left:
    """How a claim left its node."""

    told: Raw
    """Its `displaced` as stored."""
    set_name: str
    """The VM that used or named it then, else its uid."""
    asked: bool = False
    """A start asked for another node, and was answered: that is nothing for the guard."""


@dataclass
class Judge:
    """Keeps how things stood after the last step. `look` returns what is wrong now, in words."""

    site: Site
    stands: dict[str, Stand] = field(default_factory=dict)
    """By uid."""
    resources: dict[str, str] = field(default_factory=dict)
    """Class to resource name, of classes that are gone as well."""
    left: dict[str, Left] = field(default_factory=dict)
    """By uid: how a claim left a node the last time, and as part of which set."""
    named: dict[str, str] = field(default_factory=dict)
    """By claim: the VM that names it now. Both as `namespace/name`."""
    launchers: Launchers = field(init=False)
    refusals: Refusals = field(init=False)
    _seen: tuple[int, ...] = ()
    _vms: dict[str, str] = field(default_factory=dict)
    """By uid: the VM that used or named a claim last, even when it does no more."""

    def __post_init__(self) -> None:
        self.launchers = Launchers(self.site)
        self.refusals = Refusals(self.site)

    def look(self) -> list[str]:
        """Compare with the last look."""
        api = self.site.api
        wrong = [f"a leader sent what it may not: {words}" for words in api.illegal]
        api.illegal.clear()
        self.launchers.refresh()
        self.refusals.refresh()
        seen = tuple(api.counts[it] for it in (kinds.GPU_CLAIMS, kinds.GPU_CLASSES, kinds.VMS))
        if seen != self._seen or self.launchers.fresh:
            self._seen = seen
            for offer in api.all(kinds.GPU_CLASSES):
                name = offer["metadata"]["name"]
                self.resources[name] = offer["spec"]["source"]["devicePlugin"]["resourceName"]
            now = {raw["metadata"]["uid"]: stand_of(raw) for raw in self.site.claims()}
            wrong += self._booked(now)
            self.stands = now
            self._note_left()
        for one in self.site.webhooks.admitted:
            wrong += requests.admitted(one)
        self.site.webhooks.admitted.clear()
        return wrong + self.launchers.look() + self._guests()

    def in_use(self, stands: dict[str, Stand], *, whole: bool = False) -> Counter[Place]:
        """Units that are spoken for: held by Bound claims, or those of launchers past the gate and of guests.

        `whole` counts pods too that passed no gate: for who has seen them.
        """
        held: Counter[tuple[str, str, str]] = Counter()
        used: Counter[tuple[str, str, str]] = Counter()
        for uid, stand in stands.items():
            if stand.phase == "Bound":
                resource = self.resources.get(stand.class_name, stand.class_name)
                held[stand.node, resource, stand.vm or uid] += stand.units
        seats = [*self.launchers.seats, *(self.launchers.others if whole else ())]
        places = [(it.node, it.vm, it.units) for it in seats]
        seated = {it.pod for it in seats}
        # A call that is made again with the same id is the same start, and kubelet gives no device twice.
        again = {(it.node, it.vm, it.start) for it in seats if it.start}
        places += [
            (it.node, it.vm, self._claimed(it, stands, whole=whole))
            for it in self.site.guests
            if it.pod not in seated and (it.node, it.vm, it.start) not in again
        ]
        for node, vm, wanted in places:
            for resource, units in wanted.items():
                used[node, resource, vm] += units
        found: Counter[Place] = Counter()
        for place in held.keys() | used.keys():
            found[place[:2]] += max(held[place], used[place])
        return found

    def _claimed(self, guest: Guest, stands: dict[str, Stand], *, whole: bool) -> Counter[str]:
        """Units of a guest that its claims stand for: of any others nobody knows once its pod is gone.

        Of a migration nobody is asked: not `whole`, only those count that have followed it.
        """
        found: Counter[str] = Counter()
        its = guest.claims.keys() if whole or not guest.came else guest.followed
        for uid in its & stands.keys():
            found[self.resources[stands[uid].class_name]] += stands[uid].units
        return found

    def torn(self, built: frozenset[str]) -> list[str]:
        """After undisturbed passes no set is partly Lost."""
        if "sets" not in built:
            return []
        phases: dict[str, set[str]] = {}
        for stand in self.stands.values():
            if stand.vm and not stand.deleting:
                phases.setdefault(stand.vm, set()).add(stand.phase)
        return [
            f"partly Lost after an undisturbed pass: the set of VM {vm}"
            for vm, found in phases.items()
            if {"Lost", "Bound"} <= found
        ]

    def unfollowed(self, built: frozenset[str]) -> list[str]:
        """After undisturbed passes claims are held where their guest has migrated to."""
        if "attachments" not in built:
            return []
        wrong = []
        for guest in self.site.guests:
            key = ObjectKey(*guest.vm.split("/")) if guest.came else None
            vmi = self.site.api.find(kinds.VMIS, key) if key else None
            if vmi is None or "deletionTimestamp" in vmi["metadata"] or virt.is_migrating(vmi):
                continue
            if vmi["status"]["phase"] != "Running" or vmi["status"].get("nodeName") != guest.node:
                continue
            node = self.site.api.find(kinds.NODES, ObjectKey("", guest.node))
            serves = node["status"]["allocatable"] if node else {}
            if not all(int(serves.get(resource, "0")) for resource in guest.units):
                continue
            for uid in guest.claims.keys() & self.stands.keys():
                stand = self.stands[uid]
                if stand.phase == "Bound" and stand.node != guest.node and not stand.deleting:
                    wrong.append(
                        f"not followed: {stand.name} is held on {stand.node}, its guest went to "
                        f"{guest.node}"
                    )
        return wrong

    def finished(self, built: frozenset[str]) -> list[str]:
        """After all faults: orders that fit are Bound, and deleted claims that may go are gone."""
        in_use = self.in_use(self.stands, whole=True)
        wrong = finish.unbound(self.site, in_use) + finish.kept(self.site, built)
        wrong += requests.left(self.site)
        return wrong + starts.gated(self.site, in_use) + starts.left_over(self.site)

    def set_of(self, uid: str) -> str:
        """The VM that uses or names a claim now, else its uid."""
        stand = self.stands[uid]
        return stand.vm or self.named.get(stand.name, uid)

    def _note_left(self) -> None:
        """Note as part of which set a claim left a node: that set may be several ones later."""
        self.named = {
            name: f"{vm['metadata']['namespace']}/{vm['metadata']['name']}"
            for vm in self.site.api.all(kinds.VMS)
            for name in finish.named_by(vm)
        }
        for claim in self.site.claims():
            uid = claim["metadata"]["uid"]
            status = claim.get("status") or {}
            gone, vm = status.get("displaced"), self.set_of(uid)
            if vm != uid:
                self._vms[uid] = vm
            if gone and (uid not in self.left or self.left[uid].told != gone):
                asked = _was_asked(status.get("bindRequest") or {}, gone)
                self.left[uid] = Left(gone, self._vms.get(uid, uid), asked)

    def _booked(self, now: dict[str, Stand]) -> list[str]:
        """No unit is booked twice: where a claim was bound or a launcher let through, all is there."""
        followed = {(uid, it.node) for it in self.site.guests if it.came for uid in it.claims}
        # A guest that came and has ended since: its VMI tells of it still, and the claims go by that.
        followed |= migrations.arrived(self.site)
        places = {
            (stand.node, self.resources.get(stand.class_name, "")): stand.name
            for uid, stand in now.items()
            if stand.phase == "Bound"
            and not _stood(self.stands.get(uid), stand)
            and (uid, stand.node) not in followed  # its guest is there, whoever held the units
        }
        # What no class offers any more is the scheduler's business again.
        offered = {
            self.resources[it["metadata"]["name"]] for it in self.site.api.all(kinds.GPU_CLASSES)
        }
        for seat in self.launchers.fresh:
            taken = [it for it in seat.units.keys() & offered if self.takes(seat, it, now)]
            places |= {(seat.node, name): seat.name for name in taken}
        if not places:
            return []
        in_use = self.in_use(now)
        wrong = []
        for place, name in places.items():
            machine = self.site.machines.get(place[0])
            there = machine.units.get(place[1], 0) if machine else 0
            if in_use[place] > there:
                wrong.append(
                    f"booked twice: {name} was bound to {place[0]}, where {in_use[place]} "
                    f"of {there} units of {place[1]} are now spoken for"
                )
        return wrong

    def takes(self, seat: Seat, resource: str, now: Mapping[str, Stand] | None = None) -> bool:
        """Say whether a pin takes units: a webhook's does not where the claims of its VM hold them already.

        Since its start was granted a guest that migrated may have gone there, or a pod of nobody: KubeVirt and
        the scheduler know of no claim.
        """
        held = sum(
            stand.units
            for stand in (self.stands if now is None else now).values()
            if (stand.phase, stand.node, stand.vm) == ("Bound", seat.node, seat.vm)
            and self.resources.get(stand.class_name) == resource
        )
        return seat.is_leaders or seat.units[resource] > held

    def _guests(self) -> list[str]:
        """Nothing is released, detached or held elsewhere while its guest really runs."""
        wrong = []
        for guest in self.site.guests:
            guest.followed |= self._followed(guest)
            for uid, name in guest.claims.items():
                stand = self.stands.get(uid)
                # The claims of a guest that is left behind are where its VM went, whatever its VMI tells since.
                homes = {guest.node, *(() if uid in guest.followed else guest.came), *guest.went}
                if stand is None:
                    wrong.append(f"released too early: {name}, its guest runs on {guest.node}")
                elif not stand.vm:
                    wrong.append(f"detached too early: {name}, its guest runs on {guest.node}")
                elif stand.phase == "Bound" and stand.node not in homes:
                    wrong.append(
                        f"moved too early: {name} is held on {stand.node}, its guest runs on "
                        f"{guest.node}"
                    )
        return wrong

    def _followed(self, guest: Guest) -> set[str]:
        """Return which of its claims are where a guest has migrated to for good."""
        if not guest.came:
            return set()
        vmi = self.site.api.find(kinds.VMIS, ObjectKey(*guest.vm.split("/")))
        if vmi is None or not migrations.is_target(vmi, guest):
            return set()
        return {uid for uid in guest.claims if _is_on(self.stands.get(uid), guest.node)}


def _is_on(stand: Stand | None, node: str) -> bool:
    return stand is not None and (stand.phase, stand.node) == ("Bound", node)


def _was_asked(request: Raw, gone: Raw) -> bool:
    if request.get("result") != "Succeeded":
        return False
    took = finish.instant(gone["at"]) - finish.instant(request["requestedAt"])
    return abs(took.total_seconds()) <= ANSWERED + SKEWS


def stand_of(raw: Raw) -> Stand:
    meta, status = raw["metadata"], raw.get("status") or {}
    attached: dict[str, Any] = status.get("attachedTo") or {}
    return Stand(
        name=f"{meta['namespace']}/{meta['name']}",
        phase=status.get("phase", "Pending"),
        node=status.get("nodeName") or "",
        class_name=raw["spec"]["className"],
        units=raw["spec"]["count"],
        vm=f"{meta['namespace']}/{attached['name']}" if attached else "",
        deleting="deletionTimestamp" in meta,
    )


def _stood(before: Stand | None, now: Stand) -> bool:
    return before is not None and before.phase == "Bound" and before.node == now.node
