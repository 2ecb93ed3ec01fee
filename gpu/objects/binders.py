"""GPUBinder: the singleton that carries the leader's term and the product's global conditions."""

from dataclasses import dataclass, field

from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import Condition, ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUBinder:
    """The fence: placement writes of a lower term are refused by policy."""

    meta: ObjectMeta
    term: int = 0
    holder: str = ""
    conditions: tuple[Condition, ...] = ()
    raw: Raw = field(default_factory=dict, compare=False, repr=False)


def decode(raw: Raw) -> GPUBinder:
    """Read the GPUBinder. Raises DecodeError where its schema is broken."""
    fields = Fields(raw)
    status = fields.child("status")
    return GPUBinder(
        meta=meta.decode_meta(fields),
        term=status.whole("term", 0),
        holder=status.text_or("holder"),
        conditions=meta.decode_conditions(status),
        raw=raw,
    )
