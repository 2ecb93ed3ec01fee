"""What an explanation tells, against a naive walk of the queue: its reasons, and that each change it names lets it in.

The changes are made to the objects, and every order is judged anew by an oracle that tries every node
and sums over all claims.
"""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given

from gpu.model import explain
from gpu.model.explain import NodeReason
from gpu.model.ways import Way
from gpu.objects.claims import Phase
from tests import sampling, strategies
from tests.builders import (
    a_claim,
    a_class,
    a_namespace,
    a_node,
    a_release,
    a_snapshot,
    budget,
)
from tests.model import oracles
from tests.strategies import TENANTS

quick = sampling.examples(15)
CAPACITY = {"NoNodeServes", "NoNodeEligible", "NoFreeUnits", "NoNodeAccepts"}
EMPTY = {name: [] for name in ("pods", "vmis", "inventory", "namespaces", "releases")}


def naive_walk(objects):
    """Each order, the claims that count against it at its turn, and the node a naive pass gives it.

    One whose VM holds other claims already takes its turn and is not told: it can only join them.
    """
    claims = list(objects["claims"])
    waiting = [c for c in claims if c.phase is Phase.PENDING and not c.meta.deleting]
    for order in sorted(waiting, key=lambda item: item.age):
        counted = [
            c
            for c in claims
            if c.phase is not Phase.PENDING or c.meta.deleting or c.age < order.age
        ]
        node = oracles.verdict(objects, counted, order, TENANTS)
        homes = nodes_of_mates(claims, order)
        if not homes:
            yield order, counted, node
        elif node is not None:
            node = home_with_room(objects, counted, order, homes)
        if node is not None:
            claims = [
                replace(c, phase=Phase.BOUND, node=node) if c.key == order.key else c
                for c in claims
            ]


def nodes_of_mates(claims, order):
    """Where claims of the order's VM are held; no VM of these clusters is known to use nothing."""
    return {
        claim.node
        for claim in claims
        if claim.phase is Phase.BOUND
        and not claim.meta.deleting
        and order.attached_to is not None
        and claim.attached_to is not None
        and oracles.holder_of(claim) == oracles.holder_of(order)
    }


def home_with_room(objects, counted, order, homes):
    """The node of a VM's claims when that is one, and takes one more of them."""
    offer = next(item for item in objects["classes"] if item.name == order.class_name)
    takes = {name for _, name in oracles.nodes_for(objects, counted, offer, order.count)}
    return min(homes) if len(homes) == 1 and homes <= takes else None


def without_lost(objects):
    kept = [claim for claim in objects["claims"] if claim.phase is not Phase.LOST]
    return dict(objects) | {"claims": kept}


def naive_reasons(objects, counted, order):
    """The codes of why not, by trying every node and summing over all claims; capacity is one."""
    offer = next((item for item in objects["classes"] if item.name == order.class_name), None)
    if offer is None:
        return {"NoSuchClass"}
    allowed = offer.max_count or (1 if offer.mode == "vgpu" else None)
    checks = {
        "ClassRetired": offer.retired,
        "OverMaxCount": allowed is not None and order.count > allowed,
        "capacity": not oracles.nodes_for(objects, counted, offer, order.count),
        "OverBudget": oracles.breaks_budget(objects, counted, order, TENANTS),
        "NotEntitled": offer.mode == "vgpu" and not oracles.entitled(objects, order.tenant),
    }
    return {code for code, fails in checks.items() if fails}


def settled(objects):
    """The cluster once every order that can be bound is, without Lost sets."""
    objects = without_lost(objects)
    nodes = {order.key: node for order, _, node in naive_walk(objects) if node is not None}
    bound = [
        replace(claim, phase=Phase.BOUND, node=nodes[claim.key]) if claim.key in nodes else claim
        for claim in objects["claims"]
    ]
    return dict(objects) | {"claims": bound}


