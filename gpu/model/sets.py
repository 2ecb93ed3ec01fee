"""Claims of one VM as one set: group, tell whole from torn.

A claim attached to nothing is a set of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from gpu.model import coverage
from gpu.model.ledger import Holder
from gpu.objects.claims import GPUClaim, Phase
from gpu.units import ClassName


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSet:
    """Claims that are placed, moved and lost together; oldest first, never empty."""

    claims: tuple[GPUClaim, ...]

    @property
    def id(self) -> str:
        """`namespace/name` of its oldest claim."""
        return str(self.claims[0].key)

    @property
    def age(self) -> tuple[datetime, str]:
        """The age of its oldest claim."""
        return self.claims[0].age

    @property
    def wants(self) -> dict[ClassName, int]:
        """Units of each class that one node must have room for."""
        found: dict[ClassName, int] = {}
        for claim in self.claims:
            found[claim.class_name] = found.get(claim.class_name, 0) + claim.count
        return found

    @property
    def is_lost(self) -> bool:
        """Say whether some of it is Lost: a torn set is treated as Lost until it is whole."""
        return any(claim.phase is Phase.LOST for claim in self.claims)

    @property
    def is_whole(self) -> bool:
        """Say whether all its claims stand in one phase, and on one node where they hold units."""
        nodes = {coverage.node_held(claim) for claim in self.claims}
        return len({claim.phase for claim in self.claims}) == 1 and len(nodes) == 1


def group(claims: Iterable[GPUClaim]) -> tuple[ClaimSet, ...]:
    """Group claims into sets, oldest set first."""
    alone: list[ClaimSet] = []
    shared: dict[Holder, list[GPUClaim]] = {}
    for claim in claims:
        vm = coverage.holder_of(claim)
        if vm is None:
            alone.append(ClaimSet(claims=(claim,)))
        else:
            shared.setdefault(vm, []).append(claim)
    grouped = (
        ClaimSet(claims=tuple(sorted(members, key=lambda claim: claim.age)))
        for members in shared.values()
    )
    return tuple(sorted((*alone, *grouped), key=lambda item: item.age))
