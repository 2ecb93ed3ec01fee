"""Starts under `binding: request`: bound before they are admitted, or refused and nothing of them left."""

import asyncio
import copy

import pytest

from gpu import keys
from gpu.admission.starting import REQUEST
from gpu.cluster import errors
from gpu.objects import kinds
from tests.admission import starts
from tests.admission.attaching_site import codes
from tests.admission.requesting_site import RequestSite, made
from tests.admission.starts import claim, unit
from tests.builders import attachment
from tests.fakes.cluster import Fault

pytestmark = pytest.mark.looptime


@pytest.fixture
def site():
    found = RequestSite()
    found.claim()
    return found


BOTH = [claim("c"), unit(), unit()]


def writes(site):
    """The webhook's writes: verb, name, and what of the status; answers are the binder's."""
    found = [(one, (one.body or {}).get("status") or {}) for one in site.api.writes]
    return [
        (one.verb, one.key.name, *sorted(status))
        for one, status in found
        if "result" not in (status.get("bindRequest") or {})
        or "requestedAt" in status["bindRequest"]
    ]


def admitted(gpus, response, **spec):
    body = starts.a_vmi("vm", gpus=gpus)
    body["spec"] |= spec
    return starts.answered(body, response)


def terms(body):
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return body["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]


def untouched(site):
    """Say that nothing is left of a start: no attachment, no request, no claim of its template."""
    site.api.writes.clear()
    left = site.claims()
    return list(left) == ["c"] and site.attached() is None and site.asked_for() is None


async def test_a_start_is_admitted_with_all_its_claims_on_one_node_and_pinned_to_it(site):
    async with site.binder("n1"):
        response = await site.begin("vm", BOTH)
    body = admitted(BOTH, response)
    assert terms(body) == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    ]
    assert [device for _, device in starts.devices(body)] == ["nvidia.com/GH100_H100"] * 3
    assert starts.record(body) == [
        {"claim": "c", "admission": "id-0"},
        {"claim": made(), "admission": "id-0"},
        {"class": "h100", "units": 2},
    ]
    own = site.claims()[made()]
    assert own["spec"] == {"className": "h100", "count": 2}
    assert own["metadata"]["labels"] == {keys.TEMPLATE_CLAIM_LABEL: "true"}
    assert own["metadata"]["finalizers"] == [keys.CLAIM_FINALIZER]
    assert not own["metadata"].get("ownerReferences")
    assert site.attached()["name"] == site.attached(made())["name"] == "vm"


async def test_claims_are_made_then_each_is_attached_and_asked_for_at_once_by_name(site):
    site.claim("zz")
    async with site.binder():
        await site.begin("vm", [claim("zz"), claim("c"), unit()])
    order = ["c", made(), "zz"]
    assert [name for verb, name, *_ in writes(site)] == [made(), *order]
    both = ("attachedTo", "bindRequest")
    assert [found for verb, _, *found in writes(site) if verb == "patch"] == [list(both)] * 3
    asked = [
        one.body["status"]["bindRequest"]
        for one in site.api.writes
        if one.verb == "patch" and "requestedAt" in (one.body["status"].get("bindRequest") or {})
    ]
    assert [it["claims"] for it in asked] == [order] * 3
    assert {(it["id"], it["vmi"], it.get("result")) for it in asked} == {("id-0", "vm", None)}


async def test_every_term_of_the_vms_own_affinity_is_narrowed(site):
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    other = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}]}
    own = {"nodeAffinity": {required: {"nodeSelectorTerms": [zone, other]}}, "podAffinity": {}}
    async with site.binder():
        response = await site.begin("vm", BOTH, affinity=own)
    body = admitted(BOTH, response, affinity=copy.deepcopy(own))
    pin = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert terms(body) == [
        {**zone, "matchFields": [pin]},
        {"matchFields": [*other["matchFields"], pin]},
    ]
    assert body["spec"]["affinity"]["podAffinity"] == {}


async def test_an_affinity_that_is_none_is_refused_before_anything_is_written(site):
    response = await site.begin("vm", BOTH, affinity={"nodeAffinity": []})
    assert response["status"]["code"] == 422
    assert site.api.writes == []


