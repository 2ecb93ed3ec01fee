"""Metrics of requests: upstream's names, and labels that no caller can make many of."""

import asyncio

import pytest

from apiserver.authz import Authorizer
from apiserver.identity import User
from gpu import keys
from tests.apiserver import fakes

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
EXPECTED = (
    "apiserver_client_certificate_expiration_seconds",
    "apiserver_current_inflight_requests",
    "apiserver_current_inqueue_requests",
    "apiserver_delegated_authn_request_duration_seconds",
    "apiserver_delegated_authn_request_total",
    "apiserver_delegated_authz_request_duration_seconds",
    "apiserver_delegated_authz_request_total",
    "apiserver_longrunning_requests",
    "apiserver_request_aborts_total",
    "apiserver_request_duration_seconds",
    "apiserver_request_filter_duration_seconds",
    "apiserver_request_sli_duration_seconds",
    "apiserver_request_terminations_total",
    "apiserver_request_total",
    "apiserver_response_sizes",
    "apiserver_watch_events_sizes",
    "apiserver_watch_events_total",
    "apiserver_watch_list_duration_seconds",
    "authenticated_user_requests",
    "authentication_attempts",
    "authentication_duration_seconds",
    "authorization_attempts_total",
    "authorization_duration_seconds",
    "kubernetes_healthcheck",
    "kubernetes_healthchecks_total",
    "leader_election_master_status",
    "rest_client_request_duration_seconds",
    "rest_client_requests_total",
)


@pytest.fixture
def face():
    return fakes.a_face(fakes.words_world(tenant_a={"a": "x"}))


async def text_of(client):
    return await (await client.get("/metrics")).text()


def value(text: str, name: str, **labels: str) -> float:
    found = [
        float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith((f"{name}{{", f"{name} "))
        and all(f'{key}="{said}"' in line for key, said in labels.items())
    ]
    return sum(found)


async def test_the_names_that_dashboards_expect_are_there(serve, face):
    text = await text_of(await serve(face))
    declared = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert sorted(set(EXPECTED) - declared) == []


async def test_what_a_caller_makes_up_is_no_label(serve, face):
    face.identity.user = User("made-up@example.org")
    client = await serve(face)
    odd = "/namespaces/tenant-a/words?dryRun=made-up&fieldManager=made-up"
    await client.get(f"{ROOT}{odd}")
    await client.request("PROPFIND", f"{ROOT}/made-up")
    assert "made-up" not in await text_of(client)


async def test_an_answered_list_is_counted_timed_and_measured(serve, face):
    client = await serve(face)
    size = len(await (await client.get(f"{ROOT}/words")).read())
    text = await text_of(client)
    about = {"verb": "LIST", "resource": "words", "scope": "cluster"}
    assert value(text, "apiserver_request_total", code="200", **about) == 1
    assert value(text, "apiserver_request_duration_seconds_count", **about) == 1
    assert value(text, "apiserver_request_sli_duration_seconds_count", **about) == 1
    assert value(text, "apiserver_response_sizes_sum", **about) == size


async def test_who_asked_and_whether_they_may_is_counted(serve, face):
    face.identity.user = User("system:serviceaccount:a:b")
    reviewer = fakes.FakeReviewer(lambda spec: {"allowed": "nonResourceAttributes" in spec})
    client = await serve(face, authorizer=face.access)
    face.access.require = Authorizer(reviewer, metrics=face.services.metrics.served).require
    assert (await client.get(f"{ROOT}/words")).status == 403
    reviewer.error = ConnectionError("no answer")
    assert (await client.get(f"{ROOT}/words/x?a=b")).status == 500
    reviewer.error = None
    text = await text_of(client)
    assert value(text, "authenticated_user_requests", username="serviceaccount") == 3
    assert value(text, "authentication_attempts", result="success") == 3
    outcomes = ("allowed", "denied", "error")
    seen = [value(text, "authorization_attempts_total", result=one) for one in outcomes]
    assert seen == [1, 1, 1]
    codes = [
        value(text, "apiserver_delegated_authz_request_total", code=c) for c in ("201", "<error>")
    ]
    assert codes == [2, 1]


async def test_a_streaming_list_is_timed_and_its_events_measured(serve, face):
    client = await serve(face)
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    path = f"{ROOT}/words?{query}&allowWatchBookmarks=true&timeoutSeconds=1"
    said = await (await client.get(path)).read()
    text = await text_of(client)
    assert value(text, "apiserver_watch_list_duration_seconds_count", scope="cluster") == 1
    assert value(text, "apiserver_watch_events_total", resource="words") == said.count(b"\n")
    assert value(text, "apiserver_watch_events_sizes_sum", resource="words") == len(said)


async def test_leaving_ends_a_watch_and_aborts_anything_else(serve, face):
    client = await serve(face)
    watch = await client.get(f"{ROOT}/words?watch=1")
    await watch.content.readline()
    watch.close()
    reached = asyncio.Event()

    async def never(_user, _attributes):
        reached.set()
        await asyncio.Event().wait()

    face.access.require = never
    asking = asyncio.ensure_future(client.get(f"{ROOT}/words"))
    await reached.wait()
    asking.cancel()
    face.access.require = fakes.FakeAccess().require
    for _ in range(500):
        text = await text_of(client)
        ended = value(text, "apiserver_request_total", verb="WATCH", code="200")
        if ended and value(text, "apiserver_request_aborts_total"):
            break
        await asyncio.sleep(0.02)
    assert value(text, "apiserver_request_total", verb="WATCH", code="200") == 1
    assert value(text, "apiserver_request_total", verb="LIST", code="499") == 1
    assert value(text, "apiserver_request_aborts_total", verb="LIST") == 1
    assert value(text, "apiserver_request_aborts_total") == 1
    assert "_created" not in text
