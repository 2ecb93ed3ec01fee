"""The checker on launchers: whatever a plan lets through is whole and stands with its claims."""

from dataclasses import replace

import pytest

from gpu.binder.changes import Attach, Place
from gpu.binder.checking import Checker
from gpu.binder.phases import gates
from gpu.binder.start_changes import CreateClaim, Pin
from gpu.model.invariants import Rule
from tests.binder import gated, interrupting, raws
from tests.binder.scenes import a_scene

START = gated.a_start(held=("a",), units={"h100": 1}, asks=2)


def scene(**more):
    noted = raws.attached("vm", uid="vmi-vm", admission="adm-a", pods={"pod-vm": ""})
    return a_scene(
        classes=[raws.a_class()],
        nodes=[raws.a_node("n1", units=4), raws.a_node("n2")],
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
        claims=[interrupting.held("a", **noted)],
        **(START | more),
    )


def plan():
    found = scene()
    return found.world, tuple(gates.changes_of(found))


def judged(world, wanted):
    return {violation.rule for violation in Checker(world=world).judge(wanted)}


def without(kind, wanted):
    return tuple(change for change in wanted if not isinstance(change, kind))


def test_what_the_phase_plans_breaks_nothing():
    world, wanted = plan()
    assert [type(change) for change in wanted] == [CreateClaim, Attach, Place, Pin]
    assert judged(world, wanted) == set()


@pytest.mark.parametrize("left_out", [Attach, Place])
def test_a_launcher_is_not_let_through_before_all_its_claims_stand(left_out):
    world, wanted = plan()
    assert Rule.PIN_ASTRAY in judged(world, without(left_out, wanted))


def test_a_template_claim_is_made_for_a_vmi_that_asks_for_it_only():
    world, wanted = plan()
    made = wanted[0].claim
    more = replace(wanted[0], claim=replace(made, count=type(made.count)(3)))
    assert Rule.WRONG_STEP in judged(world, (more,))
    foreign = replace(made, meta=replace(made.meta, owners=()))
    assert Rule.WRONG_STEP in judged(world, (replace(wanted[0], claim=foreign),))
    assert judged(world, (wanted[0],)) == set()


def test_a_launcher_goes_to_the_node_of_its_claims_and_nowhere_else():
    world, wanted = plan()
    for node in ("n2", "none", None):
        astray = (*wanted[:-1], replace(wanted[-1], node=node))
        assert Rule.PIN_ASTRAY in judged(world, astray)


def test_a_pod_that_nobody_lists_is_no_launcher():
    world, wanted = plan()
    vmi = replace(world.vmis[0], active_pods={})
    assert Rule.PIN_ASTRAY in judged(replace(world, vmis=(vmi,)), wanted)
    pod = replace(world.pods[0], gates=())
    assert Rule.PIN_ASTRAY in judged(replace(world, pods=(pod,)), wanted)


def test_units_of_pods_that_are_let_through_are_counted_before_and_after():
    starts = [gated.a_start(f"vm{n}", asks=3) for n in range(2)]
    parts = {part: [it[part][0] for it in starts] for part in ("vmis", "pods")}
    found = scene(**parts)
    pins = tuple(
        Pin(vmi=vmi.meta.key, vmi_uid=vmi.meta.uid, pod=pod, node="n1", set_id=vmi.meta.name)
        for vmi, pod in zip(found.world.vmis, found.world.pods, strict=True)
    )
    assert judged(found.world, pins) == {Rule.BOOKED_TWICE}
    assert judged(found.world, pins[:1]) == set()
    checker = Checker(world=found.world)
    assert checker.judge(pins[:1]) == ()
    checker.stored(pins[:1])
    assert [it.rule for it in checker.judge(pins[1:])] == [Rule.BOOKED_TWICE]
