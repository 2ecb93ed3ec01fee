"""What the judge asks of launchers: let through whole, to one node and for good, and only where there is room.

By its own reading of the pods as stored, like all of the judge.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace

from gpu import keys
from gpu.objects import kinds, kubevirt
from soak import kubevirt as virt
from soak.site import Raw, Site


@dataclass(frozen=True)
class Seat:
    """A live launcher and the node it is pinned to, whether it runs there yet or not."""

    pod: str
    name: str
    vm: str
    """`namespace/name`."""
    node: str
    units: dict[str, int]
    start: str = ""
    """As `Guest.start`."""
    is_leaders: bool = True
    """A leader pinned it, and no webhook where its claims are held."""


@dataclass
class Launchers:
    """Launchers past the gate, as they were at the last look."""

    site: Site
    pins: dict[str, str] = field(default_factory=dict)
    """Node by uid, of all that ever were let through to one."""
    seats: list[Seat] = field(default_factory=list)
    """Those that take room now."""
    others: list[Seat] = field(default_factory=list)
    """Live pods on nodes to which no leader has pinned them, a pod of no VM under its own uid."""
    loose: set[str] = field(default_factory=set)
    """Launchers let through to no node, by uid: all they ask for is nobody's class."""
    fresh: list[Seat] = field(default_factory=list)
    """Those let through since the look before."""
    came: set[str] = field(default_factory=set)
    """Of them those let through since the look before."""
    _seen: int = -1
    _pods: list[Raw] = field(default_factory=list)

    def refresh(self) -> None:
        """Read the pods anew, if any changed."""
        seen = self.site.api.counts[kinds.PODS]
        self.fresh, self.came = [], set()
        if seen == self._seen:
            return
        self._seen = seen
        pods = self.site.api.all(kinds.PODS)
        self._pods = [it for it in pods if virt.owner_of(it) and _is_past_gate(it)]
        loose = {it["metadata"]["uid"] for it in self._pods if _is_loose(it)}
        self.came, self.loose = loose - self.loose, loose
        self.others = [_other(it) for it in pods if not virt.pinned_to(it) and _is_on_a_node(it)]
        self.seats = [seat_of(pod) for pod in self._pods if _takes_room(pod)]
        self.fresh = [seat for seat in self.seats if seat.pod not in self.pins]

    def look(self) -> list[str]:
        """Return what is wrong with launchers, after `refresh`."""
        wrong = [words for pod in self._pods for words in self._astray(pod)]
        by_uid = {pod["metadata"]["uid"]: pod for pod in self._pods}
        for seat in self.fresh:
            self.pins[seat.pod] = seat.node
            self.site.tally["launchers let through"] += 1
            wrong += self._in_part(by_uid[seat.pod], seat)
        for guest in self.site.guests:
            pin = self.pins.get(guest.pod, guest.node)
            if pin != guest.node:
                wrong.append(f"runs elsewhere: {guest.vm} on {guest.node}, pinned to {pin}")
        return wrong

    def _astray(self, pod: Raw) -> Iterator[str]:
        name, pin = pod["metadata"]["name"], virt.pinned_to(pod)
        known = self.pins.get(pod["metadata"]["uid"], pin)
        node = pod["spec"].get("nodeName", pin)
        if not pin and not _is_loose(pod):
            yield f"let through to no node: {name}"
        elif pin != known and pin:
            yield f"pinned anew: {name} to {pin}, it was to {known}"
        elif node != pin and pin:
            yield f"bound elsewhere: {name} to {node}, pinned to {pin}"

    def _in_part(self, pod: Raw, seat: Seat) -> Iterator[str]:
        """Yield what of its set is not held on the node it was let through to, and noted for it."""
        owner = virt.owner_of(pod)
        alive = {vmi["metadata"]["uid"] for vmi in self.site.api.all(kinds.VMIS)}
        if owner not in alive:
            return
        held, units = virt.resolved(pod)
        namespace = pod["metadata"]["namespace"]
        # Pinned by the webhook: no leader has noted it yet.
        is_ours_alone = keys.TERM_ANNOTATION not in (pod["metadata"].get("annotations") or {})
        for name, admission in held.items():
            claim = self.site.claim(namespace, name)
            attached = ((claim or {}).get("status") or {}).get("attachedTo") or {}
            if is_ours_alone and _is_lost_from(claim, seat):
                continue
            there = claim is not None and _is_on(claim, seat, is_noted=not is_ours_alone)
            if not there or attached.get("admission") != admission:
                yield f"let through in part: {seat.name} to {seat.node}, without claim {name}"
        for class_name, amount in units.items():
            made = [
                claim
                for claim in self.site.claims()
                if is_made_for(claim, owner) or _is_made_before(claim, namespace, held)
            ]
            found = sum(
                claim["spec"]["count"]
                for claim in made
                if claim["spec"]["className"] == class_name
                and (
                    _is_on(claim, seat, is_noted=not is_ours_alone)
                    or (is_ours_alone and _is_lost_from(claim, seat))
                )
            )
            if found != amount:
                words = f"{found} of {amount} units of {class_name}"
                yield f"let through in part: {seat.name} to {seat.node}, with {words}"