async def test_a_refusal_is_told_in_the_leaders_words_and_nothing_is_left(site):
    words = "claim c stays on n1: no node has 3 units free"
    async with site.binder(refuse=words):
        response = await site.begin("vm", BOTH)
        assert site.answered
    status = response["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == f"VM vm: {words}"
    gone = site.claims().pop(made())  # its finalizer is the leader's to take off
    assert gone["metadata"]["deletionTimestamp"]
    assert (site.attached(made()), site.asked_for(made())) == (None, None)
    assert (site.attached(), site.asked_for()) == (None, None)


async def test_what_is_not_answered_is_refused_in_time_and_nothing_is_left(site):
    response = await site.start()
    assert response["status"]["code"] == 503
    assert "did not place its claims in time" in response["status"]["message"]
    assert REQUEST.work <= asyncio.get_running_loop().time() <= REQUEST.work + REQUEST.undo
    assert untouched(site)


async def test_one_claim_of_a_set_that_is_answered_is_no_answer(site):
    site.claim("d")
    starting = asyncio.ensure_future(site.start("vm", "c", "d"))
    await asyncio.sleep(1)
    await site._answer("c", "n1", "")
    await asyncio.sleep(1)
    assert not starting.done()
    await site._answer("d", "n1", "")
    assert (await starting)["allowed"]


async def test_answers_that_put_a_set_on_two_nodes_are_not_believed(site):
    site.claim("d")
    starting = asyncio.ensure_future(site.start("vm", "c", "d"))
    await asyncio.sleep(1)
    for name, node in (("c", "n1"), ("d", "n2")):
        await site._answer(name, node, "")
    assert (await starting)["status"]["code"] == 503


async def test_a_dry_run_is_judged_and_writes_nothing(site):
    response = await site.begin("vm", BOTH, dry_run=True)
    assert (response["allowed"], site.api.writes) == (True, [])
    assert asyncio.get_running_loop().time() < 1
    site.budget = {"h100": 1}
    response = await site.begin("vm", BOTH, dry_run=True)
    assert (codes(response), site.api.writes) == (["OverBudget"], [])


async def test_a_budget_is_asked_for_units_of_classes_before_anything_is_written(site):
    site.budget = {"h100": 2}
    response = await site.begin("vm", BOTH)
    assert codes(response) == ["OverBudget"]
    assert response["status"]["code"] == 403
    assert response["status"]["details"]["causes"][0]["field"].startswith("spec.domain.devices")
    assert site.api.writes == []


async def test_a_vm_without_a_name_is_refused_whatever_it_names(site):
    response = await site.begin("", [unit()])
    assert codes(response) == ["NameMissing"]
    assert "GPUs are held for a VM by its name" in response["status"]["message"]
    assert (await site.begin("", []))["allowed"]


async def test_a_claim_of_somebody_else_with_the_name_of_the_template_claim_stops_the_start(site):
    site.claim(made())
    response = await site.begin("vm", BOTH)
    assert codes(response) == ["ClaimNameTaken"]
    assert f"delete gpuclaim {made()}" in response["status"]["message"]
    assert (site.attached(), site.attached(made())) == (None, None)


async def test_a_vmi_of_the_name_that_is_about_to_go_has_the_name_still(site):
    site.vmi("vm", uid="u", deleting=True)
    response = await site.start()
    assert response["status"]["reason"] == "AlreadyExists"
    assert site.api.writes == []


# The start before.


async def test_a_start_waits_for_the_claims_of_the_vms_last_one(site):
    site.budget = {"h100": 3}
    site.claim(made(), template=True, count=2, attached=attachment("vm", uid="old"))
    starting = asyncio.ensure_future(site.begin("vm", BOTH))
    await asyncio.sleep(2)
    assert site.api.writes == []
    del site.api._objects[kinds.GPU_CLAIMS][("tenant-a", made())]
    site.api._wake()
    async with site.binder():
        assert (await starting)["allowed"]


async def test_a_start_waits_until_a_held_claim_is_let_go_of_by_the_vm_that_has_just_ended(site):
    site.claim("c", attached=attachment("other", uid="old", pods={"p": "n1"}))
    starting = asyncio.ensure_future(site.start())
    await asyncio.sleep(2)
    assert site.api.writes == []
    site.claim("c")
    async with site.binder():
        assert (await starting)["allowed"]
    assert site.attached()["pods"] == []


async def test_one_that_is_not_let_go_of_is_taken_over_with_its_pods(site):
    site.claim("c", attached=attachment("other", uid="old", pods={"p": "n1"}))
    async with site.binder():
        assert (await site.start())["allowed"]
    assert site.attached()["pods"] == [{"uid": "p", "node": "n1"}]


async def test_one_whose_last_claims_do_not_go_gets_others(site):
    site.claim(made(), template=True, count=2, attached=attachment("vm", uid="old"))
    before = site.claims()[made()]
    async with site.binder():
        response = await site.begin("vm", BOTH)
    named = {it["claim"] for it in starts.record(admitted(BOTH, response)) if "claim" in it}
    assert named == {"c", made(index=1)}
    assert site.claims()[made()] == before


async def test_an_answer_to_an_earlier_start_is_none_to_this_one(site):
    old = {"id": "old", "vmi": "vm", "claims": ["c"], "result": "Succeeded"}
    site.claim("c", status={"bindRequest": old})
    response = await site.start()
    assert response["status"]["code"] == 503


# Calls that are made again, writes that fail.


async def test_a_call_that_is_made_again_is_admitted_without_a_new_request(site):
    site.budget = {"h100": 3}  # its own units are in it already
    async with site.binder():
        first = await site.begin("vm", BOTH)
    site.api.writes.clear()
    again = await site.begin("vm", BOTH)
    assert admitted(BOTH, again) == admitted(BOTH, first)
    assert not [one for one in site.api.writes if "bindRequest" in one.body.get("status", {})]


async def test_one_whose_launcher_asks_for_more_by_now_is_asked_for_anew(site):
    async with site.binder():
        assert (await site.begin("vm", BOTH))["allowed"]
        before = site.asked_for()
        assert (await site.begin("vm", BOTH, nodeSelector={"disk": "ssd"}))["allowed"]
    assert site.asked_for()["id"] != before["id"]
    assert (len(site.answered), '"disk":"ssd"' in site.asked_for()["launcher"]) == (2, True)


async def test_one_that_carries_what_the_call_before_wrote_changes_nothing(site):
    async with site.binder():
        body = admitted(BOTH, await site.begin("vm", BOTH))
    site.api.writes.clear()
    again = dict(await site.webhook()(starts.request(body)))
    assert starts.answered(body, again) == body
    assert [one.key.name for one in site.api.writes] == ["c", made()]


async def test_two_calls_at_once_for_one_vm_leave_it_bound_once(site):
    async with site.binder():
        responses = await asyncio.gather(*(site.begin("vm", BOTH) for _ in range(2)))
    assert any(it["allowed"] for it in responses)
    assert list(site.claims()) == sorted(["c", made()])
    won = [admitted(BOTH, it) for it in responses if it["allowed"]]
    for body in won:
        ids = {it["claim"]: it["admission"] for it in starts.record(body) if "claim" in it}
        assert ids == {name: site.attached(name)["admission"] for name in ("c", made())}


@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("at", range(1, 4))
async def test_a_write_that_gets_no_answer_is_found_out_about(site, at, executed):
    """1: the claim of the template; 2, 3: attachments with their requests."""
    site.api.fail(Fault(at=at, executed=executed))
    async with site.binder():
        response = await site.begin("vm", BOTH)
    assert terms(admitted(BOTH, response))
    assert list(site.claims()) == sorted(["c", made()])


@pytest.mark.parametrize("at", range(1, 4))
async def test_a_write_that_is_refused_leaves_nothing(site, at):
    refusal = errors.from_status({"code": 403, "reason": "Forbidden", "message": "no"})
    site.api.fail(Fault(at=at, executed=False, error=refusal))
    async with site.binder():
        response = await site.begin("vm", BOTH)
    assert response["status"]["code"] == 503
    assert (site.attached(), site.asked_for()) == (None, None)
    if left := site.claims().get(made()):
        assert left["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("at", [2, 3])
async def test_a_conflict_is_judged_anew(site, at):
    conflict = errors.from_status({"code": 409, "reason": "Conflict", "message": "changed"})
    site.api.fail(Fault(at=at, executed=False, error=conflict))
    async with site.binder():
        assert terms(admitted(BOTH, await site.begin("vm", BOTH)))


@pytest.mark.parametrize("at", range(1, 4))
async def test_a_server_that_falls_silent_is_waited_for_no_longer_than_there_is_time(site, at):
    def dies(_write):
        site.api.down = len(site.api.writes) >= at
        return False

    site.api.refuse(dies, errors.Unreachable("gone", sent=True))
    response = await site.begin("vm", BOTH)
    assert response["status"]["code"] == 503
    assert asyncio.get_running_loop().time() <= REQUEST.work + REQUEST.undo


async def test_an_undoing_that_fails_is_tried_again_while_there_is_time(site):
    down = Fault(at=4, executed=True)  # 1: attached and asked for; 2: refused; 3: undone
    site.api.fail(Fault(at=3, executed=False), down)
    async with site.binder(refuse="no"):
        await site.start()
    assert untouched(site)


async def test_a_request_that_another_call_has_taken_over_is_left_to_it(site):
    first = asyncio.ensure_future(site.begin("vm", BOTH))
    await asyncio.sleep(1)
    second = asyncio.ensure_future(site.begin("vm", BOTH))
    await asyncio.sleep(0.5)
    assert "by another request" in (await first)["status"]["message"]
    assert site.asked_for()["id"] == "id-1"
    assert "deletionTimestamp" not in site.claims()[made()]["metadata"]
    async with site.binder():
        assert (await second)["allowed"]


async def test_one_whose_claim_another_call_attaches_before_it_is_asked_for_leaves_it_alone(site):
    theirs = attachment("vm", admission="theirs", since=5)

    def takes(write):
        if "bindRequest" in ((write.body or {}).get("status") or {}) and not site.answered:
            site.answered.append(())
            now = site.claims()["c"]
            site.api.put(
                kinds.GPU_CLAIMS, {**now, "status": now["status"] | {"attachedTo": theirs}}
            )
        return False

    site.api.refuse(takes, errors.Unreachable("never", sent=True))
    response = await site.start()
    assert "by another request" in response["status"]["message"]
    assert (site.attached(), site.asked_for()) == (theirs, None)


async def test_a_claim_that_nobody_knows_was_made_goes_with_the_rest(site):
    site.api.fail(Fault(at=1, executed=True))
    async with site.binder(refuse="no"):
        await site.begin("vm", BOTH)
    assert site.claims()[made()]["metadata"]["deletionTimestamp"]
