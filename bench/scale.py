"""Scale: how much is measured of each thing."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured."""

    rounds: int = 3
    orders: int = 500
    singles: int = 100
    reads: int = 100
    changes: int = 20
    held: int = 10_000
    lives: int = 20
    """VMs of each kind started one by one, a round."""
    starts: int = 200
    """VMs started at once."""
