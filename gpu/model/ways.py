"""Way: the single changes that may let in what waits, as values and in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu.model import refusals


class Way(StrEnum):
    """A single change that would let it in."""

    MORE_BUDGET = "MoreBudget"
    """`tenant` gets `units` more under `key`."""
    BUDGET_ABOVE = "BudgetAbove"
    """`tenant`, above the orderer, leaves more under `key`; how much is not the orderer's to know."""
    ROOM_ON_A_NODE = "RoomOnANode"
    """One node that takes it has `units` of `key`, a resource, free."""
    UNCORDON = "Uncordon"
    """A cordoned node that has room is opened; which one is not told."""
    ORDER_LESS = "OrderLess"
    """An order of `units` instead."""
    ORDER_OTHER = "OrderOther"
    """An order of as many units of class `key` instead."""
    UNRETIRE = "Unretire"
    PERMIT = "Permit"
    """KubeVirt permits `key`, the resource."""
    ENTITLE = "Entitle"
    """`tenant` is entitled to vGPU classes."""
    STOP_VM = "StopVM"
    """Its VM is known to have ended: another node has room."""
    NAME_ALONE = "NameAlone"
    """No VM names it together with claims that are elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One way to let it in, all else as it is."""

    way: Way
    key: str = ""
    units: int = 0
    tenant: str = ""


_WORDS: Final[Mapping[Way, str]] = {
    Way.MORE_BUDGET: "{units} more of budget {key} for {tenant}",
    Way.BUDGET_ABOVE: "{tenant} leaves more of its budget {key}",
    Way.ROOM_ON_A_NODE: "{units} of {key} free on one node",
    Way.UNCORDON: "the hoster uncordons a node that has room",
    Way.ORDER_LESS: "order {units} instead",
    Way.ORDER_OTHER: "order {units} of class {key} instead",
    Way.UNRETIRE: "the hoster takes orders of class {key} again",
    Way.PERMIT: "the hoster has KubeVirt permit {key}",
    Way.ENTITLE: "the hoster entitles {tenant} to vGPU classes",
    Way.STOP_VM: "stop its VM: another node has room",
    Way.NAME_ALONE: "name it in no VM together with claims that are elsewhere",
}


def words(remedy: Remedy) -> str:
    """Say what is to be done, and by whom where that is not the tenant; no full stop at the end."""
    units = refusals.plural(remedy.units)
    return _WORDS[remedy.way].format(units=units, key=remedy.key, tenant=remedy.tenant)
