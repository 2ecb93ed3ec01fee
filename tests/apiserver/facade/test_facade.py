"""The facade before a stand-in host: what is the host's passes as it is, and options are both's."""

import asyncio
import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import test_utils
from prometheus_client import generate_latest
from yarl import URL

from apiserver.facade import opening
from apiserver.facade.documents import Documents
from apiserver.facade.host import Host
from apiserver.facade.serving import SERVED, Facade, Judging
from apiserver.flags import HostApi
from apiserver.identity import User
from apiserver.resources import RESOURCES
from gpu.cluster import credentials
from gpu.config import Config
from tests.apiserver import fakes
from tests.apiserver.resources.test_option_contract import NODES, TABLE, cluster
from tests.clients.host_options import OURS, RECORDED
from tests.clients.stand_in_host import KINDS, ROOT, SCHEMA, StandIn

TENANT = f"{ROOT}/namespaces/tenant-a"
SECRETS = f"{TENANT}/tenantsecrets"
HOSTS = [one["metadata"]["name"] for one in RECORDED["list"]["body"]["items"]]
BOTH = sorted({*HOSTS, *OURS})
PERSON = User("Ada, Countess", "u-1", ("tenant-a-admin", "a:b"), (("scopes/é", ("x", "y")),))
TABLE_FORM = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Site:
    """A face with a facade, a host behind it, and a client before it."""

    def __init__(self, client, host: StandIn, server, facade, face) -> None:
        self.client, self.host, self.server = client, host, server
        self.facade, self.face, self.world = facade, face, face.source.current

    async def text(self, path: str, method: str = "GET", **how) -> tuple[int, str]:
        found = await self.client.request(method, URL(path, encoded=True), **how)
        return found.status, await found.text()

    async def names(self, path: str) -> list[str]:
        code, text = await self.text(path)
        assert code == 200, text
        return [one["metadata"]["name"] for one in json.loads(text)["items"]]


@pytest.fixture
async def site(serve):
    """The recorded cluster on both sides."""
    host = StandIn()
    server = test_utils.TestServer(host.application())
    await server.start_server()
    world = await asyncio.to_thread(cluster(*TABLE, *NODES).world)
    face = fakes.a_face(world)
    face.identity.user = PERSON
    access = credentials.fixed("http://unused", token="ours")
    async with Host(str(server.make_url("/")), Path("/nowhere"), access) as way:
        facade = Facade(way, Documents(SERVED, User("ourselves")))
        client = await serve(face, resources=RESOURCES, facade=facade)
        yield Site(client, host, server, facade, face)
        with contextlib.suppress(RuntimeError):
            await server.close()


async def test_options_of_both_are_one_list_in_order(site):
    assert await site.names(f"{TENANT}/options") == BOTH
    _, text = await site.text(f"{TENANT}/options")
    rows = {one["metadata"]["name"]: one for one in json.loads(text)["items"]}
    given = {one["metadata"]["name"]: one for one in RECORDED["list"]["body"]["items"]}
    assert {name: rows[name] for name in HOSTS if name != "gpu"} == {
        name: given[name] for name in HOSTS if name != "gpu"
    }


async def test_a_source_that_both_have_is_ours(site):
    _, listed = await site.text(f"{TENANT}/options?fieldSelector=metadata.name%3Dgpu")
    (row,) = json.loads(listed)["items"]
    _, alone = await site.text(f"{TENANT}/options/gpu")
    assert (json.loads(alone), row["apiVersion"]) == (row, "core.cozystack.io/v1alpha1")
    assert (row["spec"]["items"][0]["description"], bool(row["metadata"]["uid"])) == (
        "16 available",
        True,
    )


@pytest.mark.parametrize("case", ["get-image", "get-storageclass", "get-unknown", "get-plan"])
async def test_a_source_of_the_hosts_is_its_answer_byte_for_byte(site, case):
    code, text = await site.text(RECORDED[case]["request"]["path"])
    sent = json.dumps(RECORDED[case]["body"], separators=(",", ":")) + "\n"
    assert (code, text) == (RECORDED[case]["status"], sent)


