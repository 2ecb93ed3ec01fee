"""The judge alone: what it must see once a guest has migrated and its claim has followed it."""

import pytest

from gpu.binder.report import PassReport
from gpu.objects import kinds
from soak import closely
from soak.refusals import Refusal, look_of
from tests.binder import raws
from tests.soak.migrating import a_roomy_site, hold, migrate, running, sorts, succeed
from tests.soak.started import TENANT, VM, a_held


@pytest.fixture
def site():
    return a_roomy_site()


@pytest.fixture
def followed(site, judge):
    """Return the node that the guest has migrated to, its claim behind it."""
    running(site, judge)
    target = migrate(site, until="done")
    assert judge.look() == []
    hold(site, target)
    note(site, target)
    assert judge.look() == []
    return target


def change(site, **status):
    claim = site.claim(TENANT, "x")
    site.api.edit(kinds.GPU_CLAIMS, claim, lambda it: it["status"].update(status))


def note(site, node, *, ended=False):
    """Have the claim note the target."""
    attached = site.claim(TENANT, "x")["status"]["attachedTo"]
    pods = [it for it in attached["pods"] if it["node"] != node]
    pods.append({"uid": "target", "node": node, "ended": ended})
    change(site, attachedTo=attached | {"pods": pods})


def lose(site, judge):
    change(site, phase="Lost", nodeName=None)
    assert judge.look() == []


def test_units_of_a_guest_that_runs_on_where_its_claim_was_lost_are_not_given_to_others(
    site, judge, followed
):
    lose(site, judge)
    a_held(site, raws.bound(followed), "seven", 7)
    assert judge.look() == []
    a_held(site, raws.bound(followed), "one", 1)
    assert sorts(judge.look()) == ["booked twice"]


def test_its_claim_comes_back_to_it(site, judge, followed):
    lose(site, judge)
    change(site, phase="Bound", nodeName=followed)
    assert judge.look() == []


def test_a_claim_goes_back_to_where_its_guest_came_from_no_more(site, judge, followed):
    hold(site, "n0")
    assert sorts(judge.look()) == ["moved too early"]


def test_it_follows_again(site, judge, followed):
    site.begin("judge/again")
    last = migrate(site, until="begun")
    hold(site, last)
    assert sorts(judge.look()) == ["moved too early"]
    hold(site, followed)
    assert judge.look() == []
    succeed(site)
    assert judge.look() == []
    hold(site, last)
    assert judge.look() == []
    hold(site, followed)
    assert sorts(judge.look()) == ["moved too early"]


@pytest.mark.parametrize(("ended", "seen"), [(True, ["booked twice"]), (False, [])])
def test_where_its_guest_is_known_to_have_ended_a_claim_takes_units_anew(
    site, judge, followed, ended, seen
):
    """Its VMI tells of the migration still: of a guest that may run, the claim may come back to it."""
    site.guests.clear()
    note(site, followed, ended=ended)
    lose(site, judge)
    a_held(site, raws.bound(followed), "all", 8)
    assert judge.look() == []
    change(site, phase="Bound", nodeName=followed)
    assert sorts(judge.look()) == seen


@pytest.mark.parametrize(("was", "seen"), [("Bound", []), ("Lost", ["sent back"])])
def test_who_follows_a_guest_to_a_node_that_refused_it_is_not_sent_there_who_comes_anew_is(
    site, judge, was, seen
):
    running(site, judge)
    target = migrate(site, until="done")
    judge.look()
    if was == "Lost":
        lose(site, judge)
    at, look = site.clock.monotonic() + 300, look_of(site, target)
    refused = Refusal(f"{TENANT}/{VM}", target, at, look, site.leader, frozenset())
    judge.refusals.standing.append(refused)
    before = dict(judge.stands)
    change(site, phase="Bound", nodeName=target)
    assert judge.look() == []
    assert sorts(closely.look(site, judge, before, PassReport())) == seen
