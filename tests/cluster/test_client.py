"""Client over a real socket: what goes out, what comes back, and what a failure says."""

import asyncio
import json
import time
from contextlib import aclosing

import pytest
from aiohttp import web

from gpu.cluster import client, credentials, errors, http, urls, wire
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.cluster import scripted
from tests.cluster.scripted import KIND, refused, thing


async def stored(request: web.Request) -> web.Response:
    """Answer with the body that came."""
    return web.json_response(await request.json())


async def wire_of(server):
    """The last request as text: method, path with query, content type."""
    last = server.requests[-1]
    return f"{last.method} {last.raw_path}", last.headers.get("Content-Type", "")


@pytest.mark.parametrize(
    ("call", "line", "content_type", "body"),
    [
        pytest.param(
            lambda c: c.get(KIND, "a", "ns"),
            "GET /apis/example.com/v1/namespaces/ns/things/a",
            "",
            None,
            id="get",
        ),
        pytest.param(
            lambda c: c.get(KIND, "a/../b?", "n s", subresource="scale"),
            "GET /apis/example.com/v1/namespaces/n%20s/things/a%2F..%2Fb%3F/scale",
            "",
            None,
            id="escaped",
        ),
        pytest.param(
            lambda c: c.create(
                kinds.NODES, {"metadata": {"name": "n"}}, field_manager="m", dry_run=True
            ),
            "POST /api/v1/nodes?fieldManager=m&dryRun=All",
            "application/json",
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},
            id="create",
        ),
        pytest.param(
            lambda c: c.update(KIND, thing("a", 1), subresource="status"),
            "PUT /apis/example.com/v1/namespaces/ns/things/a/status",
            "application/json",
            {"apiVersion": "example.com/v1", "kind": "Thing", **thing("a", 1)},
            id="update",
        ),
        pytest.param(
            lambda c: c.patch(KIND, "a", {"x": None}, "ns", subresource="status"),
            "PATCH /apis/example.com/v1/namespaces/ns/things/a/status",
            "application/merge-patch+json",
            {"x": None},
            id="merge patch",
        ),
        pytest.param(
            lambda c: c.patch(KIND, "a", [{"op": "test"}], "ns", content_type=client.JSON_PATCH),
            "PATCH /apis/example.com/v1/namespaces/ns/things/a",
            "application/json-patch+json",
            [{"op": "test"}],
            id="JSON patch",
        ),
        pytest.param(
            lambda c: c.apply(KIND, "a", {"spec": {}}, "ns", field_manager="m"),
            "PATCH /apis/example.com/v1/namespaces/ns/things/a?fieldManager=m&force=true",
            "application/apply-patch+yaml",
            {
                "apiVersion": "example.com/v1",
                "kind": "Thing",
                "metadata": {"name": "a", "namespace": "ns"},
                "spec": {},
            },
            id="apply",
        ),
        pytest.param(
            lambda c: c.delete(KIND, "a", "ns", uid="u", grace_period=0),
            "DELETE /apis/example.com/v1/namespaces/ns/things/a",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "u"},
                "gracePeriodSeconds": 0,
            },
            id="delete",
        ),
    ],
)
async def test_what_each_verb_sends(server, call, line, content_type, body):
    sent = []

    async def answer(request):
        raw = await request.read()
        sent.append(json.loads(raw) if raw else None)
        return web.json_response({"kind": "Thing"})

    server.others += [answer]
    async with server.client() as api:
        await call(api)
    assert (await wire_of(server), sent) == ((line, content_type), [body])


async def test_list_narrows_and_fills_in_what_the_server_leaves_out(server):
    server.lists += [scripted.listed(thing("a", 1), version=7)]
    async with server.client() as api:
        page = await api.list(
            KIND, "ns", label_selector="a in (b,c)", field_selector="spec.n=1", limit=3
        )
    assert page == wire.ListPage(
        ({**thing("a", 1), "apiVersion": "example.com/v1", "kind": "Thing"},), "7"
    )
    line, _ = await wire_of(server)
    assert line == (
        "GET /apis/example.com/v1/namespaces/ns/things"
        "?labelSelector=a%20in%20%28b%2Cc%29&fieldSelector=spec.n%3D1&limit=3"
    )


