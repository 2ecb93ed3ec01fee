"""The judge alone: what it must see of starts that ask first, changed behind the backs of binder and webhook."""

import asyncio
from typing import Any

import pytest

from gpu import keys
from gpu.binder.report import PassReport
from gpu.cluster import errors
from gpu.config import Binding
from gpu.objects import kinds, kubevirt
from soak import asking, closely, requests
from soak.line import Fault, Line
from soak.site import Site, asks
from soak.webhooks import Admitted
from tests.binder import raws
from tests.soak.started import TENANT, VM, a_held, a_start, a_template, pin

AGO = 80.0


def sorts(wrong):
    return [words.partition(":")[0] for words in wrong]


def asked(site, names=("x",), result="", **more):
    found = {"id": "r1", "vmi": VM, "claims": list(names), "requestedAt": site.now()}
    return {"bindRequest": found | ({"result": result} if result else {}) | more}


def attached(site, admission="adm-x", **more):
    return raws.attached(VM, admission=admission, since=site.now(), **more)


def granted(site, node="n0", names=("x",), **more):
    return raws.bound(node) | attached(site, **more) | asked(site, names, "Succeeded")


# Let in.


def let_in(site, *held, units=None, node="n0"):
    """What the judge is told of a start: its VMI, and the claims as they stand."""
    text = kubevirt.format_resolved({name: f"adm-{name}" for name in held}, units)
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": terms if node else []
    }
    meta = {"name": VM, "namespace": TENANT}
    meta |= {"annotations": {keys.RESOLVED_CLAIMS_ANNOTATION: text}}
    there = {it["metadata"]["name"]: it for it in site.claims()}
    return Admitted({"metadata": meta, "spec": {"affinity": affinity}}, there)


def test_a_start_whose_whole_set_was_granted_on_its_node_is_well(site, judge):
    both = ("tpl", "x")
    a_held(site, granted(site, names=both))
    template = granted(site, names=both, admission="adm-tpl")
    a_template(site, {"metadata": {"uid": ""}}, template)
    site.webhooks.admitted.append(let_in(site, *both, units={"c0": 1}))
    assert judge.look() == []
    assert site.webhooks.admitted == []


def test_one_without_claims_needs_no_pin(site):
    assert requests.admitted(let_in(site, node="")) == []
    vmi: Any = {"metadata": {"name": VM, "namespace": TENANT}}
    assert requests.admitted(Admitted(vmi, {})) == []


IN_PART = {
    "held elsewhere": lambda site: granted(site, "n1"),
    "Lost from elsewhere": lambda site: lost(site, "n1"),
    "of another start": lambda site: granted(site, admission="adm-another"),
    "refused": lambda site: raws.bound("n0") | attached(site) | asked(site, result="Refused"),
    "without an answer": lambda site: raws.bound("n0") | attached(site) | asked(site),
    "granted to another VM": lambda site: (
        raws.bound("n0") | attached(site) | asked(site, result="Succeeded", vmi="another")
    ),
}


def lost(site, node):
    return granted(site) | {"phase": "Lost", "displaced": {"node": node, "at": site.now()}}


@pytest.mark.parametrize("status", IN_PART.values(), ids=IN_PART)
def test_one_that_is_let_in_with_a_claim_that_is_not_its_own_there_is_seen(site, judge, status):
    a_held(site, status(site))
    judge.look()
    site.webhooks.admitted.append(let_in(site, "x"))
    assert sorts(judge.look()) == ["admitted in part"]


def test_one_whose_node_was_lost_since_it_was_granted_is_well(site):
    a_held(site, lost(site, "n0"))
    assert requests.admitted(let_in(site, "x")) == []


def test_one_that_is_let_in_without_a_claim_or_a_pin_is_seen(site):
    assert sorts(requests.admitted(let_in(site, "x"))) == ["admitted in part"]
    assert sorts(requests.admitted(let_in(site, "x", node=""))) == ["admitted to no node"]


def test_one_by_answers_to_several_requests_is_seen(site):
    a_held(site, granted(site))
    a_held(site, granted(site, admission="adm-y"), "y")
    assert requests.admitted(let_in(site, "x", "y")) == []
    other = granted(site, admission="adm-y") | asked(site, result="Succeeded", id="r2")
    site.api.edit(kinds.GPU_CLAIMS, site.claim(TENANT, "y"), lambda it: it.update(status=other))
    assert sorts(requests.admitted(let_in(site, "x", "y"))) == ["admitted in part"]


def test_one_with_too_few_units_of_its_template_is_seen(site):
    a_template(site, {"metadata": {"uid": ""}}, granted(site, names=("tpl",), admission="adm-tpl"))
    assert requests.admitted(let_in(site, "tpl", units={"c0": 1})) == []
    assert sorts(requests.admitted(let_in(site, "tpl", units={"c0": 2}))) == ["admitted in part"]


# Past the gate by the webhook's pin.


