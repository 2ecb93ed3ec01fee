"""WATCH through the real application: starts, changes, resumes, bookmarks, ends."""

import asyncio
import json
from types import SimpleNamespace

import pytest
import uvloop

from apiserver.appkeys import Limits
from apiserver.routes import watches
from apiserver.wire.frames import Framer
from gpu import keys
from tests.apiserver import fakes

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
A = f"{ROOT}/namespaces/tenant-a/words"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
STREAMING = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


class Stream:
    """An open watch, read line by line."""

    def __init__(self, answer):
        self.answer = answer

    async def next(self, seconds: float = 2.0):
        async with asyncio.timeout(seconds):
            line = await self.answer.content.readline()
        return json.loads(line) if line else None

    async def told(self, count: int):
        events = [await self.next() for _ in range(count)]
        return [
            (event["type"], event["object"]["metadata"].get("name", ""),
             int(event["object"]["metadata"]["resourceVersion"]))
            for event in events
        ]  # fmt: skip

    async def is_silent(self, seconds: float = 0.15) -> bool:
        try:
            await self.next(seconds)
        except TimeoutError:
            return True
        return False


@pytest.fixture
def face():
    return fakes.a_face(fakes.words_world(tenant_a={"a": "x", "b": "y"}, tenant_b={"c": "z"}))


@pytest.fixture
async def watch(serve, face):
    client = await serve(face)

    async def open_(path: str = A, accept: str = "application/json", **params):
        params = {"watch": "1", **params}
        answer = await client.get(path, params=params, headers={"Accept": accept})
        return Stream(answer)

    open_.client = client
    return open_


async def test_a_watch_from_nowhere_begins_with_all_objects_and_goes_on(watch, face):
    stream = await watch()
    assert stream.answer.headers["Transfer-Encoding"] == "chunked"
    assert await stream.told(2) == [("ADDED", "a", 100), ("ADDED", "b", 100)]
    face.source.set(fakes.words_world(tenant_a={"a": "new", "c": "z"}))
    assert await stream.told(3) == [
        ("MODIFIED", "a", 108),
        ("DELETED", "b", 109),
        ("ADDED", "c", 110),
    ]


async def test_headers_come_before_any_event(watch):
    stream = await watch(resourceVersion="100")
    assert stream.answer.status == 200
    assert await stream.is_silent()


async def test_a_watch_from_a_version_replays_what_came_since(watch, face):
    await watch.client.get(A)
    face.source.set(fakes.words_world(tenant_a={"a": "new", "b": "y"}))
    await watch.client.get(A)
    stream = await watch(resourceVersion="100")
    assert await stream.told(1) == [("MODIFIED", "a", 110)]


async def test_a_watch_cut_in_mid_change_is_told_of_what_went_away_since(watch, face):
    await watch.client.get(A)
    face.source.set(fakes.words_world(tenant_a={"a": "x", "b": "y", "c": "1", "d": "2"}))
    await watch.client.get(A)
    face.source.set(fakes.words_world(tenant_a={"a": "x", "b": "y"}))
    await watch.client.get(A)
    stream = await watch(resourceVersion="109")
    assert await stream.told(4) == [
        ("ADDED", "c", 109),
        ("ADDED", "d", 110),
        ("DELETED", "c", 119),
        ("DELETED", "d", 120),
    ]


async def test_a_change_is_numbered_above_what_was_known_to_be_all(watch, face):
    face.source.version = 109
    listed = await (await watch.client.get(A)).json()
    face.source.set(fakes.words_world(tenant_a={"a": "1", "b": "1"}), 110)
    stream = await watch(resourceVersion=listed["metadata"]["resourceVersion"])
    assert await stream.told(2) == [("MODIFIED", "a", 110), ("MODIFIED", "b", 110)]


async def test_a_watch_of_all_namespaces_and_one_of_a_namespace_agree_on_versions(watch, face):
    everywhere, inside = await watch(f"{ROOT}/words"), await watch()
    assert [name for _, name, _ in await everywhere.told(3)] == ["a", "b", "c"]
    await inside.told(2)
    face.source.set(fakes.words_world(tenant_a={"a": "1", "b": "y"}, tenant_b={"c": "1"}))
    assert await everywhere.told(2) == [("MODIFIED", "a", 110), ("MODIFIED", "c", 110)]
    assert await inside.told(1) == [("MODIFIED", "a", 110)]


async def test_a_change_elsewhere_tells_nothing(watch, face):
    stream = await watch(resourceVersion="100")
    face.source.set(fakes.words_world(tenant_a={"a": "x", "b": "y"}, tenant_b={"c": "new"}))
    assert await stream.is_silent()


