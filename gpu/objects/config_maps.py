"""ConfigMap: the settings object is one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMap:
    """A ConfigMap's text data."""

    meta: ObjectMeta
    data: Mapping[str, str] = field(default_factory=dict)
    raw: Raw = field(default_factory=dict, compare=False, repr=False)


def decode(raw: Raw) -> ConfigMap:
    """Read a ConfigMap; `binaryData` is not looked at."""
    fields = Fields(raw)
    return ConfigMap(meta=meta.decode_meta(fields), data=fields.text_map("data"), raw=raw)
