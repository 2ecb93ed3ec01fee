"""POST /admission/NAME: the envelope; what is in it belongs to the handlers."""

import io

import pytest

from apiserver.identity import User
from apiserver.routes import admission
from apiserver.wire.status import BadRequest, Forbidden, Unavailable
from tests.apiserver import fakes


def a_review(**request) -> dict:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u-1", **request},
    }


async def allow(request):
    return {"allowed": True, "warnings": [request["operation"]]}


async def deny(request):
    raise Forbidden(f"not {request['operation']}")


async def fail(request):
    raise RuntimeError("secret")


@pytest.fixture
async def client(serve):
    return await serve(fakes.a_face(), admission={"allow": allow, "deny": deny, "fail": fail})


async def test_an_answer_carries_the_uid_of_its_question(client):
    answer = await client.post("/admission/allow", json=a_review(operation="CREATE"))
    assert await answer.json() == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u-1", "allowed": True, "warnings": ["CREATE"]},
    }


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        pytest.param("deny", 403, "not CREATE", id="refused"),
        pytest.param("fail", 500, "Internal error occurred: admission fail failed", id="failed"),
    ],
)
async def test_whatever_is_raised_is_a_refusal_and_not_a_failed_call(client, name, code, message):
    answer = await client.post(f"/admission/{name}", json=a_review(operation="CREATE"))
    response = (await answer.json())["response"]
    assert (answer.status, response["uid"], response["allowed"]) == (200, "u-1", False)
    assert (response["status"]["code"], response["status"]["message"]) == (code, message)


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        pytest.param(b"", "application/json", 400, id="empty"),
        pytest.param(b"[]", "application/json", 400, id="no-object"),
        pytest.param(b'{"kind":"AdmissionReview"}', "application/json", 400, id="no-request"),
        pytest.param(
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}',
            "application/json", 400, id="no-uid",
        ),
        pytest.param(
            b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview",'
            b'"request":{"uid":"x"}}',
            "application/json", 400, id="old-version",
        ),
        pytest.param(b"{}", "text/plain", 415, id="media-type"),
        pytest.param(b"x" * (3 * 1024 * 1024 + 1), "application/json", 413, id="too-large"),
    ],
)  # fmt: skip
async def test_what_is_no_review_is_a_status(client, body, kind, code):
    sent = io.BytesIO(body)
    answer = await client.post("/admission/allow", data=sent, headers={"Content-Type": kind})
    assert (answer.status, (await answer.json())["code"]) == (code, code)


async def test_an_unknown_webhook_is_not_found(client):
    assert (await client.post("/admission/nope", json=a_review())).status == 404


@pytest.mark.parametrize(
    ("callers", "code"),
    [
        pytest.param({"kube-apiserver-webhooks"}, 200, id="named"),
        pytest.param({"somebody-else"}, 403, id="not-named"),
        pytest.param(set(), 200, id="nobody-is-named"),
    ],
)
async def test_only_named_callers_are_answered_where_some_are_named(serve, callers, code):
    face = fakes.a_face()
    face.identity.user = User("kube-apiserver-webhooks")
    asked = {"allow": allow}
    client = await serve(face, admission=asked, admission_callers=frozenset(callers))
    answer = await client.post("/admission/allow", json=a_review(operation="CREATE"))
    assert (answer.status, face.access.asked) == (code, [])


async def test_a_review_needs_no_credential(serve):
    face = fakes.a_face()
    client = await serve(face, admission={"allow": allow})
    await client.post("/admission/allow", json=a_review(operation="CREATE"))
    assert face.access.asked == []


async def unavailable(request):
    raise Unavailable("starting")


@pytest.mark.parametrize(
    ("name", "handler", "outcome"),
    [
        pytest.param("orders", allow, "allowed", id="allowed"),
        pytest.param("orders", deny, "refused", id="refused"),
        pytest.param("tenants", unavailable, "unavailable", id="unavailable"),
        pytest.param("orders", fail, "failed", id="failed"),
    ],
)
async def test_each_review_is_counted_by_webhook_and_outcome(serve, name, handler, outcome):
    face = fakes.a_face()
    client = await serve(face, admission={name: handler})
    await client.post(f"/admission/{name}", json=a_review(operation="CREATE"))
    registry = face.services.metrics.registry
    labels = {"webhook": name, "outcome": outcome}
    timed = {"webhook": name}
    assert registry.get_sample_value("cozystack_gpu_admission_reviews_total", labels) == 1
    assert registry.get_sample_value("cozystack_gpu_admission_duration_seconds_count", timed) == 1


def test_a_review_nested_too_deeply_is_a_bad_request():
    with pytest.raises(BadRequest, match="not an AdmissionReview"):
        admission.decode(b'{"a":' * 5_000)
