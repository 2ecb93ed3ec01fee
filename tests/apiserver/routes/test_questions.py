"""POST of an OrderReview through the real application: what is answered, and what is no question."""

import asyncio
import json

import pytest

from apiserver.resources import RESOURCES
from apiserver.views import Pace, Views
from gpu import keys
from tests.apiserver import fakes
from tests.builders import L40, a_class, a_namespace, a_node, a_world

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
A = f"{ROOT}/namespaces/tenant-a/orderreviews"
ORDER = {"spec": {"className": "h100", "count": 2}}


def world(units=4):
    return a_world(
        classes=[a_class(), a_class("l40", resource=L40)],
        nodes=[a_node(units=units, also={L40: 8})],
        namespaces=[a_namespace("tenant-a")],
    )


@pytest.fixture
async def source():
    return fakes.FakeSource(world())


@pytest.fixture
async def client(serve, source):
    views = Views(source, pace=Pace(fresh=0.5))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(views.run())
        yield await serve(fakes.a_face(world()), resources=RESOURCES, views=views)
        task.cancel()


async def ask(client, body=None, path=A, **how):
    answer = await client.post(path, json=ORDER if body is None else body, **how)
    return answer.status, await answer.json()


async def test_a_question_is_answered_as_created_and_says_what_was_asked(client):
    body = {
        "apiVersion": "catalog.gpu.cozystack.io/v1alpha1",
        "kind": "OrderReview",
        "metadata": {"name": "mine", "labels": {"a": "b"}},
        "status": {"allowed": False},
        **ORDER,
    }
    assert await ask(client, body) == (
        201,
        {
            "kind": "OrderReview",
            "apiVersion": "catalog.gpu.cozystack.io/v1alpha1",
            "metadata": {"name": "mine", "namespace": "tenant-a"},
            "spec": {"className": "h100", "count": 2},
            "status": {"allowed": True, "reasons": [], "mostAccepted": 4, "alternatives": []},
        },
    )


async def test_an_order_that_would_be_refused_is_told_why_and_what_would_be_accepted(client):
    code, found = await ask(client, {"spec": {"className": "h100", "count": 6}})
    (reason,) = found["status"].pop("reasons")
    assert (code, reason["code"], reason["field"]) == (201, "NoFreeUnits", "spec.count")
    assert found["status"] == {
        "allowed": False,
        "mostAccepted": 4,
        "alternatives": ["l40"],
        "message": (
            f"{reason['message']}; at most 4 would be accepted now; class l40 would take all 6"
        ),
    }


async def test_an_answer_is_of_the_newest_world(client, source):
    before = await ask(client, {"spec": {"className": "h100", "count": 6}})
    source.set(world(units=6))
    after = await ask(client, {"spec": {"className": "h100", "count": 6}})
    assert [found["status"]["allowed"] for _, found in (before, after)] == [False, True]


async def test_a_dry_run_is_answered_as_any_other(client):
    assert await ask(client, path=f"{A}?dryRun=All") == await ask(client)


async def test_yaml_is_answered_to_who_asks_for_it(client):
    answer = await client.post(A, json=ORDER, headers={"Accept": "application/yaml"})
    assert (answer.status, answer.content_type) == (201, "application/yaml")
    assert "mostAccepted: 4" in await answer.text()


@pytest.mark.parametrize(
    ("body", "causes"),
    [
        pytest.param({}, {"spec": "Required value"}, id="no-spec"),
        pytest.param(
            {"spec": {}},
            {"spec.className": "Required value", "spec.count": "Required value"},
            id="nothing-in-it",
        ),
        pytest.param(
            {"spec": {"className": "h100", "count": 0}},
            {"spec.count": "Invalid value: 0: should be greater than or equal to 1"},
            id="count-of-none",
        ),
        pytest.param(
            {"spec": {"className": "h100", "count": 2**31}},
            {"spec.count": "Invalid value: 2147483648: should be less than or equal to 2147483647"},
            id="count-of-too-many",
        ),
        pytest.param(
            {"spec": {"className": "h100", "count": "1"}},
            {"spec.count": 'Invalid value: "1": must be of type integer'},
            id="count-is-text",
        ),
        pytest.param(
            {"spec": {"className": "h100", "count": 1.0}},
            {"spec.count": "Invalid value: 1.0: must be of type integer"},
            id="count-is-whole-and-no-integer",
        ),
        pytest.param(
            {"spec": {"className": "", "count": 1}},
            {"spec.className": "Invalid value: \"\": '' should be non-empty"},
            id="class-is-empty",
        ),
    ],
)
async def test_what_does_not_fit_the_schema_is_invalid_field_by_field(client, body, causes):
    code, found = await ask(client, body)
    told = {cause["field"]: cause["message"] for cause in found["details"]["causes"]}
    assert (code, found["reason"], told) == (422, "Invalid", causes)
    assert found["details"]["kind"] == "OrderReview"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param({"kind": "Pod", **ORDER}, "must be of type OrderReview", id="kind"),
        pytest.param({"apiVersion": "v1", **ORDER}, "must be of type OrderReview", id="version"),
        pytest.param([], "no JSON object", id="list"),
        pytest.param({"spec": [1]}, "spec must be an object", id="spec-is-list"),
        pytest.param({"metadata": "x", **ORDER}, "metadata must be an object", id="metadata"),
        pytest.param(
            {"metadata": {"namespace": "tenant-b"}, **ORDER},
            "does not match the namespace sent on the request",
            id="another-namespace",
        ),
    ],
)
async def test_what_is_no_question_of_this_kind_is_a_bad_request(client, body, words):
    code, found = await ask(client, body)
    assert (code, found["reason"]) == (400, "BadRequest")
    assert words in found["message"]


