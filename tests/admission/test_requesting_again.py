"""Starts under `binding: request` beside other calls for the same VM, and how often each asks kube-apiserver."""

import asyncio
import copy
from datetime import timedelta

import pytest

from gpu.model import attaching, bind_requests
from gpu.objects import claims, kinds, kubevirt
from tests.admission.requesting_site import RequestSite, made
from tests.admission.starts import claim, unit
from tests.admission.test_requesting import admitted
from tests.builders import attachment

pytestmark = pytest.mark.looptime
BOTH = [claim("c"), unit(), unit()]


@pytest.fixture
def site():
    found = RequestSite()
    found.claim()
    return found


@pytest.fixture
def reads(site, monkeypatch):
    """The kinds that were read past the cache, one by one."""
    found, get = [], site.api.get

    async def noted(kind, *args, **how):
        found.append(kind)
        return await get(kind, *args, **how)

    monkeypatch.setattr(site.api, "get", noted)
    return found


async def test_a_first_start_reads_nothing_and_writes_once_to_each_claim(site, reads):
    async with site.binder():
        assert (await site.begin("vm", BOTH))["allowed"]
    assert reads == []
    mine = [
        (one.verb, one.key.name)
        for one in site.api.writes
        if "result" not in (one.body.get("status", {}).get("bindRequest") or {})
        or "requestedAt" in one.body["status"]["bindRequest"]
    ]
    assert mine == [("create", made()), ("patch", "c"), ("patch", made())]


async def test_one_whose_vmi_is_seen_reads_it(site, reads):
    site.vmi("vm", uid="u", deleting=True)
    assert (await site.begin("vm", BOTH))["status"]["reason"] == "AlreadyExists"
    assert (reads, site.api.writes) == ([kinds.VMIS], [])


async def test_one_whose_claim_somebody_had_reads_its_vmi(site, reads):
    site.claim("c", attached=attachment("vm", admission="left"))
    async with site.binder():
        assert (await site.begin("vm", BOTH))["allowed"]
    assert reads == [kinds.VMIS]


async def test_one_that_finds_units_of_a_vmi_that_is_not_seen_yet_reads_it(site, reads):
    """Neither the template claim nor the VMI that has it has come to the cache: the name is taken."""
    site.vmi("vm", uid="u")
    site.claim(made(), template=True, attached=attachment("vm", admission="old", uid="u"))
    site.hidden, site.stale_vmis = {made()}, []
    response = await site.begin("vm", [unit()])
    assert response["status"]["reason"] == "AlreadyExists"
    assert kinds.VMIS in reads
    assert site.claims().keys() == {"c", made()}


async def test_an_unseen_vmi_that_has_no_claim_keeps_its_name_and_what_was_placed_is_let_go_of(
    site,
):
    """Unread, the start is admitted, and the API server refuses it: the name is taken. Nobody ever carries its id."""
    vmi = kubevirt.decode_vmi(site.vmi("vm", uid="u"))
    site.stale_vmis = []
    async with site.binder():
        assert (await site.begin("vm", [unit()]))["allowed"]
    left = claims.decode(site.claims()[made()])
    grace = site.config.grace.attachment
    now = left.attached_to.since
    assert attaching.use(left, vmi, now, grace) is attaching.Use.STARTING
    over = now + timedelta(seconds=grace)
    assert attaching.use(left, vmi, over, grace) is attaching.Use.OVER


async def test_one_that_waited_for_the_start_before_reads_its_vmi_again(site, reads):
    site.claim("c", attached={"name": "vm", "admission": "old", "uid": "u", "pods": []})
    starting = asyncio.ensure_future(site.start())
    await asyncio.sleep(1)
    site.claim("c")
    async with site.binder():
        assert (await starting)["allowed"]
    assert reads == [kinds.VMIS, kinds.VMIS]


async def test_a_vmi_of_its_name_that_came_while_it_waited_is_seen(site):
    site.claim("c", attached={"name": "vm", "admission": "old", "uid": "u", "pods": []})
    starting = asyncio.ensure_future(site.start())
    await asyncio.sleep(1)
    site.vmi("vm", uid="new")
    site.claim("c")
    assert (await starting)["status"]["reason"] == "AlreadyExists"
    assert site.attached() is None


async def test_one_whose_answer_the_cache_does_not_show_yet_makes_no_new_request(site):
    before = copy.deepcopy(site.claims()["c"])
    async with site.binder():
        first = await site.begin("vm", BOTH)
    site.stale["c"] = before
    asked = site.asked_for()
    again = await site.begin("vm", BOTH)
    assert admitted(BOTH, again) == admitted(BOTH, first)
    assert (site.asked_for(), site.asked_for(made())) == (asked, asked)


async def test_one_whose_answer_was_to_another_launcher_is_asked_anew_all_the_same(site):
    before = copy.deepcopy(site.claims()["c"])
    async with site.binder():
        assert (await site.begin("vm", BOTH))["allowed"]
        site.stale["c"] = before
        assert (await site.begin("vm", BOTH, nodeSelector={"disk": "ssd"}))["allowed"]
    assert '"disk":"ssd"' in site.asked_for()["launcher"]


async def test_one_that_meets_another_call_on_its_way_leaves_the_start_to_it(site):
    before = copy.deepcopy(site.claims()["c"])
    first = asyncio.ensure_future(site.begin("vm", BOTH))
    await asyncio.sleep(0.5)
    site.stale["c"] = before
    second = await site.begin("vm", BOTH)
    assert "by another request" in second["status"]["message"]
    assert site.asked_for()["id"] == "id-0"
    async with site.binder():
        assert (await first)["allowed"]


async def test_a_request_is_not_dated_before_an_attachment_that_an_earlier_call_left(site):
    """Each call that finds it dates it a second later, and a replica's clock may be ahead: it is awaited all the same."""
    site.claim("c", attached=attachment("vm", admission="left", since=20))
    starting = asyncio.ensure_future(site.start())
    await asyncio.sleep(0.5)
    assert bind_requests.is_awaited(claims.decode(site.claims()["c"]))
    async with site.binder():
        assert (await starting)["allowed"]
