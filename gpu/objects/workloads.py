"""Workload: the usage record's kind (the host's; it has a status and no status subresource)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One usage record, or any other Workload of the host: there are as many as pods and volumes.

    Its JSON is not kept: a record is written whole, never from what is stored.
    """

    meta: ObjectMeta
    kind: str = ""
    type: str = ""
    resources: Mapping[str, str] = field(default_factory=dict)
    operational: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitor:
    """One WorkloadMonitor; only our own are read."""

    meta: ObjectMeta
    selector: Mapping[str, str] = field(default_factory=dict)
    raw: Raw = field(default_factory=dict, compare=False, repr=False)


def decode(raw: Raw) -> Workload:
    """Read a Workload. Resource amounts are kept as text: they are quantities of any unit."""
    fields = Fields(raw)
    status = fields.child("status")
    return Workload(
        meta=meta.decode_meta(fields),
        kind=status.text_or("kind"),
        type=status.text_or("type"),
        resources={name: str(value) for name, value in status.child("resources").raw.items()},
        operational=status.flag("operational"),
    )


def decode_monitor(raw: Raw) -> Monitor:
    """Read a WorkloadMonitor as far as it can be wrong: an empty selector matches every pod."""
    fields = Fields(raw)
    return Monitor(
        meta=meta.decode_meta(fields),
        selector=fields.child("spec").text_map("selector"),
        raw=raw,
    )