@quick
@given(strategies.clusters())
def test_reasons_and_counts_of_nodes_are_those_of_a_naive_walk(objects):
    objects = settled(objects)
    snapshot = a_snapshot(**objects)
    for order, counted, node in naive_walk(objects):
        found = explain.explain(snapshot, order.key)
        codes = {"capacity" if one.reason in CAPACITY else one.reason for one in found.reasons}
        assert codes == naive_reasons(objects, counted, order)
        assert (node is None) is bool(codes)
        assert bool(found.nodes) is ("capacity" in codes)
        if found.nodes:
            assert NodeReason.HAS_ROOM not in dict(found.nodes)
            assert sum(dict(found.nodes).values()) == len(objects["nodes"])


def changed(objects, order, remedy):
    """Yield each cluster that a remedy may stand for, with the order as it is there."""
    others = [claim for claim in objects["claims"] if claim.key != order.key]
    late = max(claim.meta.created for claim in objects["claims"]) + timedelta(seconds=1)
    new = replace(order, meta=replace(order.meta, created=late), attached_to=None)
    match remedy.way:
        case Way.ORDER_LESS | Way.ORDER_OTHER:
            name = remedy.key or order.class_name
            new = replace(new, count=remedy.units, class_name=name)
            yield dict(objects) | {"claims": [*others, new]}, new
        case Way.ROOM_ON_A_NODE:
            node = a_node("zz", units=remedy.units, resource=remedy.key)
            yield dict(objects) | {"nodes": [*objects["nodes"], node]}, order
        case Way.UNCORDON:
            for number, node in enumerate(objects["nodes"]):
                nodes = list(objects["nodes"])
                nodes[number] = replace(node, cordoned=False)
                yield dict(objects) | {"nodes": nodes}, order
        case Way.MORE_BUDGET:
            yield raised(objects, remedy, remedy.units), order
        case Way.BUDGET_ABOVE:
            for units in range(1, 60):
                yield raised(objects, remedy, units), order
        case Way.UNRETIRE:
            classes = [replace(one, retired=False) for one in objects["classes"]]
            yield dict(objects) | {"classes": classes}, order
        case Way.ENTITLE:
            kept = [one for one in objects["namespaces"] if one.meta.name != remedy.tenant]
            given = a_namespace(remedy.tenant, entitled=True)
            yield dict(objects) | {"namespaces": [*kept, given]}, order


def raised(objects, remedy, units):
    releases = []
    for release in objects["releases"]:
        declared = dict(release.declared.units)
        if release.tenant == remedy.tenant:
            declared[remedy.key] += units
        releases.append(a_release(release.tenant, declared))
    return dict(objects) | {"releases": releases}


def lets_in(objects, order):
    return any(node for found, _, node in naive_walk(objects) if found.key == order.key)


def each_remedy_lets_it_in(objects):
    """Returns the ways that were told."""
    snapshot = a_snapshot(**objects)
    told = []
    for order, _, _ in naive_walk(objects):
        for remedy in explain.explain(snapshot, order.key).remedies:
            assert any(lets_in(*one) for one in changed(objects, order, remedy)), remedy
            told.append(remedy.way)
            if remedy.way in {Way.ROOM_ON_A_NODE, Way.MORE_BUDGET}:
                short = replace(remedy, units=remedy.units - 1)
                assert not any(lets_in(*one) for one in changed(objects, order, short)), remedy
    return told


@quick
@given(strategies.clusters())
def test_a_change_that_is_told_lets_it_in_and_one_unit_less_does_not(objects):
    each_remedy_lets_it_in(settled(objects))


def crowd(*claims, units=(4,), cordoned=(), classes=(), **more):
    nodes = [a_node(f"n{n}", units=count) for n, count in enumerate(units)]
    nodes += [a_node(f"c{n}", units=count, cordoned=True) for n, count in enumerate(cordoned)]
    offers = [a_class(), a_class("l40", resource="nvidia.com/L40"), *classes]
    return EMPTY | {"classes": offers, "nodes": nodes, "claims": list(claims)} | more


def wants(name, count, at, **more):
    return a_claim(name, count=count, at=at, **more)


