"""What the references of one VMI stand for as things are, or every reason why it may not start.

Judged is what needs no placement and waiting cannot cure: a claim that is Pending or Lost, a budget
that is used up, a node without room are waited for at the gate.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from gpu.model import attaching, cases, names, references, refusals, start_refusals, tenancy
from gpu.model.attaching import Use
from gpu.model.premises import CLASS, NOTHING, Premises, of_object
from gpu.model.references import References
from gpu.model.snapshot import Snapshot
from gpu.model.start_refusals import StartRefusal
from gpu.objects import kubevirt
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.config_maps import ConfigMap
from gpu.objects.kubevirt import VMI, KubeVirt
from gpu.objects.meta import ObjectKey
from gpu.settings import RawNames
from gpu.units import ClaimName, ClassName, ResourceName, TenantName, Units

NAMESPACE = "metadata.namespace"
NAME = "metadata.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A VMI that is to be created, as far as it names GPUs. `name` is empty where it has none yet."""

    namespace: str
    name: str
    references: References
    resolved: str = ""
    """The webhook's record as it came: of an earlier call, or forged."""


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason against the start, and the path of what it is about."""

    refusal: StartRefusal
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What the references stand for. With no claim and no unit: raw names only, or nothing."""

    held: tuple[GPUClaim, ...] = ()
    """By name."""
    made: tuple[GPUClaim, ...] = ()
    """Claims that an earlier call has made for units of its template, by name."""
    template: Mapping[ClassName, Units]
    resources: Mapping[ClassName, ResourceName]
    """Of every class of these."""
    is_raw: bool = False
    """A class's resource is asked for by its own name."""
    is_repeated: bool = False
    """An earlier call has written all of it already."""

    @property
    def is_ours(self) -> bool:
        """Say whether the start is any business of ours."""
        return bool(self.held or self.template or self.is_raw)


def resolve(
    snapshot: Snapshot, start: Start, now: datetime, grace: float, *, is_requested: bool = False
) -> Resolution | tuple[Objection, ...]:
    """Return what a start's references stand for, or all that is against it; never empty.

    `grace` are the seconds that a claim waits for the VMI it was attached to. `is_requested`: the
    start is bound before its VMI is there, and units of a class are held for its name, too.
    """
    asked = start.references
    if asked.count > references.MOST_UNITS:
        most = start_refusals.TooManyUnits(asked.count, references.MOST_UNITS)
        return (Objection(most, "spec.domain.devices"),)
    before = _before(snapshot, start)
    wanted = before or _Wanted(
        claims=_first_paths(asked),
        template={name: (units, asked.first(name)) for name, units in asked.template().items()},
    )
    looking = _Looking(
        snapshot=snapshot, start=start, now=now, grace=grace, is_requested=is_requested
    )
    found = (*looking.forms(is_repeated=before is not None), *looking.objections(wanted))
    if found:
        return found
    held = tuple(
        claim for name in sorted(wanted.claims) if (claim := looking.claim(name)) is not None
    )
    used = {claim.class_name for claim in held} | wanted.template.keys()
    classes = {offer.resource for offer in snapshot.classes.values()}
    return Resolution(
        held=held,
        made=wanted.made,
        template={name: units for name, (units, _) in sorted(wanted.template.items())},
        resources={name: snapshot.classes[name].resource for name in used},
        is_raw=any(asked.raw(classes)),
        is_repeated=before is not None,
    )


