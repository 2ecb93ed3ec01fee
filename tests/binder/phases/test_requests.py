"""Phase requests: a start is answered as a whole, on one node or not at all."""

from dataclasses import replace

import pytest

from gpu.binder.answer_changes import Answer
from gpu.binder.changes import How, Place
from gpu.binder.checking import Checker
from gpu.binder.phases import requests, sets
from gpu.objects.claims import BindResult, Cause
from tests.binder import asking, interrupting, raws
from tests.binder.asking import claim
from tests.binder.scenes import a_scene

TWO = ("a", "b")
LATER = "2026-01-01T11:59:52Z"


def scene(*claims, nodes=("n1",), classes=None, **more):
    return a_scene(
        classes=classes or [raws.a_class()],
        nodes=[raws.a_node(it) if isinstance(it, str) else it for it in nodes],
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
        claims=list(claims),
        config=asking.CONFIG,
        **more,
    )


def decided(found):
    wanted = tuple(requests.changes_of(found))
    assert Checker(world=found.world).judge(wanted) == ()
    return wanted


def told(found):
    """What each claim is told and where it goes; the node in brackets where it stays."""
    return {change.claim.meta.name: _told(change) for change in decided(found)}


def _told(change):
    if isinstance(change, Answer):
        return (change.request.result.value, f"[{change.claim.node}]")
    return (change.answer.result.value if change.answer else "", change.node, change.how.value)


def words(found):
    """The one message of a refusal that changes nothing."""
    wanted = decided(found)
    assert {change.request.result for change in wanted} == {BindResult.REFUSED}
    (said,) = {change.request.message for change in wanted}
    return said


GRANTED = {
    "a template claim is placed": (
        [claim(asking.template(), template=True, asks=[asking.template()], count=2)],
        {asking.template(): ("Succeeded", "n1", "Placed")},
    ),
    "a held claim stays": ([claim("a", "n1")], {"a": ("Succeeded", "[n1]")}),
    "an order of the tenant's is bound": ([claim("a")], {"a": ("Succeeded", "n1", "Placed")}),
    "a Lost claim is bound anew": ([claim("a", lost="n9")], {"a": ("Succeeded", "n1", "Rebound")}),
    "a torn set is gathered where most of it is": (
        [claim("a", "n1", asks=TWO), claim("b", "n2", asks=TWO, count=2)],
        {"a": ("Succeeded", "n2", "Gathered"), "b": ("Succeeded", "[n2]")},
    ),
    "what is Pending joins what is held": (
        [claim("a", "n2", asks=TWO), claim("b", asks=TWO, template=True)],
        {"b": ("Succeeded", "n2", "Placed"), "a": ("Succeeded", "[n2]")},
    ),
    "what is Lost joins what is held": (
        [claim("a", "n2", asks=TWO), claim("b", lost="n1", asks=TWO)],
        {"b": ("Succeeded", "n2", "Rebound"), "a": ("Succeeded", "[n2]")},
    ),
}


@pytest.mark.parametrize(("claims", "wanted"), GRANTED.values(), ids=GRANTED)
def test_a_start_is_granted_on_one_node(claims, wanted):
    assert told(scene(*claims, nodes=("n1", "n2"))) == wanted


def test_a_set_moves_to_where_all_of_it_has_room():
    small = raws.a_node("n1", units=1)
    found = scene(
        claim("a", "n1", asks=TWO), claim("b", asks=TWO, template=True), nodes=(small, "n2")
    )
    assert told(found) == {
        "a": ("Succeeded", "n2", "Moved"),
        "b": ("Succeeded", "n2", "Placed"),
    }


NODES_LEFT = {
    "cordoned": ({"unschedulable": True}, Cause.NODE_CORDONED),
    "tainted": ({"taints": [{"key": "mine", "effect": "NoSchedule"}]}, Cause.NODE_TAINTED),
    "not Ready": ({"ready": "False"}, Cause.NODE_NOT_READY),
    "with no such units": ({"units": 0}, Cause.UNITS_MISSING),
    "with fewer units": ({"units": 1}, Cause.UNITS_MISSING),
}


@pytest.mark.parametrize(("how", "cause"), NODES_LEFT.values(), ids=NODES_LEFT)
def test_a_held_set_leaves_a_node_that_cannot_have_it(how, cause):
    found = scene(claim("a", "n1", count=2), nodes=(raws.a_node("n1", **how), "n2"))
    (change,) = decided(found)
    assert isinstance(change, Place)
    assert (change.node, change.how) == ("n2", How.MOVED)
    assert change.displaced
    assert change.displaced.cause is cause