def seat_of(pod: Raw) -> Seat:
    """A pinned launcher as the judge counts it."""
    meta = pod["metadata"]
    vm = f"{meta['namespace']}/{meta['ownerReferences'][0]['name']}"
    node, units = virt.pinned_to(pod), virt.wants(pod)
    is_leaders = keys.TERM_ANNOTATION in (meta.get("annotations") or {})
    return Seat(meta["uid"], meta["name"], vm, node, units, virt.start_of(pod), is_leaders)


def _other(pod: Raw) -> Seat:
    meta, node = pod["metadata"], pod["spec"]["nodeName"]
    if virt.owner_of(pod):
        return replace(seat_of(pod), node=node)
    return Seat(meta["uid"], meta["name"], meta["uid"], node, virt.wants(pod))


def _is_on_a_node(pod: Raw) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in kubevirt.ENDED


def is_made_for(claim: Raw, vmi: str) -> bool:
    """Say whether a claim is a template claim of the VMI of that uid."""
    owners = claim["metadata"].get("ownerReferences") or []
    return is_template(claim) and any(owner["uid"] == vmi for owner in owners)


def is_template(claim: Raw) -> bool:
    """Say whether a claim was made for a start."""
    meta: Raw = claim.get("metadata") or {}
    return keys.TEMPLATE_CLAIM_LABEL in (meta.get("labels") or {})


def _is_past_gate(pod: Raw) -> bool:
    """Say whether somebody let it through; targets of migrations pass no gate."""
    is_target = virt.MIGRATION in (pod["metadata"].get("labels") or {})
    return not pod["spec"].get("schedulingGates") and not is_target


def _is_loose(pod: Raw) -> bool:
    """Say whether a pod is pinned to nothing, and no claim or class is asked for by it."""
    return not virt.pinned_to(pod) and virt.resolved(pod) == ({}, {})


def _takes_room(pod: Raw) -> bool:
    """Say whether a pod that is past the gate counts: one that is deleted unbound never runs."""
    is_over = pod["status"]["phase"] in kubevirt.ENDED
    never = "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
    return bool(virt.pinned_to(pod)) and not is_over and not never


def _is_made_before(claim: Raw, namespace: str, held: Container[str]) -> bool:
    """Say whether a template claim is one that a VMI was admitted with: it has no owner at first."""
    meta = claim["metadata"]
    return is_template(claim) and meta["namespace"] == namespace and meta["name"] in held


def _is_lost_from(claim: Raw | None, seat: Seat) -> bool:
    """Say whether a claim was there, and its node was lost before the webhook had heard of it."""
    status = (claim or {}).get("status") or {}
    left = (status.get("displaced") or {}).get("node")
    return (status.get("phase"), left) == ("Lost", seat.node)


def _is_on(claim: Raw, seat: Seat, *, is_noted: bool = True) -> bool:
    status = claim.get("status") or {}
    noted = (status.get("attachedTo") or {}).get("pods") or []
    is_held = (status.get("phase"), status.get("nodeName")) == ("Bound", seat.node)
    return is_held and any(
        not is_noted or (one["uid"], one.get("node")) == (seat.pod, seat.node)
        for one in (noted if is_noted else [{}])
    )
