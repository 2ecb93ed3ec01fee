"""How much at once: who is sent away, who never is, and that one user leaves room for others."""

import asyncio

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from apiserver.appkeys import Limits
from apiserver.identity import NOBODY, User
from apiserver.lanes import Lane
from gpu import keys
from tests.apiserver import fakes

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"


@pytest.fixture
def face():
    face = fakes.a_face(fakes.words_world(tenant_a={"a": "x"}))
    face.identity.user = NOBODY
    return face


class Gate:
    """Authorization that lets nobody on until it is opened."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.arrived = asyncio.Semaphore(0)

    async def require(self, user, attributes):  # noqa: ARG002 -- the port's shape
        self.arrived.release()
        await self.open.wait()

    async def comes(self):
        async with asyncio.timeout(5):
            await self.arrived.acquire()


async def test_too_many_at_once_are_sent_away_and_discovery_is_not(serve, face):
    client = await serve(face, limits=Limits(reading=0))
    refused = await client.get(f"{ROOT}/words")
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert (await client.get(ROOT)).status == 200


async def test_one_user_never_has_all_the_places(serve, face):
    gate = face.access = Gate()
    client = await serve(face, limits=Limits(reading=4))
    async with asyncio.TaskGroup() as group:
        first = [group.create_task(client.get(f"{ROOT}/words")) for _ in range(2)]
        await gate.comes()
        await gate.comes()
        assert (await client.get(f"{ROOT}/words")).status == 429
        face.identity.user = User("other")
        first.append(group.create_task(client.get(f"{ROOT}/words")))
        await gate.comes()
        gate.open.set()
    assert [task.result().status for task in first] == [200, 200, 200]
    assert (await client.get(f"{ROOT}/words")).status == 200


async def test_webhooks_in_flight_send_no_question_away(serve, face):
    held = asyncio.Event()

    async def slow(_request):
        await held.wait()
        return {"allowed": True}

    client = await serve(face, admission={"slow": slow}, limits=Limits(mutating=2))
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1"},
    }
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(client.post("/admission/slow", json=review))
        await asyncio.sleep(0.05)
        question = await client.post(f"{ROOT}/namespaces/tenant-a/words", json={})
        held.set()
    assert question.status == 405


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        pytest.param("", [("X-Remote-Group", f"group-{n}") for n in range(1500)], 200, id="groups"),
        pytest.param("", [("X-Remote-Group", "x") for _ in range(2100)], 431, id="too-many-groups"),
        pytest.param("", [("X-Remote-Extra-A", "x" * 16_000)], 200, id="long-value"),
        pytest.param("", [("X-Remote-Extra-A", "x" * 17_000)], 431, id="too-long-value"),
        pytest.param(f"?labelSelector=a!={'x' * 60}" + ",b" * 20_000, [], 200, id="long-selector"),
        pytest.param(f"?labelSelector={'x' * 70_000}", [], 431, id="too-long-selector"),
    ],
)
async def test_heads_of_requests_are_as_long_as_users_need_and_no_longer(path, headers, code):
    runner = fakes.a_face(enabled=False).runner()
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}{ROOT}/words{path}"
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            assert answer.status == code
    finally:
        await runner.cleanup()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.integers(0, 8))
def test_places_taken_are_never_more_than_there_are(steps, most):
    lane, inside = Lane(most), []
    for user, comes in steps:
        if comes and lane.enter(user):
            inside.append(user)
        elif not comes and user in inside:
            inside.remove(user)
            lane.leave(user)
        assert len(inside) <= most
        assert all(inside.count(one) <= max(1, most // 2) for one in "abc")
    for user in inside:
        lane.leave(user)
    assert [lane.enter("a"), lane.enter("b")] == [most > 0, most > 1]
