"""Making a snapshot of the one before it gives what making it of nothing gives."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.model import advance, eligibility, sets
from gpu.model.given import Objects
from tests import sampling, strategies
from tests.builders import (
    H100,
    a_claim,
    a_class,
    a_kubevirt,
    a_namespace,
    a_node,
    a_pod,
    a_release,
    a_settings,
    a_snapshot,
    a_vm,
    a_vmi,
    an_inventory,
    budget,
)

MIXED = ("claims", "nodes", "inventory", "pods", "vmis", "vms")
"""What a step changes object by object; the rest is swapped whole."""
MARKS = (
    "unfinalized",
    "deleting",
    "lost",
    "attached",
    "unadopted",
    "unowned",
    "degraded",
    "strays",
    "holders",
)


def amounts(book):
    """The ledger, less what comes to nothing: a node may be listed with no units or not at all."""
    return (
        {
            name: {
                (resource, node): units
                for resource, room in getattr(book, name).items()
                for node, units in room.items()
                if units
            }
            for name in ("free_units", "held", "reserved")
        },
        {place: units for place, units in book.shared.items() if any(units)},
        {charge: units for charge, units in book.used_units.items() if units},
        book.tree,
    )


def told(snapshot):
    """All that anybody may ask of a snapshot, and in which order it comes."""
    return {
        "ledger": amounts(snapshot.ledger),
        "counted": amounts(snapshot.counted()),
        "capacities": {name: list(row.items()) for name, row in snapshot.capacities.items()},
        "tables": [
            list(table.items())
            for table in (snapshot.classes, snapshot.claims, snapshot.nodes, snapshot.vmis)
        ],
        "inventory": dict(snapshot.inventory),
        "pods": dict(snapshot.pods),
        "named": dict(snapshot.named),
        "pending": snapshot.pending,
        "frame": (snapshot.settings, snapshot.tree, snapshot.permitted, snapshot.resources),
        "marks": {name: getattr(snapshot, name) for name in MARKS},
        "nodes": {node: snapshot.on_node(node) for node in (*strategies.NODES, "gone")},
        "held": {name: snapshot.held_of(name) for name in strategies.CLASSES},
        "sets": snapshot.sets,
        "grouped": sets.group(snapshot.claims.values(), snapshot.named),
        "eligible": {name: eligibility.nodes(snapshot, name) for name in snapshot.classes},
    }


def versions(snapshot):
    return [claim.meta.resource_version for claim in snapshot.claims.values()]


def key_of(item):
    return item.meta.key


@st.composite
def vms(draw):
    names = [f"c{index}" for index in range(4)]
    return [
        a_vm(name, tenant="tenant-a", claims=draw(st.sets(st.sampled_from(names))))
        for name in strategies.VMS
        if draw(st.booleans())
    ]


@st.composite
def histories(draw):
    """Objects of several instants; an object that did not change is the same object."""
    pool = [dict(draw(strategies.clusters())) | {"vms": draw(vms())} for _ in range(2)]
    now = pool[0]
    found = [now]
    for _ in range(draw(st.integers(1, 4))):
        now = dict(now)
        for kind in MIXED:
            now[kind] = draw(mixed(now[kind], pool[1][kind]))
        for kind in ("releases", "namespaces", "classes", "settings"):
            if draw(st.integers(0, 5)) == 0:
                now[kind] = pool[draw(st.integers(0, 1))][kind]
        found.append(now)
    return found


@st.composite
def mixed(draw, old, other):
    """Some of what was, some of another instant, some of both made anew with other finalizers."""
    if draw(st.booleans()):
        return old
    there = {key_of(item): item for item in old}
    fresh = {key_of(item): item for item in other}
    found = []
    for key in sorted({**there, **fresh}):
        kept = draw(st.sampled_from(["old", "old", "new", "none", "touched"]))
        item = (fresh if kept == "new" else there).get(key)
        if item is not None and kept == "touched":
            item = replace(item, meta=replace(item.meta, finalizers=(), resource_version="9"))
        if item is not None and kept != "none":
            found.append(item)
    return found


@sampling.examples(12)
@given(histories(), st.booleans())
def test_a_snapshot_made_of_the_one_before_equals_one_made_of_nothing(history, asked):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advance, "_MOST", 0)
        snapshot = a_snapshot(**history[0])
        before = told(snapshot) if asked else None
        for objects in history[1:]:
            expected = a_snapshot(**objects)
            made = advance.advance(snapshot, expected.given, objects["settings"])
            if asked:
                assert told(snapshot) == before, "the old one is left as it is"
                before = told(made)
            a, b = told(made), told(expected)
            for name in a:
                assert a[name] == b[name], name
            assert versions(made) == versions(expected)
            snapshot = made


def never(*_):
    pytest.fail("made of nothing")


def given_of(snapshot, **changed):
    return Objects(
        **{item.name: getattr(snapshot.given, item.name) for item in fields(Objects)} | changed
    )


CLAIMS = tuple(a_claim(f"c{index}", on="n1", at=index) for index in range(20))
SMALL = {
    "nothing": {},
    "a claim came": {"claims": (*CLAIMS, a_claim("new", at=99))},
    "a claim went": {"claims": CLAIMS[1:]},
    "a claim changed": {"claims": (a_claim("c0", lost="n1"), *CLAIMS[1:])},
    "a class told its status": {"classes": (a_class(status={"free": 3}),)},
    "a class takes taints": {"classes": (a_class(tolerations=[{"operator": "Exists"}]),)},
    "a node was cordoned": {"nodes": (a_node(cordoned=True),)},
    "an inventory came": {"inventory": (an_inventory(healthy=5),)},
    "a pod came": {"pods": (a_pod(on="n1", units=2),)},
    "a VMI came": {"vmis": (a_vmi(active={"p": "n1"}),)},
    "a VM names a claim": {"vms": (a_vm(claims=["c1"]),)},
    "a namespace came that declares nothing": {"namespaces": (a_namespace("tenant-b"),)},
}


@pytest.mark.parametrize("changed", SMALL.values(), ids=SMALL)
def test_a_small_change_is_not_made_of_nothing(changed, monkeypatch):
    old = a_snapshot(claims=CLAIMS)
    given_now = given_of(old, **changed)
    expected = told(advance.snapshot.of(given_now, a_settings()))
    monkeypatch.setattr(advance.snapshot, "of", never)
    assert told(advance.advance(old, given_now, a_settings())) == expected


LARGE = {
    "a class is served by another resource": {"classes": (a_class(resource="nvidia.com/OTHER"),)},
    "a class came": {"classes": (a_class(), a_class("l40", resource="nvidia.com/L40"))},
    "a budget was declared": {"releases": (a_release("tenant-a", budget(h100=2)),)},
    "most claims changed": {"claims": tuple(a_claim(f"c{i}", at=i) for i in range(20))},
}


@pytest.mark.parametrize("changed", LARGE.values(), ids=LARGE)
def test_a_change_about_everything_gives_the_same_too(changed):
    old = a_snapshot(claims=CLAIMS)
    given_now = given_of(old, **changed)
    made = advance.advance(old, given_now, a_settings())
    assert told(made) == told(advance.snapshot.of(given_now, a_settings()))


def test_what_kubevirt_permits_is_the_same_and_counts_as_a_gpu_now():
    old = a_snapshot(claims=CLAIMS, kubevirts=[a_kubevirt(H100, "x.com/y", vendor="15B3")])
    given_now = given_of(old, kubevirts=(a_kubevirt(H100, "x.com/y"),))
    made = advance.advance(old, given_now, a_settings())
    assert (set(old.resources), set(made.resources)) == ({H100}, {H100, "x.com/y"})


def test_what_did_not_change_is_the_very_same_table():
    old = a_snapshot(claims=CLAIMS)
    eligibility.nodes(old, "h100")
    made = advance.advance(
        old, given_of(old, claims=(a_claim("c0", lost="n1"), *CLAIMS[1:])), a_settings()
    )
    assert (made.nodes, made.vmis, made.pod_units) == (old.nodes, old.vmis, old.pod_units)
    assert made.capacities[H100] is old.capacities[H100]
    assert made.memo.eligible == {"h100": frozenset({"n1"})}
