"""The quota gate with its reservations: races between replicas, expiry, faults; on the fake cluster."""

import asyncio
from datetime import timedelta

import pytest

from gpu import keys
from gpu.admission import reserved, reserving
from gpu.cluster import errors
from gpu.model import premises
from gpu.model.reservations import LIFE, MOST
from gpu.objects import kinds
from gpu.objects.classes import GPUClass
from gpu.objects.config_maps import ConfigMap
from tests.admission.gates import KEY, PROOF, A, Replica, allowed, seen, stored
from tests.fakes.cluster import FakeCluster, Fault


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.mark.looptime
@pytest.mark.parametrize("replicas", [1, 2, 3])
async def test_of_eight_at_once_that_ask_for_all_exactly_one_passes(cluster, replicas):
    gates = [Replica(cluster, A) for _ in range(replicas)]
    answers = await asyncio.gather(*(gates[at % replicas].create(f"c{at}", 4) for at in range(8)))
    assert sum(allowed(answers)) == 1
    refused = [answer["status"] for answer in answers if not answer["allowed"]]
    assert [status["code"] for status in refused] == [422] * 7
    for status in refused:
        assert "reserved for a change of the last half minute" in status["message"]


@pytest.mark.looptime
async def test_refusals_are_proved_beside_each_other_and_not_in_turn(cluster, looptime):
    replica = Replica(cluster, A)
    answers = await asyncio.gather(*(replica.create(f"c{at}", 4) for at in range(8)))
    assert (sum(allowed(answers)), replica.proofs) == (1, 7)
    assert looptime < 3 * PROOF


@pytest.mark.looptime
async def test_of_eight_at_once_that_ask_for_one_as_many_pass_as_there_are(cluster):
    gates = [Replica(cluster, A), Replica(cluster, A)]
    answers = await asyncio.gather(*(gates[at % 2].create(f"c{at}", 1) for at in range(8)))
    assert sum(allowed(answers)) == 4


@pytest.mark.looptime
async def test_a_race_below_an_unbounded_parent_is_settled_at_the_grandparent(cluster):
    gates = [Replica(cluster, A), Replica(cluster, A)]
    homes = ["tenant-a", "tenant-a-m", "tenant-a-n"]
    answers = await asyncio.gather(
        *(gates[at % 2].create("x", 4, namespace=home) for at, home in enumerate(homes))
    )
    assert sum(allowed(answers)) == 1


@pytest.mark.looptime
async def test_every_tenant_that_bounds_holds_the_reservation(cluster):
    replica = Replica(cluster, seen("tenant-root", 9), A)
    assert allowed([await replica.create("b", 3)]) == [True]
    assert stored(cluster) == stored(cluster, "tenant-root") == {"tenant-a-b": {KEY: 3}}


@pytest.mark.looptime
async def test_the_release_that_follows_a_tenant_finds_its_reservation(cluster):
    first, second = Replica(cluster, A), Replica(cluster, A)
    answers = [
        await first.create("b", 4),
        await second.create("b", 4, release=True),
        await second.create("c", 1),
    ]
    assert allowed(answers) == [True, True, False]


@pytest.mark.looptime
async def test_what_bounds_nothing_or_only_lowers_writes_nothing(cluster):
    replica = Replica(cluster, A, seen("tenant-a-b", 4))
    answers = [
        await replica.create("b", 2, old=(4, 1)),
        await replica.create("b", None, old=(4, 1)),
        await replica.create("free", 100, namespace="tenant-root"),
    ]
    assert allowed(answers) == [True, True, True]
    assert cluster.writes == []


@pytest.mark.looptime
async def test_a_budget_that_is_declared_while_a_grant_is_on_its_way_bounds_the_next(cluster):
    first, second = Replica(cluster), Replica(cluster)
    assert allowed([await first.create("b", 4)]) == [True]
    second.show(A)  # declared before that is stored
    answers = [await second.create("c", 1), await second.create("b", 4, release=True)]
    assert allowed(answers) == [False, True]


@pytest.mark.looptime
async def test_a_dry_run_is_judged_and_writes_nothing(cluster):
    replica = Replica(cluster, A)
    assert allowed([await replica.create("b", 4, dry_run=True)]) == [True]
    assert cluster.writes == []
    await replica.create("c", 1)
    assert allowed([await replica.create("b", 4, dry_run=True)]) == [False]
    assert stored(cluster) == {"tenant-a-c": {KEY: 1}}


@pytest.mark.looptime
async def test_a_reservation_is_over_after_half_a_minute(cluster):
    replica = Replica(cluster, A)
    await replica.create("b", 4)
    await asyncio.sleep(LIFE.total_seconds() - 1)
    assert allowed([await replica.create("c", 1)]) == [False]
    await asyncio.sleep(1.1)
    assert allowed([await replica.create("c", 1)]) == [True]


@pytest.mark.looptime
@pytest.mark.parametrize("skew", [0, 20])
async def test_a_replica_whose_clock_is_ahead_still_bears_a_write_of_ten_seconds(cluster, skew):
    await Replica(cluster, A).create("b", 4)
    await asyncio.sleep(9.5)
    ahead = Replica(cluster, A, skew=skew)
    assert allowed([await ahead.create("c", 1)]) == [False]


@pytest.mark.looptime
async def test_once_a_replica_has_seen_the_child_it_goes_by_what_it_sees(cluster):
    knows, stale = Replica(cluster, A), Replica(cluster, A)
    await knows.create("b", 4)
    knows.show(A, seen("tenant-a-b", 1, version=10_000))  # granted 4, then lowered to 1
    assert allowed([await knows.create("c", 3, dry_run=True)]) == [True]
    assert allowed([await stale.create("c", 3, dry_run=True)]) == [False]


