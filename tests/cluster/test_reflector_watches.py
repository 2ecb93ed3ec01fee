"""How a reflector watches: what each way of ending a watch leads to."""

import asyncio

import pytest

from gpu.cluster import credentials
from gpu.cluster.client import Client
from tests.cluster import things
from tests.cluster.reading import reading
from tests.cluster.scripted import bookmark, event, listed, refused, thing, too_old, watched


async def test_events_change_the_store(server):
    server.lists += [listed(thing("a", 1, n=1), thing("b", 2, n=2), version=7)]
    server.watches += [
        watched(
            event("ADDED", thing("c", 8, n=3)),
            event("MODIFIED", thing("a", 9, n=5)) + event("DELETED", thing("b", 10, n=2)),
            then="hang",
        )
    ]
    async with server.client() as api, reading(api) as seen:
        await seen.holds(a=5, c=3)
        assert seen.store.resource_version == 10
    query = server.asked("watch")[0]
    assert (query["allowWatchBookmarks"], query["resourceVersion"]) == ("true", "7")
    assert 240 <= int(query["timeoutSeconds"]) <= 480


async def test_the_next_watch_begins_where_a_bookmark_said(server):
    server.lists += [listed(thing("a", 1, n=1), version=7)]
    server.watches += [watched(bookmark(50))]
    async with server.client() as api, reading(api) as seen:
        await seen.until(lambda: len(server.asked("watch")) == 2)
        assert seen.store.resource_version == 50
    assert [query["resourceVersion"] for query in server.asked("watch")] == ["7", "50"]
    assert len(server.asked("list")) == 1


async def test_a_watch_is_said_to_be_open_from_its_answer_to_its_end(server):
    server.lists += [listed(version=7)]
    server.watches += [watched(event("ADDED", thing("a", 8, n=1)), then="hang")]
    async with server.client() as api, reading(api) as seen:
        assert not seen.reflector.is_watching
        await seen.until(lambda: seen.reflector.is_watching)
        await seen.holds(a=1)
    assert not seen.reflector.is_watching


async def test_the_end_of_a_watch_is_no_failure(server):
    server.lists += [listed(version=7)]
    server.watches += [watched(event("ADDED", thing("a", 8, n=1)))]
    async with server.client() as api, reading(api) as seen:
        await seen.until(lambda: len(server.asked("watch")) == 2)
        assert (seen.reflector.failures, seen.reflector.failing_since) == (0, None)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(watched(event("ADDED", thing("a", 8, n=1)), then="cut"), id="cut line"),
        pytest.param(
            watched(event("ADDED", thing("a", 8, n=1)), event("ADDED", thing("b", 9))[:40]),
            id="half a line at the end",
        ),
        pytest.param(
            watched(
                event("ADDED", thing("a", 8, n=1)), event("ADDED", thing("b", 9))[:40], then="cut"
            ),
            id="half a line and cut",
        ),
        pytest.param(watched(event("ADDED", thing("a", 8, n=1)), then="hang"), id="silence"),
        pytest.param(watched(event("ADDED", thing("a", 8, n=1)), b"not json\n"), id="no event"),
        pytest.param(
            watched(
                event("ADDED", thing("a", 8, n=1)),
                event("ERROR", {"kind": "Status", "code": 500, "message": "etcd"}),
            ),
            id="an ERROR that is no 410",
        ),
    ],
)
async def test_a_broken_watch_goes_on_from_the_last_event(server, broken):
    server.lists += [listed(version=7)]
    server.watches += [broken, watched(event("ADDED", thing("b", 9, n=2)), then="hang")]
    async with server.client() as api, reading(api) as seen:
        await seen.holds(a=1, b=2)
    assert [query["resourceVersion"] for query in server.asked("watch")][:2] == ["7", "8"]
    assert len(server.asked("list")) == 1