async def test_a_body_that_is_not_packed_as_it_says_is_a_bad_request(client):
    said = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = await client.post(A, data=b"{}", headers=said)
    found = await answer.json()
    assert (answer.status, found["kind"], found["reason"]) == (400, "Status", "BadRequest")
    assert found["message"].startswith("the body of the request cannot be read: ")


@pytest.mark.parametrize(
    "data", [b"{", b"", b"[" * 100_000, b"\xff"], ids=["half", "no", "deep", "b"]
)
async def test_what_is_no_json_is_a_bad_request(client, data):
    answer = await client.post(A, data=data, headers={"Content-Type": "application/json"})
    assert answer.status == 400


@pytest.mark.parametrize(
    ("said", "body"),
    [
        pytest.param(None, b'{"spec": {"className": "h100", "count": 2}}', id="nothing-said"),
        pytest.param("application/json; charset=utf-8", json.dumps(ORDER).encode(), id="charset"),
        pytest.param("application/yaml", b"spec:\n  className: h100\n  count: 2\n", id="yaml"),
    ],
)
async def test_json_and_yaml_are_read_and_what_does_not_say_is_json(client, said, body):
    headers = {"Content-Type": said} if said else None
    skip = () if said else ("Content-Type",)
    answer = await client.post(A, data=body, headers=headers, skip_auto_headers=skip)
    assert (answer.status, (await answer.json())["spec"]) == (201, ORDER["spec"])


@pytest.mark.parametrize("said", ["text/plain", "application/octet-stream"])
async def test_a_body_of_another_type_is_not_read(client, said):
    answer = await client.post(A, data=b"{}", headers={"Content-Type": said})
    assert answer.status == 415
    assert "application/json, application/yaml" in (await answer.json())["message"]


async def test_fields_that_stand_twice_are_warned_of_or_refused_as_asked(client):
    body = b'{"spec": {"className": "h100", "count": 1, "count": 2}}'
    headers = {"Content-Type": "application/json"}
    warned = await client.post(A, data=body, headers=headers)
    refused = await client.post(f"{A}?fieldValidation=Strict", data=body, headers=headers)
    assert warned.headers["Warning"] == '299 - "duplicate field \\"spec.count\\""'
    assert (warned.status, refused.status) == (201, 400)
    message = (await refused.json())["message"]
    assert message.endswith('strict decoding error: duplicate field "spec.count"')


async def test_very_many_unknown_fields_are_not_all_told(client):
    body = {"spec": {**ORDER["spec"], **{f"{number:0300}": 1 for number in range(1000)}}}
    answer = await client.post(A, json=body)
    refused = await client.post(f"{A}?fieldValidation=Strict", json=body)
    told = answer.headers.getall("Warning")
    assert (answer.status, len(told), max(map(len, told))) == (201, 16, 265)
    assert (await refused.text()).count("unknown field") == 100


@pytest.mark.parametrize(
    ("how", "code", "warning"),
    [
        pytest.param("", 201, '299 - "unknown field \\"spec.node\\""', id="none-said"),
        pytest.param("Warn", 201, '299 - "unknown field \\"spec.node\\""', id="warn"),
        pytest.param("Ignore", 201, None, id="ignore"),
        pytest.param("Strict", 400, None, id="strict"),
        pytest.param("Loud", 422, None, id="unknown-word"),
    ],
)
async def test_unknown_fields_are_warned_of_or_refused_as_asked(client, how, code, warning):
    body = {"spec": {**ORDER["spec"], "node": "n1"}}
    answer = await client.post(A, json=body, params={"fieldValidation": how} if how else {})
    assert (answer.status, answer.headers.get("Warning")) == (code, warning)


async def test_metadata_may_have_more_than_is_served(client):
    body = {"metadata": {"finalizers": ["x"], "managedFields": []}, **ORDER}
    assert (await ask(client, body, path=f"{A}?fieldValidation=Strict"))[0] == 201


async def test_a_dry_run_of_another_word_is_invalid(client):
    assert (await ask(client, path=f"{A}?dryRun=Some"))[0] == 422


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", A, id="list"),
        pytest.param("GET", f"{A}/x", id="get"),
        pytest.param("DELETE", A, id="delete-all"),
        pytest.param("PATCH", f"{A}/x", id="patch"),
        pytest.param("POST", f"{A}/x", id="post-to-a-name"),
        pytest.param("POST", f"{ROOT}/orderreviews", id="without-a-namespace"),
    ],
)
async def test_a_question_is_posted_to_a_namespace_and_nothing_else(client, method, path):
    answer = await client.request(method, path, json=ORDER)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


async def test_what_is_read_cannot_be_posted(client):
    answer = await client.post(f"{ROOT}/namespaces/tenant-a/gpuoffers", json={})
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


async def test_in_a_namespace_that_does_not_exist_nothing_is_asked(client):
    code, found = await ask(client, path=f"{ROOT}/namespaces/nowhere/orderreviews")
    assert (code, found["message"]) == (404, 'namespaces "nowhere" not found')


async def test_who_may_ask_is_reviewed(serve):
    face = fakes.a_face(world())
    client = await serve(face, resources=RESOURCES)
    await client.post(A, json=ORDER)
    assert face.access.asked == [("create", A)]


async def test_with_the_feature_off_it_says_so(serve):
    client = await serve(fakes.a_face(world()), resources=RESOURCES)
    code, found = await ask(client)
    assert (code, found["reason"]) == (503, "ServiceUnavailable")
    assert "switched off" in found["message"]