@pytest.mark.looptime
async def test_a_child_seen_as_it_was_before_its_write_is_not_seen(cluster):
    old = seen("tenant-a-b", 1, version=5)
    replica = Replica(cluster, A, old)
    await replica.create("b", 4, old=(1, 5))
    assert allowed([await replica.create("c", 1)]) == [False]


@pytest.mark.looptime
async def test_a_child_that_came_and_went_leaves_its_share(cluster):
    replica, other = Replica(cluster, A), Replica(cluster, A)
    await replica.create("b", 4)
    replica.show(A, seen("tenant-a-b", 4, version=10_000))
    replica.show(A)
    assert allowed([await other.create("c", 4, dry_run=True)]) == [False]
    assert allowed([await replica.create("c", 4)]) == [True]


@pytest.mark.looptime
async def test_a_child_made_anew_is_reserved_anew(cluster):
    replica, other = Replica(cluster, A), Replica(cluster, A)
    await replica.create("b", 4)
    replica.show(A, seen("tenant-a-b", 4, version=150))
    replica.show(A)
    for _ in range(60):
        cluster.put(kinds.NODES, {"metadata": {"name": "n"}})  # versions move on
    assert allowed([await other.create("b", 4)]) == [True]
    assert allowed([await replica.create("c", 1)]) == [False]


@pytest.mark.looptime
async def test_a_refusal_is_not_made_of_an_old_view(cluster):
    replica = Replica(cluster, A, renews=(seen("tenant-a", 6),))
    assert allowed([await replica.create("b", 6)]) == [True]
    assert replica.renewed == 1


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("asked", "rested"),
    [
        pytest.param({"units": 9}, premises.BUDGET - reserving.RENEWED, id="too much"),
        pytest.param({"units": "x"}, frozenset({GPUClass, ConfigMap}), id="no number"),
    ],
)
async def test_what_was_listed_anew_is_not_asked_for_again(cluster, asked, rested):
    replica = Replica(cluster, A)
    assert allowed([await replica.create("x", **asked)]) == [False]
    assert (replica.renewed, replica.rested) == (1, [rested])


@pytest.mark.looptime
async def test_what_is_in_use_settles_while_what_is_declared_is_listed_anew(cluster, looptime):
    replica = Replica(cluster, A)
    replica.renews_for = PROOF
    assert allowed([await replica.create("b", 9)]) == [False]
    assert looptime < 1.5 * PROOF


@pytest.mark.looptime
async def test_those_who_are_refused_at_once_share_one_renewal(cluster):
    replica = Replica(cluster, A)
    answers = await asyncio.gather(*(replica.create(f"c{at}", 9) for at in range(20)))
    assert not any(allowed(answers))
    assert replica.renewed <= 2


@pytest.mark.looptime
async def test_what_is_broken_in_a_reservation_is_mended(cluster):
    name = reserved.name_of("tenant-a")
    meta = {"name": name, "namespace": keys.SETTINGS_NAMESPACE}
    cluster.put(kinds.CONFIG_MAPS, {"metadata": meta, "data": {"junk": "{", "tenant-a-x": "[]"}})
    assert allowed([await Replica(cluster, A).create("b", 4)]) == [True]
    assert stored(cluster) == {"tenant-a-b": {KEY: 4}}


@pytest.mark.looptime
async def test_there_is_an_end_to_how_many_children_change_at_once(cluster):
    replica = Replica(cluster, seen("tenant-a", 1000))
    for at in range(MOST):
        assert allowed([await replica.create(f"c{at}", 1)]) == [True]
    found = await replica.create("more", 1)
    assert found["status"]["code"] == 503
    assert "too many quotas below tenant-a" in found["status"]["message"]


@pytest.mark.looptime
@pytest.mark.parametrize("executed", [False, True], ids=["lost", "written and its reply lost"])
async def test_a_lost_reply_is_looked_into(cluster, executed):
    replica = Replica(cluster, A)
    cluster.fail(Fault(2, executed))  # the first write makes the ConfigMap
    assert allowed([await replica.create("b", 4)]) == [True]
    assert stored(cluster) == {"tenant-a-b": {KEY: 4}}


@pytest.mark.looptime
async def test_nobody_who_answers_is_no_yes(cluster):
    replica = Replica(cluster, A)
    cluster.down = True
    found = await replica.create("b", 4)
    assert found["status"]["code"] == 503
    assert f"not judged within {reserving.SECONDS:g} s: try again" in found["status"]["message"]


@pytest.mark.looptime
async def test_a_missing_right_is_said(cluster):
    error = errors.from_status({"code": 403, "reason": "Forbidden", "message": "no"})
    cluster.refuse(lambda _: True, error)
    found = await Replica(cluster, A).create("b", 4)
    assert found["status"]["code"] == 503
    assert (
        "cannot create ConfigMap cozy-system/cozystack-gpu-reserved-tenant-a"
        in (found["status"]["message"])
    )


@pytest.mark.looptime
async def test_caches_that_fell_behind_judge_nothing(cluster):
    replica = Replica(cluster, A)
    replica.behind = True
    assert (await replica.create("b", 1))["status"]["code"] == 503


async def test_what_is_no_review_is_refused(cluster):
    found = await Replica(cluster, A).gate({"uid": "u", "operation": 3})
    assert (found["allowed"], found["status"]["code"]) == (False, 400)


def test_clocks_may_differ_by_what_a_write_takes_less_than_a_reservation_lives():
    assert LIFE - timedelta(seconds=20) >= timedelta(seconds=10)
