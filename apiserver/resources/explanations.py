"""Why a tenant's claims and VMs wait, and what would help: one object for each that does.

A claim's has the claim's name. A VM's is named `vmi:NAME`: no claim can have a colon in its name.
"""

from typing import Final

from apiserver.resources import base
from apiserver.wire import items
from apiserver.wire.items import Row
from apiserver.wire.table import Column
from apiserver.wire.values import Json
from gpu import keys
from gpu.model import explain, explain_starts, gate_reasons, lasting, waiters, ways
from gpu.model.explain import Explanation
from gpu.objects.kinds import GPU_CLAIMS, VMIS
from gpu.units import TenantName
from gpu.world import World

VM_PREFIX: Final = "vmi:"
NEXT: Final = "Next"
"""Reason of what waits for nothing but the next pass."""
_NEXT_WORDS: Final = "nothing is in its way: wait a moment"
_NEXT_START_WORDS: Final = (
    "nothing that can be looked up is in its way: wait a moment, or see the Events of the VMI"
)


def rows(world: World, namespace: str) -> tuple[Row, ...]:
    """Return one object for each claim or VM that waits; none in a namespace that does not exist."""
    if base.namespace(world, namespace) is None:
        return ()
    tenant, snapshot = TenantName(namespace), world.snapshot
    unreadable = bool(world.unreadable_claims)
    claims = explain.explanations(snapshot, tenant, unreadable=unreadable)
    starts = explain_starts.explanations(
        snapshot, tenant, lambda: world.fit_facts(world.snapshot), unreadable=unreadable
    )
    return tuple(_row(one) for one in (*claims, *starts))


def name_of(found: Explanation) -> str:
    """Return the object's name."""
    return f"{VM_PREFIX}{found.key.name}" if found.is_vm else found.key.name


def _row(found: Explanation) -> Row:
    name, namespace = name_of(found), found.key.namespace
    kind = VMIS.kind if found.is_vm else GPU_CLAIMS.kind
    helps = [ways.words(one) for one in found.remedies]
    place = found.queued.value if found.queued else ""
    return Row(
        namespace=namespace,
        name=name,
        # Another claim of the name is another object.
        uid=base.uid("explanations", namespace, f"{name}/{found.uid}"),
        created=found.created,
        labels={keys.CLASS_LABEL: min(found.wants)} if len(found.wants) == 1 else {},
        body={"spec": _spec(found, kind), "status": _status(found, helps, place)},
        cells=(
            kind,
            _reason(found),
            place,
            items.timestamp(found.since),
            "; or ".join(helps) or _otherwise(found),
            _message(found),
        ),
    )


def _spec(found: Explanation, kind: str) -> dict[str, Json]:
    wanted: list[Json] = [
        {"className": name, "count": units} for name, units in sorted(found.wants.items())
    ]
    return {"kind": kind, "name": found.key.name, "units": wanted}


def _status(found: Explanation, helps: list[str], place: str) -> dict[str, Json]:
    reasons: list[Json] = [
        {"code": gate_reasons.code(one), "message": lasting.words(one)} for one in found.reasons
    ]
    nodes: list[Json] = [{"reason": reason.value, "count": count} for reason, count in found.nodes]
    remedies: list[Json] = [
        {
            "change": one.way.value,
            "message": text,
            **base.filled({"key": one.key, "tenant": one.tenant, "units": one.units or None}),
        }
        for one, text in zip(found.remedies, helps, strict=True)
    ]
    status: dict[str, Json] = {
        "phase": found.phase.value if found.phase else None,
        "reason": _reason(found),
        "message": _message(found),
        "place": place,
        "since": items.timestamp(found.since),
        "reasons": reasons or None,
        "nodes": nodes or None,
        "wouldHelp": remedies or None,
        "stands": [kind.value for kind in found.stands] or None,
    }
    return dict(base.filled(status))


def _reason(found: Explanation) -> str:
    if found.write_refused:
        return waiters.WRITE_REFUSED
    return gate_reasons.code(found.reasons[0]) if found.reasons else NEXT


def _message(found: Explanation) -> str:
    if found.write_refused:
        return found.write_refused
    if not found.reasons:
        return _NEXT_START_WORDS if found.is_vm else _NEXT_WORDS
    return "; ".join(map(lasting.words, found.reasons))


def _otherwise(found: Explanation) -> str:
    """Say in a Table what stands where no single change would do."""
    if not found.stands:
        return ""
    return f"no single change: {' and '.join(kind.value for kind in found.stands)}"


EXPLANATIONS: Final = base.Resource(
    plural="explanations",
    singular="explanation",
    kind="Explanation",
    short_names=("whywaits",),
    description="Why claims and VMs wait, and what would help.",
    columns=(
        Column(name="Kind", description="What waits: a GPUClaim, or a VM."),
        Column(name="Reason", description="The first reason, as one word."),
        Column(name="Place", description="Roughly, in the queue for the same units."),
        Column(name="Since", format="date-time", description="Since when it waits."),
        Column(name="What would help", description="Any of these by itself would let it in."),
        Column(name="Message", description="Every reason, in words.", priority=1),
    ),
    rows=rows,
)
