"""GPUClaim: order, phase, node, attachment, refused nodes with their expiry."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from gpu import keys
from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import Condition, ObjectKey, ObjectMeta
from gpu.units import ClassName, NodeName, TenantName, Units


class Phase(StrEnum):
    """Where a claim stands. A claim without a status is Pending."""

    PENDING = "Pending"
    BOUND = "Bound"
    LOST = "Lost"


# Every legal step; the CRD's rules and the diagram in docs/binding.md are made from the same table.
TRANSITIONS: Final[dict[Phase, frozenset[Phase]]] = {
    Phase.PENDING: frozenset({Phase.PENDING, Phase.BOUND}),
    Phase.BOUND: frozenset({Phase.BOUND, Phase.LOST}),
    Phase.LOST: frozenset({Phase.LOST, Phase.BOUND}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedPod:
    """A launcher pod that used the claim; `ended` once it was seen to have ended."""

    uid: str
    node: NodeName
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """The VMI that uses the claim; `uid` is empty until adopted."""

    vmi: str
    admission: str = ""
    uid: str = ""
    since: datetime | None = None
    pods: tuple[AttachedPod, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedNode:
    """A node that refused the set's pinned pod, skipped until the time given."""

    node: NodeName
    until: datetime
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUClaim:
    """A tenant's order and then hold."""

    meta: ObjectMeta
    class_name: ClassName
    count: Units
    phase: Phase = Phase.PENDING
    has_status: bool = True
    node: NodeName | None = None
    bound_at: datetime | None = None
    attached_to: Attachment | None = None
    rejected_nodes: tuple[RejectedNode, ...] = ()
    term: int = 0
    reasons: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    raw: Raw = field(default_factory=dict, compare=False, repr=False)

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.meta.key

    @property
    def tenant(self) -> TenantName:
        """The namespace that ordered it."""
        return TenantName(self.meta.namespace)

    @property
    def is_template(self) -> bool:
        """Say whether the controller made it for a VM's template units."""
        return self.meta.labels.get(keys.TEMPLATE_CLAIM_LABEL) == "true"

    @property
    def age(self) -> tuple[datetime, str]:
        """Order of claims among each other: creation, then uid (domain contract 5)."""
        return (self.meta.created, self.meta.uid)


def decode(raw: Raw) -> GPUClaim:
    """Read a GPUClaim. Raises DecodeError where its schema is broken."""
    fields = Fields(raw)
    spec = fields.child("spec")
    status = fields.child("status")
    node = status.text_or("nodeName")
    return GPUClaim(
        meta=meta.decode_meta(fields),
        class_name=ClassName(spec.text("className")),
        count=spec.units("count"),
        phase=status.one_of("phase", Phase, Phase.PENDING.value),
        has_status=status.has("phase"),
        node=NodeName(node) if node else None,
        bound_at=status.time("boundAt"),
        attached_to=_attachment(status.child("attachedTo")) if status.has("attachedTo") else None,
        rejected_nodes=tuple(
            RejectedNode(
                node=NodeName(item.text("node")),
                until=item.time("until") or meta.EPOCH,
                fingerprint=item.text_or("fingerprint"),
            )
            for item in status.children("rejectedNodes")
        ),
        term=status.whole("term", 0),
        reasons=status.texts("reasons"),
        conditions=meta.decode_conditions(status),
        raw=raw,
    )


def _attachment(fields: Fields) -> Attachment:
    return Attachment(
        vmi=fields.text("name"),
        admission=fields.text_or("admission"),
        uid=fields.text_or("uid"),
        since=fields.time("since"),
        pods=tuple(
            AttachedPod(
                uid=pod.text("uid"),
                node=NodeName(pod.text_or("node")),
                ended=pod.flag("ended"),
            )
            for pod in fields.children("pods")
        ),
    )
