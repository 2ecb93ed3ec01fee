"""Attachments of starting VMs: by compare-and-swap, taken over only from what is over, undone whole."""

import asyncio

import pytest

from gpu.admission.starting import GATE
from gpu.cluster import errors
from gpu.objects import kinds
from tests.admission.attaching_site import Site, codes, ids
from tests.builders import attachment, instant
from tests.fakes.cluster import Fault

pytestmark = pytest.mark.looptime


@pytest.fixture
def site():
    found = Site()
    found.claim()
    return found


def writes(site):
    return [(one.verb, one.key.name, one.subresource) for one in site.api.writes]


async def test_a_held_claim_is_attached_before_its_vmi_is_stored(site):
    response = await site.start()
    assert site.attached() == {"name": "vm", "admission": "id-0", "since": instant(), "pods": []}
    assert ids(response) == {"c": "id-0"}
    assert writes(site) == [("patch", "c", "status")]


async def test_claims_are_written_in_the_order_of_their_names(site):
    for name in ("b", "a"):
        site.claim(name)
    response = await site.start("vm", "b", "c", "a")
    assert [name for _, name, _ in writes(site)] == ["a", "b", "c"]
    assert ids(response) == dict.fromkeys("abc", "id-0")


async def test_nothing_but_the_attachment_is_written(site):
    await site.start()
    (write,) = site.api.writes
    assert write.body["status"].keys() == {"attachedTo"}
    assert write.body["metadata"].keys() == {"resourceVersion"}


async def test_a_dry_run_is_answered_alike_and_writes_nothing(site):
    response = await site.start(dry_run=True)
    assert (response["allowed"], list(ids(response)), site.api.writes) == (True, ["c"], [])
    site.vmi("other", uid="u")
    site.claim("used", attached=attachment("other", uid="u"))
    assert codes(await site.start("vm", "used", dry_run=True)) == ["ClaimInUse"]


async def test_an_order_that_was_made_a_moment_ago_is_attached_without_a_status(site):
    site.claim("new", on=None)
    assert (await site.start("vm", "new"))["allowed"]
    assert site.attached("new")["name"] == "vm"


# Whose attachment?


async def test_a_create_that_is_made_again_finds_its_id_and_is_waited_for_anew(site):
    first = await site.start()
    site.clock.at = 50
    again = await site.start()
    assert ids(first) == ids(again)
    assert site.attached()["since"] == instant(50)


async def test_while_a_vmi_of_the_name_lives_nothing_changes(site):
    await site.create()
    before = site.attached()
    response = await site.start()
    assert (response["status"]["code"], response["status"]["reason"]) == (409, "AlreadyExists")
    assert (
        response["status"]["message"] == 'virtualmachineinstances.kubevirt.io "vm" already exists'
    )
    assert site.attached() == before


async def test_one_that_ended_and_still_has_the_name_keeps_it_too(site):
    site.claim("mine", attached=attachment("vm", uid="u"))
    site.vmi(uid="u", phase="Succeeded")
    assert (await site.start("vm", "mine"))["status"]["code"] == 409
    assert site.attached("mine")["uid"] == "u"


OLD = {"p1": "n1", "p2": "n2"}


@pytest.mark.parametrize("name", ["vm", "other"])
async def test_what_is_over_is_taken_over_with_its_pods(site, name):
    """Whoever was attached: evidence for the pods of the old start is needed still."""
    site.claim("mine", attached=attachment(name, uid="u-old", pods=OLD, ended=["p1"]))
    response = await site.start("vm", "mine")
    assert site.attached("mine") == {
        "name": "vm",
        "admission": "id-0",
        "since": instant(),
        "pods": [{"uid": "p1", "node": "n1", "ended": True}, {"uid": "p2", "node": "n2"}],
    }
    assert ids(response) == {"mine": "id-0"}


@pytest.mark.parametrize("name", ["vm", "other"])
async def test_pods_that_only_the_ending_vmi_lists_are_taken_over_too(site, name):
    site.claim("mine", attached=attachment(name, uid="u", pods={"p1": "", "p0": "n0"}))
    site.vmi(name, uid="u", deleting=True, active={"p1": "n1", "p2": "n2"})
    await site.start("vm", "mine")
    assert {it["uid"]: it.get("node") for it in site.attached("mine")["pods"]} == {
        "p0": "n0",
        "p1": "n1",
        "p2": "n2",
    }


async def test_an_id_that_a_vmi_on_its_way_out_carries_is_not_given_again(site):
    """Its uid may still be adopted, and the next start would be let go with it."""
    site.claim("mine", attached=attachment("vm", admission="old", since=-1))
    site.vmi(uid="u", deleting=True, admissions={"mine": "old"})
    assert ids(await site.start("vm", "mine")) == {"mine": "id-0"}


async def test_another_that_is_being_started_keeps_the_claim_until_it_is_waited_for_no_more(site):
    await site.start("first")
    site.clock.at = 59
    response = await site.start("second")
    assert codes(response) == ["ClaimInUse"]
    assert "is kept for VM first, which is being started" in response["status"]["message"]
    site.clock.at = 61
    assert (await site.start("second"))["allowed"]


