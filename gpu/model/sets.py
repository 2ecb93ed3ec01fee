"""Claims of one VM as one set: group, tell whole from torn.

A claim belongs to the VM it is attached to, else to the one VM whose template names it, so that the
claims of a VM that is off stay together. Named by no VM or by several, it is a set of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from gpu.model import coverage
from gpu.model.ledger import Holder
from gpu.objects.claims import Attachment, GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.units import ClassName, NodeName

Named = Mapping[ObjectKey, Holder]
_NOBODY: Named = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSet:
    """Claims that are placed, moved and lost together; oldest first, never empty."""

    claims: tuple[GPUClaim, ...]
    vm: Holder | None = None
    """The VM they are attached to, or whose template names them."""
    id: str = field(init=False, compare=False)
    """`namespace/name` of its oldest claim."""
    is_torn: bool = field(init=False, compare=False)
    """Those `kept` are partly Lost, or Bound on more than one node."""
    has_bound: bool = field(init=False, compare=False)
    """A member is Bound, deleted or not."""
    was_displaced: bool = field(init=False, compare=False)
    """A member lost its node once, however long ago."""
    has_request: bool = field(init=False, compare=False)
    """A member carries a bind request, answered or not."""

    def __post_init__(self) -> None:
        # Asked each pass of every set, and sets live on from pass to pass.
        claims = self.claims
        tell = object.__setattr__
        tell(self, "id", str(claims[0].key))
        tell(self, "is_torn", len(claims) > 1 and len(set(map(coverage.node_held, self.kept))) > 1)
        tell(self, "has_bound", any(claim.phase is Phase.BOUND for claim in claims))
        tell(self, "has_request", any(claim.bind_request is not None for claim in claims))
        tell(self, "was_displaced", any(claim.displaced is not None for claim in claims))

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """What is known of the VMI that uses it; empty while the VM is off."""
        return tuple(claim.attached_to for claim in self.claims if claim.attached_to is not None)

    @property
    def nodes(self) -> frozenset[NodeName]:
        """Where its members hold units."""
        return frozenset(node for node in map(coverage.node_held, self.claims) if node is not None)

    @property
    def age(self) -> tuple[datetime, str]:
        """The age of its oldest claim."""
        return self.claims[0].age

    @property
    def wants(self) -> dict[ClassName, int]:
        """Units of each class that one node must have room for."""
        return wants(self.claims)

    @property
    def kept(self) -> tuple[GPUClaim, ...]:
        """Its members that stand in one place together: Bound or Lost, and not being deleted."""
        return tuple(
            claim
            for claim in self.claims
            if claim.phase is not Phase.PENDING and not claim.meta.deleting
        )

    @property
    def is_lost(self) -> bool:
        """Say whether some of it is Lost: a torn set is treated as Lost until it is whole."""
        return any(claim.phase is Phase.LOST for claim in self.claims)

    @property
    def is_whole(self) -> bool:
        """Say whether all its claims stand in one phase, and on one node where they hold units."""
        nodes = {coverage.node_held(claim) for claim in self.claims}
        return len({claim.phase for claim in self.claims}) == 1 and len(nodes) == 1


def wants(claims: Iterable[GPUClaim]) -> dict[ClassName, int]:
    """Return units of each class that claims have together."""
    found: dict[ClassName, int] = {}
    for claim in claims:
        found[claim.class_name] = found.get(claim.class_name, 0) + claim.count
    return found


def vm_of(claim: GPUClaim, named: Named) -> Holder | None:
    """Return the VM whose set a claim is in; None for a claim that is a set of its own."""
    return coverage.holder_of(claim) or named.get(claim.key)


def group(claims: Iterable[GPUClaim], named: Named = _NOBODY) -> tuple[ClaimSet, ...]:
    """Group claims into sets, oldest set first; `named` is the VM that names a claim, by claim."""
    alone: list[ClaimSet] = []
    shared: dict[Holder, list[GPUClaim]] = {}
    for claim in claims:
        vm = vm_of(claim, named)
        if vm is None:
            alone.append(ClaimSet(claims=(claim,)))
        else:
            shared.setdefault(vm, []).append(claim)
    grouped = (
        ClaimSet(claims=tuple(sorted(members, key=lambda claim: claim.age)), vm=vm)
        for vm, members in shared.items()
    )
    return tuple(sorted((*alone, *grouped), key=lambda item: item.age))
