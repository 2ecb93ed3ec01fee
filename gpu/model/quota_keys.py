"""Which keys of `resourceQuotas` are GPU keys, which of those may be granted, and what a typo meant.

A key is ours to judge when it lies in our domain, is a known GPU resource name, or is so near to
one of those that nobody can have meant anything else: another spelling (`requests.` before it), other
case, or a slip. Whatever else has a slash, other extended resources too, is the host's business.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gpu import keys
from gpu.model.snapshot import Snapshot
from gpu.settings import RawNames
from gpu.units import ClassName, QuotaKey, ResourceName

NEAR: Final = 0.8
"""How alike two names under one domain are to be taken for each other (difflib's ratio)."""
NEAR_WHOLE: Final = 0.9
"""How alike two keys of different domains are."""
LONGEST: Final = 317
"""Characters of the longest extended resource name; a longer key is compared with nothing."""
_COUNT: Final = "count/"
_SPELLINGS: Final = ("requests.", "limits.")


@dataclass(frozen=True, slots=True)
class Unknown:
    """It looks like a GPU key and is none; `near` is the known one it was meant to be, if any."""

    near: QuotaKey | None


@dataclass(frozen=True, slots=True)
class RawDenied:
    """A resource name, while the settings let tenants order by class only; `instead` are class keys."""

    instead: tuple[QuotaKey, ...]


Fault = Unknown | RawDenied


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The GPU keys of one instant."""

    own: frozenset[QuotaKey]
    """`total` and every class."""
    raw: frozenset[QuotaKey]
    """Every GPU resource name."""
    raw_allowed: bool
    classes: Mapping[ResourceName, tuple[ClassName, ...]]
    """By the resource they are made of, in name order."""

    @property
    def valid(self) -> tuple[QuotaKey, ...]:
        """What may be granted: `total` first, then by name."""
        found = self.own | self.raw if self.raw_allowed else self.own
        return tuple(sorted(found, key=lambda key: (key != keys.QUOTA_TOTAL, key)))


def known(snapshot: Snapshot) -> Known:
    """Return the GPU keys there are; a retired class is one, its holders are budgeted still."""
    made: dict[ResourceName, list[ClassName]] = {}
    for name, offer in sorted(snapshot.classes.items()):
        made.setdefault(offer.resource, []).append(name)
    own = {QuotaKey(keys.QUOTA_TOTAL)}
    own.update(QuotaKey(keys.quota_key_of_class(name)) for name in snapshot.classes)
    return Known(
        own=frozenset(own),
        raw=frozenset(QuotaKey(name) for name in snapshot.settings.resource_names),
        raw_allowed=snapshot.settings.raw_names is RawNames.ALLOWED,
        classes={resource: tuple(names) for resource, names in made.items()},
    )


def is_ours(known: Known, key: str) -> bool:
    """Say whether a key is one whose amount counts for GPUs, valid or not."""
    return key in known.own or key in known.raw or _in_our_domain(key)


def fault(known: Known, key: str) -> Fault | None:
    """Return why a key may not be granted; None when it may, and for what is the host's business."""
    if key in known.own:
        return None
    if key in known.raw:
        return None if known.raw_allowed else RawDenied(_of_resource(known, key))
    if "/" not in key or key.startswith(_COUNT):
        return None
    near = _near(known, key)
    return Unknown(near) if near is not None or _in_our_domain(key) else None


def _in_our_domain(key: str) -> bool:
    domain, slash, _ = key.partition("/")
    return bool(slash) and (domain == keys.DOMAIN or domain.endswith(f".{keys.DOMAIN}"))


def _of_resource(known: Known, key: str) -> tuple[QuotaKey, ...]:
    found = known.classes.get(ResourceName(key), ())
    return tuple(QuotaKey(keys.quota_key_of_class(name)) for name in found)


def _near(known: Known, key: str) -> QuotaKey | None:
    """Return the known key that this one was meant to be."""
    if len(key) > LONGEST:
        return None
    bare = next((key.removeprefix(one) for one in _SPELLINGS if key.startswith(one)), key)
    domain, _, name = bare.partition("/")
    if _in_our_domain(bare):
        domain, bare = keys.DOMAIN, f"{keys.QUOTA_PREFIX}{name}"
    found = sorted(known.own | known.raw)
    if bare in found:
        return QuotaKey(bare)
    same = {one.partition("/")[2]: one for one in found if one.partition("/")[0] == domain}
    others = {str(one): one for one in found if one.partition("/")[0] != domain}
    return _alike(name, same, NEAR) or _alike(bare, others, NEAR_WHOLE)


def _alike(text: str, among: Mapping[str, QuotaKey], cutoff: float) -> QuotaKey | None:
    folded = _folded(among)
    best = difflib.get_close_matches(text.casefold(), folded, n=1, cutoff=cutoff)
    return among[folded[best[0]]] if best else None


def _folded(names: Iterable[str]) -> dict[str, str]:
    return {name.casefold(): name for name in names}