async def test_the_cache_may_not_know_that_its_vmi_lives(site):
    """A view without the VMI says over; what is stored says it runs."""
    site.claim("mine", attached=attachment("other", uid="u"))
    site.vmi("other", uid="u")
    site.stale_vmis = []
    assert codes(await site.start("vm", "mine")) == ["ClaimInUse"]
    assert site.attached("mine")["name"] == "other"


async def test_the_cache_may_not_know_of_an_attachment(site):
    site.stale["c"] = site.raw(kinds.GPU_CLAIMS)[0]
    await site.create("first")
    assert codes(await site.start("second")) == ["ClaimInUse"]
    assert site.attached()["name"] == "first"


async def test_the_cache_may_not_know_that_a_claim_is_going(site):
    site.stale["c"] = site.raw(kinds.GPU_CLAIMS)[0]
    await site.api.delete(kinds.GPU_CLAIMS, "c", "tenant-a")
    assert codes(await site.start()) == ["ClaimDeleting"]


async def test_the_cache_may_not_know_that_a_claim_is_gone(site):
    seen = site.raw(kinds.GPU_CLAIMS)
    site.api.unserve(kinds.GPU_CLAIMS)
    site.api.serve(kinds.GPU_CLAIMS)
    site.raw = lambda kind: seen if kind == kinds.GPU_CLAIMS else []
    assert codes(await site.start()) == ["ClaimMissing"]


async def test_a_claim_that_was_made_anew_meanwhile_is_not_taken_for_the_old_one(site):
    site.stale["c"] = site.raw(kinds.GPU_CLAIMS)[0]
    old = {**site.stale["c"], "metadata": {**site.stale["c"]["metadata"], "uid": "older"}}
    site.stale["c"] = {**old, "metadata": {**old["metadata"], "resourceVersion": "3"}}
    response = await site.start()
    assert (response["status"]["code"], site.attached()) == (503, None)
    assert "claim c was made anew meanwhile: try again" in response["status"]["message"]


# Races and failures.


async def test_of_two_that_race_for_one_claim_exactly_one_gets_it(site):
    responses = await asyncio.gather(site.create("first"), site.create("second"))
    assert sorted(it["allowed"] for it in responses) == [False, True]
    (winner,) = site.raw(kinds.VMIS)
    assert site.attached()["name"] == winner["metadata"]["name"]


async def test_who_loses_a_later_claim_gives_back_the_earlier_ones(site):
    site.claim("a", attached=attachment("vm0", uid="u0", pods=OLD))
    before = site.attached("a")
    site.claim("b")
    site.stale["c"] = site.raw(kinds.GPU_CLAIMS)[-1]
    await site.create("first", "c")
    response = await site.start("second", "a", "b", "c")
    assert codes(response) == ["ClaimInUse"]
    assert site.attached("b") is None
    assert {**site.attached("a"), "since": 0} == {**before, "since": 0}


async def test_who_gives_up_leaves_what_another_call_of_the_name_has_taken_on(site):
    """Both have one id: the second was stored with it."""
    site.claim("a")
    site.claim("b")
    await site.create("other", "b")
    site.stale = {it["metadata"]["name"]: it for it in site.raw(kinds.GPU_CLAIMS)}
    responses = await asyncio.gather(site.create("vm", "a", "b"), site.create("vm", "a"))
    assert [it["allowed"] for it in responses] == [False, True]
    assert site.attached("a")["admission"] == ids(responses[1])["a"]


@pytest.mark.parametrize("executed", [False, True], ids=["lost", "answer-lost"])
async def test_a_write_without_an_answer_is_looked_after(site, executed):
    site.api.fail(Fault(at=1, executed=executed))
    response = await site.start()
    assert site.attached()["admission"] == ids(response)["c"]


@pytest.mark.parametrize("executed", [False, True], ids=["lost", "answer-lost"])
async def test_what_was_written_is_given_back_when_the_time_is_up(site, executed):
    site.claim("d")
    slow = site.api.patch

    async def patch(kind, name, *args, **how):
        answer = await slow(kind, name, *args, **how) if name == "c" or executed else None
        if name == "d" and "attachedTo" in args[0]["status"] and args[0]["status"]["attachedTo"]:
            await asyncio.sleep(60)
        return answer or await slow(kind, name, *args, **how)

    site.api.patch = patch
    response = await site.start("vm", "c", "d")
    assert response["status"]["code"] == 503
    assert (site.attached("c"), site.attached("d")) == (None, None)


async def test_a_refused_write_is_told_and_undone(site):
    site.claim("a")
    refusal = errors.from_status({"reason": "Forbidden", "message": "no right", "code": 403})
    site.api.refuse(lambda one: one.key.name == "c", refusal)
    response = await site.start("vm", "a", "c")
    assert response["status"]["code"] == 503
    assert "claim c cannot be attached: " in response["status"]["message"]
    assert (site.attached("a"), site.attached("c")) == (None, None)


async def test_the_answer_comes_in_time_while_the_api_server_is_away(site):
    site.api.down = True
    response = await site.start()
    assert response["status"]["code"] == 503
    assert asyncio.get_running_loop().time() <= GATE.work + GATE.undo