ROOM, UNCORDON, LESS, OTHER = Way.ROOM_ON_A_NODE, Way.UNCORDON, Way.ORDER_LESS, Way.ORDER_OTHER
STOREYS = {
    "the first in the queue": (crowd(wants("a", 5, 0)), [ROOM, LESS]),
    "one that would fit where the older one would not": (
        crowd(wants("a", 9, 0), wants("b", 5, 1)),
        [ROOM, LESS, ROOM, LESS],
    ),
    "an older one would take the room": (
        crowd(wants("a", 5, 0), wants("b", 5, 1)),
        [ROOM, LESS, LESS],
    ),
    "an older one of another tenant, too": (
        crowd(wants("a", 5, 0, tenant="tenant-b"), wants("b", 6, 1)),
        [ROOM, LESS, LESS],
    ),
    "a cordoned node has room for it": (
        crowd(wants("a", 5, 0), cordoned=(6,)),
        [ROOM, UNCORDON, LESS],
    ),
    "a cordoned node has room for two": (
        crowd(wants("a", 5, 0), wants("b", 5, 1), cordoned=(10,)),
        [ROOM, UNCORDON, LESS, UNCORDON, LESS],
    ),
    "a cordoned node has room for the older one": (
        crowd(wants("a", 5, 0), wants("b", 5, 1), cordoned=(9,)),
        [ROOM, UNCORDON, LESS, LESS],
    ),
    "another class has room for all of it": (
        crowd(wants("a", 5, 0), classes=[a_class("x", resource="nvidia.com/X")])
        | {"nodes": [a_node(units=4, also={"nvidia.com/X": 6})]},
        [ROOM, LESS, OTHER],
    ),
    "what its own budget leaves once it is given up": (
        crowd(wants("a", 4, 0), releases=[a_release("tenant-a", budget(h100=3))]),
        [Way.MORE_BUDGET, LESS],
    ),
    "an older order waits for the same budget": (
        crowd(wants("a", 4, 0), wants("b", 1, 1), releases=[a_release("tenant-a", budget(h100=3))]),
        [Way.MORE_BUDGET, LESS],
    ),
    "a larger budget lets in an older one, and there is room for both": (
        crowd(
            wants("a", 4, 0),
            wants("b", 1, 1),
            units=(8,),
            releases=[a_release("tenant-a", budget(h100=3))],
        ),
        [Way.MORE_BUDGET, LESS, Way.MORE_BUDGET],
    ),
    "a retired class with room for one of two": (
        crowd(wants("a", 3, 0), wants("b", 3, 1)) | {"classes": [a_class(retired=True)]},
        [Way.UNRETIRE],
    ),
    "two of two reasons": (
        crowd(wants("a", 5, 0), releases=[a_release("tenant-a", budget(h100=2))]),
        [LESS],
    ),
}


@pytest.mark.parametrize(("objects", "ways"), STOREYS.values(), ids=STOREYS)
def test_what_is_told_to_those_that_wait_one_behind_the_other(objects, ways):
    assert each_remedy_lets_it_in(objects) == ways


@pytest.mark.parametrize("above", [2, 4, 6, 9])
@pytest.mark.parametrize("hard", [0, 1, 3, 5])
@pytest.mark.parametrize("held", [0, 2, 4])
def test_a_larger_budget_of_ones_own_is_named_to_the_unit(held, hard, above):
    """Also where the tenant above bounds it: a larger budget below is a promise that it has to keep."""
    quotas = [("tenant-root", above), ("tenant-a", hard)]
    claims = [a_claim("held", on="n0", count=held)] if held else []
    objects = crowd(
        *claims,
        wants("c", 2, 5),
        units=(8,),
        releases=[a_release(tenant, budget(h100=units)) for tenant, units in quotas],
    )
    ways = each_remedy_lets_it_in(objects)
    if max(held, hard) <= above < held + 2:
        assert Way.MORE_BUDGET not in ways
    if hard < held + 2 <= above:
        assert Way.MORE_BUDGET in ways