async def test_a_new_namespace_appears_in_a_watch_of_all(watch, face):
    stream = await watch(f"{ROOT}/words", resourceVersion="100")
    face.source.set(
        fakes.words_world(tenant_a={"a": "x", "b": "y"}, tenant_b={"c": "z"}, tenant_n={"n": "n"})
    )
    assert await stream.told(1) == [("ADDED", "n", 110)]


async def test_selectors_apply_to_a_watch(watch, face):
    stream = await watch(labelSelector="vowel")
    face.source.set(fakes.words_world(tenant_a={"a": "open", "b": "y"}))
    assert await stream.told(1) == [("ADDED", "a", 110)]
    face.source.set(fakes.words_world(tenant_a={"a": "shut", "b": "y"}))
    assert await stream.told(1) == [("DELETED", "a", 120)]


async def test_a_streaming_list_ends_its_first_part_with_a_marked_bookmark(watch):
    stream = await watch(**STREAMING)
    assert await stream.told(2) == [("ADDED", "a", 100), ("ADDED", "b", 100)]
    mark = await stream.next()
    assert mark == {
        "type": "BOOKMARK",
        "object": {
            "kind": "Word",
            "apiVersion": "catalog.gpu.cozystack.io/v1alpha1",
            "metadata": {
                "resourceVersion": "100",
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        },
    }


async def test_initial_events_can_be_declined(watch, face):
    declined = {**STREAMING, "sendInitialEvents": "false"}
    stream = await watch(**declined)
    assert await stream.is_silent()
    face.source.set(fakes.words_world(tenant_a={"a": "new", "b": "y"}))
    assert (await stream.told(1))[0][:2] == ("MODIFIED", "a")


async def test_a_bookmark_comes_before_the_end_and_carries_how_far_all_is_told(serve, face):
    client = await serve(face, limits=Limits(last_bookmark=0.6))
    params = {"watch": "1", "resourceVersion": "100", "timeoutSeconds": "1"}
    stream = Stream(await client.get(A, params={**params, "allowWatchBookmarks": "true"}))
    face.source.set(fakes.words_world(tenant_a={"a": "new", "b": "y"}))
    assert await stream.told(1) == [("MODIFIED", "a", 110)]
    face.source.version = 130
    assert await stream.told(1) == [("BOOKMARK", "", 130)]
    assert await stream.next() is None


async def test_no_bookmark_comes_unasked_and_the_time_is_kept(watch, face):
    begun = asyncio.get_running_loop().time()
    stream = await watch(resourceVersion="100", timeoutSeconds="1")
    face.source.version = 130
    assert await stream.next(3) is None
    assert 0.9 < asyncio.get_running_loop().time() - begun < 2


async def test_a_table_watch_has_one_row_each_and_columns_once(watch):
    stream = await watch(accept=TABLE)
    first, second = await stream.next(), await stream.next()
    assert [len(one["object"]["columnDefinitions"]) for one in (first, second)] == [3, 0]
    assert [one["object"]["rows"][0]["cells"][0] for one in (first, second)] == ["a", "b"]


@pytest.mark.parametrize(
    ("params", "code", "reason"),
    [
        pytest.param({"resourceVersion": "5"}, 410, "Expired", id="long-gone"),
        pytest.param({"resourceVersion": "9999"}, 504, "Timeout", id="future"),
        pytest.param({"resourceVersion": "x"}, 400, "BadRequest", id="no-number"),
        pytest.param({"labelSelector": "a in ("}, 400, "BadRequest", id="selector"),
        pytest.param({"resourceVersionMatch": "Exact"}, 422, "Invalid", id="match"),
    ],
)
async def test_a_watch_that_cannot_begin_is_a_status(watch, params, code, reason):
    stream = await watch(**params)
    found = await stream.answer.json()
    assert (stream.answer.status, found["code"], found["reason"]) == (code, code, reason)


@pytest.mark.parametrize("accept", ["text/html", "application/yaml"])
async def test_a_form_that_cannot_be_streamed_is_not_acceptable(watch, accept):
    assert (await watch(accept=accept)).answer.status == 406


async def test_shutdown_ends_watches_cleanly(watch, face):
    stream = await watch(resourceVersion="100")
    face.projection.close()
    assert await stream.next() is None


async def test_watches_are_let_go_one_after_another_when_the_process_ends(serve, face, monkeypatch):
    monkeypatch.setattr("apiserver.routes.watches.random.random", lambda: 0.9)
    client = await serve(face, limits=Limits(partings=10, parting=0.4))
    answers = [await client.get(A, params={"watch": "1"}) for _ in range(8)]
    streams = [Stream(answer) for answer in answers]
    for stream in streams:
        await stream.told(2)
    began = asyncio.get_running_loop().time()
    face.projection.close()
    assert [await stream.next() for stream in streams] == [None] * 8
    assert 0.3 < asyncio.get_running_loop().time() - began < 1.5


async def test_what_many_are_told_is_put_into_words_once_for_each_form(watch, face, monkeypatch):
    made = []
    told = Framer.event
    monkeypatch.setattr(
        Framer, "event", lambda self, event: made.append(event) or told(self, event)
    )
    plain = [await watch(resourceVersion="100") for _ in range(10)]
    tables = [await watch(accept=TABLE, resourceVersion="100") for _ in range(10)]
    narrow = await watch(resourceVersion="100", labelSelector="vowel")
    face.source.set(fakes.words_world(tenant_a={"a": "open", "b": "y"}))
    for stream in (*plain, narrow):
        await stream.told(1)
    for stream in tables:
        assert (await stream.next())["object"]["columnDefinitions"]
    assert len(made) == 3


async def test_changes_that_a_watch_does_not_select_are_not_measured_as_events(watch, face):
    stream = await watch(labelSelector="nobody")
    face.source.set(fakes.words_world(tenant_a={"a": "new", "b": "y"}))
    assert await stream.is_silent()
    text = (await (await watch.client.get("/metrics")).text()).splitlines()
    counts = [line for line in text if line.startswith("apiserver_watch_events_sizes_count{")]
    assert [line.rsplit(" ", 1)[1] for line in counts] == ["0.0"]


async def test_a_watcher_left_behind_all_memory_is_let_go(watch, face, monkeypatch):
    stream = await watch(resourceVersion="100")
    feed, _, _ = await face.projection.read(fakes.WORDS, "tenant-a")
    monkeypatch.setattr(type(feed.history), "oldest", 10_000)
    face.source.set(fakes.words_world(tenant_a={"a": "new", "b": "y"}))
    assert await stream.next() is None


async def until(condition, seconds: float = 10.0):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 -- a gauge has no event
            await asyncio.sleep(0.01)


async def test_a_client_that_hangs_up_is_noticed_while_idle(watch, face):
    streams = [await watch(resourceVersion="100") for _ in range(20)]
    await until(lambda: face.projection.watchers == 20)
    for stream in streams:
        stream.answer.close()
    await until(lambda: face.projection.watchers == 0)


async def test_a_reader_that_takes_nothing_is_let_go_and_holds_up_nobody(serve):
    words = {f"w{number}": "x" * 4000 for number in range(2000)}
    face = fakes.a_face(fakes.words_world(tenant_a=words))
    client = await serve(face, limits=Limits(write=0.2))
    slow = await client.get(A, params={"watch": "1"})
    await until(lambda: face.projection.watchers == 1)
    listed = await client.get(A, params={"limit": "1"})
    assert listed.status == 200
    await until(lambda: face.projection.watchers == 0)
    slow.close()


async def test_one_change_reaches_many_watchers(watch, face):
    streams = [await watch(resourceVersion="100") for _ in range(50)]
    face.source.set(fakes.words_world(tenant_a={"a": "new", "b": "y"}))
    assert {tuple(await stream.told(1)) for stream in streams} == {(("MODIFIED", "a", 110),)}


async def test_changes_without_a_newer_version_are_held_back_until_there_is_one(watch, face):
    stream = await watch(resourceVersion="100")
    face.source.set(fakes.words_world(tenant_a={"a": "new", "b": "y"}), 100)
    assert await stream.is_silent()
    face.source.version = 101
    assert await stream.told(1) == [("MODIFIED", "a", 101)]


async def test_changes_while_the_api_server_is_away_come_when_it_is_back(watch, face):
    stream = await watch(resourceVersion="100")
    face.source.reachable = False
    face.source.set(fakes.words_world(tenant_a={"a": "new", "b": "y"}))
    assert await stream.is_silent()
    listed = await (await watch.client.get(A)).json()
    assert listed["metadata"]["resourceVersion"] == "100"
    face.source.reachable = True
    assert await stream.told(1) == [("MODIFIED", "a", 110)]


def test_a_stream_is_cut_on_the_event_loop_that_the_product_runs_on():
    """Transports of uvloop are no `asyncio.Transport`s."""

    async def story() -> bool:
        accepted = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(
            lambda _, writer: accepted.set_result(writer), "127.0.0.1", 0
        )
        async with server:
            _, ours = await asyncio.open_connection(*server.sockets[0].getsockname())
            transport = (await accepted).transport
            watches._cut(SimpleNamespace(transport=transport))
            ours.close()
            return transport.is_closing()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(story())
