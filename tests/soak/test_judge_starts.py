"""The judge alone: what it must see of launchers and template claims, changed behind the binder's back."""

import pytest

from gpu.binder.report import PassReport
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from soak import closely, starts
from soak.machines import Guest
from tests.binder import raws
from tests.soak.started import TENANT, VM, a_held, a_start, a_template, noted, pin


def sorts(wrong):
    return [words.partition(":")[0] for words in wrong]


# Let through.


def test_a_launcher_whose_whole_set_is_there_is_well(site, judge):
    vmi, pod = a_start(site, held=("x",), units={"c0": 1}, asks=2)
    a_held(site, noted(pod, admission="adm-x"))
    a_template(site, vmi, noted(pod))
    judge.look()
    pin(site, pod, "n0")
    assert judge.look() == []
    assert judge.launchers.pins == {pod["metadata"]["uid"]: "n0"}


@pytest.mark.parametrize(
    "status",
    [
        lambda pod: noted(pod, "n1", admission="adm-x"),
        lambda pod: noted(pod, admission="adm-another"),
        lambda pod: noted(pod, admission="adm-x") | {"phase": "Lost"},
        lambda _: raws.bound("n0") | raws.attached(VM, uid="u", admission="adm-x"),
    ],
    ids=["elsewhere", "of another start", "Lost", "that does not note it"],
)
def test_one_without_a_held_claim_there_is_seen(site, judge, status):
    _, pod = a_start(site, held=("x",))
    a_held(site, status(pod))
    judge.look()
    pin(site, pod, "n0")
    assert sorts(judge.look()) == ["let through in part"]


@pytest.mark.parametrize("units", [None, 1], ids=["none", "too few"])
def test_one_without_its_template_claims_there_is_seen(site, judge, units):
    vmi, pod = a_start(site, units={"c0": 2}, asks=2)
    if units:
        a_template(site, vmi, noted(pod), units)
    judge.look()
    pin(site, pod, "n0")
    assert sorts(judge.look()) == ["let through in part"]


@pytest.mark.parametrize("nodes", [(), ("n0", "n1")], ids=["none", "two"])
def test_one_that_is_let_through_to_no_node_is_seen(site, judge, nodes):
    pin(site, a_start(site, units={"c0": 1})[1], *nodes)
    assert sorts(judge.look()) == ["let through to no node"]


@pytest.mark.parametrize("offered", [True, False])
def test_one_that_asks_for_what_a_class_offers_by_its_name_is_seen(site, judge, offered):
    """Where no class offers it, it is nobody's business."""
    _, pod = a_start(site)
    if not offered:
        for offer in site.api.all(kinds.GPU_CLASSES):
            site.api.erase(kinds.GPU_CLASSES, offer)
    judge.look()
    pin(site, pod)
    assert judge.look() == []
    found = closely.look(site, judge, {}, PassReport())
    assert sorts(found) == (["let through to no node"] if offered else [])


def test_a_raw_launcher_that_an_undisturbed_pass_lets_through_over_a_budget_is_seen(site, judge):
    _, pod = a_start(site, asks=2)
    site.set_budget(TENANT, {"total": 1})
    judge.look()
    pin(site, pod, "n0")
    assert judge.look() == []
    assert sorts(closely.look(site, judge, {}, PassReport())) == ["over budget"]


def a_stranger(site, node, units):
    """A pod of nobody, which the scheduler put there: it knows of no claim."""
    pod = raws.a_pod("stranger", node=node, units=units, resource=site.resources[0])
    containers = pod["spec"]["containers"]
    containers[0]["resources"] = {"limits": containers[0]["resources"]["requests"]}
    site.api.put(kinds.PODS, pod)


def test_a_pod_that_passed_no_gate_counts_for_who_has_seen_it(site, judge):
    a_stranger(site, "n0", site.machines["n0"].units[site.resources[0]])
    before = dict(judge.stands)
    a_held(site, raws.bound("n0"))
    assert judge.look() == []
    assert sorts(closely.look(site, judge, before, PassReport())) == ["booked twice"]


@pytest.mark.parametrize(("term", "seen"), [("1", ["wrong node"]), ("", [])], ids=["us", "webhook"])
def test_one_that_is_pinned_to_a_cordoned_node_is_seen_unless_an_answer_had_it_wait_there(
    site, judge, term, seen
):
    node = site.api.find(kinds.NODES, ObjectKey("", "n0"))
    site.api.edit(kinds.NODES, node, lambda it: it.update(spec={"unschedulable": True}))
    _, pod = a_start(site)
    before = dict(judge.stands)
    pin(site, pod, "n0", term=term)
    judge.look()
    assert sorts(closely.look(site, judge, before, PassReport())) == seen


