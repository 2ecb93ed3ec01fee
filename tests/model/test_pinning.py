"""The checker on launchers: whatever a plan lets through is whole and stands with its claims."""

from dataclasses import replace

import pytest

from gpu import keys
from gpu.binder.changes import Attach, Place
from gpu.binder.checking import Checker
from gpu.binder.phases import gates
from gpu.binder.start_changes import CreateClaim, Pin
from gpu.model.violations import Rule
from tests.binder import gated, interrupting, raws
from tests.binder.scenes import a_scene

START = gated.a_start(held=("a",), units={"h100": 1}, asks=2)


def scene(**more):
    noted = raws.attached("vm", uid="vmi-vm", admission="adm-a", pods={"pod-vm": ""})
    return a_scene(
        classes=[raws.a_class()],
        nodes=[raws.a_node("n1", units=4), raws.a_node("n2")],
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
        **({"claims": [interrupting.held("a", **noted)]} | START | more),
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


def raw_starts(*units, tenant="tenant-a", quotas):
    """Launchers that ask for units by name, each of a VM without claims, and their pins to n2."""
    starts = [gated.a_start(f"vm{n}", asks=it, tenant=tenant) for n, it in enumerate(units)]
    parts = {part: [it[part][0] for it in starts] for part in ("vmis", "pods")}
    release = raws.a_release()
    release["spec"]["values"]["resourceQuotas"] = {key: str(hard) for key, hard in quotas.items()}
    world = scene(claims=[], releases=[release], **parts).world
    return world, tuple(
        Pin(vmi=vmi.meta.key, vmi_uid=vmi.meta.uid, pod=pod, node="n2", set_id=vmi.meta.name)
        for vmi, pod in zip(world.vmis, world.pods, strict=True)
    )


@pytest.mark.parametrize("key", [keys.QUOTA_TOTAL, raws.RESOURCE])
@pytest.mark.parametrize("tenant", ["tenant-a", "tenant-a-x"])
@pytest.mark.parametrize(("hard", "rules"), [(3, set()), (2, {Rule.OVER_BUDGET})])
def test_units_asked_for_by_name_fit_every_budget_above(key, tenant, hard, rules):
    world, pins = raw_starts(3, tenant=tenant, quotas={key: hard})
    assert judged(world, pins) == rules
    anywhere = tuple(replace(pin, node=None) for pin in pins)
    assert judged(world, anywhere) == set(), "the scheduler places it: no budget was asked"


def test_launchers_let_through_earlier_in_the_pass_use_the_budget_too():
    world, pins = raw_starts(2, 2, quotas={raws.RESOURCE: 3})
    assert judged(world, pins) == {Rule.OVER_BUDGET}
    checker = Checker(world=world)
    assert checker.judge(pins[:1]) == ()
    checker.stored(pins[:1])
    assert [it.rule for it in checker.judge(pins[1:])] == [Rule.OVER_BUDGET]


def test_units_that_the_claims_of_a_start_account_for_are_not_counted_again():
    found = scene(releases=[raws.a_release("tenant-a", total=2)])
    assert judged(found.world, tuple(gates.changes_of(found))) == set()


def test_a_budget_of_a_class_says_nothing_of_units_asked_for_by_name():
    world, pins = raw_starts(3, quotas={keys.quota_key_of_class("h100"): 0})
    assert judged(world, pins) == set()
