"""Refusal: a closed set of reasons, the data each carries, and the one place that words them.

A refusal holds numbers of the tenant it is told to and of the offer, never of another tenant, and
no node name. `reason` of each is stable: it is stored in status and frozen by a test.
"""

from dataclasses import dataclass
from typing import ClassVar, assert_never

from gpu.units import ClassName, QuotaKey, ResourceName, TenantName, Units


@dataclass(frozen=True, slots=True)
class NoTenant:
    """The namespace is no tenant's."""

    reason: ClassVar[str] = "NoTenant"
    namespace: str


@dataclass(frozen=True, slots=True)
class NoSuchClass:
    """No GPUClass has the name."""

    reason: ClassVar[str] = "NoSuchClass"
    class_name: ClassName


@dataclass(frozen=True, slots=True)
class ClassRetired:
    """The hoster takes no new orders of the class."""

    reason: ClassVar[str] = "ClassRetired"
    class_name: ClassName


@dataclass(frozen=True, slots=True)
class ClassDeleting:
    """The class is being deleted."""

    reason: ClassVar[str] = "ClassDeleting"
    class_name: ClassName


@dataclass(frozen=True, slots=True)
class NotPermitted:
    """KubeVirt's permittedHostDevices lacks the class's resource: no VM could use it."""

    reason: ClassVar[str] = "NotPermitted"
    class_name: ClassName
    resource: ResourceName


@dataclass(frozen=True, slots=True)
class BadCount:
    """An order has at least 1 unit and at most `most`, which is the largest number stored."""

    reason: ClassVar[str] = "BadCount"
    wanted: int
    most: int


@dataclass(frozen=True, slots=True)
class OverMaxCount:
    """The class allows fewer units in one claim."""

    reason: ClassVar[str] = "OverMaxCount"
    class_name: ClassName
    wanted: Units
    most: Units


@dataclass(frozen=True, slots=True)
class NoNodeServes:
    """No node has the class's resource."""

    reason: ClassVar[str] = "NoNodeServes"
    class_name: ClassName
    resource: ResourceName


@dataclass(frozen=True, slots=True)
class NoNodeEligible:
    """Nodes have the resource, but none takes a set now: not Ready, cordoned or tainted."""

    reason: ClassVar[str] = "NoNodeEligible"
    class_name: ClassName


@dataclass(frozen=True, slots=True)
class NoFreeUnits:
    """Fewer units are free to order than wanted, over all nodes together."""

    reason: ClassVar[str] = "NoFreeUnits"
    class_name: ClassName
    wanted: Units
    free: Units


@dataclass(frozen=True, slots=True)
class NoNodeAccepts:
    """Enough units are free in total, but no one node has that many; `largest` is the most of one."""

    reason: ClassVar[str] = "NoNodeAccepts"
    class_name: ClassName
    wanted: Units
    free: Units
    largest: Units


@dataclass(frozen=True, slots=True)
class OverBudget:
    """A budget leaves fewer units than wanted. `tenant` declares it: the orderer or one above.

    `used` counts every claim, raw pod units, and what is promised to tenants below.
    """

    reason: ClassVar[str] = "OverBudget"
    key: QuotaKey
    wanted: Units
    hard: Units
    used: Units
    tenant: TenantName
    own: bool
    """The orderer itself declares it; else hard and used are not the orderer's to see."""
    left: Units
    """What the orderer may still order under this budget."""
    unreadable: str = ""
    """What is wrong with the declared value, if it could not be read: it counts as 0."""


@dataclass(frozen=True, slots=True)
class NotEntitled:
    """A vGPU class needs the entitlement, on the namespace or one above."""

    reason: ClassVar[str] = "NotEntitled"
    class_name: ClassName
    tenant: TenantName


@dataclass(frozen=True, slots=True)
class NoNodeForSet:
    """No one node has room for all claims of a VM at once; `wanted` is units of each class."""

    reason: ClassVar[str] = "NoNodeForSet"
    claims: int
    wanted: tuple[tuple[ClassName, Units], ...]


@dataclass(frozen=True, slots=True)
class GuestMayRun:
    """The VM may still run on the node its claims were lost from, which cannot hold them now."""

    reason: ClassVar[str] = "GuestMayRun"


Refusal = (
    NoTenant
    | NoSuchClass
    | ClassRetired
    | ClassDeleting
    | NotPermitted
    | BadCount
    | OverMaxCount
    | NoNodeServes
    | NoNodeEligible
    | NoFreeUnits
    | NoNodeAccepts
    | NoNodeForSet
    | GuestMayRun
    | OverBudget
    | NotEntitled
)


def code(refusal: Refusal) -> str:
    """Return the stable CamelCase reason."""
    return refusal.reason


