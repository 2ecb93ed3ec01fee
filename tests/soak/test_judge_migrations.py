"""The judge alone: what it must see where guests migrate, and of clocks that are set wrong."""

import pytest

from gpu.binder.report import PassReport
from gpu.objects import kinds
from soak import closely, migrations
from soak.leader import Skewed
from soak.site import SKEWS
from tests.binder import raws
from tests.soak.migrating import (
    a_roomy_site,
    hold,
    migrate,
    running,
    sorts,
    succeed,
    tell,
    vmi_now,
)
from tests.soak.started import TENANT, VM, a_held


@pytest.fixture
def site():
    return a_roomy_site()


def test_a_migration_takes_the_guest_and_the_claim_may_be_on_either_node(site, judge):
    running(site, judge)
    target = migrate(site, until="done")
    assert [(guest.node, guest.came) for guest in site.guests] == [(target, ("n0",))]
    assert vmi_now(site)["status"]["nodeName"] == target
    assert judge.look() == []
    hold(site, target)
    assert judge.look() == []


def test_a_claim_that_goes_before_the_guest_has_gone_is_seen(site, judge):
    running(site, judge)
    hold(site, migrate(site, until="begun"))
    assert sorts(judge.look()) == ["moved too early"]


def test_a_claim_that_goes_to_a_third_node_is_seen(site, judge):
    running(site, judge)
    target = migrate(site, until="done")
    hold(site, next(name for name in site.machines if name not in {"n0", target}))
    assert sorts(judge.look()) == ["moved too early"]


def test_of_one_that_goes_on_from_a_machine_that_went_down_the_claim_may_still_be_where_it_began(
    site, judge
):
    """No pass has seen the first migration yet, and the guest that could tell of it is gone."""
    running(site, judge)
    middle = migrate(site, until="done")
    site.machines[middle].on = False
    site.guests.clear()
    site.begin("judge/anew")
    target = migrate(site, until="begun")
    assert [(guest.node, guest.came) for guest in site.guests] == [(target, ("n0", middle))]
    assert judge.look() == []


def test_a_migration_ends_the_guest_it_came_from_and_no_other_of_its_vm(site, judge):
    """That of an earlier start may run on where its pod was forced away."""
    running(site, judge)
    before = migrations.Guest("earlier", f"{TENANT}/{VM}", "n1", {}, {})
    site.guests.insert(0, before)
    target = migrate(site, until="done")
    assert [(guest.pod == "earlier", guest.node) for guest in site.guests] == [
        (True, "n1"),
        (False, target),
    ]


def test_a_vm_that_migrates_again_is_where_it_went_before_and_lives_on(site, judge):
    """The pod that it began with has ended, and its VMI lists that on and on."""
    running(site, judge)
    middle = migrate(site, until="done")
    site.begin("judge/anew")
    migrate(site, until="begun")
    assert site.guests[-1].came == ("n0", middle)
    for failed in (False, True):
        state = vmi_now(site)["status"]["migrationState"] | {"completed": failed, "failed": failed}
        vmi = tell(site, migrationState=state)
        assert migrations.virt.main_pod(site, vmi)["spec"]["nodeName"] == middle
        migrations.virt.move_on(site, vmi)
        assert vmi_now(site)["status"]["phase"] == "Running"


def runs_on(site, target):
    """Have the target of an earlier migration, which failed, run on where neither is; returns that node."""
    guest = site.guests[-1]
    node = next(name for name in site.machines if name not in {"n0", target})
    site.guests.append(
        migrations.Guest("failed", guest.vm, node, guest.units, guest.claims, ("n0",))
    )
    return node


def goes_on(site):
    site.begin("judge/next")
    migrate(site, until="begun")
    assert migrations.virt.is_migrating(vmi_now(site))


def fails(site):
    goes_on(site)
    site.machines[site.guests[-1].node].connected = False
    migrations.get_on(site, vmi_now(site))
    assert vmi_now(site)["status"]["migrationState"]["failed"]


def goes(site):
    site.api.erase(kinds.VMIS, vmi_now(site))


@pytest.mark.parametrize("then", [lambda _: None, goes_on, fails, goes])
def test_a_target_that_runs_on_where_its_migration_failed_holds_no_claim_back(site, judge, then):
    """Whatever the VMI tells of another migration since, or when it is gone."""
    running(site, judge)
    target = migrate(site, until="begun")
    runs_on(site, target)
    succeed(site)
    judge.look()
    hold(site, target)
    assert judge.look() == []
    then(site)
    assert judge.look() == []


def test_while_a_failed_target_runs_no_claim_goes_where_no_migration_went(site, judge):
    running(site, judge)
    target = migrate(site, until="begun")
    failed = runs_on(site, target)
    succeed(site)
    hold(site, next(name for name in site.machines if name not in {"n0", target, failed}))
    assert any(words.endswith(f"its guest runs on {failed}") for words in judge.look())


def test_a_claim_that_follows_a_guest_that_has_ended_since_is_bound_whoever_held_the_units(
    site, judge
):
    running(site, judge)
    for name in site.machines.keys() - {"n0"}:
        a_held(site, raws.bound(name), f"all-{name}", 8)
    judge.look()
    target = migrate(site, until="done")
    site.guests.clear()
    hold(site, target)
    assert judge.look() == []


def test_a_claim_that_does_not_follow_is_seen(site, judge):
    running(site, judge)
    target = migrate(site, until="done")
    judge.look()
    assert sorts(judge.unfollowed(frozenset({"attachments"}))) == ["not followed"]
    hold(site, target)
    judge.look()
    assert judge.unfollowed(frozenset({"attachments"})) == []


def test_a_claim_that_follows_its_guest_is_bound_whoever_held_the_units(site, judge):
    running(site, judge)
    for name in site.machines.keys() - {"n0"}:
        a_held(site, raws.bound(name), f"all-{name}", 8)
    judge.look()
    hold(site, migrate(site, until="done"))
    assert judge.look() == []


def test_a_guest_holds_units_on_both_nodes_for_who_sees_it(site, judge):
    running(site, judge)
    target = migrate(site, until="begun")
    before = dict(judge.stands)
    a_held(site, raws.bound(target), "all", 8)
    assert judge.look() == []
    assert sorts(closely.look(site, judge, before, PassReport())) == ["booked twice"]


def test_the_clock_of_a_leader_is_wrong_and_goes_right(site):
    clock = Skewed(site.clock, -SKEWS)
    assert (site.clock.now() - clock.now()).total_seconds() == SKEWS
    site.clock.advance(7)
    assert clock.monotonic() == site.clock.monotonic() == 7
    assert (site.clock.now() - clock.now()).total_seconds() == SKEWS
