"""Phase moves under the guard: what is held back, told, acknowledged and let go."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gpu.binder import standing
from gpu.binder.changes import Place, ReportBinder
from gpu.binder.phase import Findings
from gpu.binder.phases import moves, orders, status
from gpu.config import Guard
from gpu.model import guard
from gpu.model.draft import Draft
from gpu.objects.claims import Cause, Displaced
from gpu.units import NodeName
from tests.binder import raws
from tests.binder.phases.node_stories import (
    CONFIG,
    FINALIZER,
    KEEP,
    a_hold,
    a_scene,
    ago,
    degraded,
    done,
    guest,
    node_with,
    told,
)
from tests.binder.scenes import NOW

STRICT = replace(CONFIG, guard=Guard(window=600, share=0.0, at_least=2))
GONE, UNREADY, TAINTED = Cause.NODE_GONE, Cause.NODE_NOT_READY, Cause.NODE_TAINTED
TAINTED_ID = guard.id_of("n1", TAINTED, NOW)


def holds(*names, node="n1", **status):
    return [a_hold(name, node, at=at, **status) for at, name in enumerate(names)]


def tainted(*names, config=STRICT, **more):
    """Idle sets on a tainted node; n9 has room for all."""
    nodes = [*node_with(TAINTED), raws.a_node("n9")]
    return a_scene(*holds(*names), nodes=nodes, config=config, **more)


def binder(findings):
    """GPUBinder as it is after a pass with these findings."""
    found = standing.losses(findings)
    condition = {"type": found.type, "status": found.status, "reason": found.reason}
    return {
        "metadata": {"name": "binder"},
        "status": {"term": 1, "conditions": [condition | {"message": found.message}]},
    }


def acknowledging(ids, name="n1", *, inventory=True):
    marks = {"gpu.cozystack.io/acknowledge-lost": ids}
    if not inventory:
        return {"binders": [{"metadata": {"name": "binder", "annotations": marks}}]}
    node = raws.an_inventory(name)
    node["metadata"]["annotations"] = marks
    return {"inventory": [node]}


def test_past_its_share_the_guard_holds_back_and_the_set_says_so():
    scene = tainted("a", "b", "c")
    assert told(scene) == ["place a n9", "place b n9", "mark c NodeTainted"]
    (claim,) = [item for item in scene.draft.claims() if item.meta.name == "c"]
    assert claim.conditions[-1].message == (
        "node n1 has a taint that the class does not tolerate: so much is lost at once that the "
        "hoster is asked before the claim leaves it"
    )
    found = scene.findings
    assert (found.held_back, found.sets_held_back, found.guard_limit) == ({"n1": TAINTED_ID}, 1, 2)
    assert found.without_inventory == {"n1"}


def test_what_holds_back_nothing_says_nothing():
    scene = tainted("a", "b")
    assert done(scene) == ["place a n9", "place b n9"]
    assert scene.findings.guard_looked
    assert standing.losses(scene.findings).status == "False"


def test_the_next_pass_holds_back_the_same_under_the_same_id():
    scene = tainted("a", "b", "c")
    list(moves.changes_of(scene))
    later = replace(scene.world, claims=tuple(scene.draft.claims()))
    again = replace(
        scene,
        world=later,
        draft=Draft.of(later.snapshot),
        now=NOW + timedelta(seconds=30),
        findings=type(scene.findings)(),
    )
    assert told(again) == []
    assert again.findings.held_back == {"n1": TAINTED_ID}


@pytest.mark.parametrize("inventory", [True, False])
def test_an_acknowledgement_lets_the_rest_go(inventory):
    ids = f"0000000000,{TAINTED_ID}"
    assert done(tainted("a", "b", "c", "d", **acknowledging(ids, inventory=inventory))) == [
        "place a n9",
        "place b n9",
        "place c n9",
        "place d n9",
    ]


def test_the_limit_told_counts_what_the_pass_placed_afterwards():
    """Else the next pass, of an unchanged cluster, would have to tell another one."""
    nodes = [*node_with(TAINTED), raws.a_node("n9", units=3), raws.a_node("n2", units=20)]
    claims = [*holds(*"abc"), *holds(*(f"z{number}" for number in range(11)), node="n2")]
    order = raws.a_claim("order", at=99, meta=FINALIZER)
    config = replace(CONFIG, guard=Guard(window=600, share=0.2, at_least=2))
    bare = {"metadata": {"name": "binder"}, "status": {"term": 1}}
    scene = a_scene(*claims, order, nodes=nodes, config=config, binders=[bare])
    assert done(scene) == ["place a n9", "place b n9"]
    assert [type(change) for change in orders.changes_of(scene)] == [Place]
    (report,) = [it for it in status.changes_of(scene) if isinstance(it, ReportBinder)]
    world = replace(
        scene.world,
        claims=tuple(scene.draft.claims()),
        binders=(replace(report.binder, settings=report.settings, conditions=report.conditions),),
    )
    again = replace(scene, world=world, draft=Draft.of(world.snapshot), findings=Findings())
    assert done(again) == []
    assert again.findings.guard_limit == 3
    assert [it for it in status.changes_of(again) if isinstance(it, ReportBinder)] == []


def test_an_acknowledgement_of_something_else_lets_nothing_more_go():
    assert done(tainted("a", "b", "c", **acknowledging("0000000000"))) == [
        "place a n9",
        "place b n9",
    ]


def test_what_gpubinder_shows_as_held_back_stays_so_when_the_window_has_passed():
    first = tainted("a", "b", "c")
    list(moves.changes_of(first))
    said = degraded(TAINTED, since=0, message="m")
    nodes = [*node_with(TAINTED), raws.a_node("n9")]
    shown = [binder(first.findings)]
    scene = a_scene(*holds("c", **said), nodes=nodes, config=STRICT, binders=shown)
    assert done(scene) == []
    assert scene.findings.held_back == {"n1": TAINTED_ID}
    known = acknowledging(TAINTED_ID)
    scene = a_scene(*holds("c", **said), nodes=nodes, config=STRICT, binders=shown, **known)
    assert done(scene) == ["place c n9"]


def test_what_is_held_back_is_let_be_when_its_cause_passes():
    said = degraded(TAINTED)
    nodes = [raws.a_node("n1"), raws.a_node("n9")]
    scene = a_scene(*holds("c", **said), nodes=nodes, config=STRICT)
    assert told(scene) == ["clear c"]
    assert scene.findings.held_back == {}


def test_one_lost_node_of_three_is_answered_at_once():
    claims = [*holds(*"abcdef"), *holds(*"uvw", node="n2")]
    nodes = [raws.a_node("n2"), raws.a_node("n3", units=4)]
    assert done(a_scene(*claims, nodes=nodes, config=STRICT)) == [
        *[f"place {name} n3" for name in "abcd"],
        *[f"place {name} n2" for name in "ef"],
    ]


def test_of_two_lost_nodes_the_second_is_held_back():
    claims = [*holds(*"abcd"), *holds(*"wxyz", node="n2")]
    scene = a_scene(*claims, nodes=[raws.a_node("n3", units=1)], config=STRICT)
    assert sorted(done(scene)) == [
        "lose b",
        "lose c",
        "lose d",
        "lose w",
        "lose x",
        "place a n3",
    ]
    assert list(scene.findings.held_back) == ["n2"]
    assert scene.findings.sets_held_back == 2


def test_a_node_that_stands_is_not_taken_for_lost_because_a_member_left_it():
    """Else the rest of the one node that is gone would be held back, as that of a second one."""
    claims = [a_hold("x", "n2"), a_hold("y", "n1"), *holds("a", "b", "c", node="n2")]
    more = {"vms": [raws.a_vm("vm", claims=["x", "y"])], "config": STRICT}
    rest = ("tenant-a/a", "tenant-a/b", "tenant-a/c")
    first = a_scene(*claims, nodes=[raws.a_node("n1", units=1)], skip=rest, **more)
    assert done(first) == ["lose x", "lose y"]
    world = replace(first.world, claims=tuple(first.draft.claims()))
    assert [(claim.meta.name, claim.displaced) for claim in world.claims[3:]] == [
        ("x", Displaced(at=NOW, node=NodeName("n2"), cause=GONE)),
        ("y", Displaced(at=NOW, node=NodeName("n1"), cause=Cause.SET_TORN)),
    ]
    later = replace(first, world=world, draft=Draft.of(world.snapshot), skip=frozenset())
    assert sorted(done(later)) == ["lose b", "lose c", "place a n1"]


def running(*names, node="n1"):
    found = [guest("running", f"vm-{name}", node) for name in names]
    return {
        "claims": [
            a_hold(name, node, at=at, **one["attached"])
            for at, (name, one) in enumerate(zip(names, found, strict=True))
        ],
        "vmis": [vmi for one in found for vmi in one["vmis"]],
        "pods": [pod for one in found for pod in one["pods"]],
    }


def test_guests_to_be_ended_count_and_so_do_those_that_end():
    found = running("a", "b", "c")
    nodes = [*node_with(TAINTED), raws.a_node("n9")]
    objects = {"nodes": nodes, "config": STRICT, "vmis": found["vmis"], "pods": found["pods"]}
    assert done(a_scene(*found["claims"], **objects)) == ["end vm-a", "end vm-b"]
    going = [guest("ending", "vm-a"), guest("ending", "vm-b")]
    objects["vmis"] = [*going[0]["vmis"], *going[1]["vmis"], found["vmis"][2]]
    scene = a_scene(*found["claims"], **objects)
    assert done(scene) == []
    assert scene.findings.sets_held_back == 1


def test_a_kept_guest_is_not_asked_for():
    found = running("a", "b", "c")
    nodes = [*node_with(TAINTED), raws.a_node("n9")]
    config = replace(KEEP, guard=STRICT.guard)
    scene = a_scene(
        *found["claims"], nodes=nodes, config=config, vmis=found["vmis"], pods=found["pods"]
    )
    assert done(scene) == []
    assert scene.findings.sets_held_back == 0


def test_a_drain_counts_what_it_moves_and_not_what_has_no_room():
    nodes = [*node_with(Cause.NODE_CORDONED), raws.a_node("n9", units=2)]
    scene = a_scene(*holds("a", "b", "c"), nodes=nodes, config=STRICT)
    assert told(scene) == ["place a n9", "place b n9"]
    assert scene.findings.sets_held_back == 0
    nodes = [*node_with(Cause.NODE_CORDONED), raws.a_node("n9", units=3)]
    scene = a_scene(*holds("a", "b", "c"), nodes=nodes, config=STRICT)
    assert told(scene) == ["place a n9", "place b n9"]
    assert scene.findings.held_back == {"n1": guard.id_of("n1", Cause.NODE_CORDONED, None)}


def test_a_node_held_back_for_two_causes_is_acknowledged_by_two_ids():
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    node = raws.a_node("n1", taints=[taint], unschedulable=True)
    classes = [
        raws.a_class(),
        raws.a_class("l40", tolerations=[{"key": "dedicated", "operator": "Exists"}]),
    ]
    claims = [
        *holds("a", "b", "c"),
        raws.a_claim("d", class_name="l40", at=9, status=raws.bound()),
    ]
    scene = a_scene(*claims, nodes=[node, raws.a_node("n9")], classes=classes, config=STRICT)
    assert done(scene) == ["place a n9", "place b n9"]
    cordoned = guard.id_of("n1", Cause.NODE_CORDONED, None)
    assert scene.findings.held_back == {"n1": ",".join(sorted([TAINTED_ID, cordoned]))}


def test_losses_are_not_looked_at_while_a_claim_cannot_be_read():
    scene = tainted("a", "b", "c")
    world = replace(scene.world, unreadable_claims=frozenset({("tenant-a", "bad")}))
    blind = replace(scene, world=world)
    assert done(blind) == []
    assert not blind.findings.guard_looked


def test_a_node_within_its_grace_takes_nothing_of_the_share():
    nodes = [
        raws.a_node("n1", ready="False", since=ago(60)),
        *node_with(TAINTED, "n2"),
        raws.a_node("n9"),
    ]
    claims = [*holds("a", "b"), *holds("x", "y", node="n2")]
    assert done(a_scene(*claims, nodes=nodes, config=STRICT)) == ["place x n9", "place y n9"]