def words(refusal: Refusal) -> str:
    """Say it to the tenant: the object, the number and the next step; no full stop at the end."""
    match refusal:
        case NoTenant() | NotEntitled():
            return _about_tenant(refusal)
        case BadCount() | OverMaxCount():
            return _about_count(refusal)
        case NoNodeServes() | NoNodeEligible() | NoFreeUnits() | NoNodeAccepts():
            return _about_capacity(refusal)
        case NoNodeForSet() | GuestMayRun():
            return _about_set(refusal)
        case OverBudget():
            return _about_budget(refusal)
        case NoSuchClass() | ClassRetired() | ClassDeleting() | NotPermitted():
            return _about_class(refusal)
        case _:  # pragma: no cover
            assert_never(refusal)


def plural(amount: int) -> str:
    """Return `1 unit`, `3 units`."""
    return f"{amount} unit" if amount == 1 else f"{amount} units"


def _about_class(refusal: NoSuchClass | ClassRetired | ClassDeleting | NotPermitted) -> str:
    match refusal:
        case NoSuchClass(name):
            return f"class {name} does not exist: order one that gpuoffers lists"
        case ClassRetired(name):
            return f"class {name} is retired and takes no new orders: order another class"
        case ClassDeleting(name):
            return f"class {name} is being deleted and takes no orders: order another class"
        case NotPermitted(name, resource):
            return (
                f"class {name} cannot be used by VMs yet: KubeVirt does not permit {resource}; "
                "ask the hoster to add it to permittedHostDevices"
            )
        case _:  # pragma: no cover
            assert_never(refusal)


def _about_count(refusal: BadCount | OverMaxCount) -> str:
    match refusal:
        case BadCount(wanted, most):
            return f"count is {wanted}: order at least 1 and at most {most}"
        case OverMaxCount(name, wanted, most):
            return (
                f"{plural(wanted)} asked, one claim of class {name} may have at most {most}: "
                "order several claims"
            )
        case _:  # pragma: no cover
            assert_never(refusal)


def _about_capacity(
    refusal: NoNodeServes | NoNodeEligible | NoFreeUnits | NoNodeAccepts,
) -> str:
    match refusal:
        case NoNodeServes(name, resource):
            return f"no node has {resource} of class {name}: wait until the hoster adds one"
        case NoNodeEligible(name):
            return f"no node with class {name} takes new VMs at present: wait until one does"
        case NoFreeUnits(name, wanted, free):
            return (
                f"{plural(wanted)} of class {name} asked, {free} free to order: "
                f"{_or_wait(free, 'units are given back')}"
            )
        case NoNodeAccepts(name, wanted, free, largest):
            return (
                f"{plural(wanted)} of class {name} asked on one node, no node has more than "
                f"{largest} of the {free} free: {_or_wait(largest, 'a node has room')}"
            )
        case _:  # pragma: no cover
            assert_never(refusal)


def _about_set(refusal: NoNodeForSet | GuestMayRun) -> str:
    match refusal:
        case NoNodeForSet(claims, wanted):
            units = " and ".join(f"{plural(units)} of class {name}" for name, units in wanted)
            return (
                f"{claims} claims of one VM need {units} on one node, no node has room for all: "
                "wait until one has, or give back a claim"
            )
        case GuestMayRun():
            return (
                "its VM may still run on the node where its units were, and is bound nowhere else "
                "before that has ended: stop the VM, or ask the hoster for that node"
            )
        case _:  # pragma: no cover
            assert_never(refusal)


def _or_wait(most: int, until: str) -> str:
    return f"order at most {most} or wait until {until}" if most else f"wait until {until}"


def unreadable(key: QuotaKey, tenant: TenantName, why: str, *, own: bool) -> str:
    """Say that a declared budget cannot be read; the value itself only to the tenant it is for."""
    if own:
        return (
            f"the budget of {tenant} for {key} cannot be read ({why}) and counts as 0: "
            "write a whole number in resourceQuotas"
        )
    return (
        f"the budget of {tenant} for {key} cannot be read and counts as 0: ask its owner to mend it"
    )


def _about_budget(refusal: OverBudget) -> str:
    if refusal.unreadable:
        words = unreadable(refusal.key, refusal.tenant, refusal.unreadable, own=refusal.own)
        return f"{plural(refusal.wanted)} asked, {words}"
    if not refusal.own:
        return (
            f"{plural(refusal.wanted)} asked, the budget of {refusal.tenant} for {refusal.key} "
            f"leaves {refusal.left} to this tenant: order less, or ask its owner for more"
        )
    return (
        f"{plural(refusal.wanted)} asked, budget {refusal.key} of {refusal.tenant} is "
        f"{refusal.hard} and {refusal.used} are used or promised, {refusal.left} left: "
        "delete a claim or ask for a larger budget"
    )


def _about_tenant(refusal: NoTenant | NotEntitled) -> str:
    match refusal:
        case NoTenant(namespace):
            return f"namespace {namespace} belongs to no tenant: order in a tenant's namespace"
        case NotEntitled(name, tenant):
            return (
                f"class {name} is a vGPU class and {tenant} is not entitled to those: "
                "ask the hoster for the entitlement"
            )
        case _:  # pragma: no cover
            assert_never(refusal)
