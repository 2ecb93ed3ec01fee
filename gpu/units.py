"""Typed names and amounts: a node's name is not a tenant's, and units are never negative.

A bare `int` or `str` does not cross a function border in `gpu.model`. Names cost nothing at run time;
`Units` is a whole number of device-plugin devices, checked when made.
"""

import re
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Final, NewType, Self

from gpu.errors import UnitsError

NodeName = NewType("NodeName", str)
ClassName = NewType("ClassName", str)
ClaimName = NewType("ClaimName", str)
TenantName = NewType("TenantName", str)
"""A tenant is named by its namespace, as in `tenant-a`."""
ResourceName = NewType("ResourceName", str)
"""An extended resource name, as in `nvidia.com/GH100_H100`."""
QuotaKey = NewType("QuotaKey", str)
"""`gpu.cozystack.io/<class>`, `gpu.cozystack.io/total`, or a resource name."""


class Units(int):
    """A whole, non-negative number of units; arithmetic gives plain ints, to be checked anew.

    Raises UnitsError for a negative number.
    """

    __slots__ = ()

    def __new__(cls, value: int = 0) -> Self:
        """Check that the amount can be one."""
        if value < 0:
            raise UnitsError(f"{value} units: an amount cannot be negative")
        return super().__new__(cls, value)


_SHOWN: Final = 80
"""Characters of a value that an error text shows: it is a tenant's, of any length."""
ZERO: Final = Units(0)
ONE: Final = Units(1)

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?", re.ASCII)
MOST: Final = 2**63 - 1
"""Kubernetes stores no larger quantity: it caps one."""
_SUFFIX: Final[dict[str, Decimal]] = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"),
    "k": Decimal("1e3"), "M": Decimal("1e6"), "G": Decimal("1e9"),
    "T": Decimal("1e12"), "P": Decimal("1e15"), "E": Decimal("1e18"),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


def parse_units(value: object) -> Units:
    """Read a Kubernetes quantity (number or text, `4`, `1k`, `2e1`, `4000m`) as whole units.

    Blanks around a text are let be, as Kubernetes does. More than MOST reads as MOST. Raises
    UnitsError, with the text at fault, for what is no quantity, a fraction or negative.
    """
    if type(value) is int:
        return Units(min(value, MOST))
    amount = _number(value)
    if amount < 0:
        raise UnitsError(f"{_shown(value)}: an amount cannot be negative")
    if amount > MOST:
        return Units(MOST)
    if amount != amount.to_integral_value():
        raise UnitsError(f"{_shown(value)} is a fraction: units are whole")
    return Units(int(amount))


def parse_ceiling(value: object, per_unit: int = 1) -> int:
    """Read a Kubernetes quantity in parts of `per_unit` to one, rounded up, as kube-scheduler does.

    So `250m` in thousandths is 250. More than MOST reads as MOST. Raises UnitsError for what is no
    quantity or negative.
    """
    amount = _number(value)
    if amount < 0:
        raise UnitsError(f"{_shown(value)}: an amount cannot be negative")
    # Before any step that would write out the digits of 1e999999999.
    if amount > MOST or (amount := amount * per_unit) > MOST:
        return MOST
    return int(amount.to_integral_value(ROUND_CEILING))


def _number(value: object) -> Decimal:
    """Return the amount without writing out its digits: it may be 1e999999999."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UnitsError(f"{_shown(value)} is not a quantity")
    match = _QUANTITY.fullmatch(str(value).strip(" "))
    if match is None:
        raise UnitsError(f"{_shown(value)} is not a quantity")
    number, suffix = match.groups()
    try:
        amount = Decimal(number)
        if suffix and suffix not in _SUFFIX:
            return Decimal(number + suffix)
        return amount * _SUFFIX[suffix] if suffix else amount
    except InvalidOperation:
        raise UnitsError(f"{_shown(value)} is not a quantity") from None


def _shown(value: object) -> str:
    """Quote what was written, or as much of it as an error text needs."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def plain(value: object) -> int:
    """Give an encoder the bare int of an amount; msgspec leaves ints of a type of their own to us.

    Raises NotImplementedError, as msgspec asks of such a hook, for what is no int.
    """
    if isinstance(value, int):
        return int(value)
    raise NotImplementedError(type(value).__name__)
