"""Misfit: what keeps a pod from a node, units of GPUs apart: a closed set of causes, and their words."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu.model import weight


class Cause(StrEnum):
    """The first thing that keeps a pod from a node, in the order they are looked at."""

    GONE = "Gone"
    """There is no such node."""
    TOO_HEAVY = "TooHeavy"
    """Its affinities and tolerations have more parts than are looked at: no node will do."""
    CORDONED = "Cordoned"
    TAINTED = "Tainted"
    SELECTOR = "NodeSelector"
    NODE_AFFINITY = "NodeAffinity"
    VOLUME_MISSING = "VolumeMissing"
    """A claim or volume of it is not there, or is on its way out: no node will do."""
    VOLUME_UNBOUND = "VolumeUnbound"
    """A claim of it is not bound yet, and is not one that is bound where its pod goes: no node will do."""
    VOLUME_IN_USE = "VolumeInUse"
    """A claim of it may be used by one pod at a time, and another has it: no node will do."""
    VOLUME_ELSEWHERE = "VolumeElsewhere"
    """A volume of it cannot be reached from the node, or not be made there."""
    VOLUMES_FULL = "VolumesFull"
    """A CSI driver attaches no more volumes to the node."""
    AMOUNT = "Amount"
    """Too little is free of something it asks for; `pods` is its own place."""
    PORT = "HostPort"
    """A port of the node that it asks for is taken."""
    POD_AFFINITY = "PodAffinity"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    """A pod it must not be beside is there."""
    KEPT_APART = "KeptApart"
    """A pod is there that must not be beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why a node does not take a pod. The numbers are of all tenants: not for a tenant to see."""

    cause: Cause
    what: str = ""
    """Key of the taint or label, name of the volume claim, driver or amount, or the port."""
    wanted: int = 0
    free: int = 0
    """Of an amount, as `Node.amounts` counts; not more than is asked."""


_RULES: Final = (
    f"pod affinities have more than {weight.OF_PODS} parts, or its node affinity and tolerations more "
    f"than {weight.OF_NODES}"
)
_WORDS: Final[dict[Cause, tuple[str, str]]] = {
    Cause.GONE: ("is gone", "are gone"),
    Cause.TOO_HEAVY: (
        f"is not looked at: its {_RULES}",
        f"are not looked at: its {_RULES}",
    ),
    Cause.CORDONED: ("is cordoned", "are cordoned"),
    Cause.TAINTED: ("has a taint it does not tolerate", "have a taint it does not tolerate"),
    Cause.SELECTOR: ("is left out by its node selector", "are left out by its node selector"),
    Cause.NODE_AFFINITY: ("is left out by its node affinity", "are left out by its node affinity"),
    Cause.VOLUME_MISSING: (
        "waits for its volume claim {what}, which is not there",
        "wait for its volume claim {what}, which is not there",
    ),
    Cause.VOLUME_UNBOUND: (
        "waits for its volume claim {what} to be bound",
        "wait for its volume claim {what} to be bound",
    ),
    Cause.VOLUME_IN_USE: (
        "waits for its volume claim {what}, which another pod uses and only one may",
        "wait for its volume claim {what}, which another pod uses and only one may",
    ),
    Cause.VOLUMES_FULL: (
        "takes no more volumes of {what}",
        "take no more volumes of {what}",
    ),
    Cause.VOLUME_ELSEWHERE: (
        "does not reach its volume {what}",
        "do not reach its volume {what}",
    ),
    Cause.AMOUNT: ("lacks {what}", "lack {what}"),
    Cause.PORT: ("has its port {what} in use", "have its port {what} in use"),
    Cause.POD_AFFINITY: (
        "has no pod that it has to be beside",
        "have no pod that it has to be beside",
    ),
    Cause.POD_ANTI_AFFINITY: (
        "has a pod that it must not be beside",
        "have a pod that it must not be beside",
    ),
    Cause.KEPT_APART: ("has a pod that keeps it out", "have a pod that keeps it out"),
}
_OF_BYTES: Final = ("hugepages-", "ephemeral-storage")
_GIB: Final = 1 << 30
_NAMES: Final = {"cpu": "CPU", "pods": "room for another pod"}


def words(misfit: Misfit, *, nodes: int = 1) -> str:
    """Say what so many nodes do, as in `lack memory`: no number and no name but the pod's own."""
    what = _NAMES.get(misfit.what, misfit.what) if misfit.cause is Cause.AMOUNT else misfit.what
    return _WORDS[misfit.cause][nodes != 1].format(what=what)


def counted(misfits: Iterable[Misfit]) -> tuple[tuple[str, int], ...]:
    """Return what keeps a pod from how many nodes, in words that follow the count, most first."""
    found = Counter((misfit.cause, words(misfit), words(misfit, nodes=2)) for misfit in misfits)
    told = [(one if count == 1 else more, count) for (_, one, more), count in found.items()]
    return tuple(sorted(told, key=lambda item: (-item[1], item[0])))


def told(misfits: Iterable[Misfit]) -> str:
    """Return it as `of 12 nodes: 7 lack memory, 5 are cordoned`."""
    found = counted(misfits)
    total = sum(count for _, count in found)
    listed = ", ".join(f"{count} {words}" for words, count in found)
    return f"of {total} {'node' if total == 1 else 'nodes'}: {listed}" if found else "no node"


def asked(misfits: Iterable[Misfit]) -> str:
    """Return the amounts that nodes lack as a pod asks for them, `64 CPU and 12.5 GiB of memory`; none is empty."""
    wanted = {
        it.what: it.wanted for it in misfits if it.cause is Cause.AMOUNT and it.what != "pods"
    }
    return " and ".join(_amount(name, wanted[name]) for name in sorted(wanted))


def _amount(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount / 1000:g} CPU"
    if name == "memory" or name.startswith(_OF_BYTES):
        return f"{math.ceil(amount / _GIB * 10) / 10:g} GiB of {name}"
    return f"{amount} of {name}"
