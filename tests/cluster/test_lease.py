"""Leadership over a Lease, in virtual time: winning, renewing, losing, giving up."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from gpu.cluster import errors, lease
from gpu.objects import kinds
from tests.fakes.clock import LoopClock
from tests.fakes.cluster import FakeCluster, Fault

pytestmark = pytest.mark.looptime(start=1000.0)

PLACE = lease.Place("cozy-system", "binder")
CUT = errors.Unreachable("no answer", sent=True)


class Contender:
    """One process that contends, and when (loop time) it began and ceased to lead."""

    def __init__(self, api, name, clock=None):
        self.clock = clock or LoopClock()
        self.leadership = lease.Leadership(api, PLACE, name, clock=self.clock, jitter=lambda: 0.0)
        self.leads = []
        self.ends = []

    async def lead(self, hold):
        self.hold = hold
        self.leads.append(now())
        try:
            await asyncio.Event().wait()
        finally:
            self.ends.append(now())


def now():
    return asyncio.get_running_loop().time() - 1000.0


@asynccontextmanager
async def contending(*contenders):
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each.leadership.run(each.lead)) for each in contenders]
        try:
            yield running
        finally:
            for task in running:
                task.cancel()


async def holder(api):
    spec = (await api.get(kinds.LEASES, "binder", "cozy-system"))["spec"]
    return spec["holderIdentity"], spec["leaseTransitions"]


async def test_the_first_wins_at_once_and_the_others_wait():
    api = FakeCluster()
    first, second = Contender(api, "first"), Contender(api, "second")
    async with contending(first, second):
        await asyncio.sleep(60)
        assert await holder(api) == ("first", 0)
        assert (first.leads, first.ends, second.leads) == ([0.0], [], [])
        assert second.leadership.leader == "first"
        assert first.leadership.hold is first.hold
        assert second.leadership.hold is None


async def test_a_released_lease_is_taken_within_one_retry():
    api = FakeCluster()
    first, second = Contender(api, "first"), Contender(api, "second")
    async with contending(first, second) as (running, _):
        await asyncio.sleep(9)
        running.cancel()
        await asyncio.sleep(2.1)
        assert await holder(api) == ("second", 1)
        assert first.ends == [9.0]
        assert second.leads[0] <= 11.0
    assert await holder(api) == ("", 1)


async def test_a_dead_holder_is_followed_after_the_lease_duration_no_earlier_and_no_look_later():
    api = FakeCluster()
    api.put(
        kinds.LEASES,
        {
            "metadata": {"name": "binder", "namespace": "cozy-system"},
            "spec": {
                "holderIdentity": "dead",
                "leaseDurationSeconds": 15,
                # A clock that is an hour ahead must not matter.
                "renewTime": "2026-01-02T04:04:05.000000Z",
                "leaseTransitions": 4,
            },
        },
    )
    second = Contender(api, "second")
    async with contending(second):
        await asyncio.sleep(14.9)
        assert second.leads == []
        await asyncio.sleep(0.2)
        assert await holder(api) == ("second", 5)
        assert second.leads == [15.0]


async def test_a_holder_that_cannot_renew_stops_before_its_lease_ends():
    api = FakeCluster()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(5)  # renewed at 4
        api.down = True
        await asyncio.sleep(12)
        [ended] = first.ends
        assert 4 + 10 <= ended < 4 + 15
        assert not first.hold.valid()
        api.down = False
        await asyncio.sleep(3)
        assert len(first.leads) == 2


async def test_a_holder_survives_failures_shorter_than_the_renew_deadline():
    api = FakeCluster()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(5)
        api.down = True
        await asyncio.sleep(6)
        api.down = False
        await asyncio.sleep(30)
        assert first.ends == []


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "not executed"])
async def test_a_renewal_whose_answer_is_lost_is_read_and_done_again(executed):
    api = FakeCluster()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(1)
        api.fail(
            Fault(at=1, executed=executed, error=CUT), Fault(at=3, executed=executed, error=CUT)
        )
        await asyncio.sleep(30)
        assert (await holder(api), first.ends) == (("first", 0), [])


async def test_a_holder_that_sees_another_stops_at_once():
    api = FakeCluster()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(5)
        await api.patch(
            kinds.LEASES, "binder", {"spec": {"holderIdentity": "thief"}}, "cozy-system"
        )
        await asyncio.sleep(5)
        assert len(first.ends) == 1
        assert first.ends[0] <= 10.0
        assert first.leadership.leader == "thief"


async def test_a_holder_that_sees_it_was_taken_and_given_back_stops_too():
    api = FakeCluster()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(5)
        for other in ("thief", ""):
            await api.patch(
                kinds.LEASES, "binder", {"spec": {"holderIdentity": other}}, "cozy-system"
            )
        await asyncio.sleep(5)
        assert (len(first.ends), len(first.leads)) == (1, 2)


async def test_a_frozen_holder_knows_at_its_first_look_and_writes_no_renewal():
    api = FakeCluster()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(4.5)
        before = len(api.writes)
        first.clock.skip(60)  # SIGSTOP: no timer fired meanwhile
        assert not first.hold.valid()
        await asyncio.sleep(2)
        assert len(first.ends) == 1
        written = api.writes[before:]
        assert len(written) <= 1, "only as a new leadership may it write"


async def test_a_hold_ends_a_lease_after_the_start_of_the_last_renewal():
    api = FakeCluster()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(5)  # renewed at 2 and 4
        assert first.hold.deadline == pytest.approx(1000 + 4 + 15)
        assert first.hold.remaining == pytest.approx(14)
        assert first.hold.valid(13.9)
        assert not first.hold.valid(14.1)


async def test_a_body_that_returns_releases_and_ends_the_run():
    api = FakeCluster()
    contender = Contender(api, "first")

    async def brief(_hold):
        await asyncio.sleep(1)

    await contender.leadership.run(brief)
    assert await holder(api) == ("", 0)


class LateAnswers(FakeCluster):
    """Answers updates a second after they were executed, once it is told to."""

    is_late = False

    async def update(self, kind, body, **how):
        answer = await super().update(kind, body, **how)
        if self.is_late:
            await asyncio.sleep(1)
        return answer


async def test_a_renewal_under_way_at_the_end_does_not_keep_the_lease():
    api = LateAnswers()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(1)
        api.is_late = True
        await asyncio.sleep(1.5)  # the renewal of the second second is stored, and not answered
    assert await holder(api) == ("", 0)


async def test_a_renewal_that_is_stored_after_all_does_not_keep_the_lease():
    api = FakeCluster()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(1)
        await api.patch(kinds.LEASES, "binder", {"spec": {"renewTime": None}}, "cozy-system")
    assert await holder(api) == ("", 0)


async def test_a_body_that_raises_releases_and_raises():
    api = FakeCluster()
    contender = Contender(api, "first")

    async def bad(_hold):
        await asyncio.sleep(1)
        raise RuntimeError("bug")

    with pytest.raises(ExceptionGroup) as caught:
        await contender.leadership.run(bad)
    assert [str(each) for each in caught.value.exceptions] == ["bug"]
    assert await holder(api) == ("", 0)


async def test_a_lease_that_was_deleted_is_made_again():
    api = FakeCluster()
    first = Contender(api, "first")
    async with contending(first):
        await asyncio.sleep(5)
        await api.delete(kinds.LEASES, "binder", "cozy-system")
        await asyncio.sleep(10)
        assert (await holder(api), first.ends) == (("first", 0), [])


def test_timings_that_let_two_lead_are_refused():
    with pytest.raises(ValueError, match="retry < renew deadline < lease duration"):
        lease.Timing(lease_duration=10, renew_deadline=10)