async def test_a_list_of_null_items_is_empty(server):
    server.lists += [refused(200, {"metadata": {"resourceVersion": "7"}, "items": None})]
    async with server.client() as api:
        assert await api.list(KIND) == wire.ListPage((), "7")


async def test_impersonation_goes_with_every_request_and_not_with_the_original(server):
    server.others += [refused(200, {})] * 2
    async with server.client() as api:
        await api.acting_as("alice", ["a", "b"]).get(KIND, "x", "ns")
        await api.get(KIND, "x", "ns")
    acting, plain = server.requests
    assert acting.headers["Impersonate-User"] == "alice"
    assert acting.headers.getall("Impersonate-Group") == ["a", "b"]
    assert "Impersonate-User" not in plain.headers


async def test_what_is_made_for_a_request_bears_its_audit_id(server):
    server.others += [refused(201, {})] * 2
    async with server.client() as api:
        await api.create(kinds.NODES, {"metadata": {"name": "n"}}, audit_id="abc")
        await api.create(kinds.NODES, {"metadata": {"name": "n"}})
    for_one, plain = server.requests
    assert for_one.headers["Audit-ID"] == "abc"
    assert "Audit-ID" not in plain.headers


async def test_a_refused_connection_was_not_sent():
    access = credentials.fixed("http://127.0.0.1:9")
    async with client.Client(access) as api:
        with pytest.raises(errors.Unreachable) as caught:
            await api.get(KIND, "a", "ns")
    assert (caught.value.sent, caught.value.outcome_unknown) == (False, False)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda c: c.update(KIND, thing("a", 1)), id="update"),
        pytest.param(lambda c: c.delete(KIND, "a", "ns"), id="delete"),
        pytest.param(lambda c: c.patch(KIND, "a", {}, "ns"), id="patch"),
        pytest.param(lambda c: c.create(KIND, thing("a", 1)), id="create"),
    ],
)
async def test_a_write_whose_line_is_cut_is_not_sent_twice(server, call):
    server.others += [scripted.cut, refused(200, {})]
    async with server.client() as api:
        with pytest.raises(errors.Unreachable) as caught:
            await call(api)
    assert caught.value.sent
    assert len(server.requests) == 1


async def test_a_deadline_ends_a_request_that_was_sent(server):
    server.others += [scripted.slow(5, refused(200, {}))]
    async with server.client(deadline=0.5) as api:
        with pytest.raises(errors.Unreachable) as caught:
            await api.get(KIND, "a", "ns")
    assert caught.value.sent


async def test_a_deadline_while_waiting_for_a_connection_means_not_sent(server):
    server.others += [scripted.slow(0.5, refused(200, {}))]
    async with server.client(connections=1) as api, asyncio.TaskGroup() as tasks:
        tasks.create_task(api.get(KIND, "a", "ns"))
        await asyncio.sleep(0.05)
        with pytest.raises(errors.Unreachable) as caught:
            await api.patch(KIND, "b", {}, "ns", deadline=0.1)
        assert not caught.value.sent


async def test_a_closed_client_sends_nothing(server):
    api = server.client()
    await api.close()
    with pytest.raises(errors.Unreachable) as caught:
        await api.get(KIND, "a", "ns")
    assert (caught.value.sent, server.requests) == (False, [])


@pytest.mark.parametrize("reading", [True, False], ids=["waiting for an event", "between two"])
async def test_a_client_closed_under_an_open_watch_breaks_it_as_a_cut_line_does(server, reading):
    server.watches += [scripted.watched(scripted.bookmark(8), then="hang")]
    api = server.client()

    async def close():
        await asyncio.sleep(0.1 if reading else 0)
        await api.close()

    async with aclosing(api.watch(KIND)) as events, asyncio.TaskGroup() as tasks:
        assert (await anext(events)).type == "BOOKMARK"
        if reading:
            tasks.create_task(close())
        else:
            await close()
        with pytest.raises(errors.Unreachable):
            await anext(events)


