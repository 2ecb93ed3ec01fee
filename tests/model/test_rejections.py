"""Rejections: which launchers count as refused, for how long a node is skipped, and for whom."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import keys
from gpu.config import Grace
from gpu.model import rejections
from gpu.model.rejections import Rejections, Why
from gpu.objects import nodes, pods
from gpu.objects.claims import RejectedNode
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName
from tests import builders, sampling
from tests.builders import START, a_claim, a_node, a_snapshot, a_taint, a_vmi, attachment
from tests.starting import raw_launcher

GRACE = Grace()
VM = ObjectKey("tenant-a", "vm")
N1 = NodeName("n1")
OUT_OF = f"OutOf{builders.H100}"


def at(seconds):
    return START + timedelta(seconds=seconds)


def launcher(name="p", *, term=1, pinned="n1", deleting=False, **more):
    """A launcher past the gate; refused, bound or waiting as told."""
    made = raw_launcher(
        name, uid=name, gates=more.pop("gates", ()), term=term, pinned=pinned, **more
    )
    if deleting:
        made["metadata"]["deletionTimestamp"] = builders.instant(1)
    return pods.decode(made)


def refused(name="p", *, reason=OUT_OF, node="n1", **more):
    return launcher(name, on=node, phase="Failed", reason=reason, **more)


def stuck(name="p", *, reason="Unschedulable", **more):
    return launcher(name, unscheduled=reason, **more)


def a_scene(*launchers, claims=None, vmi=None, machines=None, others=()):
    claims = (
        [a_claim("x", on="n1", attached=attachment("vm", uid="vmi-tenant-a-vm", pods={"p": "n1"}))]
        if claims is None
        else claims
    )
    listed = {pod.meta.uid: "" for pod in launchers}
    user = vmi or a_vmi("vm", phase="Scheduling", active=listed)
    return a_snapshot(
        classes=[builders.a_class()],
        nodes=[a_node()] if machines is None else machines,
        claims=claims,
        vmis=[user] if user != "gone" else [],
        pods=[*launchers, *others],
    )


def look(scene, old=None, seconds=0):
    return rejections.observe(old or Rejections(), scene, GRACE, at(seconds))


@pytest.mark.parametrize(
    ("reason", "is_so"),
    [
        (OUT_OF, True),
        ("OutOfcpu", True),
        ("OutOfpods", True),
        ("UnexpectedAdmissionError", True),
        ("OutOf", False),
        ("", False),
        ("Evicted", False),
        ("NodeAffinity", False),
        ("NodeLost", False),
        ("outofcpu", False),
        ("TopologyAffinityError", False),
    ],
)
def test_a_launcher_is_refused_for_lack_of_resources_and_nothing_else(reason, is_so):
    assert rejections.is_refused(refused(reason=reason)) is is_so
    assert bool(look(a_scene(refused(reason=reason))).kept) is is_so


@pytest.mark.parametrize(
    "pod",
    [
        refused(term=None),
        refused(pinned=""),
        refused(pinned="n2"),
        launcher(on="n1", phase="Running", reason=OUT_OF),
        launcher(phase="Failed", reason=OUT_OF),
    ],
    ids=["not let through by us", "not pinned", "pinned elsewhere", "it lives", "it had no node"],
)
def test_only_a_pinned_launcher_that_its_own_node_ended_is_refused(pod):
    assert look(a_scene(pod)) == Rejections()


def test_what_is_known_of_a_refusal():
    (found,) = look(a_scene(refused())).kept
    assert (found.vm, found.vmi, found.pod, found.why) == (VM, "vmi-tenant-a-vm", "p", Why.REFUSED)
    assert (found.node.node, found.node.until) == ("n1", at(600))
    assert found.node.fingerprint == rejections.fingerprint(a_node())
    assert found.claims == (("x", "claim-tenant-a-x"),)
    assert found.words == (
        f"node n1 did not take the launcher ({OUT_OF}): it is skipped for this VM until 00:10:00 UTC, "
        "or until its allocatable, taints or readiness change; the VM starts elsewhere where there is "
        "room, or waits"
    )


def test_it_is_known_whose_a_launcher_was_when_its_vmi_is_gone_already():
    assert [it.vm for it in look(a_scene(refused(), vmi="gone")).kept] == [VM]
    assert [it.vm for it in look(a_scene(refused(), vmi="gone", claims=[])).kept] == [VM]


def test_template_claims_go_with_their_vmi_and_are_not_among_those_that_note_it():
    noted = attachment("vm", uid="vmi-tenant-a-vm", pods={"p": "n1"})
    own = [
        a_claim("x", on="n1", attached=noted),
        a_claim("t", on="n1", attached=noted, template=True),
    ]
    other = a_claim("y", on="n1", attached=attachment("other", pods={"q": "n1"}))
    (found,) = look(a_scene(refused(), claims=[*own, other])).kept
    assert [name for name, _ in found.claims] == ["x"]


def test_a_claim_that_the_next_start_of_the_vm_has_taken_over_already_notes_it_too():
    taken = a_claim("x", on="n1", attached=attachment("vm", uid="next", pods={}))
    (found,) = look(a_scene(refused(), vmi="gone", claims=[taken])).kept
    assert [name for name, _ in found.claims] == ["x"]


def test_a_refusal_is_judged_once_however_long_it_is_seen():
    scene = a_scene(refused())
    first = look(scene)
    assert look(scene, first, 599).kept == first.kept
    over = look(scene, first, 600)
    assert (over.kept, dict(over.judged)) == ((), {"p": "tenant-a"})
    assert look(scene, over, 700).kept == ()


def test_a_second_refusal_by_the_same_node_counts_from_then():
    first = look(a_scene(refused()))
    again = look(a_scene(refused("q")), first, 60)
    assert [(it.pod, it.node.until) for it in again.kept] == [("q", at(660))]


CHANGES = {
    "as it was": (a_node(), True),
    "more units": (a_node(units=9), False),
    "no units": (a_node(units=None), False),
    "more memory": (a_node(also={"memory": 1}), False),
    "a taint": (a_node(taints=[a_taint()]), False),
    "not Ready": (a_node(ready=False), False),
    "Ready again since then": (a_node(ready_since=5), True),
    "another uid": (replace(a_node(), meta=replace(a_node().meta, uid="other")), True),
    "cordoned, without its taint": (a_node(cordoned=True), True),
    "gone": (None, False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_node_is_forgiven_when_it_takes_pods_by_something_else(name):
    node, stands = CHANGES[name]
    first = look(a_scene(refused()))
    found = look(a_scene(machines=[node] if node else []), first, 1)
    assert bool(found.kept) is stands
    item = first.kept[0].node
    known = {N1: node} if node else {}
    assert bool(rejections.standing([item], known, at(1))) is stands


def test_the_order_of_taints_and_amounts_is_nothing():
    taints = [a_taint("a"), a_taint("b")]
    one, two = a_node(taints=taints), a_node(taints=taints[::-1])
    assert rejections.fingerprint(one) == rejections.fingerprint(two)
    assert 0 < len(rejections.fingerprint(one)) <= 128  # as the CRD has it
    assert rejections.fingerprint(None) == ""


def test_a_node_that_was_forgiven_once_stays_so():
    first = look(a_scene(refused()))
    changed = look(a_scene(machines=[a_node(units=7)]), first, 1)
    assert look(a_scene(), changed, 2).kept == ()


@pytest.mark.parametrize(
    ("item", "now", "stands"),
    [
        (RejectedNode(node=N1, until=at(10)), at(9), True),
        (RejectedNode(node=N1, until=at(10)), at(10), False),
        (RejectedNode(node=N1, until=at(10)), None, True),
        (RejectedNode(node=NodeName("gone"), until=at(10)), at(9), True),
        (RejectedNode(node=N1, until=at(10), fingerprint="other"), at(9), False),
        (RejectedNode(node=N1, until=at(10), fingerprint="other"), None, False),
    ],
    ids=[
        "before its end",
        "at its end",
        "no clock",
        "no fingerprint",
        "changed",
        "changed, no clock",
    ],
)
def test_a_noted_rejection_stands_until_it_is_over_or_its_node_is_another(item, now, stands):
    assert bool(rejections.standing([item], {N1: a_node()}, now)) is stands


def test_a_launcher_that_is_not_bound_in_time_counts_as_refused():
    scene = a_scene(stuck())
    first = look(scene)
    assert (first.kept, dict(first.judged), dict(first.stuck)) == ((), {}, {"p": at(0)})
    assert look(scene, first, 59).kept == ()
    late = look(scene, first, 60)
    (found,) = late.kept
    assert (found.why, found.reason, found.node.until) == (Why.STUCK, "Unschedulable", at(660))
    assert dict(late.judged) == {"p": "tenant-a"}
    assert "had no room for the launcher in time, which is deleted" in found.words


def test_the_clock_is_this_leaders_since_a_pod_may_have_stood_at_the_gate_for_long():
    assert look(a_scene(stuck(at=-3600)), seconds=0).kept == ()


def test_one_that_is_bound_meanwhile_begins_anew():
    first = look(a_scene(stuck()))
    assert dict(look(a_scene(launcher(on="n1")), first, 30).stuck) == {}
    late = look(a_scene(stuck()), first, 60)
    bound = look(a_scene(launcher(on="n1")), late, 61)
    assert dict(bound.judged) == {}


ENDING = a_vmi("vm", phase="Scheduling", active={"p": ""}, deleting=True)
NOT_STUCK = {
    "another reason": a_scene(stuck(reason="SchedulerError")),
    "at the gate": a_scene(stuck(gates=[keys.PLACEMENT_GATE])),
    "behind another gate": a_scene(stuck(gates=["example.org/other"])),
    "not ours": a_scene(stuck(term=None)),
    "not pinned": a_scene(stuck(pinned="")),
    "going": a_scene(stuck(deleting=True)),
    "bound": a_scene(launcher(on="n1", unscheduled="Unschedulable")),
    "its VMI is going": a_scene(stuck(), vmi=ENDING),
    "its VMI failed": a_scene(stuck(), vmi=a_vmi("vm", phase="Failed", active={"p": ""})),
    "its VMI does not list it": a_scene(stuck(), vmi=a_vmi("vm", phase="Scheduling")),
    "its VMI is gone": a_scene(stuck(), vmi="gone"),
}


@pytest.mark.parametrize("name", NOT_STUCK)
def test_other_launchers_are_not_waited_for(name):
    scene = NOT_STUCK[name]
    assert look(scene, look(scene), 3600).kept == ()


def test_a_cordoned_node_is_not_held_against_a_launcher_and_the_clock_begins_after_it():
    cordoned = a_scene(stuck(), machines=[a_node(cordoned=True)])
    waits = look(cordoned, look(cordoned), 3600)
    assert waits.kept == ()
    free = a_scene(stuck())
    assert look(free, waits, 3659).kept == ()
    assert look(free, waits, 3660).kept != ()


def test_nor_is_a_pod_of_its_own_vm_that_is_on_its_way_out():
    leaving = launcher("old", on="n1", phase="Running", deleting=True)
    listed = a_vmi("vm", phase="Scheduling", active={"p": "", "old": "n1"})
    scene = a_scene(stuck(), vmi=listed, others=[leaving])
    assert look(scene, look(scene), 3600).kept == ()


@pytest.mark.parametrize(
    "other",
    [
        launcher("old", on="n1", phase="Running"),
        launcher("old", on="n2", phase="Running", deleting=True),
        launcher("old", on="n1", phase="Succeeded", deleting=True),
    ],
    ids=["it stays", "on another node", "it ended"],
)
def test_but_another_pod_is(other):
    listed = a_vmi("vm", phase="Scheduling", active={"p": "", "old": "n1"})
    scene = a_scene(stuck(), vmi=listed, others=[other], machines=[a_node(), a_node("n2")])
    assert look(scene, look(scene), 60).kept != ()


def test_and_so_is_a_strangers_pod_on_its_way_out():
    foreign = launcher("old", on="n1", phase="Running", deleting=True)
    scene = a_scene(
        stuck(), vmi=a_vmi("vm", phase="Scheduling", active={"p": ""}), others=[foreign]
    )
    assert look(scene, look(scene), 60).kept != ()


def test_when_something_changes_by_time_alone():
    assert Rejections().due(at(0), GRACE) is None
    assert look(a_scene(stuck())).due(at(1), GRACE) == at(60)
    assert look(a_scene(refused())).due(at(1), GRACE) == at(600)
    late = look(a_scene(stuck()), look(a_scene(stuck())), 60)
    assert late.due(at(60), GRACE) == at(660)


def test_the_oldest_are_forgotten_when_there_are_too_many():
    (one,) = look(a_scene(refused())).kept
    many = Rejections(
        kept=tuple(
            replace(one, vm=ObjectKey("t", str(number)), node=replace(one.node, until=at(60)))
            for number in range(rejections.MOST)
        )
    )
    found = look(a_scene(refused()), many, 1)
    assert len(found.kept) == rejections.MOST
    assert (found.kept[0].vm.name, found.kept[-1].vm) == ("1", VM)


PLACES = st.sampled_from(["n1", "n2", "n3"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("refuse"), st.sampled_from(["vm", "other"]), PLACES),
        st.tuples(st.just("change"), PLACES, st.integers(1, 3)),
        st.tuples(st.just("wait"), st.integers(1, 700), st.just(0)),
    ),
    max_size=12,
)


@sampling.examples(50)
@given(steps=STEPS)
def test_a_node_is_skipped_for_its_vm_alone_until_it_is_over_or_has_changed(steps):
    """Against a naive account: what refused whom and when, and what the node was then."""
    units = dict.fromkeys(["n1", "n2", "n3"], 8)
    told: dict[tuple[str, str], tuple[float, int]] = {}
    now, number, known = 0.0, 0, Rejections()
    for kind, who, what in steps:
        shown = []
        if kind == "wait":
            now += who
        elif kind == "change":
            units[who] = what
        else:
            number += 1
            pod = refused(f"p{number}", node=what, pinned=what, vmi_uid=f"vmi-tenant-a-{who}")
            owner = replace(pod.meta.owners[0], name=who)
            shown = [replace(pod, meta=replace(pod.meta, owners=(owner,)))]
            told[who, what] = (now + GRACE.rejection, units[what])
        machines = [a_node(name, units=count) for name, count in units.items()]
        scene = a_snapshot(classes=[builders.a_class()], nodes=machines, pods=shown)
        known = rejections.observe(known, scene, GRACE, at(now))
        for key, (until, then) in tuple(told.items()):
            if until <= now or units[key[1]] != then:
                del told[key]
        for vm in ("vm", "other", "third"):
            wanted = {node for name, node in told if name == vm}
            assert known.of(ObjectKey("tenant-a", vm)) == wanted


@given(st.dictionaries(st.sampled_from(["cpu", "memory", builders.H100]), st.integers(0, 3)))
def test_a_fingerprint_is_of_the_node_alone(amounts):
    raw = builders.raw_node()
    raw["status"]["allocatable"] = {name: str(value) for name, value in amounts.items()}
    one = nodes.decode(raw)
    other = replace(one, meta=replace(one.meta, labels={"a": "b"}, resource_version="7"))
    assert rejections.fingerprint(one) == rejections.fingerprint(other)
    for name in amounts:
        raw["status"]["allocatable"][name] = str(amounts[name] + 1)
        assert rejections.fingerprint(nodes.decode(raw)) != rejections.fingerprint(one)
