"""The words of the quota gate, in one place: what the webhooks refuse with and reviews answer.

Numbers are worded as the host words them. Those of a tenant above the parent are told as what is left.
"""

from typing import Final, assert_never

from gpu.model.grants import BadKey, BadValue, BelowHeld, Objection, TooMuch
from gpu.model.quota_keys import RawDenied, Unknown
from gpu.units import QuotaKey

_MOST_LISTED: Final = 20
_SHOWN: Final = 80
"""Characters of a text that somebody else wrote."""


def words(objection: Objection) -> str:
    """Say what stands against it, the numbers and the next step; no full stop at the end."""
    match objection:
        case BadKey(key, fault, valid):
            return f"{_of_key(shown(key), fault)}; valid keys: {_listed(valid)}"
        case BadValue(why=why):
            return f"{shown(why)}; write a whole number of units, as 4"
        case TooMuch():
            return _too_much(objection)
        case _:  # pragma: no cover
            assert_never(objection)


def warning(found: BelowHeld) -> str:
    """Say what comes of granting less than is held."""
    return (
        f"{found.key}: {found.granted} granted, {found.held} in use or promised to tenants below. "
        f"Nothing is taken away; nothing new is ordered or promised before "
        f"{found.held - found.granted} are given back"
    )


def shown(text: str) -> str:
    """Return somebody's text, cut where it is very long."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _of_key(key: str, fault: Unknown | RawDenied) -> str:
    match fault:
        case Unknown(None):
            return f"{key} is no GPU quota key"
        case Unknown(near):
            return f"{key} is no GPU quota key, did you mean {near}?"
        case RawDenied(()):
            return f"{key} is a resource name, which tenants may not use here: grant a class"
        case RawDenied(instead):
            return f"{key} is a resource name, which tenants may not use here: grant {_listed(instead)}"
        case _:  # pragma: no cover
            assert_never(fault)


def _too_much(found: TooMuch) -> str:
    passing = (
        "; units of it are reserved for a change of the last half minute, after that it may pass"
        if found.reserved
        else ""
    )
    if not found.own:
        return (
            f'requested {found.wanted} exceeds the remaining "{found.key}" quota of {found.left} '
            f"that {found.tenant} leaves to the parent tenant{passing}; a child tenant may not be "
            "granted more quota than every tenant above it has left"
        )
    return (
        f'requested {found.wanted} exceeds the parent tenant\'s remaining "{found.key}" quota of '
        f"{found.left} (parent allows {found.hard}, {found.promised} already allocated to sibling "
        f"tenants, {found.used} currently in use by the parent pool){passing}; a child tenant may "
        "not be granted more quota than its parent has left"
    )


def _listed(found: tuple[QuotaKey, ...]) -> str:
    listed = ", ".join(found[:_MOST_LISTED])
    more = len(found) - _MOST_LISTED
    return f"{listed} and {more} more" if more > 0 else listed
