"""VMI create: resolve claims, refuse, name the attachments, write gpus entries.

Pure: `judge` says what is to be attached, `attach` records it, `written` makes the patch. KubeVirt
renders the launcher's requests from a VMI spec that cannot change later, so all of it is settled here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpu import keys
from gpu.admission import review
from gpu.admission.jsonpatch import Editor, Operation
from gpu.admission.review import About, Cause, Denied, Review
from gpu.config import Binding, Config
from gpu.model import pins, premises, references, resolving, start_refusals
from gpu.model.references import Entry, Held, OfClass, Place, References, Target
from gpu.model.resolving import Objection, Resolution, Start
from gpu.objects import kubevirt
from gpu.objects.claims import GPUClaim
from gpu.objects.decode import Fields
from gpu.objects.kinds import VMIS
from gpu.objects.meta import ObjectKey
from gpu.units import ClaimName, NodeName, ResourceName
from gpu.world import World

MOST_TOLD: Final = 20
"""Reasons that a message has in words; more are counted."""
MOST_CAUSES: Final = 100
_DEVICES: Final = ("spec", "domain", "devices")
_ANNOTATIONS: Final = ("metadata", "annotations")
_OURS: Final = f"{keys.DOMAIN}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be written: attachments first, then the patch."""

    start: Start
    found: Resolution
    is_new_name: bool = False
    """No VMI of the name is seen, where VMIs are."""

    @property
    def to_attach(self) -> tuple[GPUClaim, ...]:
        """Claims to be attached to this start, in order of their names."""
        return () if self.found.is_repeated else self.found.held

    @property
    def takes_nothing_over(self) -> bool:
        """Say whether no VMI need be read: none of the name is seen, and nobody has a claim.

        A claim that nobody has names no VMI whose end would have to be known, and its version has the
        attachment refused if somebody has it meanwhile. Is there a VMI of the name after all, it does not
        use these claims: the API server refuses the CREATE, and the leader detaches what no VMI comes for.
        """
        return self.is_new_name and all(claim.attached_to is None for claim in self.to_attach)


def is_asked(asked: Review) -> bool:
    """Say whether it is the CREATE of a VMI: nothing else is judged here."""
    kind = (asked.group, asked.plural, asked.subresource)
    return asked.operation == review.CREATE and kind == (VMIS.group, VMIS.plural, "")


def read(asked: Review) -> Start:
    """Read what a VMI that is to be created asks for. Raises DecodeError."""
    fields = Fields(asked.object)
    annotations = fields.child("metadata").text_map("annotations")
    domain = fields.child("spec").child("domain")
    devices, resources = domain.child("devices"), domain.child("resources")
    entries = tuple(
        Entry(place, index, item.text_or("name"), item.text_or("deviceName"))
        for place in Place
        for index, item in enumerate(devices.children(place.value))
    )
    amounts = {
        f"spec.domain.resources.{part}[{name}]": name
        for part in ("limits", "requests")
        for name in resources.child(part).raw
        if "/" in name
    }
    return Start(
        namespace=asked.namespace,
        name=asked.name,
        references=References(
            entries=entries,
            listed=references.listed(annotations.get(keys.CLAIMS_ANNOTATION, "")),
            amounts=amounts,
        ),
        resolved=annotations.get(keys.RESOLVED_CLAIMS_ANNOTATION, ""),
    )


def judge(
    asked: Review, start: Start, world: World, config: Config, now: datetime
) -> Denied | Plan:
    """Return what the start's references stand for, or a denial with every reason."""
    unread = sorted(
        name
        for name in {name for name, _ in start.references.held()}
        if ObjectKey(start.namespace, name) in world.unreadable_claims
    )
    if unread:
        shown = start_refusals.shown(unread[0])
        return review.unavailable(
            f"VM {asked.title}: claim {shown} cannot be read, so nobody knows what it holds: "
            "ask the hoster to mend it"
        )
    found = resolving.resolve(
        world.snapshot,
        start,
        now,
        config.grace.attachment,
        is_requested=config.binding is Binding.REQUEST,
    )
    if isinstance(found, Resolution):
        key = ObjectKey(start.namespace, start.name)
        is_new = "vmis" not in world.unserved and key not in world.snapshot.vmis
        return Plan(start=start, found=found, is_new_name=is_new)
    return denied(asked, found)


