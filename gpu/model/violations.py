"""Violations: the rules that a plan can break, and what it makes of the claims it touches.

Part of `invariants`, and like it shares nothing with what plans: it reads objects only.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from gpu.model.naive import Claims, Cluster
from gpu.model.pinning import Pinned
from gpu.objects.claims import GPUClaim, Phase
from gpu.units import NodeName


class Rule(StrEnum):
    """What a plan can break."""

    BOOKED_TWICE = "BookedTwice"
    SET_SPLIT = "SetSplit"
    OVER_BUDGET = "OverBudget"
    WRONG_NODE = "WrongNode"
    WRONG_CLASS = "WrongClass"
    WRONG_STEP = "WrongStep"
    PIN_ASTRAY = "PinAstray"
    ANSWER_ASTRAY = "AnswerAstray"
    BLIND = "Blind"
    """Something was placed while a claim could not be read."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a plan breaks, and where; `words` are the hoster's, with names and numbers."""

    rule: Rule
    words: str

    def __str__(self) -> str:
        return f"{self.rule.value}: {self.words}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a plan makes of the claims it touches."""

    cluster: Cluster
    after: Claims
    """The claims it changes, as it leaves them."""
    pins: tuple[Pinned, ...] = ()
    """Launchers that it lets through onto a node."""

    @cached_property
    def seated(self) -> Cluster:
        """The cluster with its launchers where the plan lets them through to."""
        seats = {(pin.vm.namespace, pin.pod): pin.node for pin in self.pins if pin.node}
        if not seats:
            return self.cluster
        return replace(self.cluster, pinned={**self.cluster.pinned, **seats})

    @cached_property
    def touched(self) -> list[GPUClaim]:
        """Claims whose phase or node it changes."""
        return [
            claim
            for key, claim in self.after.items()
            if stand(claim) != stand(self.cluster.claims.get(key))
        ]

    @cached_property
    def come(self) -> list[GPUClaim]:
        """Claims that hold units where they held none before."""
        return [claim for claim in self.touched if claim.phase is Phase.BOUND]

    @cached_property
    def left(self) -> list[GPUClaim]:
        """Claims that hold units on another node than before, or none: as they were before."""
        before = (self.cluster.claims.get(claim.key) for claim in self.touched)
        return [
            old
            for old in before
            if old is not None
            and old.phase is Phase.BOUND
            and (self.after[old.key].phase, self.after[old.key].node) != (old.phase, old.node)
        ]

    @cached_property
    def new(self) -> list[GPUClaim]:
        """Orders that become holds."""
        before = self.cluster.claims
        return [
            claim
            for claim in self.come
            if claim.key not in before or before[claim.key].phase is Phase.PENDING
        ]


def stand(claim: GPUClaim | None) -> tuple[Phase, NodeName | None] | None:
    """Return where a claim stands: what a plan changes of it, or does not touch."""
    return (claim.phase, claim.node) if claim else None
