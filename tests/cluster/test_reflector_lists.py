"""How a reflector lists: pages, expired pages, refusals, kinds that come and go, many objects."""

import asyncio
import time

import pytest

from gpu.cluster import reflector
from tests.cluster import scripted, things
from tests.cluster.reading import QUICK, reading
from tests.cluster.scripted import listed, refused, thing, too_old


async def test_pages_become_one_list(server):
    server.lists += [
        listed(thing("a", 1, n=1), version=7, more="next"),
        listed(thing("b", 2, n=2), version=7),
    ]
    async with server.client() as api, reading(api) as seen:
        await seen.holds(a=1, b=2)
        await seen.until(lambda: server.asked("watch"))
    first, second = server.asked("list")
    assert (first["limit"], "continue" in first, "resourceVersion" in first) == (
        "500",
        False,
        False,
    )
    assert second["continue"] == "next"
    assert server.asked("watch")[0]["resourceVersion"] == "7"


async def test_a_page_that_expires_begins_the_list_anew(server):
    server.lists += [
        listed(thing("gone", 1), version=7, more="next"),
        refused(410, too_old()),
        listed(thing("a", 2, n=1), version=8),
    ]
    async with server.client() as api, reading(api) as seen:
        await seen.holds(a=1)


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(refused(500, {"kind": "Status", "code": 500}), id="500"),
        pytest.param(refused(503), id="503 without a Status"),
        pytest.param(refused(429, None, **{"Retry-After": "0"}), id="429"),
        pytest.param(refused(403, {"kind": "Status", "reason": "Forbidden"}), id="403"),
        pytest.param(refused(401), id="401"),
        pytest.param(refused(200, {"items": "none"}), id="an answer that is no list"),
        pytest.param(scripted.cut, id="cut line"),
        pytest.param(scripted.slow(3.0, listed(version=1)), id="no answer in time"),
    ],
)
async def test_a_list_that_fails_is_tried_again(server, failure):
    server.lists += [failure, failure, listed(thing("a", 1, n=1), version=7)]
    pace = reflector.Pace(list_deadline=0.2, backoff_first=0.01, backoff_most=0.05)
    async with server.client() as api, reading(api, pace) as seen:
        await seen.until(lambda: seen.reflector.failing_since is not None)
        assert not seen.store.has_synced
        await seen.holds(a=1)
        assert seen.reflector.failing_since is None
        assert 1 <= seen.reflector.failures <= 2  # aiohttp itself asks once more after a cut line


async def test_a_kind_that_appears_later_is_read_then(server):
    server.lists += [refused(404), refused(404), listed(thing("a", 1, n=1), version=7)]
    async with server.client() as api, reading(api) as seen:
        await seen.until(lambda: not seen.store.served)
        assert (seen.store.has_synced, seen.reflector.failures) == (False, 0)
        await seen.holds(a=1)
        assert (seen.store.served, seen.store.has_synced) == (True, True)


async def test_a_kind_that_goes_is_forgotten_only_after_a_while(server):
    server.lists += [listed(thing("a", 1, n=1), version=7), refused(404)]
    server.watches += [refused(404)]
    async with server.client() as api, reading(api) as seen:
        await seen.holds(a=1)
        await seen.until(lambda: len(server.asked("list")) >= 3)
        assert (things.content(seen.store), seen.store.served) == ({"a": 1}, True)
        await seen.until(lambda: not seen.store.served)
        assert (seen.store.items(), seen.store.has_synced) == ((), False)


async def test_a_short_404_forgets_nothing(server):
    server.lists += [
        listed(thing("a", 1, n=1), version=7),
        refused(404),
        listed(thing("a", 1, n=1), version=7),
    ]
    server.watches += [refused(404)]
    async with server.client() as api, reading(api) as seen:
        await seen.holds(a=1)
        generation = seen.store.generation
        await seen.until(lambda: len(server.asked("watch")) == 2)
        assert (seen.store.generation, things.content(seen.store)) == (generation, {"a": 1})


async def test_a_malformed_object_is_reported_and_the_rest_read(server):
    server.lists += [listed(thing("a", 1, n="many"), thing("b", 2, n=2), version=7)]
    async with server.client() as api, reading(api) as seen:
        await seen.holds(b=2)
        assert seen.malformed == ["a"]
        assert [key.name for key in seen.store.malformed] == ["a"]


async def test_refresh_lists_anew_although_a_watch_is_open(server):
    server.lists += [listed(version=7), listed(thing("a", 8, n=1), version=8)]
    async with server.client() as api, reading(api) as seen:
        await seen.until(lambda: len(server.asked("watch")) == 1)
        await asyncio.wait_for(seen.reflector.refresh(), 2)
        assert things.content(seen.store) == {"a": 1}
        await seen.until(lambda: len(server.asked("watch")) == 2)
        assert server.asked("watch")[1]["resourceVersion"] == "8"


async def test_refresh_is_not_answered_by_a_list_begun_before_it(server):
    server.lists += [
        scripted.slow(0.2, listed(version=7)),
        listed(thing("a", 8, n=1), version=8),
    ]
    async with server.client() as api, reading(api) as seen:
        await seen.until(lambda: len(server.asked("list")) == 1)
        await asyncio.wait_for(seen.reflector.refresh(), 2)
        assert things.content(seen.store) == {"a": 1}


async def test_refresh_of_a_kind_that_is_not_served_ends(server):
    server.lists += [refused(404)]
    async with server.client() as api, reading(api) as seen:
        await asyncio.wait_for(seen.reflector.refresh(), 2)
        assert not seen.store.served


async def test_ten_thousand_objects_do_not_hold_the_event_loop(server):
    pages = [
        [thing(f"{page:02}-{item:03}", 1 + item, n=item, text="x" * 1200) for item in range(500)]
        for page in range(20)
    ]
    server.lists += [
        listed(*objects, version=7, more="" if number == 19 else "next")
        for number, objects in enumerate(pages)
    ]
    lags: list[float] = []
    async with server.client() as api, reading(api, QUICK) as seen:
        while not seen.store.has_synced:
            started = time.perf_counter()
            await asyncio.sleep(0)
            lags.append(time.perf_counter() - started)
    assert len(seen.store.items()) == 10_000
    # The scripted server encodes its pages on this loop too, at about 10 ms each.
    assert sorted(lags)[-50] < 0.05
