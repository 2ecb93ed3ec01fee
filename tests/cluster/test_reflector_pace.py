"""How often a reflector asks a server that is of no use, in virtual time."""

import asyncio
import itertools

import pytest

from gpu.cluster import errors, reflector, wire
from tests.cluster import things
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.looptime

MINUTE = 60.0


class Useless:
    """Lists, and fails every watch (or every list) in one way."""

    def __init__(self, error=None, *, lists=True):
        self.error = error
        self.lists = lists
        self.asked = []

    async def list(self, _kind, _namespace=None, **_which):
        self._ask("list")
        if not self.lists:
            raise self.error
        return wire.ListPage((), "7")

    async def watch(self, _kind, _namespace=None, **_which):
        self._ask("watch")
        if self.error is not None:
            raise self.error
        return
        yield

    def _ask(self, what):
        self.asked.append((what, asyncio.get_running_loop().time()))

    def gaps(self, what):
        times = [when for asked, when in self.asked if asked == what]
        return [after - before for before, after in itertools.pairwise(times)]


async def ask_for(api, seconds):
    made = reflector.Reflector(api, things.store(), jitter=lambda: 0.5)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(made.run())
        await asyncio.sleep(seconds)
        task.cancel()


@pytest.mark.parametrize(
    ("api", "what"),
    [
        pytest.param(Useless(errors.Gone(410, "Expired", "old")), "list", id="expires every watch"),
        pytest.param(Useless(), "watch", id="ends every watch at once"),
        pytest.param(Useless(errors.Unreachable("cut", sent=True)), "watch", id="cuts every watch"),
        pytest.param(
            Useless(errors.Unreachable("no", sent=False), lists=False), "list", id="is away"
        ),
        pytest.param(
            Useless(errors.Forbidden(403, "Forbidden", "no"), lists=False), "list", id="refuses"
        ),
    ],
)
async def test_the_delay_doubles_up_to_its_most(api, what):
    await ask_for(api, MINUTE)
    gaps = [round(gap, 2) for gap in api.gaps(what)]
    # After the first failure 0.15 s, after a first 410 nothing: that one is expected.
    assert gaps[0] in {0.0, 0.15}
    assert gaps[1:6] == [0.3, 0.6, 1.2, 2.4, 3.75]
    assert set(gaps[6:]) == {3.75}


async def test_a_throttled_list_waits_as_long_as_it_is_told():
    details = errors.Details(retry_after=20)
    api = Useless(errors.Throttled(429, "TooManyRequests", "", details), lists=False)
    await ask_for(api, MINUTE)
    assert api.gaps("list") == [20.0, 20.0]


async def test_a_kind_that_is_not_served_is_asked_for_every_five_seconds():
    api = Useless(errors.from_answer(404, b"404 page not found"), lists=False)
    await ask_for(api, MINUTE)
    assert set(api.gaps("list")) == {5.0}


async def test_a_failure_after_a_long_watch_begins_a_new_row():
    api = FakeCluster()
    made = reflector.Reflector(api, things.store(), jitter=lambda: 0.5)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(made.run())
        for _ in range(3):
            await asyncio.sleep(MINUTE)
            api.cut_watches()
            await asyncio.sleep(0.2)
            assert made.failing_since is None, "the first delay is short again"
        task.cancel()
    assert (made.failures, made.lists) == (3, 1)
