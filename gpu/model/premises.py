"""Premises: the objects and kinds of objects that a refusal rests on. Where these are current it stands.

One object that is named can be read; of a whole kind only the watch tells what there is. What is
refused for several reasons is refused while one of them stands, so the reason that rests on
least is enough to be certain. Nothing here says what a refusal is worded with.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from gpu.model import eligibility, placement, refusals
from gpu.model.draft import Draft
from gpu.model.grants import BadKey, BadValue, Objection, TooMuch
from gpu.model.refusals import Refusal
from gpu.model.snapshot import Snapshot
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.config_maps import ConfigMap
from gpu.objects.kubevirt import VM, VMI, KubeVirt
from gpu.objects.meta import HasMeta, ObjectKey
from gpu.objects.nodes import GPUNode, Node
from gpu.objects.pods import Pod
from gpu.objects.tenants import Namespace, TenantQuota, TenantRelease
from gpu.units import ClassName, TenantName, Units


@dataclass(frozen=True, slots=True)
class Named:
    """One object by its name, whether it is there or not."""

    view: type[HasMeta]
    """What it is read as."""
    key: ObjectKey


Premises = frozenset[type[HasMeta] | Named]
"""Whole kinds, by the views they are read as, and single objects."""

NOTHING: Final[Premises] = frozenset()
"""What is asked is enough."""
CLASS: Final[Premises] = frozenset({GPUClass})
NODES: Final[Premises] = CLASS | {GPUNode, Node}
_USE: Final[Premises] = frozenset({GPUClaim, Pod, VMI})
ROOM: Final[Premises] = NODES | _USE
"""Units free on nodes, where nothing older waits for them."""
BUDGET: Final[Premises] = CLASS | _USE | {TenantRelease, TenantQuota, KubeVirt}
"""What is declared and used; what KubeVirt permits counts as a GPU, and under `total`."""
TURNS: Final[Premises] = ROOM | BUDGET | {Namespace, VM}
"""Units free behind older orders and Lost sets: whether those can be placed is asked first."""
_KEYS: Final[Premises] = frozenset({GPUClass, ConfigMap})


def of_object(view: type[HasMeta], name: str, namespace: str = "") -> Premises:
    """Return what rests on one object alone."""
    return frozenset({Named(view, ObjectKey(namespace, name))})


def lightest(found: Iterable[Premises]) -> Premises:
    """Return the one of several that is known soonest: fewest kinds, then fewest objects."""
    return min(found, key=_weight, default=NOTHING)


def least(found: Iterable[Refusal], snapshot: Snapshot) -> Premises:
    """Return what the one of an order's refusals rests on that rests on least."""
    return lightest(of(one, snapshot) for one in found)


def of(refusal: Refusal, snapshot: Snapshot) -> Premises:
    """Return what a refusal of a new order rests on; `snapshot` is what it was judged by."""
    match refusal:
        case refusals.NoTenant() | refusals.BadCount():
            found = NOTHING
        case (
            refusals.NoSuchClass()
            | refusals.ClassRetired()
            | refusals.ClassDeleting()
            | refusals.OverMaxCount()
        ):
            found = of_object(GPUClass, refusal.class_name)
        case refusals.NotPermitted():
            found = of_object(GPUClass, refusal.class_name) | {KubeVirt}
        case refusals.NotEntitled(name, tenant):
            found = of_object(GPUClass, name) | set(_line(snapshot, tenant))
        case refusals.NoNodeServes() | refusals.NoNodeEligible():
            found = NODES
        case refusals.NoFreeUnits(name, wanted, _):
            found = _of_free(snapshot, name, wanted)
        case refusals.NoNodeAccepts():
            found = TURNS if _is_waited_for(snapshot) else ROOM
        case refusals.NoNodeForSet() | refusals.GuestMayRun():
            found = TURNS
        case refusals.OverBudget():
            found = BUDGET
        case _:  # pragma: no cover
            assert_never(refusal)
    return found


def of_grant(objections: Iterable[Objection]) -> Premises:
    """Return what the one of a grant's objections rests on that rests on least."""
    return lightest(map(_of_objection, objections))


def _of_objection(objection: Objection) -> Premises:
    match objection:
        case BadKey() | BadValue():
            return _KEYS
        case TooMuch():
            return BUDGET | _KEYS
        case _:  # pragma: no cover
            assert_never(objection)


def _line(snapshot: Snapshot, tenant: TenantName) -> Iterator[Named]:
    """Yield the namespaces whose entitlement counts for a tenant."""
    for one in snapshot.tree.line(tenant):
        yield Named(Namespace, ObjectKey("", one))


def _weight(found: Premises) -> tuple[int, int]:
    names = sum(isinstance(one, Named) for one in found)
    return len(found) - names, names


def _of_free(snapshot: Snapshot, name: ClassName, wanted: Units) -> Premises:
    """Say on what it rests that too few units are free.

    More than all nodes serve is never free, whatever is in use. And whatever waits takes units and
    frees none: where too few are free before anything older is served, it does not matter what
    becomes of that.
    """
    served = snapshot.capacities.get(snapshot.classes[name].resource, {})
    if sum(served[node] for node in eligibility.nodes(snapshot, name)) < wanted:
        return NODES
    if _is_waited_for(snapshot) and placement.free(Draft.of(snapshot), name) >= wanted:
        return TURNS
    return ROOM


def _is_waited_for(snapshot: Snapshot) -> bool:
    return bool(snapshot.pending or snapshot.lost)