def test_a_node_that_is_gone_is_left():
    found = scene(claim("a", "n1"), nodes=("n2",))
    (change,) = decided(found)
    assert (change.node, change.displaced.cause) == ("n2", Cause.NODE_GONE)


def test_nothing_is_changed_by_a_refusal_and_each_claim_says_where_they_are():
    found = scene(
        claim("a", "n1", asks=("a", "b", "c")),
        claim("b", lost="n9", asks=("a", "b", "c")),
        claim("c", asks=("a", "b", "c"), template=True, count=9),
    )
    assert words(found) == (
        "3 claims of one VM need 11 units of class h100 on one node, no node has room for all: wait "
        "until one has, or give back a claim; nothing was changed: claim a (1 unit of h100) on node "
        "n1, claim b (1 unit of h100) Lost, last on node n9, claim c (9 units of h100) on no node"
    )


NOT_ACTED_ON = {
    "one of its claims has no request yet": [
        claim("a", asks=TWO),
        claim("b", asks=None),
    ],
    "one of its claims is not there": [claim("a", asks=TWO)],
    "one of its claims carries another request": [
        claim("a", asks=TWO),
        claim("b", asks=TWO, id_="r2"),
    ],
    "its claims name different ones": [claim("a", asks=TWO), claim("b", asks=("b", "c"))],
    "its claims name different VMs": [
        claim("a", asks=TWO),
        claim("b", asks=TWO, status=asking.request(TWO, vm="other")),
    ],
    "a claim has it that is not named": [claim("a"), claim("b", asks=("a",))],
    "it was answered": [claim("a", "n1", answer={"result": "Succeeded", "message": "m"})],
    "nobody waits for it any more": [claim("a", since="2026-01-01T11:59:00Z")],
    "its claim is attached to nothing": [claim("a", status={"attachedTo": None})],
    "its claim is attached to another VM": [claim("a", status=raws.attached("other"))],
    "its VMI has come": [
        claim("a", status=raws.attached("vm", uid="u", since=asking.SINCE, admission="r1"))
    ],
    "its claim was attached anew since": [
        claim("a", status=raws.attached("vm", admission="r2", since="2026-01-01T11:59:57Z"))
    ],
}


@pytest.mark.parametrize("claims", NOT_ACTED_ON.values(), ids=NOT_ACTED_ON)
def test_a_request_that_is_not_whole_is_not_acted_on(claims):
    assert decided(scene(*claims)) == ()


def test_a_request_of_the_same_id_elsewhere_is_another():
    other = claim("a", id_="r1", tenant="tenant-b")
    found = scene(claim("a"), other)
    assert {change.claim.meta.namespace for change in requests.changes_of(found)} == {
        "tenant-a",
        "tenant-b",
    }


REFUSED = {
    "a claim is being deleted": ([claim("a", "n1", meta=raws.DELETED)], "claim a is being deleted"),
    "its class is unknown": ([claim("a", class_name="none")], "class none does not exist"),
    "a claim of an earlier start is not let go of": (
        [claim("a", "n1"), claim("old", "n1", asks=None, status=raws.attached("vm", uid="before"))],
        "claim old is still used by another VM, or by an earlier run of this one",
    ),
    "a pod of an earlier start may run": (
        [
            claim(
                "a",
                "n1",
                status=raws.attached(
                    "vm", admission="r1", since=asking.SINCE, pods={"pod-1": "n1"}
                ),
            )
        ],
        "claim a is still used by another VM, or by an earlier run of this one",
    ),
    "its node refused the last launcher": (
        [
            claim(
                "a",
                "n1",
                status={"rejectedNodes": [{"node": "n1", "until": "2026-01-01T12:05:00Z"}]},
            )
        ],
        "1 node that refused the launcher is skipped for this VM",
    ),
    "more than one claim may have": ([claim("a", class_name="few", count=3)], "at most 2"),
    "the tenant is not entitled": ([claim("a", class_name="slice")], "is not entitled"),
    "its class is retired": ([claim("a", class_name="old")], "is retired"),
}
CLASSES = [
    raws.a_class(),
    raws.a_class("few", maxCount=2),
    raws.a_class("slice", mode="vgpu"),
    raws.a_class("old", retired=True),
]