async def test_every_form_has_the_rows_of_both(site):
    code, text = await site.text(f"{TENANT}/options", headers={"Accept": TABLE_FORM})
    rows = json.loads(text)["rows"]
    assert (code, [one["cells"][0] for one in rows]) == (200, BOTH)
    host = rows[BOTH.index("storageclass")]
    assert (host["cells"][:3], host["object"]["metadata"]) == (
        ["storageclass", 2, "local, replicated"],
        {"name": "storageclass", "namespace": "tenant-a", "resourceVersion": "0"},
    )
    assert {len(one["cells"]) for one in rows} == {len(json.loads(text)["columnDefinitions"])}


async def test_pages_are_of_one_list(site):
    found, path = [], f"{TENANT}/options?limit=5"
    more = ""
    while True:
        _, text = await site.text(path + more)
        listed = json.loads(text)
        found += [one["metadata"]["name"] for one in listed["items"]]
        if not listed["metadata"].get("continue"):
            break
        more = f"&continue={listed['metadata']['continue']}"
    assert found == BOTH


async def test_who_asks_is_named_to_the_host_and_nobody_can_name_another(site):
    forged = {
        "X-Remote-User": "root",
        "X-Remote-Group": "system:masters",
        "Authorization": "Basic x",
    }
    await site.text(SECRETS, headers=forged)
    (asked,) = site.host.asked
    named = [(k, v) for k, v in asked.headers.items() if k.startswith(("Imp", "X-Rem", "Auth"))]
    assert named == [
        ("Impersonate-User", "Ada, Countess"),
        ("Impersonate-Group", "tenant-a-admin"),
        ("Impersonate-Group", "a:b"),
        ("Impersonate-Uid", "u-1"),
        ("Impersonate-Extra-scopes%2F%C3%A9", "x"),
        ("Impersonate-Extra-scopes%2F%C3%A9", "y"),
        ("Authorization", "Bearer ours"),
    ]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_what_is_the_hosts_passes_as_it_was_written(site, method):
    path = f"{SECRETS}/a%3Ab?dryRun=All&x=%20+"
    sent = {"Content-Type": "application/apply-patch+yaml", "If-None-Match": '"a"'}
    body = None if method == "GET" else b"\x00\xff" * 40_000
    found = await site.client.request(method, URL(path, encoded=True), data=body, headers=sent)
    echoed = {"kind": "Echo", "method": method, "path": path}
    assert (found.status, await found.json()) == (201 if method == "POST" else 200, echoed)
    (asked,) = site.host.asked
    assert (site.host.bodies, asked.headers["If-None-Match"]) == ([body or b""], '"a"')
    if body:
        assert asked.headers["Content-Type"] == "application/apply-patch+yaml"
    assert asked.headers["Audit-ID"] == found.headers["Audit-ID"]
    assert (found.headers["X-Kubernetes-Pf-Flowschema-Uid"], found.headers["Warning"]) == (
        "flow",
        '299 - "old"',
    )
    assert "X-Hop" not in found.headers


async def test_writes_of_options_are_for_the_host_to_refuse(site):
    code, text = await site.text(f"{TENANT}/options/gpu", "DELETE")
    assert (code, json.loads(text)) == (405, RECORDED["path-verb-delete"]["body"])


async def test_a_watch_of_the_hosts_streams_and_ends_with_its_client(site):
    found = await site.client.get(f"{SECRETS}?watch=true")
    line = await asyncio.wait_for(found.content.readline(), 2)
    assert json.loads(line)["type"] == "ADDED"
    assert site.host.open_watches == 1
    found.close()
    async with asyncio.timeout(2):
        while site.host.open_watches:  # noqa: ASYNC110 -- the other side is another server
            await asyncio.sleep(0.01)


async def test_a_watch_that_ends_ends_and_one_that_breaks_off_breaks_off(site):
    found = await site.client.get(f"{SECRETS}?watch=true&timeoutSeconds=0")
    assert len((await found.text()).splitlines()) == 1
    broken = await site.client.get(f"{SECRETS}?watch=true&fieldSelector=breaks")
    with pytest.raises(aiohttp.ClientError):
        await broken.read()


async def test_a_watch_of_the_hosts_over_an_older_http_ends_its_connection(site):
    server = site.client.server
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(f"GET {SECRETS}?watch=true&timeoutSeconds=0 HTTP/1.0\r\n\r\n".encode())
    head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"200"
    assert json.loads(rest)["type"] == "ADDED"
    writer.close()


