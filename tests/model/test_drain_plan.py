"""Drain plans: each outcome, whose room is whose, the guard, and sums nobody else made."""

from dataclasses import replace

from hypothesis import given

from gpu.config import Grace, Guard
from gpu.model import drain_plan, guard, keeping
from gpu.model.draft import Draft
from gpu.model.drain_plan import Circumstances, Outcome
from gpu.objects import meta
from gpu.objects.claims import Cause
from tests import sampling, strategies
from tests.builders import (
    a_claim,
    a_class,
    a_node,
    a_pod,
    a_snapshot,
    a_vm,
    a_vmi,
    an_inventory,
    attachment,
    raw_inventory,
)
from tests.model import oracles

WIDE = Circumstances(guard=Guard(share=1.0, at_least=1000))


def plan(about=WIDE, of="n1", **objects):
    objects = {"classes": [a_class()], **objects}
    found = drain_plan.plans(a_snapshot(**objects), about)
    return next(one for one in found if one.node.name == of)


def told(found):
    """By the oldest claim of each set: outcome and where to."""
    return {one.claims[0].meta.name: (one.outcome.value, one.to) for one in found.sets}


def running(vm, node="n1"):
    """A VM whose guest runs, and its pod."""
    vmi = a_vmi(vm, uid=f"{vm}-uid", node=node, active={f"{vm}-pod": node})
    return vmi, a_pod(f"{vm}-pod", uid=f"{vm}-pod", on=node)


def used_by(vm, node="n1"):
    return attachment(vm, uid=f"{vm}-uid", pods={f"{vm}-pod": node})


def test_sets_leave_one_after_another_and_take_the_room_of_those_behind_them():
    found = plan(
        nodes=[a_node("n1"), a_node("n2", units=3), a_node("n3", units=2)],
        claims=[a_claim(f"c{age}", at=age, on="n1", count=2) for age in range(3)],
    )
    assert told(found) == {"c0": ("Move", "n3"), "c1": ("Move", "n2"), "c2": ("NoRoom", None)}
    assert [one.at_once for one in found.sets] == [True, True, False]


def test_a_running_guest_comes_last_and_moves_when_it_is_stopped():
    vmi, pod = running("vm")
    found = plan(
        nodes=[a_node("n1"), a_node("n2", units=1), a_node("n3", units=1, cordoned=True)],
        claims=[
            a_claim("old", at=0, on="n1", attached=used_by("vm")),
            a_claim("idle", at=1, on="n1"),
        ],
        vmis=[vmi],
        pods=[pod],
    )
    assert told(found) == {"idle": ("Move", "n2"), "old": ("NoRoom", None)}
    found = plan(
        nodes=[a_node("n1"), a_node("n2", units=2)],
        claims=[
            a_claim("old", at=0, on="n1", attached=used_by("vm")),
            a_claim("idle", at=1, on="n1"),
        ],
        vmis=[vmi],
        pods=[pod],
    )
    assert told(found) == {"idle": ("Move", "n2"), "old": ("MoveWhenStopped", "n2")}


def test_a_class_that_stays_and_claims_that_are_deleted_are_told_apart():
    found = plan(
        classes=[a_class(), a_class("stays", onCordon="Stay")],
        nodes=[a_node("n1"), a_node("n2")],
        claims=[
            a_claim("stays", at=0, on="n1", class_name="stays"),
            a_claim("goes", at=1, on="n1", deleting=True),
        ],
    )
    assert told(found) == {"stays": ("Stay", None), "goes": ("Release", None)}


def test_claims_of_one_vm_go_together_or_not_at_all():
    found = plan(
        nodes=[a_node("n1"), a_node("n2", units=1)],
        claims=[a_claim("a", at=0, on="n1"), a_claim("b", at=1, on="n1")],
        vms=[a_vm("vm", claims=["a", "b"])],
    )
    assert told(found) == {"a": ("NoRoom", None)}
    assert [claim.meta.name for claim in found.sets[0].claims] == ["a", "b"]
    assert (found.sets[0].vm.name, found.sets[0].units) == ("vm", 2)


def test_what_the_guard_would_hold_back_says_so_until_somebody_acknowledges_it():
    objects = {
        "nodes": [a_node("n1"), a_node("n2")],
        "claims": [a_claim(f"c{age}", at=age, on="n1") for age in range(3)],
    }
    strict = Circumstances(guard=Guard(share=0.0, at_least=2))
    found = plan(strict, **objects)
    assert [one.held_back for one in found.sets] == [False, False, True]
    assert (found.guard_limit, found.guard_id) == (
        2,
        guard.id_of("n1", Cause.NODE_CORDONED, None),
    )
    known = raw_inventory("n1")
    known["metadata"]["annotations"] = {"gpu.cozystack.io/acknowledge-lost": found.guard_id}
    seen = replace(
        an_inventory("n1"),
        meta=replace(an_inventory("n1").meta, annotations=known["metadata"]["annotations"]),
    )
    found = plan(strict, inventory=[seen], **objects)
    assert [one.held_back for one in found.sets] == [False, False, False]


def test_every_gpu_node_has_a_plan_and_no_other():
    snapshot = a_snapshot(
        classes=[a_class()],
        nodes=[a_node("gpu"), a_node("bare", units=None), a_node("left", units=None)],
        claims=[a_claim("c", on="left"), a_claim("d", on="gone")],
    )
    assert [one.node.name for one in drain_plan.plans(snapshot, WIDE)] == ["gpu", "left"]


def moved(objects, found):
    """Claims as they are once all that has room has gone there."""
    going = [(claim, one.to) for one in found.sets if one.to for claim in one.claims]
    to = {claim.key: node for claim, node in going if not claim.meta.deleting}
    return [
        replace(claim, node=to[claim.key]) if claim.key in to else claim
        for claim in objects["claims"]
    ]


@sampling.examples(60)
@given(strategies.clusters())
def test_no_node_is_promised_more_than_it_has_left_by_anothers_sums(objects):
    snapshot = a_snapshot(**objects)
    nodes = {node.name: node for node in objects["nodes"]}
    offers = {offer.name: offer for offer in objects["classes"]}
    for found in drain_plan.plans(snapshot, WIDE):
        after = moved(objects, found)
        for one in (one for one in found.sets if one.to):
            node = nodes[one.to]
            assert one.to != found.node.name
            assert node.ready
            assert not node.cordoned
            for offer in [offers[claim.class_name] for claim in one.claims]:
                assert oracles.tolerates_all(offer, node)
                used = oracles.in_use(objects, after, node.name, offer.resource)
                assert used <= oracles.serves(objects, node, offer.resource)


@sampling.examples(60)
@given(strategies.clusters())
def test_what_has_no_room_fits_on_no_other_node_by_anothers_sums(objects):
    snapshot = a_snapshot(**objects)
    draft = Draft.of(snapshot)
    ailing = keeping.troubles(draft, meta.EPOCH, Grace())
    offers = {offer.name: offer for offer in objects["classes"]}
    for found in drain_plan.plans(snapshot, WIDE) if not ailing else ():
        after = moved(objects, found)
        for one in found.sets:
            alone = len(one.claims) == 1 and one.vm is None
            if one.outcome is not Outcome.NO_ROOM or not alone:
                continue
            (claim,) = one.claims
            offer = offers.get(claim.class_name)
            if offer is not None:
                rooms = oracles.nodes_for(objects, after, offer, claim.count)
                assert {name for *_, name in rooms} <= {found.node.name}
