"""A tenant's GPU quota, used and left: the gate the tenant chart reads."""

import hashlib
import re
from typing import Final

from apiserver.resources import base
from apiserver.wire.items import Row
from apiserver.wire.table import Column
from apiserver.wire.values import Json
from gpu import keys
from gpu.model import budgets
from gpu.model.budgets import Gate
from gpu.objects.tenants import Namespace
from gpu.units import QuotaKey, TenantName, Units
from gpu.world import World

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def rows(world: World, namespace: str) -> tuple[Row, ...]:
    """Return the gate of every GPU quota key; none in a namespace that does not exist."""
    home = base.namespace(world, namespace)
    if home is None:
        return ()
    return tuple(_row(home, gate) for gate in budgets.gates(world.snapshot, TenantName(namespace)))


def name_of(key: QuotaKey) -> str:
    """Return the object name of a key: the class, `total`, or a raw name as a DNS name.

    A raw name has a dot in it where a class has none. A key that loses anything on the way (upper
    case, underscores) gets a mark made from the whole; so does one of ours that no class can have.
    """
    short = key.removeprefix(keys.QUOTA_PREFIX)
    if short != key and _LABEL.fullmatch(short):
        return short
    plain = re.sub(r"[^a-z0-9.]+", "-", key.lower().replace("/", "."))
    plain = re.sub(r"[-.]*\.[-.]*", ".", plain).strip("-.")
    if short == key and plain == key.replace("/", "."):
        return plain
    return f"{plain[:240].rstrip('-.')}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def _row(home: Namespace, gate: Gate) -> Row:
    name = name_of(gate.key)
    spec: dict[str, Json] = {"key": gate.key, "hard": gate.hard}
    status: dict[str, Json] = {
        "used": gate.used,
        "usedByClaims": gate.use.claims,
        "usedByPods": gate.use.pods,
        "usedBelow": gate.use.below,
        "remaining": gate.remaining,
        "boundedBy": gate.bounded_by,
        "gate": gate.state.value,
        "reason": gate.reason,
        "message": gate.message,
    }
    return Row(
        namespace=home.meta.name,
        name=name,
        uid=base.uid("quotagates", home.meta.name, name),
        created=home.meta.created,
        labels={keys.GATE_LABEL: gate.state.value},
        body={"spec": base.filled(spec), "status": base.filled(status)},
        cells=(
            gate.state.value,
            _or_unlimited(gate.remaining),
            _or_unlimited(gate.hard),
            gate.used,
            gate.message,
            gate.key,
            gate.use.claims,
            gate.use.pods,
            gate.use.below,
            gate.bounded_by or "",
        ),
    )


def _or_unlimited(units: Units | None) -> str:
    return "unlimited" if units is None else str(units)


QUOTAS: Final = base.Resource(
    plural="quotagates",
    singular="quotagate",
    kind="QuotaGate",
    short_names=("gates",),
    description="GPU quota keys of a tenant: what is declared, used and left.",
    columns=(
        Column(name="Gate", description="Open, Exhausted or Closed."),
        Column(
            name="Remaining",
            description="Units it may still order under this key; 0 while the gate is Closed.",
        ),
        Column(name="Hard", description="Units the tenant itself declares."),
        Column(name="Used", type="integer", description="Units that count against Hard."),
        Column(name="Why", description="Why the gate stands as it does, and what to do."),
        Column(name="Key", description="As resourceQuotas has it.", priority=1),
        Column(
            name="Claims", type="integer", description="Of Used, by its own claims.", priority=1
        ),
        Column(
            name="Pods",
            type="integer",
            description="Of Used, by its own pods that name a resource directly.",
            priority=1,
        ),
        Column(
            name="Below",
            type="integer",
            description="Of Used, by the tenants below it or promised to them.",
            priority=1,
        ),
        Column(name="Bounded by", description="The tenant whose budget decides.", priority=1),
    ),
    rows=rows,
)