@pytest.mark.parametrize(
    ("term", "more", "seen"),
    [("1", 0, ["booked twice"]), ("", 0, []), ("", 1, ["booked twice"])],
    ids=["us", "webhook", "webhook, and it asks for more"],
)
def test_a_webhook_pins_to_where_the_claims_are_held_whoever_took_their_units_since(
    site, judge, term, more, seen
):
    """A pod of nobody is there by now: what a start was granted before it takes nothing anew."""
    there = site.machines["n0"].units[site.resources[0]]
    _, pod = a_start(site, held=("x",), asks=there + more)
    a_held(site, noted(pod, admission="adm-x"), units=there)
    a_stranger(site, "n0", 1)
    judge.look()
    before = dict(judge.stands)
    pin(site, pod, "n0", term=term)
    judge.look()
    assert sorts(closely.look(site, judge, before, PassReport())) == seen


@pytest.mark.parametrize(("term", "seen"), [("1", ["booked twice"]), ("", [])])
def test_so_does_it_where_another_vm_has_migrated_to_since(site, judge, term, seen):
    """KubeVirt knows of no claim, and its guest's claims follow it."""
    there = site.machines["n0"].units[site.resources[0]]
    _, pod = a_start(site, held=("x",), asks=there)
    a_held(site, noted(pod, admission="adm-x"), units=there)
    a_held(site, raws.bound("n0"), "migrated", units=1)
    judge.look()  # tells of that one, as nobody migrated here
    pin(site, pod, "n0", term=term)
    assert sorts(judge.look()) == seen


def test_one_that_is_pinned_anew_or_bound_elsewhere_is_seen(site, judge):
    _, pod = a_start(site)
    pod = pin(site, pod, "n0")
    assert judge.look() == []
    site.api.edit(kinds.PODS, pod, lambda it: it["spec"].update(nodeName="n1"))
    assert sorts(judge.look()) == ["bound elsewhere"]
    pin(site, pod, "n1")
    assert sorts(judge.look()) == ["pinned anew"]


def test_one_that_runs_elsewhere_is_seen(site, judge):
    _, pod = a_start(site)
    pin(site, pod, "n0")
    judge.look()
    site.guests.append(Guest(pod["metadata"]["uid"], f"{TENANT}/{VM}", "n1", {}, {}))
    assert sorts(judge.look()) == ["runs elsewhere"]


@pytest.mark.parametrize(
    ("start", "seen"),
    [('{"x": "adm-x"}', []), ('{"x": "adm-before"}', ["booked twice"])],
    ids=["a call made again", "another start"],
)
def test_a_launcher_beside_a_guest_of_its_vm_that_nobody_noted_is_seen(site, judge, start, seen):
    there = site.machines["n0"].units[site.resources[0]]
    claim = a_held(site, raws.bound("n0"), units=there)
    uid, vm = claim["metadata"]["uid"], f"{TENANT}/{VM}"
    site.guests.append(Guest("gone", vm, "n0", {}, {uid: f"{TENANT}/x"}, start=start))
    _, pod = a_start(site, held=("x",), asks=there)
    pod = pin(site, pod, "n0")
    status = noted(pod, admission="adm-x")
    site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it.update(status=status))
    assert sorts(judge.look()) == seen


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
def test_a_launcher_takes_room_from_others_from_the_pin_on(site, judge, is_first):
    """It asks for all units by their raw name, so no claim covers any."""
    there = site.machines["n0"].units[site.resources[0]]
    _, pod = a_start(site, asks=there)
    if is_first:
        pin(site, pod, "n0")
        assert judge.look() == []
    a_held(site, raws.bound("n0"))
    assert (judge.look() == []) is not is_first
    if not is_first:
        pin(site, pod, "n0")
        assert sorts(judge.look()) == ["booked twice"]


def test_one_that_is_deleted_before_it_is_bound_takes_none(site, judge):
    there = site.machines["n0"].units[site.resources[0]]
    _, pod = a_start(site, asks=there)
    pod = pin(site, pod, "n0")
    site.api.edit(kinds.PODS, pod, lambda it: it["metadata"].update(finalizers=["x"]))
    site.api.remove(kinds.PODS, pod, site.now())
    a_held(site, raws.bound("n0"))
    assert judge.look() == []


@pytest.mark.parametrize("change", [{"unschedulable": True}, {"taints": [{"key": "x"}]}])
def test_an_undisturbed_pass_that_pins_to_a_node_that_takes_no_pod_is_seen(site, judge, change):
    _, pod = a_start(site)
    node = site.api.find(kinds.NODES, ObjectKey("", "n0"))
    site.api.edit(kinds.NODES, node, lambda it: it["spec"].update(change))
    judge.look()
    pin(site, pod, "n0")
    assert judge.look() == []
    assert sorts(closely.look(site, judge, {}, PassReport())) == ["wrong node"]


