"""Index: the claims of one instant by what phases ask for, so that none of them goes over all.

It is made once by `of` and then follows changes (`moved`), which gives what `of` gives and costs in
proportion to what changed, but for copies. Nothing in it may be changed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu import keys
from gpu.model import coverage, ordered, sets, spent, template_claims
from gpu.model.ledger import Holder
from gpu.model.sets import ClaimSet, Named
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.meta import ObjectKey
from gpu.units import ClassName, NodeName, Units

Move = tuple[GPUClaim | None, GPUClaim | None]
"""A claim before and after; None where there was or is none."""
Claims = tuple[GPUClaim, ...]
_WAITING: Final = "Waiting"
_GroupId = tuple[bool, ObjectKey]
"""Of a set: whether the key is a VM's, and the key, else that of its only claim."""


def is_unfinalized(claim: GPUClaim) -> bool:
    """Say whether a claim still lacks our finalizer; one that is being deleted gets none."""
    return not claim.meta.deleting and keys.CLAIM_FINALIZER not in claim.meta.finalizers


def is_held_back(claim: GPUClaim) -> bool:
    """Say whether a claim is being deleted and waits for us to let go of it."""
    return claim.meta.deleting and keys.CLAIM_FINALIZER in claim.meta.finalizers


def is_lost(claim: GPUClaim) -> bool:
    """Say whether a claim is Lost, deleted or not."""
    return claim.phase is Phase.LOST


def is_attached(claim: GPUClaim) -> bool:
    """Say whether a VMI is recorded to use the claim."""
    return claim.attached_to is not None


def is_degraded(claim: GPUClaim) -> bool:
    """Say whether a claim has the condition Degraded, whatever it says."""
    return any(item.type == spent.DEGRADED for item in claim.conditions)


def is_rejected(claim: GPUClaim) -> bool:
    """Say whether some node is noted to have refused the launcher of a claim."""
    return bool(claim.rejected_nodes)


def is_gated(claim: GPUClaim) -> bool:
    """Say whether a Bound claim says that its VM waits at the gate, or did."""
    return claim.phase is Phase.BOUND and any(item.type == _WAITING for item in claim.conditions)


def is_requested(claim: GPUClaim) -> bool:
    """Say whether a claim carries a bind request, answered or not."""
    return claim.bind_request is not None


def is_unadopted(claim: GPUClaim) -> bool:
    """Say whether a claim is attached to a start whose VMI has not been seen."""
    return claim.attached_to is not None and not claim.attached_to.uid


def is_unowned(claim: GPUClaim) -> bool:
    """Say whether a claim was made for a start before its VMI was, and does not go with that VMI yet."""
    return is_attached(claim) and not claim.meta.deleting and template_claims.is_unowned(claim)


def is_stray(claim: GPUClaim) -> bool:
    """Say whether a claim was made for a VM's start and nothing uses it."""
    return claim.is_template and claim.attached_to is None and not claim.meta.deleting


def is_holder(claim: GPUClaim) -> bool:
    """Say whether a claim is Bound or Lost: it counts for budgets, and has a usage record."""
    return claim.phase is not Phase.PENDING