@pytest.mark.parametrize(
    ("status", "is_well"),
    [
        (granted, True),
        (lambda site: lost(site, "n0"), True),
        (lambda site: lost(site, "n1"), False),
        (lambda site: granted(site, "n1"), False),
        (lambda site: granted(site, admission="adm-another"), False),
    ],
    ids=["there", "Lost from there", "Lost from elsewhere", "elsewhere", "of another start"],
)
def test_a_launcher_that_the_webhook_pinned_needs_its_claims_there_and_no_note(
    site, judge, status, is_well
):
    _, pod = a_start(site, held=("x",))
    a_held(site, status(site))
    judge.look()
    pin(site, pod, "n0", term="")
    assert sorts(judge.look()) == ([] if is_well else ["let through in part"])


def test_one_that_a_leader_pinned_needs_the_note(site, judge):
    _, pod = a_start(site, held=("x",))
    a_held(site, granted(site))
    judge.look()
    pin(site, pod, "n0")
    assert sorts(judge.look()) == ["let through in part"]


# Answered.


def test_a_request_that_a_pass_has_left_unanswered_is_seen(site):
    claim = a_held(site, raws.bound("n0") | attached(site) | asked(site))
    due = requests.whole(site)
    assert sorts(requests.unanswered(site, due)) == ["unanswered"]
    assert requests.unanswered(site, frozenset()) == []
    site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it.update(status=granted(site)))
    assert requests.unanswered(site, due) == []


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "waiting"])
@pytest.mark.parametrize("finalizers", [[keys.CLASS_FINALIZER], []], ids=["guarded", "bare"])
def test_what_is_to_be_held_of_a_class_without_our_finalizer_only_a_full_pass_answers(
    site, is_held, finalizers
):
    (offer,) = (it for it in site.api.all(kinds.GPU_CLASSES) if it["metadata"]["name"] == "c0")
    site.api.edit(kinds.GPU_CLASSES, offer, lambda it: it["metadata"].update(finalizers=finalizers))
    status = raws.bound("n0") if is_held else {"phase": "Pending"}
    a_held(site, status | attached(site) | asked(site))
    due = requests.whole(site)
    assert requests.unguarded(site) == (frozenset() if is_held or finalizers else due)
    assert due


def test_nor_where_another_claim_that_the_vm_names_goes_along(site):
    (offer,) = (it for it in site.api.all(kinds.GPU_CLASSES) if it["metadata"]["name"] == "c0")
    site.api.edit(kinds.GPU_CLASSES, offer, lambda it: it["metadata"].update(finalizers=[]))
    a_start(site, held=("x", "y"))
    a_held(site, raws.bound("n0") | attached(site) | asked(site))
    assert requests.unguarded(site) == frozenset()
    a_held(site, raws.bound("n0") | {"phase": "Lost"}, name="y")
    assert requests.unguarded(site) == requests.whole(site) != frozenset()


@pytest.mark.parametrize(
    "change",
    [
        lambda site: attached(site) | asked(site, ("x", "y")),
        lambda site: attached(site, uid="u") | asked(site),
        asked,
        lambda site: attached(site) | asked(site, vmi="another"),
        granted,
    ],
    ids=["in part", "its VMI came", "not attached", "another VM's", "answered"],
)
def test_nobody_is_to_answer_what_nobody_waits_for(site, change):
    a_held(site, raws.bound("n0") | change(site))
    assert requests.whole(site) == frozenset()


def test_nobody_is_to_answer_when_the_time_is_nearly_over(site):
    a_held(site, raws.bound("n0") | attached(site) | asked(site))
    site.pass_time(requests.FRESH)
    assert requests.whole(site) == frozenset()


ANSWERED = {
    "granted on one node": ({"x": "n0", "y": "n0"}, "Succeeded", []),
    "granted on two": ({"x": "n0", "y": "n1"}, "Succeeded", ["granted in part"]),
    "granted on none": ({"x": "", "y": ""}, "Succeeded", ["granted in part"]),
    "refused": ({"x": "", "y": "n1"}, "Refused", []),
    "refused and placed": ({"x": "n1", "y": "n1"}, "Refused", ["refused and moved"]),
    "somebody else's placed": ({"z": "n0"}, "", ["moved by an answer to somebody else"]),
}


@pytest.mark.parametrize(("places", "result", "seen"), ANSWERED.values(), ids=ANSWERED)
def test_an_answer_places_whole_sets_and_nothing_else(site, places, result, seen):
    before = {"x": {}, "y": raws.bound("n1"), "z": {"phase": "Pending"}}
    for name, status in before.items():
        own = attached(site) | asked(site, ("x", "y")) if name != "z" else {}
        a_held(site, {"phase": "Pending"} | status | own, name)
    stood = requests.by_uid(site)
    for name, node in places.items():
        told = asked(site, ("x", "y"), result) if result else {}
        status = raws.bound(node) if node else {"phase": "Pending", "nodeName": ""}

        def change(it, status=status, told=told):
            it["status"] |= status | told

        site.api.edit(kinds.GPU_CLAIMS, site.claim(TENANT, name), change)
    assert sorts(requests.answered(site, stood)) == seen