async def test_a_login_that_takes_too_long_is_not_sent(server):
    def source():
        time.sleep(0.3)
        return credentials.Login(server=server.url)

    access = credentials.Access(credentials.Login(server=server.url), source, look_again=0.0)
    access._stamps = (None,)  # its files changed
    async with client.Client(access) as api:
        with pytest.raises(errors.Unreachable) as caught:
            await api.get(KIND, "a", "ns", deadline=0.1)
    assert (caught.value.sent, server.requests) == (False, [])


async def test_a_write_that_was_refused_for_old_credentials_is_sent_again_with_new_ones(server):
    tokens = ["old"]

    def source():
        headers = {"Authorization": f"Bearer {tokens[-1]}"}
        return credentials.Login(server=server.url, headers=headers)

    server.others += [refused(401), stored, refused(401), refused(401)]
    async with client.Client(credentials.Access(source(), source)) as api:
        tokens.append("new")
        await api.patch(KIND, "a", {"spec": {}}, "ns")
        with pytest.raises(errors.Unauthorized):
            await api.patch(KIND, "a", {"spec": {}}, "ns")
    sent = [each.headers["Authorization"] for each in server.requests]
    assert sent == ["Bearer old", "Bearer new", "Bearer new"]


async def test_cancellation_is_let_through(server):
    server.others += [scripted.slow(5, refused(200, {}))]
    async with server.client() as api:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await api.get(KIND, "a", "ns")


async def test_an_answer_that_is_no_object_is_an_answer_lost(server):
    server.others += [refused(200)]
    async with server.client() as api:
        with pytest.raises(errors.Unreachable):
            await api.get(KIND, "a", "ns")


async def test_a_redirect_is_not_followed(server):
    server.others += [refused(302, None, Location="/elsewhere")]
    async with server.client() as api:
        answer = await api.raw("GET", "/healthz")
    assert (answer.status, len(server.requests)) == (302, 1)


async def test_raw_returns_any_status(server):
    server.others += [refused(500, None, **{"X-A": "b"})]
    async with server.client() as api:
        answer = await api.raw("POST", "/x?y=%2F", body=b"z", headers={"Accept": "text/plain"})
    assert (answer.status, answer.body, answer.headers["X-A"]) == (500, b"no such thing\n", "b")
    assert server.requests[0].raw_path == "/x?y=%2F"
    assert server.requests[0].headers["Accept"] == "text/plain"


async def test_every_finished_request_is_observed(server):
    seen: list[http.Observation] = []
    server.others += [refused(200, {}), refused(404, {"kind": "Status"}), scripted.cut]
    async with server.client(observe=seen.append) as api:
        await api.get(KIND, "a", "ns")
        for call in (api.patch(KIND, "a", {}, "ns"), api.delete(KIND, "a", "ns")):
            with pytest.raises(errors.ApiError):
                await call
    resource = "things.example.com"
    assert [(each.verb, each.resource, each.code) for each in seen] == [
        ("get", resource, 200),
        ("patch", resource, 404),
        ("delete", resource, 0),
    ]
    assert all(0 < each.seconds < 5 for each in seen)


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "want"),
    [
        pytest.param(kinds.PODS, None, None, "/api/v1/pods", id="all namespaces"),
        pytest.param(kinds.PODS, "a", "b", "/api/v1/namespaces/a/pods/b", id="core object"),
        pytest.param(kinds.NODES, None, "n", "/api/v1/nodes/n", id="cluster object"),
        pytest.param(kinds.NODES, "a", "n", "/api/v1/nodes/n", id="namespace of a cluster object"),
    ],
)
def test_paths(kind: Kind, namespace, name, want):
    assert urls.path(kind, namespace, name) == want


@pytest.mark.parametrize(
    ("namespace", "name"),
    [pytest.param("a", "", id="empty name"), pytest.param(None, "b", id="no namespace")],
)
def test_no_path_leads_to_a_collection_by_mistake(namespace, name):
    with pytest.raises(ValueError, match="no place"):
        urls.path(kinds.PODS, namespace, name)
