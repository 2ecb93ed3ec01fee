"""Discovery, OpenAPI, health, metrics, version: what depends on nothing."""

import pytest
from aiohttp import web

from apiserver import app
from apiserver.checks import ALWAYS, Health
from gpu import keys
from tests.apiserver import fakes

G, V = keys.CATALOG_GROUP, keys.CATALOG_VERSION
ROOT = f"/apis/{G}/{V}"
V2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSIONS = [{"groupVersion": f"{G}/{V}", "version": V}]
GROUP = {"name": G, "versions": VERSIONS, "preferredVersion": VERSIONS[0]}


@pytest.fixture
def face():
    return fakes.a_face(fakes.words_world(tenant_a={"a": "x"}))


@pytest.fixture
async def client(serve, face):
    return await serve(face)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(
            "/apis", {"kind": "APIGroupList", "apiVersion": "v1", "groups": [GROUP]}, id="groups"
        ),
        pytest.param(f"/apis/{G}", {"kind": "APIGroup", "apiVersion": "v1", **GROUP}, id="group"),
        pytest.param(
            ROOT,
            {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{G}/{V}",
                "resources": [
                    {
                        "name": "words",
                        "singularName": "word",
                        "namespaced": True,
                        "kind": "Word",
                        "verbs": ["get", "list", "watch"],
                        "shortNames": ["wd"],
                        "categories": ["cozystack", "gpu"],
                    }
                ],
            },
            id="resources",
        ),
    ],
)
async def test_discovery_tells_what_is_served(client, path, expected):
    for slashed in (path, f"{path}/"):
        answer = await client.get(slashed)
        if answer.status != 404:  # a trailing slash may be unknown, never redirected
            assert await answer.json() == expected


async def test_aggregated_discovery_says_so_in_its_content_type_and_is_tagged(client):
    answer = await client.get("/apis", headers={"Accept": V2})
    assert answer.headers["Content-Type"] == V2
    assert answer.headers["Vary"] == "Accept"
    assert await answer.json() == {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": G, "creationTimestamp": None},
                "versions": [
                    {
                        "version": V,
                        "resources": [
                            {
                                "resource": "words",
                                "responseKind": {"group": G, "version": V, "kind": "Word"},
                                "scope": "Namespaced",
                                "singularResource": "word",
                                "verbs": ["get", "list", "watch"],
                                "shortNames": ["wd"],
                                "categories": ["cozystack", "gpu"],
                            }
                        ],
                        "freshness": "Current",
                    }
                ],
            }
        ],
    }
    tag = answer.headers["ETag"]
    again = await client.get("/apis", headers={"Accept": V2, "If-None-Match": tag})
    assert (again.status, await again.read(), tag[0], tag[-1]) == (304, b"", '"', '"')


@pytest.mark.parametrize("accept", ["application/json", "*/*", f"{V2.replace('v=v2', 'v=v9')},*/*"])
async def test_the_plain_list_never_claims_to_be_aggregated(client, accept):
    answer = await client.get("/apis", headers={"Accept": accept})
    assert (answer.headers["Content-Type"], (await answer.json())["kind"]) == (
        "application/json",
        "APIGroupList",
    )


async def test_discovery_needs_nothing_behind_it(serve, face):
    face.source.synced, face.source.reachable = False, False
    client = await serve(face)
    for path in (
        "/apis",
        f"/apis/{G}",
        ROOT,
        "/openapi/v2",
        "/openapi/v3",
        "/version",
        "/api",
        "/",
    ):
        assert (await client.get(path)).status == 200, path


async def test_openapi_v3_is_found_by_its_hash_and_then_never_changes(client):
    index = await (await client.get("/openapi/v3")).json()
    url = index["paths"][f"apis/{G}/{V}"]["serverRelativeURL"]
    path, _, mark = url.partition("?hash=")
    assert (path, len(mark)) == (f"/openapi/v3/apis/{G}/{V}", 128)
    answer = await client.get(url)
    assert answer.headers["Cache-Control"] == "public, immutable"
    again = await client.get(url, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, await again.read()) == (304, b"")


async def test_a_stale_hash_gets_the_current_document_and_no_promise(client):
    answer = await client.get(f"/openapi/v3/apis/{G}/{V}?hash=DEADBEEF", allow_redirects=False)
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-cache, private")
    assert (await answer.json())["openapi"] == "3.0.0"


