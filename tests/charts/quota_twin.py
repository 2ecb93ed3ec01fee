"""What the tenant chart makes of `resourceQuotas`: the keys of the tenant's ResourceQuota (domain contract 8).

The twin of `charts/gpu-quota`, for tests alone: one table goes through both, and properties through
this. Numbers come out as the host's own chart writes them (research/upstream 3.3), which is how Go
prints a float.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, TypeGuard

from gpu import keys
from gpu.errors import DecodeError, UnitsError
from gpu.units import ZERO, ResourceName, parse_units

UNPREFIXED: Final = frozenset(
    {
        "pods", "services", "services.loadbalancers", "services.nodeports", "services.clusterip",
        "configmaps", "secrets", "persistentvolumeclaims", "replicationcontrollers",
        "resourcequotas",
    }
)  # fmt: skip
"""Keys of a ResourceQuota that stand without `limits.` and `requests.`."""

_SUFFIXES: Final[Mapping[str, Decimal]] = {
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
    "k": Decimal("1e3"), "M": Decimal("1e6"), "G": Decimal("1e9"),
    "T": Decimal("1e12"), "P": Decimal("1e15"), "E": Decimal("1e18"),
}  # fmt: skip
_EXACT: Final = Context(prec=400)  # digits of any float, and of its division
_LONGEST: Final = 40
"""Characters of an amount of GPUs that are read."""
_PLAIN_FROM: Final = -4  # powers of ten that Go writes without an exponent
_PLAIN_BELOW: Final = 6
_PLACES: Final = Decimal("1e-16")  # where the host's division of decimals rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """By how much the host divides a limit for its request; each above 0."""

    cpu: float = 10
    memory: float = 1
    ephemeral_storage: float = 40


def hard(
    quotas: Mapping[str, object],
    gpus: Collection[ResourceName],
    *,
    ratios: Ratios = Ratios(),
) -> dict[str, object]:
    """Return `spec.hard`: quantities as text, and what the host passes through as it came.

    Raises DecodeError for the keys `limits` and `requests`: the host refuses nested quotas.
    """
    for key in ("limits", "requests"):
        if key in quotas:
            raise DecodeError(f"resourceQuotas[{key}]", "quotas are one flat map of keys")
    found: dict[str, object] = {}
    for key, value in quotas.items():
        found |= _rendered(key, value, gpus, ratios)
    return found


def _rendered(
    key: str, value: object, gpus: Collection[ResourceName], ratios: Ratios
) -> dict[str, object]:
    if key.startswith(keys.QUOTA_PREFIX):
        return {}  # a budget: no pod asks for it
    if "/" in key and key in gpus:
        return {f"requests.{key}": units(value)}
    if key in UNPREFIXED:
        return {key: value}
    if key == "storage":
        return {"requests.storage": value}
    limit, request = value, value
    if key == "cpu":
        limit, request = _text(value), _text(_divided(value, ratios.cpu))
    elif key == "memory":
        limit, request = _text(value), str(int(_divided(value, ratios.memory)))
    elif key == "ephemeral-storage":
        limit, request = _text(value), str(int(_divided(value, ratios.ephemeral_storage)))
    return {f"limits.{key}": limit, f"requests.{key}": request}


def units(value: object) -> str:
    """Return an amount of GPUs as digits; what is no whole amount is 0, as everywhere in the product."""
    written = _text(value) if _is_number(value) else value
    try:
        if len(str(written).strip(" ")) <= _LONGEST:
            return str(int(parse_units(written)))
    except UnitsError:
        pass
    return str(int(ZERO))


def _divided(value: object, ratio: float) -> float:
    """Divide as the host does: decimals in between, floats before and after."""
    quotient = _EXACT.divide(Decimal(repr(_number(value))), Decimal(repr(float(ratio))))
    return float(quotient.quantize(_PLACES, ROUND_HALF_UP, _EXACT))


def _number(value: object) -> float:
    text = _text(value)
    suffix = next((suffix for suffix in _SUFFIXES if text.endswith(suffix)), "")
    try:
        number = float(text.removesuffix(suffix))
    except ValueError:
        return 0.0
    if not math.isfinite(number):
        return 0.0
    return float(Decimal(repr(number)) * _SUFFIXES.get(suffix, Decimal(1)))


def _text(value: object) -> str:
    """Write a value as Go does: each number a float, with an exponent from a million on."""
    if not _is_number(value):
        return str(value)
    number = float(value)
    exact = Decimal(repr(number)).normalize()
    if not math.isfinite(number) or _PLAIN_FROM <= exact.adjusted() < _PLAIN_BELOW:
        return f"{exact:f}"
    return f"{number:.{len(exact.as_tuple().digits) - 1}e}"


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
