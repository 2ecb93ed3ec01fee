"""Starts: launchers that wait at our gate, each with the claims and units of its VM, oldest first.

A held claim is of a start when it is attached to its VMI; a template claim when it bears the name, class,
units and owner that only the leader gives. Which pods are launchers at the gate is `at_gate`'s business.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gpu.model import at_gate, coverage, gate_reasons, guests, refusals, sets, template_claims
from gpu.model.draft import Age, Draft
from gpu.model.gate_reasons import GateReason
from gpu.model.sets import ClaimSet
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.kinds import VMIS
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.settings import RawNames
from gpu.units import ClaimName, ClassName, ResourceName, TenantName, Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One VMI whose launcher waits at the gate."""

    vmi: VMI
    pod: Pod
    held: tuple[GPUClaim, ...]
    """Claims it was started with, as far as they are there and its own, oldest first."""
    templates: tuple[GPUClaim, ...]
    """Template claims that are there already, by class."""
    along: tuple[GPUClaim, ...] = ()
    """Held claims that are not of this start, but go where its VM's set goes: its VM names them."""
    missing: Mapping[ClassName, Units]
    """Units of classes for which a template claim is still to be made."""
    raw: Mapping[ResourceName, Units]
    """What its pod asks for beyond all its claims, none of it 0."""
    barred: tuple[GateReason, ...]
    """Why it waits whatever is free."""
    set_id: str
    """Of its set; of the VMI as long as it has no claim."""
    is_listed: bool = True
    """Its VMI lists the pod. Until then it is prepared and not let through."""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name of the VM."""
        return self.vmi.meta.key

    @property
    def tenant(self) -> TenantName:
        """Whose VM it is."""
        return TenantName(self.vmi.meta.namespace)

    @property
    def age(self) -> Age:
        """How it is told older from younger, as an order is."""
        return (self.vmi.meta.created, self.vmi.meta.uid)

    @property
    def claims(self) -> tuple[GPUClaim, ...]:
        """Claims that are placed together for it, as far as they are there."""
        return (*self.held, *self.templates, *self.along)

    @property
    def found(self) -> ClaimSet | None:
        """Its claims that are there, as one set; None without any."""
        if not self.claims:
            return None
        by_age = sorted(self.claims, key=lambda claim: claim.age)
        return ClaimSet(claims=tuple(by_age), vm=self.key)

    @property
    def has_lost(self) -> bool:
        """Say whether something of it was held and is Lost."""
        return any(claim.phase is Phase.LOST for claim in self.claims)

    @property
    def is_plain(self) -> bool:
        """Say whether it has no claim and asks for no unit: nothing is placed for it."""
        return not (self.vmi.admissions or self.vmi.template_units or self.raw)

    @property
    def is_raw(self) -> bool:
        """Say whether all its units are asked for by their raw name."""
        return bool(self.raw) and not (self.vmi.admissions or self.vmi.template_units)

    @property
    def new_units(self) -> dict[ClassName, Units]:
        """Units of template claims that hold nothing yet: what budgets are asked for."""
        found = dict(self.missing)
        for claim in self.templates:
            if claim.phase is Phase.PENDING:
                found[claim.class_name] = claim.count
        return found

    @property
    def wants(self) -> dict[ClassName, int]:
        """Units of each class that one node must have room for."""
        found = sets.wants(self.claims)
        for name, units in self.missing.items():
            found[name] = found.get(name, 0) + units
        return found

    @property
    def units(self) -> int:
        """Units that it asks for, of whatever kind."""
        return sum(self.wants.values()) + sum(self.raw.values())


def waiting(draft: Draft) -> tuple[Start, ...]:
    """Return every start that waits, oldest first; those with something Lost before all others."""
    return _in_turn(_starts(draft, at_gate.listed(draft)))


def with_coming(draft: Draft) -> tuple[Start, ...]:
    """Return the same with those among them that are to have claims and whose VMI does not list the pod yet."""
    here = _starts(draft, at_gate.listed(draft))
    held = [it for it in at_gate.coming(draft) if it[0].admissions or it[0].template_units]
    coming = _starts(draft, held)
    return _in_turn((*here, *(replace(start, is_listed=False) for start in coming)))


def _starts(draft: Draft, found: Sequence[tuple[VMI, Pod]]) -> tuple[Start, ...]:
    if not found:
        return ()
    by_vm: dict[ObjectKey, ClaimSet] = {item.vm: item for item in draft.sets if item.vm}
    return tuple(_start(draft, vmi, pod, by_vm.get(vmi.meta.key)) for vmi, pod in found)


def _in_turn(found: Iterable[Start]) -> tuple[Start, ...]:
    return tuple(sorted(found, key=lambda start: (not start.has_lost, start.age)))


def _start(draft: Draft, vmi: VMI, pod: Pod, shared: ClaimSet | None) -> Start:
    barred: list[GateReason] = []
    held = tuple(_held(draft, vmi, barred))
    templates, missing = _templates(draft, vmi, barred)
    own = {claim.key for claim in (*held, *templates)}
    made = {
        ObjectKey(vmi.meta.namespace, template_claims.name_of(vmi.meta.uid, name))
        for name in vmi.template_units
    }
    others = [
        claim
        for claim in (shared.claims if shared else ())
        if claim.key not in own | made and not claim.meta.deleting
    ]
    if any(claim.attached_to for claim in others):  # orders that wait, too
        barred.append(refusals.GuestMayRun())  # an earlier guest of the VM has not let go of it
    if _has_other_pod(draft, vmi, pod, (*held, *templates)):
        barred.append(refusals.GuestMayRun())
    # What nobody can name a claim for is not what was asked for by name. A start that names nothing
    # at all asks by name whatever bars it: else it would pass for one that asks for no unit.
    names_any = vmi.admissions or vmi.template_units
    is_known = not names_any or (
        not barred and all(name in draft.snapshot.classes for name in vmi.template_units)
    )
    raw = _raw(draft, pod, (*held, *templates), missing) if is_known else {}
    if draft.snapshot.settings.raw_names is RawNames.DENIED:
        barred += [gate_reasons.RawNameDenied(name, units) for name, units in sorted(raw.items())]
    return Start(
        vmi=vmi,
        pod=pod,
        held=tuple(sorted(held, key=lambda claim: claim.age)),
        templates=templates,
        along=tuple(
            claim
            for claim in others
            if claim.attached_to is None and claim.phase is not Phase.PENDING
        ),
        missing=missing,
        raw=raw,
        barred=tuple(dict.fromkeys(barred)),
        set_id=shared.id if shared else _own_id(vmi, own),
    )


def _own_id(vmi: VMI, claims: AbstractSet[ObjectKey]) -> str:
    return str(min(claims)) if claims else f"{VMIS.kind} {vmi.meta.key}"


def _held(draft: Draft, vmi: VMI, barred: list[GateReason]) -> Iterator[GPUClaim]:
    for name in sorted(vmi.admissions):
        claim = draft.claim(ObjectKey(vmi.meta.namespace, name))
        if claim is None:
            barred.append(gate_reasons.ClaimMissing(name))
            continue
        if not _is_its_own(claim, vmi):
            barred.append(gate_reasons.ClaimInUse(name))
            continue
        if claim.meta.deleting:
            barred.append(gate_reasons.ClaimDeleting(name))
        elif claim.phase is Phase.PENDING:
            barred.append(gate_reasons.ClaimPending(name))
        yield claim


def _is_its_own(claim: GPUClaim, vmi: VMI) -> bool:
    """Say whether a claim is attached to the very VMI: by its uid, or by its id while it has no uid."""
    found = claim.attached_to
    if found is None or found.vmi != vmi.meta.name:
        return False
    if found.uid:
        return found.uid == vmi.meta.uid
    return bool(found.admission) and coverage.is_user(claim, vmi)


def _templates(
    draft: Draft, vmi: VMI, barred: list[GateReason]
) -> tuple[tuple[GPUClaim, ...], dict[ClassName, Units]]:
    found: list[GPUClaim] = []
    missing: dict[ClassName, Units] = {}
    for name in sorted(vmi.template_units.keys() - _requested(draft, vmi)):
        units = vmi.template_units[name]
        own = template_claims.name_of(vmi.meta.uid, name)
        claim = draft.claim(ObjectKey(vmi.meta.namespace, own))
        if claim is None:
            missing[name] = units
        elif not template_claims.is_of(claim, vmi) or (claim.class_name, claim.count) != (
            name,
            units,
        ):
            barred.append(gate_reasons.ClaimNameTaken(own))
        else:
            if claim.meta.deleting:
                barred.append(gate_reasons.ClaimDeleting(own))
            found.append(claim)
    return tuple(found), missing


def _requested(draft: Draft, vmi: VMI) -> set[ClassName]:
    """Return classes whose units were made before the VMI was: the claim is one it is admitted with."""
    keys_of = (ObjectKey(vmi.meta.namespace, name) for name in vmi.admissions)
    there = (draft.claim(key) for key in keys_of)
    return {claim.class_name for claim in there if claim is not None and claim.is_template}


def in_use(start: Start) -> tuple[GateReason, ...]:
    """Return its held claims, or that its guest may run, as what it waits for."""
    named = (gate_reasons.ClaimInUse(ClaimName(claim.meta.name)) for claim in start.held)
    return tuple(named) or (refusals.GuestMayRun(),)


def still_used(draft: Draft, start: Start) -> tuple[GateReason, ...]:
    """Return its held claims that a pod from before it may use: another VM's, or an earlier run's."""
    return tuple(
        gate_reasons.ClaimInUse(ClaimName(claim.meta.name))
        for claim in start.held
        if claim.attached_to
        and any(
            not pod.ended
            and pod.uid not in start.vmi.active_pods
            and guests.is_open(draft.snapshot, claim.meta.namespace, pod.uid)
            for pod in claim.attached_to.pods
        )
    )


def _has_other_pod(draft: Draft, vmi: VMI, pod: Pod, claims: Iterable[GPUClaim]) -> bool:
    """Say whether another pod of the VMI may run: its temporary pod may not be over yet.

    One that is noted to have ended is listed on, also when its object is gone.
    """
    namespace = vmi.meta.namespace
    noted = [claim.attached_to.pods for claim in claims if claim.attached_to]
    over = {one.uid for some in noted for one in some if one.ended} | {pod.meta.uid}
    return any(
        guests.is_open(draft.snapshot, namespace, uid)
        and not guests.is_gated(draft.snapshot, namespace, uid)
        for uid in vmi.active_pods.keys() - over
    )


def _raw(
    draft: Draft, pod: Pod, claims: Iterable[GPUClaim], missing: Mapping[ClassName, Units]
) -> dict[ResourceName, Units]:
    classes, known = draft.snapshot.classes, draft.snapshot.capacities
    named: dict[ResourceName, int] = {}
    for name, units in (
        *((claim.class_name, claim.count) for claim in claims),
        *missing.items(),
    ):
        if name in classes:
            resource = classes[name].resource
            named[resource] = named.get(resource, 0) + units
    left = {name: units - named.get(name, 0) for name, units in pod.requests.items()}
    return {name: Units(units) for name, units in left.items() if units > 0 and name in known}