def denied(asked: Review, found: tuple[Objection, ...]) -> Denied:
    """Return the denial for these reasons, all of them as causes, the first of them in words."""
    told = [start_refusals.words(one.refusal) for one in found]
    causes = tuple(
        Cause(one.path, start_refusals.code(one.refusal), said)
        for one, said in zip(found[:MOST_CAUSES], told, strict=False)
    )
    more = len(told) - MOST_TOLD
    lines = [*told[:MOST_TOLD], *([f"and {more} reasons more"] if more > 0 else [])]
    return Denied(
        code=review.FORBIDDEN,
        reason="Forbidden",
        message=f"VM {asked.title}: {'; '.join(lines)}",
        causes=causes,
        about=about(asked),
        rests_on=premises.lightest(map(resolving.premises, found)),
    )


def unread(asked: Review, why: str) -> Denied:
    """Return the denial of a VMI whose shape is broken: KubeVirt would say the same of it."""
    return Denied(
        code=review.INVALID,
        reason="Invalid",
        message=f"VM {asked.title}: {why}",
        about=about(asked),
    )


def taken(asked: Review) -> Denied:
    """Return the denial of a name whose VMI lives; in the API server's words and with its code."""
    return Denied(
        code=review.CONFLICT,
        reason="AlreadyExists",
        message=f'{VMIS.resource} "{asked.name}" already exists',
        about=about(asked),
    )


def written(
    asked: Review,
    plan: Plan,
    admissions: Mapping[ClaimName, str],
    node: NodeName | None = None,
) -> list[Operation]:
    """Return the patch of the VMI; `admissions` are the ids under which its claims are attached.

    `node` is where they are, of a start that is bound before it is admitted: the VMI is pinned to it.
    """
    editor = Editor(asked.object or {})
    found, asks = plan.found, plan.start.references
    annotations = (asked.object or {}).get("metadata", {}).get("annotations") or {}
    kept = {keys.RESOLVED_CLAIMS_ANNOTATION} if found.is_ours else set()
    if asks.listed:
        kept.add(keys.CLAIMS_ANNOTATION)
    for name in sorted(annotations):
        if name.startswith(_OURS) and name not in kept:
            editor.remove((*_ANNOTATIONS, name))
    if node is not None:
        editor.put(pins.PATH, pins.narrowed(pins.terms(editor.before), node))
    if not found.is_ours or found.is_repeated:
        return editor.operations
    _write_units(editor, plan)
    record = kubevirt.format_resolved(admissions, found.template)
    editor.put((*_ANNOTATIONS, keys.RESOLVED_CLAIMS_ANNOTATION), record)
    return editor.operations


def _write_units(editor: Editor, plan: Plan) -> None:
    units = _Units(plan)
    devices = Fields(editor.before).child("spec").child("domain").child("devices")
    for place in Place:
        before = devices.raw.get(place.value) or []
        after = [
            one
            for item in before
            for one in units.of(references.target_of(Fields(item).text_or("deviceName")), item)
        ]
        if place is Place.GPUS:
            for name in plan.start.references.listed:
                after += units.of(Held(name), {})
        if after != before:
            editor.put((*_DEVICES, place.value), after)


class _Units:
    """The entries that stand in the place of a reference, numbered over the whole VMI."""

    def __init__(self, plan: Plan) -> None:
        self._held = {claim.meta.name: claim for claim in plan.found.held}
        self._resources = plan.found.resources
        self._number = 0

    def of(self, target: Target, item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return what an entry becomes; its other members stay with each unit."""
        if isinstance(target, Held):
            claim = self._held[target.claim]
            return self._made(self._resources[claim.class_name], claim.count, item)
        if isinstance(target, OfClass):
            return self._made(self._resources[target.class_name], 1, item)
        return [item]

    def _made(
        self, resource: ResourceName, count: int, item: Mapping[str, Any]
    ) -> list[Mapping[str, Any]]:
        first = self._number
        self._number += count
        return [
            {**item, "name": references.unit_name(number), "deviceName": resource}
            for number in range(first, self._number)
        ]


def about(asked: Review) -> About:
    """Return what a denial is about: the VMI."""
    return About(group=VMIS.group, kind=VMIS.plural, name=asked.name)
