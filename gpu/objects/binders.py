"""GPUBinder: the singleton that carries the leader's term and the product's global conditions."""

from dataclasses import dataclass, field

from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import Condition, ObjectMeta
from gpu.settings import RawNames, Settings
from gpu.units import ResourceName


@dataclass(frozen=True, slots=True, kw_only=True)
class GPUBinder:
    """The fence: placement writes of a lower term are refused by policy."""

    meta: ObjectMeta
    term: int = 0
    holder: str = ""
    settings: Settings | None = None
    """The settings in force, as the leader last told; None before it did."""
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
        settings=_settings(status.child("settings")) if status.has("settings") else None,
        conditions=meta.decode_conditions(status),
        raw=raw,
    )


def _settings(fields: Fields) -> Settings:
    return Settings(
        tuple(ResourceName(name) for name in fields.texts("resourceNames")),
        fields.one_of("rawResourceNames", RawNames, RawNames.DENIED.value),
    )