@pytest.mark.parametrize("is_full", [True, False], ids=["a full pass", "an answer"])
@pytest.mark.parametrize("spare", [0, 1])
def test_an_answer_leaves_room_for_what_is_lost_and_a_full_pass_binds_it(
    site, judge, is_full, spare
):
    a_held(site, raws.bound("n0") | {"phase": "Lost"}, "lost")
    for name, machine in site.machines.items():
        units = machine.units.get(site.resources[0], 0) - (1 + spare if name == "n0" else 0)
        if units:
            a_held(site, raws.bound(name), f"all-{name}", units)
    judge.look()
    before = dict(judge.stands)
    a_held(site, raws.bound("n0"))
    assert judge.look() == []
    found = sorts(closely.look(site, judge, before, PassReport(), is_full=is_full))
    assert found == (["an order before a Lost set"] if is_full or not spare else [])


# Left behind.


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        (lambda site: raws.bound("n0") | attached(site), "half attached for ever"),
        (lambda site: raws.bound("n0") | asked(site), "a request for ever"),
    ],
    ids=["attachment", "request"],
)
def test_what_a_start_that_never_came_has_left_is_seen_after_the_grace(site, status, wrong):
    a_held(site, status(site))
    assert requests.stuck(site) == []
    site.pass_time(AGO)
    assert sorts(requests.stuck(site)) == [wrong]


def test_a_template_claim_that_no_start_took_up_is_seen_after_the_grace(site):
    made = a_template(site, {"metadata": {"uid": ""}})

    def change(it):
        it["metadata"] |= {"ownerReferences": [], "creationTimestamp": site.now()}

    site.api.edit(kinds.GPU_CLAIMS, made, change)
    assert requests.stuck(site) == []
    site.pass_time(AGO)
    assert sorts(requests.stuck(site)) == ["template claim for ever"]


@pytest.mark.parametrize(
    "more", [{"uid": "u"}, {"pods": {"p": "n0"}}], ids=["its VMI came", "a pod may run"]
)
def test_what_may_be_in_use_stays_rightly(site, more):
    a_held(site, raws.bound("n0") | attached(site, **more))
    site.pass_time(AGO)
    assert requests.stuck(site) == []


def test_a_request_that_stays_without_an_answer_in_the_end_is_seen(site, judge):
    claim = a_held(site, raws.bound("n0") | attached(site) | asked(site))
    judge.look()
    assert "unanswered for ever" in sorts(judge.finished(frozenset()))
    site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it.update(status=granted(site)))
    judge.look()
    assert "unanswered for ever" not in sorts(judge.finished(frozenset()))


# What is simulated.


def a_site():
    """A cluster where starts ask first."""
    found = Site(next(f"asks-{index}" for index in range(99) if asks(f"asks-{index}")))
    assert found.config.binding is Binding.REQUEST
    return found


def test_a_webhook_that_crashes_is_seen(monkeypatch):
    site = a_site()

    async def crash(*_args, **_how):
        raise ValueError("a bug")

    async def start():
        monkeypatch.setattr(site.webhooks, "_ask", crash)
        gpus = [{"name": "x", "deviceName": f"{keys.CLASS_DEVICE_PREFIX}c0"}]
        spec = {"template": {"spec": {"domain": {"devices": {"gpus": gpus}}}}}
        vm = site.api.put(kinds.VMS, {"metadata": {"name": VM, "namespace": TENANT}, "spec": spec})
        asking.begin(site, vm)
        return await asking.get_on(site)

    assert sorts(asyncio.run(start())) == ["the VMI webhook crashed"]


def test_nothing_of_a_frozen_leader_goes_on(site):
    async def both():
        line = Line(site.api)
        line.begin({1: Fault.FREEZE})
        body = {"metadata": {"name": "a", "namespace": TENANT}}
        sent = [asyncio.ensure_future(line.create(kinds.CONFIG_MAPS, body))]
        await line.frozen.wait()
        sent.append(asyncio.ensure_future(line.list_all(kinds.CONFIG_MAPS)))
        for _ in range(9):
            await asyncio.sleep(0)
        stands = [task.done() for task in sent]
        line.thawed.set()
        await asyncio.gather(*sent)
        return stands

    assert asyncio.run(both()) == [False, False]


def test_a_deletion_of_what_has_changed_since_is_refused_and_nobodys_fault(site):
    vmi, _ = a_start(site)
    version = vmi["metadata"]["resourceVersion"]

    async def delete(version):
        uid = vmi["metadata"]["uid"]
        await site.api.delete(kinds.VMIS, VM, TENANT, uid=uid, resource_version=version)

    with pytest.raises(errors.ApiError):
        asyncio.run(delete("1"))
    assert site.api.illegal == []
    asyncio.run(delete(version))
    assert len(site.api.illegal) == 1
