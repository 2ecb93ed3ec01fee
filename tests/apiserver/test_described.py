"""What is served is as the served OpenAPI document says: every parameter, body and answer of it."""

import asyncio
import collections
import json
import random

import pytest
import yaml

from apiserver.resources import RESOURCES
from apiserver.views import Pace, Views
from gpu import keys
from tests.apiserver import fakes
from tests.apiserver.described import Description
from tests.builders import L40, a_claim, a_class, a_namespace, a_node, a_world

pytestmark = pytest.mark.long  # thousands of requests

DAILY = 500
"""Requests of each kind in a sampled run; `--full` makes every one."""
IN_FLIGHT = 32
PATH = f"/openapi/v3/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"


def world():
    return a_world(
        classes=[a_class(), a_class("l40", resource=L40)],
        nodes=[a_node("n1", units=4, also={L40: 8}), a_node("n2", units=4)],
        namespaces=[a_namespace("tenant-a"), a_namespace("tenant-b")],
        claims=[
            a_claim("held", on="n1", count=2, tenant="tenant-a"),
            a_claim("waits", count=9, tenant="tenant-a"),
            a_claim("other", count=9, tenant="tenant-b"),
        ],
    )


@pytest.fixture
async def client(serve):
    views = Views(fakes.FakeSource(world()), pace=Pace(fresh=0.5))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(views.run())
        yield await serve(fakes.a_face(world()), resources=RESOURCES, views=views)
        task.cancel()


@pytest.fixture
async def described(client):
    answer = await client.get(PATH)
    return Description(await answer.json())


def read(media, text):
    """Return the documents of an answer: one, or the events of a stream."""
    if media == "application/yaml":
        return [yaml.safe_load(text)]
    if text.startswith('{"type":'):
        return [json.loads(line) for line in text.splitlines()]
    return [json.loads(text)] if text else []


def complaints(described, request, status, media, text):
    """Say in what an answer is not as it is documented."""
    answers = request.operation.answers
    said = answers.get(str(status)) or (answers.get("default") if status >= 400 else None)
    if said is None:
        return [f"{status} is not documented"]
    if status >= 500 and status != 504:
        return [f"{status}: {text[:300]}"]
    found = []
    if status < 400 and request.fits is False:
        found.append("what does not fit was answered")
    if status == 400 and request.fits:
        found.append(f"what fits was refused: {text[:300]}")
    if "content" in said and media not in said["content"]:
        found.append(f"{media} is not documented of {status}")
    elif "content" in said:
        found += misfits(described, said["content"][media]["schema"], read(media, text))
    return found


def misfits(described, schema, documents):
    """Say what in documents is not as a schema has it."""
    if documents and "type" in documents[0]:
        # Of a stream the document tells the list, as kube-apiserver's does: an event has one item.
        schema = described.resolved(schema)["properties"]["items"]["items"]
        documents = [one["object"] for one in documents if one["type"] not in {"BOOKMARK", "ERROR"}]
    return [problem for one in documents for problem in described.problems(schema, one)]


@pytest.mark.timeout(900)
async def test_every_answer_is_as_it_is_documented(client, described, seed, full):
    dice = random.Random(seed)
    every = list(described.requests())
    mixed = [described.mixed(dice) for _ in range(len(every) if full else DAILY)]
    chosen = [*(every if full else dice.sample(every, DAILY)), *mixed]
    few, wrong = asyncio.Semaphore(IN_FLIGHT), []
    codes = set()

    async def put(one):
        operation = one.operation
        endless = "watch" in dict(one.query) and "timeoutSeconds" not in dict(one.query)
        query = [*one.query, *([("timeoutSeconds", "1")] if endless else [])]
        sent = {} if one.body is None else {"json": one.body}
        async with (
            few,
            client.request(
                operation.method, one.path, params=query, headers={"Accept": one.accept}, **sent
            ) as answer,
        ):
            text = await answer.text()
        codes.add(answer.status)
        found = complaints(described, one, answer.status, answer.content_type, text)
        wrong.extend((said, operation.method, one.path, query, one.body) for said in found)

    await asyncio.gather(*(put(one) for one in chosen))
    kinds = collections.Counter(said for said, *_ in wrong)
    assert not wrong, f"{kinds}, as in {wrong[:5]}"
    assert codes >= {200, 201, 400, 404, 405, 406, 422}