async def test_openapi_v2_is_json_or_not_acceptable(client):
    assert (await (await client.get("/openapi/v2")).json())["swagger"] == "2.0"
    protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    assert (await client.get("/openapi/v2", headers={"Accept": protobuf})).status == 406
    unknown = await client.get("/openapi/v3/apis/other.io/v1")
    assert unknown.status == 404


async def test_version_is_all_text(client):
    found = await (await client.get("/version")).json()
    assert set(found) == {"major", "minor", "gitVersion", "gitCommit"}
    assert all(isinstance(value, str) for value in found.values())


def a_health() -> Health:
    health = Health()
    health.add("caches", lambda: "")
    health.add("pass", lambda: "stuck for 61 s")
    health.add("certificate", lambda: "", ALWAYS)
    return health


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        pytest.param("/livez", 200, "ok", id="livez-knows-nothing-outside"),
        pytest.param(
            "/livez?verbose",
            200,
            "[+]ping ok\n[+]certificate ok\nlivez check passed\n",
            id="verbose",
        ),
        pytest.param(
            "/readyz",
            500,
            "[+]ping ok\n[+]caches ok\n[-]pass failed: reason withheld\n[+]certificate ok\n"
            "[+]shutdown ok\nreadyz check failed\n",
            id="failed",
        ),
        pytest.param("/readyz?exclude=pass", 200, "ok", id="excluded"),
        pytest.param(
            "/readyz?verbose&exclude=pass&exclude=nope",
            200,
            "[+]ping ok\n[+]caches ok\n[+]pass excluded: ok\n[+]certificate ok\n[+]shutdown ok\n"
            "warn: some health checks cannot be excluded: no matches for ['nope']\n"
            "readyz check passed\n",
            id="excluded-verbose",
        ),
        pytest.param("/readyz/caches", 200, "ok", id="one"),
        pytest.param("/healthz", 200, "ok", id="healthz"),
    ],
)
async def test_probes_judge_their_checks_and_withhold_reasons(serve, face, path, code, text):
    client = await serve(face, health=a_health())
    answer = await client.get(path)
    assert (answer.status, answer.content_type, await answer.text()) == (code, "text/plain", text)


async def test_a_process_on_its_way_out_is_unready_and_alive(serve, face):
    health = Health()
    client = await serve(face, health=health)
    health.draining = True
    assert (await client.get("/readyz")).status == 500
    assert (await client.get("/livez")).status == 200


async def test_a_process_on_its_way_out_answers_on_and_keeps_no_connection(serve, face):
    health = Health()
    client = await serve(face, health=health)
    kept = await client.get(f"{ROOT}/words")
    health.draining = True
    last = await client.get(f"{ROOT}/words")
    assert (kept.status, kept.headers.get("Connection")) == (200, None)
    assert (last.status, last.headers.get("Connection")) == (200, "close")


async def test_metrics_count_requests_with_bounded_labels(client):
    await client.get(f"{ROOT}/namespaces/tenant-a/words/a")
    await client.get(f"{ROOT}/namespaces/tenant-a/nosuch-{'x' * 50}")
    await client.request("PROPFIND", "/nosuch")
    text = await (await client.get("/metrics")).text()
    assert (
        f'apiserver_request_total{{code="200",component="cozystack-gpu",dry_run="",group="{G}",'
        f'resource="words",scope="resource",subresource="",verb="GET",version="{V}"}} 1.0'
    ) in text
    assert "nosuch" not in text
    assert "tenant-a" not in text


def test_every_route_is_of_a_known_method():
    assert {method for method, _, _ in app.ROUTES} == {"*", "GET", "POST"}
    made = fakes.a_face().build()
    assert isinstance(made, web.Application)


async def test_what_is_asked_of_authorization_is_what_is_served(serve, face):
    client = await serve(face)
    await client.get(f"{ROOT}/namespaces/tenant-a/words?watch=1&timeoutSeconds=1")
    await client.get("/metrics")
    assert face.access.asked == [
        ("watch", f"{ROOT}/namespaces/tenant-a/words"),
        ("get", "/metrics"),
    ]