_MARKS: Final[Mapping[str, Callable[[GPUClaim], bool]]] = {
    "unfinalized": is_unfinalized,
    "deleting": is_held_back,
    "lost": is_lost,
    "attached": is_attached,
    "unadopted": is_unadopted,
    "unowned": is_unowned,
    "degraded": is_degraded,
    "gated": is_gated,
    "rejected": is_rejected,
    "requested": is_requested,
    "strays": is_stray,
    "holders": is_holder,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Index:
    """Claims by key, by mark, by node and by set; tuples are in key order, sets by age."""

    claims: Mapping[ObjectKey, GPUClaim]
    named: Named
    marked: Mapping[str, Claims]
    by_node: Mapping[NodeName, Claims]
    held: Mapping[ClassName, int]
    """Units of Bound claims by their class; one that holds none may be in it with 0."""
    _groups: "list[_Groups]" = field(default_factory=list, repr=False)
    """The sets once somebody asked for them, then carried along."""

    @property
    def sets(self) -> tuple[ClaimSet, ...]:
        """Every claim in its set, oldest set first."""
        return self._grouped().ordered

    def moved(self, moves: Iterable[Move], named: Named | None = None) -> "Index":
        """Return the index after claims came, changed (key and age never do) and went.

        `named` is the VM that names a claim, by claim, if that changed too.
        """
        moves = tuple(moves)
        named = self.named if named is None else named
        if not moves and named is self.named:
            return self
        return Index(
            claims=_claims(self.claims, moves),
            named=named,
            marked={
                name: _marked(self.marked[name], moves, is_one) for name, is_one in _MARKS.items()
            },
            by_node=_by_node(self.by_node, moves),
            held=_held(self.held, moves),
            _groups=[groups.moved(moves, self, named) for groups in self._groups[:1]],
        )

    def _grouped(self) -> "_Groups":
        if not self._groups:
            found = sets.group(self.claims.values(), self.named)
            by_id = {_id_of(item.claims[0], self.named): item for item in found}
            self._groups.append(_Groups(by_id=by_id, ordered=found))
        return self._groups[0]


class Indexed:
    """The questions that snapshot and draft answer alike, from their index."""

    __slots__ = ()

    def indexed(self) -> Index:
        """Return the index as it is now: a snapshot's is made once, a draft's follows what is put."""
        raise NotImplementedError  # each of the two has its own

    @property
    def unfinalized(self) -> tuple[GPUClaim, ...]:
        """Claims without our finalizer that are not being deleted, in key order."""
        return self.indexed().marked["unfinalized"]

    @property
    def deleting(self) -> tuple[GPUClaim, ...]:
        """Claims being deleted that have our finalizer, in key order."""
        return self.indexed().marked["deleting"]

    @property
    def lost(self) -> tuple[GPUClaim, ...]:
        """Lost claims, deleted or not, in key order."""
        return self.indexed().marked["lost"]

    @property
    def attached(self) -> tuple[GPUClaim, ...]:
        """Claims a VMI is recorded to use, in key order."""
        return self.indexed().marked["attached"]

    @property
    def unadopted(self) -> tuple[GPUClaim, ...]:
        """Claims attached to a start whose VMI has not been seen, in key order."""
        return self.indexed().marked["unadopted"]

    @property
    def unowned(self) -> tuple[GPUClaim, ...]:
        """Attached template claims that do not go with their VMI yet and are not deleted, in key order."""
        return self.indexed().marked["unowned"]

    @property
    def degraded(self) -> tuple[GPUClaim, ...]:
        """Claims that have the condition Degraded, in key order."""
        return self.indexed().marked["degraded"]

    @property
    def gated(self) -> tuple[GPUClaim, ...]:
        """Bound claims that say that their VM waits at the gate, in key order."""
        return self.indexed().marked["gated"]

    @property
    def rejected(self) -> tuple[GPUClaim, ...]:
        """Claims with nodes that refused their launcher, over or not, in key order."""
        return self.indexed().marked["rejected"]

    @property
    def requested(self) -> tuple[GPUClaim, ...]:
        """Claims with a bind request, answered or not, in key order."""
        return self.indexed().marked["requested"]

    @property
    def strays(self) -> tuple[GPUClaim, ...]:
        """Template claims attached to nothing that are not being deleted, in key order."""
        return self.indexed().marked["strays"]

    @property
    def holders(self) -> tuple[GPUClaim, ...]:
        """Bound and Lost claims, in key order."""
        return self.indexed().marked["holders"]

    @property
    def sets(self) -> tuple[ClaimSet, ...]:
        """Every claim in its set, oldest set first: what `sets.group` makes of all claims."""
        return self.indexed().sets

    def on_node(self, node: NodeName) -> tuple[GPUClaim, ...]:
        """Return the Bound claims that hold units on a node, in key order."""
        return self.indexed().by_node.get(node, ())

    def held_of(self, name: ClassName) -> Units:
        """Return units of Bound claims of a class."""
        return Units(self.indexed().held.get(name, 0))


def of(claims: Mapping[ObjectKey, GPUClaim], named: Named) -> Index:
    """Index claims that are given in key order."""
    marked: dict[str, list[GPUClaim]] = {name: [] for name in _MARKS}
    by_node: dict[NodeName, list[GPUClaim]] = {}
    held: dict[ClassName, int] = {}
    marks = [(is_one, marked[name].append) for name, is_one in _MARKS.items()]
    for claim in claims.values():
        for is_one, put in marks:
            if is_one(claim):
                put(claim)
        node = coverage.node_held(claim)
        if node is not None:
            by_node.setdefault(node, []).append(claim)
            held[claim.class_name] = held.get(claim.class_name, 0) + claim.count
    return Index(
        claims=claims,
        named=named,
        marked={name: tuple(found) for name, found in marked.items()},
        by_node={node: tuple(found) for node, found in by_node.items()},
        held=held,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """Sets by what makes them one, and by age."""

    by_id: Mapping[_GroupId, ClaimSet]
    ordered: tuple[ClaimSet, ...]

    def moved(self, moves: tuple[Move, ...], index: Index, named: Named) -> "_Groups":
        """Regroup the sets that any of the moves, or a change of who names a claim, is about."""
        touched = {old.key for old, _ in moves if old is not None}
        renamed = [] if named is index.named else _renamed(index, named, touched)
        members: dict[_GroupId, dict[ObjectKey, GPUClaim]] = {}
        for old, new in (*moves, *renamed):
            if old is not None:
                self._open(members, _id_of(old, index.named)).pop(old.key)
            if new is not None:
                self._open(members, _id_of(new, named))[new.key] = new
        fresh = {
            group: ClaimSet(
                claims=tuple(sorted(found.values(), key=_age)), vm=group[1] if group[0] else None
            )
            for group, found in members.items()
            if found
        }
        by_id = dict(self.by_id)
        gone = [by_id.pop(group) for group in members if group in by_id]
        by_id.update(fresh)
        return _Groups(
            by_id=by_id, ordered=ordered.resort(self.ordered, gone, tuple(fresh.values()), _age)
        )

    def _open(
        self, members: dict[_GroupId, dict[ObjectKey, GPUClaim]], group: _GroupId
    ) -> dict[ObjectKey, GPUClaim]:
        if group not in members:
            found = self.by_id.get(group)
            members[group] = {claim.key: claim for claim in found.claims} if found else {}
        return members[group]


def _renamed(index: Index, named: Named, touched: set[ObjectKey]) -> list[Move]:
    """Return claims that another VM names now, as moves that change nothing else."""
    before, after = index.named.items(), named.items()
    found = {claim for claim, _ in before ^ after} - touched
    return [(index.claims[key], index.claims[key]) for key in sorted(found) if key in index.claims]


def _id_of(claim: GPUClaim, named: Mapping[ObjectKey, Holder]) -> _GroupId:
    vm = coverage.holder_of(claim) or named.get(claim.key)
    return (False, claim.key) if vm is None else (True, vm)


def _claims(
    claims: Mapping[ObjectKey, GPUClaim], moves: tuple[Move, ...]
) -> dict[ObjectKey, GPUClaim]:
    """Return the claims after moves, in key order."""
    found = dict(claims)
    fresh = []
    for old, new in moves:
        if new is not None:
            if new.key not in found:
                fresh.append(new.key)
            found[new.key] = new
        elif old is not None:
            del found[old.key]
    if not fresh:
        return found
    # Those that came are at the end, all others are in order.
    known = list(found)[: len(found) - len(fresh)]
    keys_in_order = ordered.resort(tuple(known), (), fresh, lambda key: key)
    return {key: found[key] for key in keys_in_order}


def _marked(found: Claims, moves: tuple[Move, ...], is_one: Callable[[GPUClaim], bool]) -> Claims:
    gone = [old for old, _ in moves if old is not None and is_one(old)]
    come = [new for _, new in moves if new is not None and is_one(new)]
    return ordered.resort(found, gone, come, _key)


def _by_node(
    by_node: Mapping[NodeName, Claims], moves: tuple[Move, ...]
) -> Mapping[NodeName, Claims]:
    gone: dict[NodeName, list[GPUClaim]] = {}
    come: dict[NodeName, list[GPUClaim]] = {}
    for old, new in moves:
        for claim, there in ((old, gone), (new, come)):
            node = coverage.node_held(claim) if claim is not None else None
            if claim is not None and node is not None:
                there.setdefault(node, []).append(claim)
    found = dict(by_node)
    for node in gone.keys() | come.keys():
        left = ordered.resort(found.get(node, ()), gone.get(node, ()), come.get(node, ()), _key)
        if left:
            found[node] = left
        else:
            found.pop(node, None)
    return found


def _held(held: Mapping[ClassName, int], moves: tuple[Move, ...]) -> Mapping[ClassName, int]:
    found = dict(held)
    for old, new in moves:
        for claim, sign in ((old, -1), (new, +1)):
            if claim is not None and coverage.node_held(claim) is not None:
                name = claim.class_name
                found[name] = found.get(name, 0) + sign * claim.count
    return found


def _key(claim: GPUClaim) -> ObjectKey:
    return claim.meta.key


def _age(item: GPUClaim | ClaimSet) -> tuple[object, str]:
    return item.age