@pytest.mark.parametrize(("claims", "why"), REFUSED.values(), ids=REFUSED)
def test_a_start_is_refused_saying_why(claims, why):
    assert why in words(scene(*claims, classes=CLASSES))


def test_every_reason_is_told_at_once():
    found = scene(
        claim("a", class_name="few", count=9),
        classes=CLASSES,
        releases=[raws.a_release(total=2)],
    )
    said = words(found)
    assert "at most 2" in said
    assert "gpu.cozystack.io/total" in said
    assert "9 units of class few asked" in said


def test_units_that_are_held_are_no_order():
    found = scene(
        claim("a", "n1", class_name="old", count=5),
        classes=CLASSES,
        releases=[raws.a_release(total=1)],
    )
    assert told(found) == {"a": ("Succeeded", "[n1]")}


def test_nothing_is_placed_while_a_claim_cannot_be_read():
    found = scene(claim("a"))
    key = found.world.claims[0].key
    blind = replace(found, world=replace(found.world, unreadable_claims=frozenset({key})))
    (change,) = requests.changes_of(blind)
    assert change.request.result is BindResult.REFUSED
    assert "cannot be read" in change.request.message


def test_a_set_that_asks_is_left_to_its_answer():
    torn = [claim("a", "n1", asks=TWO), claim("b", lost="n9", asks=TWO, count=8)]
    found = scene(*torn)
    assert tuple(sets.changes_of(found)) == ()
    assert {it[0] for it in told(found).values()} == {"Refused"}


def test_a_set_that_asks_in_part_is_made_whole_as_any_other():
    torn = [claim("a", "n1", asks=TWO), interrupting.lost("b", "n9")]
    vms = [raws.a_vm("vm", claims=("a", "b"))]
    (change,) = sets.changes_of(scene(*torn, vms=vms))
    assert (change.claim.meta.name, change.node) == ("b", "n1")


def test_older_orders_and_lost_sets_come_first():
    order = raws.a_claim("order", count=2, meta=interrupting.OURS)
    start = claim("t", template=True, asks=("t",), meta={"creationTimestamp": LATER})
    found = scene(order, start, nodes=(raws.a_node("n1", units=2),))
    assert told(found)["t"][0] == "Refused"
    lost = interrupting.lost("lost", count=2)
    found = scene(lost, start, nodes=(raws.a_node("n1", units=2),))
    assert told(found)["t"][0] == "Refused"


def test_of_two_starts_for_one_place_one_is_granted():
    both = [
        claim("s", template=True, asks=("s",), vm="one", count=2, id_="r1"),
        claim("t", template=True, asks=("t",), vm="two", count=2, id_="r2", at=1),
    ]
    found = scene(*both, nodes=(raws.a_node("n1", units=3),))
    assert {name: it[0] for name, it in told(found).items()} == {"s": "Succeeded", "t": "Refused"}


def test_a_start_that_is_begun_is_finished_where_it_began():
    done = {"result": "Succeeded", "message": "2 units held on node n2"}
    found = scene(claim("a", "n2", asks=TWO, answer=done), claim("b", asks=TWO), nodes=("n1", "n2"))
    assert told(found) == {"b": ("Succeeded", "n2", "Placed")}


def test_a_start_that_cannot_be_finished_is_refused_whole():
    done = {"result": "Succeeded", "message": "3 units held on node n1"}
    found = scene(
        claim("a", "n1", asks=TWO, answer=done),
        claim("b", asks=TWO, count=2),
        nodes=(raws.a_node("n1", units=2),),
    )
    assert told(found) == {"a": ("Refused", "[n1]"), "b": ("Refused", "[None]")}


def test_what_the_vms_template_names_beside_goes_along_without_an_answer():
    found = scene(
        claim("a", "n1", count=2),
        interrupting.held("b", "n1", count=2),
        nodes=(raws.a_node("n1", unschedulable=True), "n2"),
        vms=[raws.a_vm("vm", claims=("a", "b"))],
    )
    assert told(found) == {"a": ("Succeeded", "n2", "Moved"), "b": ("", "n2", "Moved")}


def test_a_set_in_quarantine_is_left_alone():
    assert decided(scene(claim("a"), skip=["tenant-a/a"])) == ()
