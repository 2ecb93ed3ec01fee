"""The checker, rule by rule: one plan just inside, one just outside."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from gpu.model import answering, ground, invariants, naive, overdrawn, pinning, violations
from gpu.model.violations import Rule
from gpu.objects.meta import ObjectKey
from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_kubevirt,
    a_namespace,
    a_node,
    a_pod,
    a_taint,
    a_vm,
    a_vmi,
    an_inventory,
    attachment,
)
from tests.model.plans import a_cluster, broken, lost, on, order, placing

# No unit is booked twice.


@pytest.mark.parametrize(("held", "rules"), [(7, []), (8, [Rule.BOOKED_TWICE])])
def test_a_node_takes_no_more_than_it_has(held, rules):
    assert placing(a_claim("old", on="n1", count=held)) == rules


@pytest.mark.parametrize(("more", "rules"), [(4, []), (5, [Rule.BOOKED_TWICE])])
def test_two_orders_of_one_plan_are_added_up(more, rules):
    first, second = order("a", count=4), order("b", count=more)
    assert broken(a_cluster(first, second), on(first), on(second)) == rules


@pytest.mark.parametrize(("seen", "rules"), [(4, []), (3, [Rule.BOOKED_TWICE])])
def test_inventory_that_is_known_bounds_what_a_node_has(seen, rules):
    inventory = [an_inventory(healthy=seen, sick=8 - seen)]
    assert placing(new=order(count=4), inventory=inventory) == rules


def test_inventory_of_another_resource_says_nothing():
    inventory = [an_inventory(healthy=0, sick=8, resource=L40)]
    assert placing(new=order(count=8), inventory=inventory) == []


@pytest.mark.parametrize(("units", "rules"), [(7, []), (8, [Rule.BOOKED_TWICE])])
def test_pods_of_nobody_take_units(units, rules):
    assert placing(pods=[a_pod(on="n1", units=units)]) == rules


@pytest.mark.parametrize("ended", ["Succeeded", "Failed"])
def test_pods_that_ended_take_none(ended):
    assert placing(pods=[a_pod(on="n1", units=8, phase=ended)]) == []


def test_pods_elsewhere_or_of_another_resource_take_none():
    pods = [a_pod("a", on="n2", units=8), a_pod("b", on="n1", units=8, resource=L40)]
    assert placing(pods=pods, classes=[a_class(), a_class("l40", resource=L40)]) == []


@pytest.mark.parametrize(("asked", "rules"), [(7, []), (8, [Rule.BOOKED_TWICE])])
@pytest.mark.parametrize("how", ["listed", "recorded"])
def test_a_vms_claims_and_pods_share_units_on_one_node(asked, rules, how):
    recorded = ("p",) if how == "recorded" else ()
    vmis = [a_vmi(active={"p": "n1"})] if how == "listed" else []
    held = a_claim("old", on="n1", count=7, vm="vm", pod_uids=recorded)
    assert placing(held, pods=[a_pod(uid="p", on="n1", units=asked)], vmis=vmis) == rules


def test_a_claim_elsewhere_covers_no_pod_here():
    held = a_claim("old", on="n2", count=8, vm="vm")
    pods = [a_pod(uid="p", on="n1", units=8)]
    assert placing(held, pods=pods, vmis=[a_vmi(active={"p": "n1"})]) == [Rule.BOOKED_TWICE]


def test_lost_claims_hold_nothing_but_their_running_pod_does():
    held = a_claim("old", lost="n1", count=8, vm="vm")
    assert placing(held) == []
    pods = [a_pod(uid="p", on="n1", units=8)]
    assert placing(held, pods=pods, vmis=[a_vmi(active={"p": "n1"})]) == [Rule.BOOKED_TWICE]


def test_a_node_that_shrank_below_what_it_holds_is_nobodys_fault():
    held = a_claim("old", on="n1", count=8)
    new = order(count=2)
    cluster = a_cluster(held, new, nodes=[a_node(units=4), a_node("n2")])
    assert broken(cluster, on(new, "n2")) == []
    assert broken(cluster, lost(held)) == []
    assert broken(cluster, on(new)) == [Rule.BOOKED_TWICE]


@pytest.mark.parametrize(("leaves", "rules"), [(4, [Rule.BOOKED_TWICE]), (3, [])])
@pytest.mark.parametrize("how", [lambda old: on(old, "n2"), lost], ids=["moves", "is lost"])
def test_what_leaves_a_node_in_the_same_plan_makes_no_room_yet(leaves, rules, how):
    """Either write may fail: the set that comes must fit beside the one that is to go."""
    old, new = a_claim("old", on="n1", count=leaves), order(count=5)
    cluster = a_cluster(old, new)
    assert broken(cluster, how(old), on(new)) == rules


def test_claims_of_a_set_that_stay_on_the_node_are_counted_once():
    old = a_claim("old", on="n1", count=4)
    assert broken(a_cluster(old, order(count=4)), on(old), on(order(count=4))) == []


@pytest.mark.parametrize(("asks", "rules"), [(4, []), (3, [Rule.BOOKED_TWICE])])
def test_a_claim_comes_back_under_its_own_running_pod_on_a_node_that_shrank(asks, rules):
    mine = a_claim("mine", lost="n1", count=4, vm="vm")
    cluster = a_cluster(
        mine,
        a_claim("old", on="n1", count=4),
        nodes=[a_node(units=6)],
        pods=[a_pod(uid="p", on="n1", units=asks)],
        vmis=[a_vmi(active={"p": "n1"})],
    )
    assert broken(cluster, on(mine)) == rules


# No set is split, only whole sets are changed.


def a_pair(**more):
    return a_claim("a", vm="vm", **more), a_claim("b", vm="vm", **more)


def test_members_of_a_set_go_to_one_node_together():
    a, b = a_pair(on="n1")
    cluster = a_cluster(a, b)
    assert broken(cluster, on(a, "n2"), on(b, "n2")) == []
    assert broken(cluster, on(a, "n2")) == [Rule.SET_SPLIT]
    assert broken(cluster, lost(a), lost(b)) == []
    assert broken(cluster, lost(a)) == [Rule.SET_SPLIT]


def test_a_lost_set_comes_back_whole():
    a, b = a_pair(lost="n1")
    cluster = a_cluster(a, b)
    assert broken(cluster, on(a, "n2"), on(b, "n2")) == []
    assert broken(cluster, on(a, "n2")) == [Rule.SET_SPLIT]
    assert broken(cluster, on(a, "n2"), on(b, "n1")) == [Rule.SET_SPLIT]


def test_claims_that_one_vm_names_are_a_set_and_those_that_two_name_are_not():
    a, b = a_claim("a", on="n1"), a_claim("b", on="n1")
    one = a_vm(claims=["a", "b"])
    assert broken(a_cluster(a, b, vms=[one]), on(a, "n2")) == [Rule.SET_SPLIT]
    other = a_vm("other", claims=["a"])
    assert broken(a_cluster(a, b, vms=[one, other]), on(a, "n2")) == []


def test_a_set_that_was_split_before_and_is_left_alone_is_no_fault_of_the_plan():
    a, b, new = a_claim("a", on="n1", vm="vm"), a_claim("b", on="n2", vm="vm"), order()
    cluster = a_cluster(a, b, new)
    assert broken(cluster, on(new)) == []
    assert broken(cluster, on(b, "n1")) == []
    assert broken(cluster, lost(b)) == [Rule.SET_SPLIT]


def test_members_that_wait_or_are_being_deleted_do_not_split_a_set():
    a, b = a_claim("a", on="n1", vm="vm"), a_claim("b", vm="vm")
    assert broken(a_cluster(a, b), on(a, "n2")) == []
    going = a_claim("b", on="n1", vm="vm", deleting=True)
    assert broken(a_cluster(a, going), on(a, "n2")) == []
    told = replace(going, reasons=("Kept",))
    assert broken(a_cluster(a, going), on(a, "n2"), told) == []


def test_a_set_is_what_the_plan_leaves_it():
    a, b = a_pair(on="n1")
    free = replace(a, attached_to=None)
    assert broken(a_cluster(a, b), free, on(free, "n2")) == []


# The right node, class and step.


@pytest.mark.parametrize(
    ("node", "rules"),
    [
        (a_node(), []),
        (a_node("elsewhere"), [Rule.BOOKED_TWICE, Rule.WRONG_NODE]),
        (a_node(ready=False), [Rule.WRONG_NODE]),
        (a_node(cordoned=True), [Rule.WRONG_NODE]),
        (a_node(deleting=True), [Rule.WRONG_NODE]),
        (a_node(taints=[a_taint()]), [Rule.WRONG_NODE]),
        (a_node(taints=[a_taint(effect="NoExecute")]), [Rule.WRONG_NODE]),
        (a_node(taints=[a_taint(effect="PreferNoSchedule")]), []),
        (a_node(resource=L40), [Rule.BOOKED_TWICE, Rule.WRONG_NODE]),
    ],
    ids=["well", "none", "not ready", "cordoned", "going", "tainted", "evicts", "prefers", "other"],
)
def test_a_new_claim_comes_to_a_node_that_may_take_it(node, rules):
    assert placing(nodes=[node]) == rules


@pytest.mark.parametrize(
    ("toleration", "rules"),
    [
        ({"operator": "Exists"}, []),
        ({"operator": "Exists", "key": "dedicated"}, []),
        ({"operator": "Exists", "key": "other"}, [Rule.WRONG_NODE]),
        ({"key": "dedicated", "value": "gpu"}, []),
        ({"key": "dedicated", "value": "cpu"}, [Rule.WRONG_NODE]),
        ({"operator": "Exists", "effect": "NoExecute"}, [Rule.WRONG_NODE]),
        ({"operator": "Exists", "effect": "NoSchedule"}, []),
    ],
)
def test_tolerations_match_as_the_scheduler_matches_them(toleration, rules):
    classes = [a_class(tolerations=[toleration])]
    assert placing(classes=classes, nodes=[a_node(taints=[a_taint()])]) == rules


@pytest.mark.parametrize("held", [{"on": "n1"}, {"lost": "n1"}])
def test_a_claim_joins_its_set_or_its_guest_on_a_node_that_takes_no_others(held):
    a, b = a_claim("a", vm="vm", **held), a_claim("b", vm="vm", on="n2")
    guest = {"pods": [a_pod(uid="p", on="n1")], "vmis": [a_vmi(active={"p": "n1"})]}
    nodes = [a_node(cordoned=True), a_node("n2")]
    assert broken(a_cluster(a, b, nodes=nodes, **guest), on(a), on(b)) == []
    alone = [Rule.WRONG_NODE] if "lost" in held else []
    assert broken(a_cluster(a, b, nodes=nodes), on(a), on(b)) == alone


@pytest.mark.parametrize(
    ("vmi", "ended", "rules"),
    [
        ({"active": {"p": "n2", "q": "n1"}}, [], []),
        ({"active": {"p": "n2", "q": "n1"}}, ["q"], [Rule.WRONG_NODE]),
        ({"active": {"p": "n2"}}, [], [Rule.WRONG_NODE]),
        ({"active": {"q": "n1"}, "phase": "Failed"}, [], [Rule.WRONG_NODE]),
        ({"active": {"q": "n1"}, "uid": "later"}, [], [Rule.WRONG_NODE]),
    ],
    ids=["listed", "known to have ended", "not listed", "over", "of another start"],
)
def test_a_guest_that_migrated_is_followed_though_its_pod_is_forced_away(vmi, ended, rules):
    """Its VMI lists it still, and the node took a taint meanwhile: the guest is there all the same."""
    noted = attachment("vm", uid="u", pods={"p": "n2", "q": "n1"}, ended=ended)
    mine = a_claim("mine", on="n2", attached=noted)
    nodes = [a_node(taints=[a_taint()]), a_node("n2")]
    cluster = a_cluster(mine, nodes=nodes, vmis=[a_vmi(**{"uid": "u", **vmi})])
    assert broken(cluster, on(mine)) == rules


@pytest.mark.parametrize(
    ("offer", "new", "rules"),
    [
        (a_class(), order(), []),
        (a_class("other"), order(), [Rule.WRONG_CLASS]),
        (a_class(retired=True), order(), [Rule.WRONG_CLASS]),
        (a_class(deleting=True), order(), [Rule.WRONG_CLASS]),
        (a_class(maxCount=2), order(count=2), []),
        (a_class(maxCount=2), order(count=3), [Rule.WRONG_CLASS]),
        (a_class(mode="vgpu"), order(), [Rule.WRONG_CLASS]),
        (a_class(), order(tenant="kube-system"), [Rule.WRONG_CLASS]),
    ],
    ids=["well", "none", "retired", "going", "max", "over max", "vgpu", "no tenant"],
)
def test_a_new_claim_is_of_a_class_that_takes_it(offer, new, rules):
    assert placing(new=new, classes=[offer]) == rules


@pytest.mark.parametrize("who", ["tenant-a", "tenant-root"])
def test_an_entitlement_comes_from_the_tenant_or_from_above(who):
    vgpu, namespace = a_class(mode="vgpu"), a_namespace(who, entitled=True)
    assert placing(classes=[vgpu], namespaces=[namespace]) == []
    two = order(count=2)
    assert placing(new=two, classes=[vgpu], namespaces=[namespace]) == [Rule.WRONG_CLASS]


def test_what_kubevirt_does_not_permit_is_not_bound():
    assert placing(kubevirts=[a_kubevirt(H100)]) == []
    assert placing(kubevirts=[a_kubevirt(L40)]) == [Rule.WRONG_CLASS]
    assert placing(kubevirts=[a_kubevirt(table=False)]) == []


def test_holders_of_a_retired_class_move_and_come_back():
    held, gone = a_claim("a", on="n1"), a_claim("b", lost="n1")
    cluster = a_cluster(held, gone, classes=[a_class(retired=True)])
    assert broken(cluster, on(held, "n2"), on(gone, "n2")) == []


@pytest.mark.parametrize(
    ("before", "after", "rules"),
    [
        (a_claim(), on(a_claim()), []),
        (a_claim(on="n1"), on(a_claim(), "n2"), []),
        (a_claim(on="n1"), lost(a_claim(on="n1")), []),
        (a_claim(lost="n1"), on(a_claim()), []),
        (a_claim(on="n1"), a_claim(on="n1", vm="vm"), []),
        (a_claim(), lost(a_claim()), [Rule.WRONG_STEP]),
        (a_claim(on="n1"), a_claim(), [Rule.WRONG_STEP]),
        (a_claim(lost="n1"), a_claim(), [Rule.WRONG_STEP]),
        (a_claim(), on(a_claim(), None), [Rule.WRONG_STEP]),
        (a_claim(count=1), on(a_claim(count=2)), [Rule.WRONG_STEP]),
        (a_claim(), on(a_claim(class_name="l40")), [Rule.WRONG_STEP]),
        (a_claim("other"), on(a_claim()), [Rule.WRONG_STEP]),
        (a_claim(deleting=True), on(a_claim(deleting=True)), [Rule.WRONG_STEP]),
    ],
)
def test_a_claim_takes_legal_steps_only(before, after, rules):
    both = [a_class(), a_class("l40")]
    assert broken(a_cluster(before, classes=both), after) == rules


def test_a_claim_made_anew_under_the_same_name_is_another():
    new = order()
    cluster = a_cluster(replace(new, meta=replace(new.meta, uid="other")))
    assert broken(cluster, on(new)) == [Rule.WRONG_STEP]


def test_steps_of_one_plan_follow_each_other():
    held = a_claim(on="n1")
    assert broken(a_cluster(held), lost(held), on(held, "n2")) == []
    new = order()
    assert broken(a_cluster(new), on(new), new) == [Rule.WRONG_STEP]


def test_nothing_is_placed_blindly():
    unreadable = frozenset({ObjectKey("tenant-a", "odd")})
    assert placing(unreadable=unreadable) == [Rule.BLIND]
    held = a_claim(on="n1")
    assert broken(a_cluster(held, unreadable=unreadable), lost(held)) == []


def test_a_violation_names_object_and_numbers():
    (found,) = invariants.judge(a_cluster(order(count=9)), [on(order(count=9))])
    assert str(found) == f"BookedTwice: node n1: 9 units of {H100} in use, it has 8"


@pytest.mark.parametrize(
    "module", [invariants, violations, overdrawn, naive, ground, pinning, answering]
)
def test_the_checker_shares_nothing_with_what_plans(module):
    """An import of ledger, booking, coverage, placement, sets or budgets would share its errors."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpu")
        for alias in node.names
    }
    allowed = (
        "gpu.objects.",
        "gpu.units.",
        "gpu.keys",
        "gpu.model.naive",
        "gpu.model.ground",
        "gpu.model.pinning",
        "gpu.model.answering",
        "gpu.model.overdrawn",
        "gpu.model.violations",
    )
    assert [name for name in sorted(imported) if not name.startswith(allowed)] == []