def test_units_of_a_template_that_an_undisturbed_pass_binds_over_a_budget_are_seen(site, judge):
    vmi, pod = a_start(site, units={"c0": 2}, asks=2)
    site.set_budget(TENANT, {"c0": 1})
    before = dict(judge.stands)
    a_template(site, vmi, noted(pod), 2)
    assert judge.look() == []
    assert sorts(closely.look(site, judge, before, PassReport())) == ["over budget"]


def an_order_goes(site, judge, *, by_the_pass):
    """Have an order that waits be deleted, before a pass or in it; returns how claims stood when that began."""
    site.set_budget(f"{TENANT}-x", {})
    gone = a_held(site, None, name="gone")
    gone = site.api.edit(kinds.GPU_CLAIMS, gone, lambda it: it["metadata"].update(finalizers=["x"]))
    if not by_the_pass:
        site.api.remove(kinds.GPU_CLAIMS, gone, site.now())
    judge.look()
    before = dict(judge.stands)
    if by_the_pass:
        site.api.remove(kinds.GPU_CLAIMS, gone, site.now())
    return before


WHEN = pytest.mark.parametrize("by_the_pass", [False, True], ids=["before the pass", "by the pass"])


@WHEN
def test_one_that_waited_and_was_let_go_counts_for_orders_judged_after_it(site, judge, by_the_pass):
    site.set_budget(TENANT, {"c0": 1})
    before = an_order_goes(site, judge, by_the_pass=by_the_pass)
    a_held(site, raws.bound("n0"))
    assert judge.look() == []
    wrong = closely.look(site, judge, before, PassReport())
    assert sorts(wrong) == ([] if by_the_pass else ["over budget"])


@WHEN
def test_it_counts_for_raw_launchers_that_are_judged_after_it_too(site, judge, by_the_pass):
    site.set_budget(TENANT, {"total": 1})
    _, pod = a_start(site)
    before = an_order_goes(site, judge, by_the_pass=by_the_pass)
    pin(site, pod, "n0")
    assert judge.look() == []
    wrong = closely.look(site, judge, before, PassReport())
    assert sorts(wrong) == ([] if by_the_pass else ["over budget"])


@pytest.mark.parametrize("was_lost", [True, False], ids=["was Lost", "became Lost"])
def test_a_start_comes_after_a_set_that_was_lost_before_the_pass(site, judge, was_lost):
    lost = a_held(site, raws.bound("n0") | {"phase": "Lost" if was_lost else "Bound"})
    vmi, pod = a_start(site, units={"c0": 1})
    judge.look()
    before = dict(judge.stands)
    site.api.edit(kinds.GPU_CLAIMS, lost, lambda it: it["status"].update(phase="Lost"))
    a_template(site, vmi, noted(pod))
    assert judge.look() == []
    found = sorts(closely.look(site, judge, before, PassReport()))
    assert found == (["an order before a Lost set"] if was_lost else [])


# In the end.


def fill(site):
    """Have claims hold all units everywhere."""
    for name, machine in site.machines.items():
        if units := machine.units.get(site.resources[0]):
            a_held(site, raws.bound(name), f"all-{name}", units)


def gated(site, judge):
    assert judge.look() == []
    return sorts(starts.gated(site, judge.in_use(judge.stands)))


def test_a_launcher_left_at_the_gate_though_its_whole_set_fits_is_seen(site, judge):
    _, pod = a_start(site, held=("x",), units={"c0": 1}, asks=2)
    a_held(site, noted(pod, admission="adm-x"))
    assert gated(site, judge) == ["left at the gate"]


@pytest.mark.parametrize(
    "why",
    [
        lambda site: site.set_budget(TENANT, {"c0": 0}),
        fill,
        lambda site: [
            site.api.edit(kinds.GPU_CLASSES, it, lambda raw: raw["spec"].update(retired=True))
            for it in site.api.all(kinds.GPU_CLASSES)
        ],
    ],
    ids=["over budget", "no room", "retired"],
)
def test_one_that_may_not_start_waits_rightly(site, judge, why):
    a_start(site, units={"c0": 1})
    assert gated(site, judge) == ["left at the gate"]
    why(site)
    assert gated(site, judge) == []


def test_a_template_claim_that_is_left_is_seen(site, judge):
    vmi, pod = a_start(site, units={"c0": 1})
    claim = a_template(site, vmi, noted(pod))
    assert starts.left_over(site) == []
    site.api.erase(kinds.VMIS, vmi)
    assert sorts(starts.left_over(site)) == ["template claim for ever"]
    site.api.erase(kinds.GPU_CLAIMS, claim)
    assert starts.left_over(site) == []


def test_a_template_claim_that_holds_nothing_is_seen(site, judge):
    vmi, _ = a_start(site, units={"c0": 1})
    a_template(site, vmi)
    assert sorts(starts.left_over(site)) == ["template claim for ever"]