def premises(objection: Objection) -> Premises:
    """Return what has to be current for a reason to stand."""
    match objection.refusal:
        case (
            refusals.NoSuchClass()
            | refusals.ClassRetired()
            | refusals.ClassDeleting()
            | refusals.OverMaxCount()
        ):
            found = of_object(GPUClass, objection.refusal.class_name)
        case refusals.NotPermitted():
            found = of_object(GPUClass, objection.refusal.class_name) | {KubeVirt}
        case start_refusals.RawNameDenied():
            found = CLASS | {KubeVirt, ConfigMap}
        case start_refusals.ClaimMissing(name, namespace):
            found = of_object(GPUClaim, name, namespace)
        case (
            start_refusals.ClaimElsewhere()
            | start_refusals.ClaimDeleting()
            | start_refusals.ClaimOfVM()
            | start_refusals.NameReserved()
        ):
            found = CLASS | {GPUClaim}
        case start_refusals.ClaimInUse() | start_refusals.TooManyUnits():
            found = CLASS | {GPUClaim, VMI}
        case _:
            found = NOTHING
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Claims with the path of their first mention, units of classes with that of their first entry."""

    claims: Mapping[ClaimName, str]
    template: Mapping[ClassName, tuple[Units, str]]
    made: tuple[GPUClaim, ...] = ()
    """Template claims that the record names."""


def _first_paths(asked: References) -> dict[ClaimName, str]:
    found: dict[ClaimName, str] = {}
    for name, path in asked.held():
        found.setdefault(name, path)
    return found


def _before(snapshot: Snapshot, start: Start) -> _Wanted | None:
    """Return what an earlier call of this very start resolved; None where there was none.

    The record is believed only where each claim's status has it, for this VMI's name and not yet
    adopted by any VMI, and where entries and record agree: else a tenant wrote it.
    """
    asked = start.references
    record = kubevirt.parse_resolved(start.resolved)
    if not asked.reserved or record is None:
        return None
    admissions, template = record
    there = (snapshot.claim(ObjectKey(start.namespace, name)) for name in sorted(admissions))
    made = tuple(claim for claim in there if claim is not None and claim.is_template)
    held = admissions.keys() - {claim.meta.name for claim in made}
    more = [name for name, path in asked.held() if path != references.ANNOTATION]
    if more or asked.template() or not set(asked.listed) <= held:
        return None
    if not _stand_for(made, template, start, admissions):
        return None
    recorded = [_recorded(snapshot, start, name, admissions[name]) for name in sorted(held)]
    recorded += [_of_class(snapshot, *item) for item in template.items()]
    units: Counter[ResourceName] = Counter()
    for item in recorded:
        if item is None:
            return None
        units[item[0]] += item[1]
    if not references.agrees(asked.reserved, units):
        return None
    path = asked.reserved[0].path
    return _Wanted(
        claims=dict.fromkeys(held, path),
        template={name: (amount, path) for name, amount in template.items()},
        made=made,
    )


def _stand_for(
    made: tuple[GPUClaim, ...],
    template: Mapping[ClassName, Units],
    start: Start,
    admissions: Mapping[ClaimName, str],
) -> bool:
    """Say whether template claims are this start's, and have the units of the record's classes."""
    units = {claim.class_name: claim.count for claim in made}
    is_whole = len(units) == len(made) and (not made or units == dict(template))
    return is_whole and all(
        _is_recorded(claim, start, admissions[ClaimName(claim.meta.name)]) for claim in made
    )


def _recorded(
    snapshot: Snapshot, start: Start, name: ClaimName, admission: str
) -> tuple[ResourceName, int] | None:
    claim = snapshot.claim(ObjectKey(start.namespace, name))
    if claim is None or not _is_recorded(claim, start, admission):
        return None
    return _of_class(snapshot, claim.class_name, claim.count)


def _is_recorded(claim: GPUClaim, start: Start, admission: str) -> bool:
    found = claim.attached_to
    return found is not None and (found.vmi, found.admission, found.uid) == (
        start.name,
        admission,
        "",
    )


def _of_class(snapshot: Snapshot, name: ClassName, units: Units) -> tuple[ResourceName, int] | None:
    offer = snapshot.classes.get(name)
    return (offer.resource, units) if offer else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looking:
    snapshot: Snapshot
    start: Start
    now: datetime
    grace: float
    is_requested: bool

    def claim(self, name: ClaimName) -> GPUClaim | None:
        return self.snapshot.claim(ObjectKey(self.start.namespace, name))

    def forms(self, *, is_repeated: bool) -> Iterator[Objection]:
        """Yield what is wrong with names, whatever they name."""
        asked, namespace = self.start.references, self.start.namespace
        for device, path in asked.strange():
            yield Objection(start_refusals.NoReference(device), path)
        for entry in () if is_repeated else asked.reserved:
            yield Objection(start_refusals.NameReserved(entry.name), f"{entry.path}.name")
        is_denied = self.snapshot.settings.raw_names is RawNames.DENIED
        if is_denied and tenancy.is_tenant(namespace):
            named: dict[ResourceName, str] = {}
            for resource, path in asked.raw(frozenset(self.snapshot.resources)):
                named.setdefault(resource, path)
            for resource, path in named.items():
                yield Objection(start_refusals.RawNameDenied(resource, namespace), path)

    def objections(self, wanted: _Wanted) -> Iterator[Objection]:
        """Yield what is wrong with what is named."""
        if not wanted.claims and not wanted.template:
            return
        for one in cases.no_tenant(TenantName(self.start.namespace)):
            if isinstance(one, refusals.NoTenant):
                yield Objection(one, NAMESPACE)
        times = Counter(name for name, _ in self.start.references.held())
        for name, path in sorted(wanted.claims.items()):
            if times[name] > 1:
                yield Objection(start_refusals.ClaimListedTwice(name, times[name]), path)
            if (against := self._claim(name)) is not None:
                yield Objection(against, path)
        if not self.start.name and (wanted.claims or self.is_requested):
            missing = start_refusals.NameMissing(len(wanted.claims), self.is_requested)
            yield Objection(missing, NAME)
        yield from self._classes(wanted)
        total = self._total(wanted)
        if total > references.MOST_UNITS:
            over = start_refusals.TooManyUnits(total, references.MOST_UNITS)
            yield Objection(over, "spec.domain.devices")

    def _claim(self, name: ClaimName) -> StartRefusal | None:
        claim, namespace = self.claim(name), self.start.namespace
        if claim is None:
            if "/" in name:
                return start_refusals.ClaimElsewhere(name, namespace)
            return start_refusals.ClaimMissing(name, namespace)
        if claim.meta.deleting:
            return start_refusals.ClaimDeleting(name)
        if claim.is_template:
            return start_refusals.ClaimOfVM(name)
        user = claim.attached_to.vmi if claim.attached_to else ""
        if not user or user == self.start.name:
            return None
        vmi = self.snapshot.vmis.get(ObjectKey(namespace, user))
        return in_use(claim, vmi, self.now, self.grace)

    def _classes(self, wanted: _Wanted) -> Iterator[Objection]:
        named: dict[ClassName, str] = {}
        for name, path in sorted(wanted.claims.items()):
            if (claim := self.claim(name)) is not None:
                named.setdefault(claim.class_name, path)
        for class_name, path in named.items():
            offer = self.snapshot.classes.get(class_name)
            if offer is None:
                yield Objection(refusals.NoSuchClass(class_name), path)
            elif class_name not in wanted.template:
                yield from (Objection(it, path) for it in _permitted(self.snapshot, offer))
        for class_name, (units, path) in wanted.template.items():
            yield from (Objection(it, path) for it in self._template(class_name, units))

    def _template(self, name: ClassName, units: Units) -> Iterator[StartRefusal]:
        offer = self.snapshot.classes.get(name)
        if offer is None:
            yield refusals.NoSuchClass(name)
            return
        if offer.retired:
            yield refusals.ClassRetired(name)
        if offer.meta.deleting:
            yield refusals.ClassDeleting(name)
        yield from _permitted(self.snapshot, offer)
        most = cases.max_count(offer)
        if most is not None and units > most:
            yield refusals.OverMaxCount(name, units, most)

    def _total(self, wanted: _Wanted) -> int:
        held = (claim.count for name in wanted.claims if (claim := self.claim(name)) is not None)
        return sum(held) + sum(units for units, _ in wanted.template.values())


def in_use(
    claim: GPUClaim, vmi: VMI | None, now: datetime, grace: float
) -> start_refusals.ClaimInUse | None:
    """Return why a claim that is attached to another VM's name cannot be had; None when it can.

    `vmi` is the VMI of that name. One that is ending is no hindrance: who comes waits at the gate.
    """
    found = attaching.use(claim, vmi, now, grace)
    if found is Use.OVER or claim.attached_to is None:
        return None
    name = ClaimName(claim.meta.name)
    return start_refusals.ClaimInUse(name, claim.attached_to.vmi, found is Use.STARTING)


def _permitted(snapshot: Snapshot, offer: GPUClass) -> Iterator[StartRefusal]:
    if not names.is_permitted(offer.resource, snapshot.permitted):
        yield refusals.NotPermitted(offer.name, offer.resource)