async def test_a_watch_of_options_tells_what_both_have_and_then_of_ours(site):
    query = "watch=true&timeoutSeconds=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
    _, text = await site.text(f"{TENANT}/options?{query}&allowWatchBookmarks=true")
    events = [json.loads(line) for line in text.splitlines()]
    told = [one["object"]["metadata"].get("name", one["type"]) for one in events]
    assert told[: len(BOTH) + 1] == [*[one for one in HOSTS if one != "gpu"], *OURS, "BOOKMARK"]
    version = json.loads((await site.text(f"{TENANT}/options"))[1])["metadata"]["resourceVersion"]
    _, text = await site.text(
        f"{TENANT}/options?watch=true&timeoutSeconds=1&resourceVersion={version}"
    )
    assert text == ""


async def test_without_the_host_ours_are_answered_and_the_rest_is_503(site):
    await site.server.close()
    found = await site.client.get(f"{TENANT}/options")
    names = [one["metadata"]["name"] for one in (await found.json())["items"]]
    assert (found.status, names, found.headers["Warning"][:3]) == (200, [*OURS], "299")
    assert (await site.text(f"{TENANT}/options/gpuclass"))[0] == 200
    code, text = await site.text(f"{TENANT}/options/image")
    assert (code, text.splitlines()[0][:31]) == (503, "error trying to reach service: ")
    assert (await site.text(SECRETS))[0] == 503


@pytest.mark.parametrize("code", [401, 403, 500])
async def test_a_host_that_refuses_the_list_hides_no_source_of_ours(site, code):
    site.host.refuses = code
    assert await site.names(f"{TENANT}/options") == [*OURS]


async def test_a_slow_host_holds_up_no_list_for_long(site, monkeypatch):
    monkeypatch.setattr("apiserver.facade.serving.LISTED_WITHIN", 0.2)
    site.host.waits = 5.0
    begun = asyncio.get_running_loop().time()
    assert await site.names(f"{TENANT}/options") == [*OURS]
    assert asyncio.get_running_loop().time() - begun < 2.0


async def test_discovery_is_the_hosts_as_last_seen_and_never_fails(site):
    """With the host never seen the group has our options alone."""
    site.host.refuses = 503
    code, text = await site.text(ROOT)
    assert (code, [one["name"] for one in json.loads(text)["resources"]]) == (200, ["options"])
    site.host.refuses = 0
    assert await site.facade.documents.refresh(site.facade.host)
    await site.server.close()
    for path in (ROOT, "/apis/core.cozystack.io"):
        assert (await site.text(path))[0] == 200
    _, text = await site.text(ROOT)
    assert [one["name"] for one in json.loads(text)["resources"]] == [*KINDS]
    _, text = await site.text("/apis")
    assert [one["name"] for one in json.loads(text)["groups"]] == [
        "catalog.gpu.cozystack.io",
        "core.cozystack.io",
    ]
    asked = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    _, text = await site.text("/apis", headers={"Accept": asked})
    groups = {one["metadata"]["name"]: one for one in json.loads(text)["items"]}
    resources = groups["core.cozystack.io"]["versions"][0]["resources"]
    assert [one["resource"] for one in resources] == [*KINDS]
    _, text = await site.text("/openapi/v3")
    paths = json.loads(text)["paths"]
    assert (paths["apis/core.cozystack.io/v1alpha1"], len(paths) > 1) == (SCHEMA, True)


async def test_what_the_host_leaves_without_an_answer_is_counted(site):
    metrics = site.face.services.metrics

    def told():
        return {
            of: metrics.host_failures.labels(of)._value.get()
            for of in ("request", "list", "stream")
        }

    assert told() == {"request": 0, "list": 0, "stream": 0}
    with contextlib.suppress(aiohttp.ClientError):
        await site.text(f"{SECRETS}?watch=true&fieldSelector=breaks")
    await site.server.close()
    assert await site.names(f"{TENANT}/options") == [*OURS]
    for path in (f"{TENANT}/options/image", SECRETS):
        assert (await site.text(path))[0] == 503
    assert (await site.text(ROOT))[0] == 200  # of what was seen: nobody was left without an answer
    assert told() == {"request": 2, "list": 1, "stream": 1}


