"""GPUClaim: order, phase, node, attachment, refused nodes with their expiry."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from gpu import keys
from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import Condition, ObjectKey, ObjectMeta
from gpu.units import ClaimName, ClassName, NodeName, TenantName, Units


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
    launched: bool = False
    """A launcher of the VMI is among `pods`; kept of starts that were promised their node alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedNode:
    """A node that refused the set's pinned pod, skipped until the time given."""

    node: NodeName
    until: datetime
    fingerprint: str = ""


class BindResult(StrEnum):
    """The leader's answer to a bind request."""

    SUCCEEDED = "Succeeded"
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class BindRequest:
    """A start that is answered before its VMI is there (`binding: request`), as each claim has it."""

    id: str
    """Of one admission; nobody had it before."""
    vmi: str
    claims: tuple[ClaimName, ...]
    """Every claim of the set asked for."""
    requested_at: datetime
    launcher: str = ""
    """What the VMI's launcher will ask of its node (`foreseen`); empty where nothing but units is asked."""
    result: BindResult | None = None
    """None until the leader has answered."""
    message: str = ""
    """Why it was refused: each claim, its node and the reason."""


class Cause(StrEnum):
    """Why a node could not keep a set, or a set could not stay as it was."""

    NODE_GONE = "NodeGone"
    NODE_NOT_READY = "NodeNotReady"
    UNITS_MISSING = "UnitsMissing"
    """The node serves fewer units than the sets on it hold."""
    NODE_TAINTED = "NodeTainted"
    NODE_CORDONED = "NodeCordoned"
    SET_TORN = "SetTorn"
    """Some of the set was Lost or elsewhere already: it is kept together."""


class Alarm(StrEnum):
    """What else a claim is Degraded by: no cause to leave its node."""

    LAUNCHER_UNPINNED = "LauncherUnpinned"
    """A launcher of its VM passed no gate and is elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Displaced:
    """The last time the claim was made Lost or moved; the guard counts these."""

    at: datetime
    node: NodeName
    """The node it left."""
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds of the claim's life up to `at`; since then it is as its status says now.

    Waiting, held and lost add up to its age. In use and degraded are parts of held.
    """

    at: datetime
    waiting: int = 0
    held: int = 0
    in_use: int = 0
    lost: int = 0
    degraded: int = 0


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
    bind_request: BindRequest | None = None
    rejected_nodes: tuple[RejectedNode, ...] = ()
    displaced: Displaced | None = None
    spent: Spent | None = None
    """None before the leader's first write."""
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
        bind_request=_request(status.child("bindRequest")) if status.has("bindRequest") else None,
        rejected_nodes=tuple(
            RejectedNode(
                node=NodeName(item.text("node")),
                until=item.time("until") or meta.EPOCH,
                fingerprint=item.text_or("fingerprint"),
            )
            for item in status.children("rejectedNodes")
        ),
        displaced=_displaced(status.child("displaced")) if status.has("displaced") else None,
        spent=_spent(status.child("spent")) if status.has("spent") else None,
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
        launched=fields.flag("launched"),
    )


def _request(fields: Fields) -> BindRequest:
    has_result = fields.has("result")
    return BindRequest(
        id=fields.text("id"),
        vmi=fields.text("vmi"),
        claims=tuple(map(ClaimName, fields.texts("claims"))),
        requested_at=fields.time("requestedAt") or meta.EPOCH,
        launcher=fields.text_or("launcher"),
        result=fields.one_of("result", BindResult, BindResult.REFUSED.value)
        if has_result
        else None,
        message=fields.text_or("message"),
    )


def _displaced(fields: Fields) -> Displaced:
    return Displaced(
        at=fields.time("at") or meta.EPOCH,
        node=NodeName(fields.text_or("node")),
        cause=fields.one_of("cause", Cause, Cause.SET_TORN.value),
    )


def _spent(fields: Fields) -> Spent:
    return Spent(
        at=fields.time("at") or meta.EPOCH,
        waiting=fields.whole("waitingSeconds", 0),
        held=fields.whole("heldSeconds", 0),
        in_use=fields.whole("inUseSeconds", 0),
        lost=fields.whole("lostSeconds", 0),
        degraded=fields.whole("degradedSeconds", 0),
    )


def format_attachment(found: Attachment | None) -> dict[str, Any] | None:
    """Return `status.attachedTo` as a merge patch sets it; null takes away what is not known."""
    if found is None:
        return None
    return {
        "name": found.vmi,
        "admission": found.admission or None,
        "uid": found.uid or None,
        "since": meta.format_time(found.since) if found.since else None,
        "pods": [
            {
                "uid": pod.uid,
                **({"node": pod.node} if pod.node else {}),
                **({"ended": True} if pod.ended else {}),
            }
            for pod in found.pods
        ],
        "launched": found.launched or None,
    }


def format_request(found: BindRequest | None) -> dict[str, Any] | None:
    """Return `status.bindRequest` as a merge patch sets it, whole; null takes it away."""
    if found is None:
        return None
    return {
        "id": found.id,
        "vmi": found.vmi,
        "claims": list(found.claims),
        "requestedAt": meta.format_time(found.requested_at),
        "launcher": found.launcher or None,
        "result": found.result.value if found.result else None,
        "message": found.message or None,
    }


def format_rejected(found: Iterable[RejectedNode]) -> list[dict[str, Any]] | None:
    """Return `status.rejectedNodes` as a merge patch sets it; null where there is none."""
    return [
        {
            "node": item.node,
            "until": meta.format_time(item.until),
            **({"fingerprint": item.fingerprint} if item.fingerprint else {}),
        }
        for item in found
    ] or None


def format_spent(found: Spent | None) -> dict[str, Any] | None:
    """Return `status.spent` as a merge patch sets it."""
    if found is None:
        return None
    return {
        "at": meta.format_time(found.at),
        "waitingSeconds": found.waiting,
        "heldSeconds": found.held,
        "inUseSeconds": found.in_use,
        "lostSeconds": found.lost,
        "degradedSeconds": found.degraded,
    }
