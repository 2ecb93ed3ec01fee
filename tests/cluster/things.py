"""A view of a kind of no meaning, and a store of it that counts its signals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu.cluster.store import Store
from gpu.objects import meta
from gpu.objects.decode import Fields
from gpu.objects.meta import ObjectMeta
from tests.cluster.scripted import KIND


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    meta: ObjectMeta
    n: int = 0
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


def decode(raw: Mapping[str, Any]) -> Thing:
    fields = Fields(raw)
    return Thing(meta=meta.decode_meta(fields), n=fields.child("spec").whole("n", 0), raw=raw)


def store(**how: Any) -> Store[Thing]:
    return Store(KIND, decode, **how)


def content(of: Store[Thing]) -> dict[str, int]:
    return {item.meta.name: item.n for item in of.items()}