async def test_a_host_that_is_away_is_told_of_by_a_gauge(site, tmp_path):
    """What is known of it is read again and again: it is there, it goes."""
    host = HostApi(url=str(site.server.make_url("/")), authorities=tmp_path)
    settings = SimpleNamespace(host=host, config=Config())
    access, metrics = credentials.fixed("http://unused", token="ours"), site.face.services.metrics

    def away():
        return generate_latest(metrics.registry).decode().count("cozystack_gpu_host_away 1.0")

    assert away() == 0
    async with opening.opened(settings, access, metrics) as facade:
        for is_away in (0, 1):
            reading = asyncio.ensure_future(opening.reading(facade))
            async with asyncio.timeout(5):
                while not (facade.documents.seen and away() == is_away):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            reading.cancel()
            await site.server.close()


async def test_watchers_of_both_groups_are_each_told_in_the_words_of_theirs(site):
    """The lists are one: what is told of one must not be what was made for the other."""
    ask = "options?watch=true&timeoutSeconds=1"
    ours = TENANT.replace("core.cozystack.io", "catalog.gpu.cozystack.io")
    answers = await asyncio.gather(*(site.text(f"{root}/{ask}") for root in (TENANT, ours, TENANT)))
    told = [
        {json.loads(line)["object"]["apiVersion"] for line in text.splitlines()}
        for _, text in answers
    ]
    core, catalog = {"core.cozystack.io/v1alpha1"}, {"catalog.gpu.cozystack.io/v1alpha1"}
    assert told == [core, catalog, core]


async def test_what_was_encoded_for_one_group_is_not_answered_to_the_other(site):
    ours = TENANT.replace("core.cozystack.io", "catalog.gpu.cozystack.io")
    for root, group in ((ours, "catalog.gpu.cozystack.io"), (TENANT, "core.cozystack.io")):
        for path in (f"{root}/options/gpu", f"{root}/options"):
            _, text = await site.text(path)
            assert json.loads(text)["apiVersion"] == f"{group}/v1alpha1"


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}/../../apps.cozystack.io/v1alpha1/tenants",
        f"{ROOT}/%2e%2e/%2e%2e/apps.cozystack.io/v1alpha1/tenants",
        f"{ROOT}/namespaces/a%2F..%2F..%2Fb/tenantsecrets",
        f"{ROOT}//evil.example.com/x",
    ],
)
async def test_no_path_leads_out_of_the_group(site, path):
    target = site.client.make_url("/")
    reader, writer = await asyncio.open_connection(target.host, target.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    assert (answer.split()[1], site.host.asked) == (b"404", [])


async def test_a_whole_url_as_target_is_not_passed_on(site):
    target = site.client.make_url("/")
    reader, writer = await asyncio.open_connection(target.host, target.port)
    whole = f"http://evil.example.com{SECRETS}"
    writer.write(f"GET {whole} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    assert (answer.split()[1], site.host.asked) == (b"404", [])


@pytest.mark.parametrize(
    ("path", "method", "judged"),
    [
        (f"{TENANT}/options", "GET", True),
        (f"{TENANT}/options?fieldSelector=metadata.name%3Dimage", "GET", True),
        (f"{TENANT}/options/gpu", "GET", True),
        (f"{TENANT}/options/gpu", "HEAD", True),
        (f"{TENANT}/options?watch=1&timeoutSeconds=1", "GET", True),
        (f"{ROOT}/options", "GET", True),
        (f"{TENANT}/options/image", "GET", False),
        (f"{TENANT}/options/gpu", "DELETE", False),
        (SECRETS, "GET", False),
        (ROOT.replace("core.", "catalog.gpu.") + "/namespaces/tenant-a/options", "GET", True),
        ("/openapi/v2", "GET", True),
    ],
)
async def test_access_is_judged_by_whoever_answers(serve, site, path, method, judged):
    """What we answer we judge; what the host answers it judges, and nothing falls between the two."""
    face = fakes.a_face(site.world)
    asked = Judging(face.access)
    client = await serve(face, resources=RESOURCES, facade=site.facade, authorizer=asked)
    found = await client.request(method, URL(path, encoded=True))
    await found.read()
    assert bool(face.access.asked) is judged
    went = [one for one in site.host.asked if one.method == method and one.raw_path == path]
    assert bool(went) is not judged or path.endswith("/options")  # lists are asked of both
