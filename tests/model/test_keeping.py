"""Keeping: why a node cannot keep a set, since when, and until when it is borne."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.config import Grace
from gpu.model import keeping
from gpu.model.draft import Draft
from gpu.model.keeping import Trouble
from gpu.objects.claims import Cause
from tests import sampling
from tests.builders import (
    H100,
    L40,
    START,
    a_claim,
    a_class,
    a_node,
    a_snapshot,
    a_taint,
    a_vm,
    a_vmi,
    an_inventory,
    attachment,
    instant,
)

quick = sampling.examples(30)

GRACE = Grace(not_ready=300, degraded=200)
NOW = START + timedelta(seconds=1000, milliseconds=250)
SECOND = START + timedelta(seconds=1000)


def at(seconds):
    return START + timedelta(seconds=seconds)


def trouble(cause, since, over=None, node="n1"):
    return Trouble(node=node, cause=cause, since=since, over=since if over is None else over)


def says(cause, since=0):
    told = {"type": "Degraded", "status": "True", "reason": cause.value, "message": "m"}
    return {"status": {"conditions": [told | {"lastTransitionTime": instant(since)}]}}


def found(now=NOW, grace=GRACE, claims=None, **objects):
    claims = [a_claim(on="n1")] if claims is None else claims
    return keeping.troubles(Draft.of(a_snapshot(claims=claims, **objects)), now, grace)


def of(**objects):
    """The one trouble of the one set there is, or None."""
    return found(**objects).get("tenant-a/c")


CORDON = Trouble(node="n1", cause=Cause.NODE_CORDONED, since=None, over=NOW)


def test_a_node_that_is_well_keeps_its_sets():
    assert found(claims=[a_claim(on="n1", count=8), a_claim("p")]) == {}


def test_a_node_without_an_object_is_gone_at_once():
    assert of(nodes=[]) == trouble(Cause.NODE_GONE, SECOND)


def test_a_node_that_is_gone_is_so_since_a_claim_first_said_it():
    claims = [a_claim(on="n1"), a_claim("d", on="n1", **says(Cause.NODE_GONE, 940))]
    assert of(claims=claims, nodes=[]) == trouble(Cause.NODE_GONE, at(940))


def test_a_node_that_is_being_deleted_is_still_there():
    assert of(nodes=[a_node(deleting=True)]) is None


def test_a_node_that_is_not_ready_is_borne_from_the_instant_it_says():
    assert of(nodes=[a_node(ready=False, ready_since=800)]) == trouble(
        Cause.NODE_NOT_READY, at(800), at(1100)
    )


@pytest.mark.parametrize(("since", "due"), [(700, True), (700.1, True), (701, False)])
def test_the_grace_ends_with_its_last_second(since, due):
    assert of(nodes=[a_node(ready=False, ready_since=since)]).is_due(NOW) is due


def test_a_node_that_is_out_of_service_is_borne_no_longer():
    out = a_taint("node.kubernetes.io/out-of-service", effect="NoExecute")
    assert of(nodes=[a_node(ready=False, ready_since=990, taints=[out])]) == trouble(
        Cause.NODE_NOT_READY, at(990)
    )
    assert of(nodes=[a_node(taints=[out])]) == trouble(Cause.NODE_TAINTED, SECOND)


@pytest.mark.parametrize("units", [0, None, 1], ids=str)
def test_a_node_that_serves_fewer_units_than_are_held_is_borne_since_a_claim_said_so(units):
    nodes = [a_node(units=units)]
    claims = [a_claim(on="n1", count=2)]
    assert of(claims=claims, nodes=nodes) == trouble(Cause.UNITS_MISSING, SECOND, at(1200))
    claims = [a_claim(on="n1", count=2, **says(Cause.UNITS_MISSING, 900))]
    assert of(claims=claims, nodes=nodes) == trouble(Cause.UNITS_MISSING, at(900), at(1100))


def test_sick_devices_of_the_inventory_are_units_missing():
    assert of(inventory=[an_inventory(healthy=0, sick=8)]).cause is Cause.UNITS_MISSING
    assert of(inventory=[an_inventory(healthy=1, sick=7)]) is None


def test_what_a_claim_says_of_another_cause_is_no_clock():
    claims = [a_claim(on="n1", **says(Cause.NODE_NOT_READY, 10))]
    assert of(claims=claims, nodes=[a_node(units=0)]) == trouble(
        Cause.UNITS_MISSING, SECOND, at(1200)
    )


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_taint_the_class_does_not_tolerate_is_borne_not_at_all(effect):
    assert of(nodes=[a_node(taints=[a_taint(effect=effect)])]) == trouble(
        Cause.NODE_TAINTED, SECOND
    )


def test_a_taint_that_the_class_tolerates_or_that_only_prefers_is_none():
    tolerant = [a_class(tolerations=[{"key": "dedicated", "operator": "Exists"}])]
    assert of(classes=tolerant, nodes=[a_node(taints=[a_taint()])]) is None
    assert of(nodes=[a_node(taints=[a_taint(effect="PreferNoSchedule")])]) is None


@pytest.mark.parametrize("key", sorted(keeping.JUDGED_ELSEWHERE))
def test_taints_that_repeat_readiness_or_the_cordon_are_no_cause_of_their_own(key):
    assert of(nodes=[a_node(taints=[a_taint(key, "")])]) is None


@pytest.mark.parametrize("what", ["memory-pressure", "disk-pressure", "network-unavailable"])
def test_taints_of_a_passing_condition_have_the_grace_of_units(what):
    taint = a_taint(f"node.kubernetes.io/{what}", "")
    assert of(nodes=[a_node(taints=[taint])]) == trouble(Cause.NODE_TAINTED, SECOND, at(1200))
    assert of(nodes=[a_node(taints=[taint, a_taint()])]) == trouble(Cause.NODE_TAINTED, SECOND)


def test_a_cordon_is_due_at_once_and_has_no_clock():
    assert of(nodes=[a_node(cordoned=True)]) == CORDON


def test_a_set_with_a_stay_member_keeps_its_node_through_a_cordon():
    stay = [a_class(onCordon="Stay")]
    assert of(classes=stay, nodes=[a_node(cordoned=True)]) is None
    pair = [a_claim(on="n1"), a_claim("d", on="n1", class_name="l40", at=5)]
    both = [a_class(), a_class("l40", resource=L40, onCordon="Stay")]
    cordoned = [a_node(cordoned=True, also={L40: 8})]
    assert set(found(claims=pair, classes=both, nodes=cordoned)) == {"tenant-a/c"}
    vm = [a_vm(claims=["c", "d"])]
    assert found(claims=pair, classes=both, nodes=cordoned, vms=vm) == {}


def test_of_several_causes_the_worst_that_is_due_counts_and_else_the_worst():
    unready, cordoned = {"ready": False, "ready_since": 900}, {"cordoned": True}
    tainted = {"taints": [a_taint()]}
    assert of(nodes=[a_node(**unready)]).cause is Cause.NODE_NOT_READY
    assert of(nodes=[a_node(**unready, **cordoned)]).cause is Cause.NODE_CORDONED
    assert of(nodes=[a_node(**unready, **cordoned, **tainted)]).cause is Cause.NODE_TAINTED
    assert of(nodes=[a_node(**unready, units=0)]).cause is Cause.NODE_NOT_READY
    late = {"ready": False, "ready_since": 0}
    assert of(nodes=[a_node(**late, **cordoned, **tainted)]).cause is Cause.NODE_NOT_READY


def test_orders_lost_sets_and_what_is_being_deleted_are_none_of_it():
    claims = [
        a_claim("order"),
        a_claim("lost", lost="n1"),
        a_claim("going", on="n1", deleting=True),
    ]
    assert found(claims=claims, nodes=[]) == {}


def test_a_set_on_two_nodes_suffers_from_the_worst_of_both():
    claims = [a_claim("c", on="n1"), a_claim("d", on="n2", at=1)]
    vms = [a_vm(claims=["c", "d"])]
    assert found(claims=claims, vms=vms, nodes=[a_node("n1", cordoned=True)]) == {
        "tenant-a/c": trouble(Cause.NODE_GONE, SECOND, node="n2")
    }


# Whom a shortage concerns.


def short(claims, units, **objects):
    return sorted(found(claims=claims, nodes=[a_node(units=units)], **objects))


def test_a_shortage_concerns_as_many_sets_as_it_needs_the_youngest_first():
    claims = [a_claim(name, on="n1", at=age) for name, age in (("a", 3), ("b", 1), ("c", 2))]
    assert short(claims, 3) == []
    assert short(claims, 2) == ["tenant-a/a"]
    assert short(claims, 1) == ["tenant-a/a", "tenant-a/c"]
    assert short(claims, 0) == ["tenant-a/a", "tenant-a/b", "tenant-a/c"]


def guest(name, phase, *, deleting=False, age=0):
    told = attachment(name, uid=f"vmi-tenant-a-{name}", pods={f"{name}-p": "n1"})
    claim = a_claim(name, on="n1", at=age, attached=told)
    return claim, a_vmi(name, phase=phase, active={f"{name}-p": "n1"}, deleting=deleting)


def test_a_shortage_concerns_the_idle_first_and_those_that_run_last():
    ending, going = guest("ending", "Running", deleting=True, age=2)
    starting, comes = guest("starting", "Scheduled", age=3)
    running, runs = guest("running", "Running", age=4)
    idle = a_claim("idle", on="n1", at=1)
    claims, vmis = [running, starting, ending, idle], [going, comes, runs]
    order = ["tenant-a/idle", "tenant-a/ending", "tenant-a/starting", "tenant-a/running"]
    for missing in range(5):
        assert short(claims, 4 - missing, vmis=vmis) == sorted(order[:missing])


def test_a_set_that_is_not_needed_after_all_stays():
    small, large = a_claim("small", on="n1", at=9), a_claim("large", on="n1", count=4, at=1)
    assert short([small, large], 4) == ["tenant-a/small"]
    assert short([small, large], 3) == ["tenant-a/large"]


def test_what_is_being_deleted_is_not_missed():
    going = a_claim("going", on="n1", count=4, deleting=True)
    assert short([going, a_claim("a", on="n1", count=4)], 4) == []


def test_a_set_of_two_resources_is_chosen_once_for_both():
    claims = [
        a_claim("a", on="n1", at=2),
        a_claim("b", on="n1", class_name="l40", at=3),
        a_claim("c", on="n1", at=1),
    ]
    objects = {
        "classes": [a_class(), a_class("l40", resource=L40)],
        "vms": [a_vm(claims=["a", "b"])],
        "nodes": [a_node(units=1, also={L40: 0})],
    }
    assert sorted(found(claims=claims, **objects)) == ["tenant-a/a"]


HOLDS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=8)


@quick
@given(holds=HOLDS, units=st.integers(0, 20), seed=st.randoms(use_true_random=False))
def test_a_shortage_takes_what_is_enough_and_nothing_that_is_not_needed(holds, units, seed):
    claims = [
        a_claim(f"c{i}", on="n1", count=count, at=age) for i, (count, age) in enumerate(holds)
    ]
    sizes = {f"tenant-a/c{i}": count for i, (count, _) in enumerate(holds)}
    chosen = short(claims, units)
    left = sum(sizes.values()) - sum(sizes[name] for name in chosen)
    assert left <= units
    for name in chosen:
        assert left + sizes[name] > units
    shuffled = claims[:]
    seed.shuffle(shuffled)
    assert short(shuffled, units) == chosen


def test_resources_of_other_nodes_do_not_help():
    claims = [a_claim(on="n1", count=2)]
    nodes = [a_node("n1", units=1), a_node("n2", units=8, resource=H100)]
    assert of(claims=claims, nodes=nodes).cause is Cause.UNITS_MISSING