@pytest.mark.parametrize(
    "expired",
    [
        pytest.param(refused(410, too_old()), id="when it is opened"),
        pytest.param(watched(event("ERROR", too_old())), id="as its first event"),
        pytest.param(
            watched(event("ADDED", thing("x", 8)), event("ERROR", too_old()), then="hang"),
            id="in the middle",
        ),
    ],
)
async def test_an_expired_watch_is_followed_by_a_list(server, expired):
    server.lists += [listed(thing("old", 1), version=7), listed(thing("a", 9, n=1), version=9)]
    server.watches += [expired]
    async with server.client() as api, reading(api) as seen:
        await seen.holds(a=1)
        await seen.until(lambda: len(server.asked("watch")) == 2)
        assert seen.reflector.failing_since is None
    assert server.asked("watch")[1]["resourceVersion"] == "9"


async def test_an_event_that_comes_twice_changes_nothing_the_second_time(server):
    server.lists += [listed(thing("a", 5, n=1), version=7)]
    server.watches += [
        watched(
            event("ADDED", thing("a", 5, n=1)),
            event("MODIFIED", thing("a", 8, n=2)),
            event("MODIFIED", thing("a", 8, n=2)),
            event("MODIFIED", thing("a", 6, n=9)),
            event("ADDED", thing("end", 9)),
            then="hang",
        )
    ]
    async with server.client() as api, reading(api) as seen:
        await seen.holds(a=2, end=0)
        assert seen.store.generation == 3


async def test_an_object_that_becomes_malformed_is_taken_out_and_listed(server):
    server.lists += [listed(thing("a", 1, n=1), version=7)]
    server.watches += [watched(event("MODIFIED", thing("a", 8, n="many")), then="hang")]
    async with server.client() as api, reading(api) as seen:
        await seen.until(lambda: bool(seen.store.malformed))
        assert things.content(seen.store) == {}


async def test_a_server_that_restarts_is_followed_without_a_new_list(server):
    server.lists += [listed(thing("a", 1, n=1), version=7)]
    async with server.client() as api, reading(api) as seen:
        await seen.until(lambda: len(server.asked("watch")) == 1)
        await server.stop()
        await seen.until(lambda: seen.reflector.failures >= 3)
        assert seen.reflector.failing_since is not None
        assert things.content(seen.store) == {"a": 1}
        server.watches += [watched(event("ADDED", thing("b", 8, n=2)), then="hang")]
        await server.start()
        await seen.holds(a=1, b=2)
        assert seen.reflector.failing_since is None
    assert len(server.asked("list")) == 1


async def test_an_idle_watch_that_was_opened_again_is_no_longer_failing(server):
    server.lists += [listed(version=7)]
    server.watches += [watched(then="cut"), watched(then="hang")]
    async with server.client() as api, reading(api) as seen:
        await seen.until(lambda: len(server.asked("watch")) == 2)
        await seen.until(lambda: seen.reflector.failing_since is None)


async def test_credentials_that_rotate_are_used_without_a_restart(server):
    tokens = ["old"]

    def source() -> credentials.Login:
        headers = {"Authorization": f"Bearer {tokens[-1]}"}
        return credentials.Login(server=server.url, headers=headers)

    async def only_new(request):
        if request.headers["Authorization"] != "Bearer new":
            return await refused(401)(request)
        return await listed(thing("a", 1, n=1), version=7)(request)

    server.lists += [only_new, only_new, only_new]
    async with Client(credentials.Access(source(), source)) as api, reading(api) as seen:
        await seen.until(lambda: seen.reflector.failures >= 1)
        tokens.append("new")
        await seen.holds(a=1)


async def test_a_burst_of_events_leaves_the_loop_to_others(server):
    server.lists += [listed(version=7)]
    burst = b"".join(event("MODIFIED", thing("a", 8 + n, n=n)) for n in range(1000))
    server.watches += [watched(burst, then="hang")]
    turns = 0
    async with server.client() as api, reading(api) as seen:
        while things.content(seen.store) != {"a": 999}:
            turns += 1
            await asyncio.sleep(0)
    assert turns > 20
