"""What clients of the host get is what they get through the facade: each answer with it and without, to the byte.

The host is the stand-in of devcluster/go/kubernetes/host, or the host's own server (real_host_story.py).
"""

import asyncio
import json
import re
import ssl
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp
import pytest
import pytest_asyncio

from apiserver import takeover
from devcluster import chart, tenants
from gpu.objects import kinds
from tests.clients.host_options import OURS, RECORDED
from tests.real import host_site
from tests.real import site as sites

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

TENANT, OTHER = "tenant-a", "tenant-b"
ROOT = "/apis/core.cozystack.io/v1alpha1"
HERE = f"{ROOT}/namespaces/{TENANT}"
MERGE = {"Content-Type": "application/merge-patch+json"}
SENT = {"Content-Type": "application/json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
VARIES = {"Date", "Audit-Id", "Content-Length", "Transfer-Encoding", "X-Content-Type-Options"}
"""Headers that no two answers share; how long a body is, which HTTP/2 tells where HTTP/1.1 sends it in
chunks; and the one that is on every answer of ours (docs/api.md)."""
MADE_ANEW = re.compile(rb'"(uid|resourceVersion|creationTimestamp)":"[^"]*"')
BOOKMARKS = re.compile(rb'^\{"type":"BOOKMARK".*\n', re.MULTILINE)
"""The host tells them as time goes by."""
SHOWS = {"list": b'"big"', "modules": b'"module"', "namespaces": TENANT.encode()}
"""What is to be told before it is asked for all."""
AGE = re.compile(rb'"(\d+[smh])+"')


@dataclass(frozen=True)
class Asked:
    """One request: what it says, who says it, the status that is meant.

    Of `fresh` the answer tells of what is new each time; of `late` it is 404 for a moment.
    """

    name: str
    path: str
    method: str = "GET"
    headers: dict = field(default_factory=dict)
    body: bytes | None = None
    tenant: str = TENANT
    fresh: bool = False
    late: bool = False
    status: int = 200


def secret(name, **more):
    body = {"apiVersion": "core.cozystack.io/v1alpha1", "kind": "TenantSecret", **more}
    return json.dumps({**body, "metadata": {"name": name, "namespace": TENANT}}).encode()


SECRETS = f"{HERE}/tenantsecrets"
STREAMED = (
    "watch=true&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true"
    "&resourceVersionMatch=NotOlderThan"
)
ASKED = (
    Asked("version", ROOT),
    Asked("list", SECRETS),
    Asked("pretty", f"{SECRETS}?pretty=true"),
    Asked("yaml", SECRETS, headers={"Accept": "application/yaml"}),
    Asked(
        "protobuf", SECRETS, headers={"Accept": "application/vnd.kubernetes.protobuf"}, status=406
    ),
    Asked("table", SECRETS, headers=TABLE, fresh=True),
    Asked("partial", SECRETS, headers=PARTIAL),
    Asked("gzip", SECRETS, headers={"Accept-Encoding": "gzip"}),
    Asked("selector", f"{SECRETS}?labelSelector=a%3Db"),
    Asked("selector-bad", f"{SECRETS}?labelSelector=%3D%3D%3D", status=400),
    Asked("limit-bad", f"{SECRETS}?limit=abc", status=400),
    Asked("get", f"{SECRETS}/kept"),
    Asked("get-none", f"{SECRETS}/none", status=404),
    Asked("big", f"{SECRETS}/big"),
    Asked("modules", f"{HERE}/tenantmodules"),
    Asked("namespaces", f"{ROOT}/tenantnamespaces"),
    Asked("namespaces-other", f"{ROOT}/tenantnamespaces", tenant=OTHER),
    Asked("namespaces-table", f"{ROOT}/tenantnamespaces", headers=TABLE, fresh=True),
    Asked("namespaces-write", f"{ROOT}/tenantnamespaces", "POST", SENT, b"{}", status=405),
    Asked("forbidden", SECRETS, tenant=OTHER, status=403),
    Asked("no-resource", f"{HERE}/nothings", status=404),
    Asked("no-subresource", f"{SECRETS}/kept/status", status=404),
    Asked("head", SECRETS, "HEAD", status=405),
    Asked("watch", f"{SECRETS}?watch=true&timeoutSeconds=1", fresh=True),
    Asked("watch-from-the-list", f"{SECRETS}?{STREAMED}", fresh=True),
    Asked("watch-table", f"{SECRETS}?watch=true&timeoutSeconds=1", headers=TABLE, fresh=True),
    Asked("watch-modules", f"{HERE}/tenantmodules?watch=true&timeoutSeconds=1", fresh=True),
    Asked(
        "make", SECRETS, "POST", SENT, secret("made", stringData={"a": "b"}), fresh=True, status=201
    ),
    Asked("make-again", SECRETS, "POST", SENT, secret("made"), status=409),
    Asked(
        "make-warned",
        f"{SECRETS}?fieldValidation=Warn",
        "POST",
        SENT,
        secret("made", none=1),
        status=409,
    ),
    Asked("make-bad", SECRETS, "POST", SENT, b"{", status=400),
    Asked("make-wrong", SECRETS, "POST", SENT, b'{"kind":"Pod","apiVersion":"v1"}', status=400),
    Asked("make-form", SECRETS, "POST", {"Content-Type": "text/html"}, b"<p>", status=415),
    Asked("replace", f"{SECRETS}/made", "PUT", SENT, secret("made", type="Opaque"), fresh=True),
    Asked("patch", f"{SECRETS}/made", "PATCH", MERGE, b'{"stringData":{"c":"d"}}', fresh=True),
    Asked("patch-none", f"{SECRETS}/none", "PATCH", MERGE, b"{}", status=404),
    Asked(
        "dry",
        f"{SECRETS}?dryRun=All",
        "POST",
        SENT,
        secret("dry", type="Opaque"),
        fresh=True,
        status=201,
    ),
    Asked("undo-dry", f"{SECRETS}/dry", "DELETE", fresh=True, late=True),
    Asked("delete", f"{SECRETS}/made", "DELETE", fresh=True, late=True),
    Asked("delete-none", f"{SECRETS}/made", "DELETE", status=404),
    Asked("source", f"{HERE}/options/storageclass"),
    Asked("source-table", f"{HERE}/options/storageclass", headers=TABLE),
    Asked("source-fails", f"{HERE}/options/backupclass", status=500),
    Asked("source-none", f"{HERE}/options/no-such-source", status=404),
    Asked("source-write", f"{HERE}/options/storageclass", "DELETE", status=405),
    Asked("options-write", f"{HERE}/options", "POST", SENT, b"{}", status=405),
    Asked("schema", f"/openapi/v3{ROOT}", late=True),
)
OWN = {"patch": 404}
"""Where the host's own server answers with another status: it finds nothing to patch."""
NOT_SO = {
    "format-accept-protobuf",  # it names a type of Go, which is another one in the stand-in
    "format-partialmetadata-list-wrong-kind",  # so does this
    "path-cluster-scope-name",  # a person of a tenant has no right there
}
BAD = 400
REFUSED = [
    Asked(case, one["request"]["path"], one["request"]["method"], one["request"].get("headers", {}))
    for case, one in RECORDED.items()
    if one["status"] >= BAD and not case.startswith(("access-", "get-gpu-")) and case not in NOT_SO
]
"""What was recorded of the host's own server, whatever there is in its cluster."""


@dataclass
class World:
    """A site with the host on it, and what it answered before there was a facade."""

    site: sites.Site
    session: aiohttp.ClientSession
    url: str
    before: dict = field(default_factory=dict)

    def __post_init__(self):
        pki = self.site.cp.pki
        self.tls = ssl.create_default_context(cafile=str(pki.serving_ca.crt))
        pair = pki.pair("admin")
        self.tls.load_cert_chain(pair.crt, pair.key)

    async def ask(self, asked):
        """Ask kube-apiserver as a person.

        What was just made is known to the host a moment later, and kube-apiserver reads the schema of
        whom it has taken in when it likes.
        """

        async def known():
            found = await self._ask(asked)
            return None if found[0] == HTTPStatus.NOT_FOUND else found

        if asked.late:
            return await sites.until(known, 65, f"{asked.name}: what is asked for is known")
        return await self._ask(asked)

    async def _ask(self, asked):
        """Return status, headers and body as they come over the wire."""
        who = {
            "Impersonate-User": f"somebody@{asked.tenant}",
            "Impersonate-Group": tenants.group(asked.tenant),
            "Impersonate-Extra-Scopes": "all",
        }
        url = f"{self.site.cp.server}{asked.path}"
        plain = {"Accept": "application/json", "Accept-Encoding": "identity"}
        how = {"headers": plain | asked.headers | who, "data": asked.body}
        async with self.session.request(asked.method, url, ssl=self.tls, **how) as answer:
            body = await answer.read()
            if asked.fresh:
                body = AGE.sub(b'"age"', MADE_ANEW.sub(rb'"\1":""', BOOKMARKS.sub(b"", body)))
            headers = sorted(one for one in answer.headers.items() if one[0] not in VARIES)
            return answer.status, headers, body

    async def listed(self, path, **how):
        status, _, body = await self.ask(Asked("", path, **how))
        assert status == 200, body
        return json.loads(body)

    async def api_service(self):
        found = await self.site.admin.get(kinds.API_SERVICES, takeover.HOST_API)
        annotations = found["metadata"].get("annotations", {})
        kept = {key: one for key, one in annotations.items() if "devcluster" not in key}
        return {"spec": found["spec"], "annotations": kept}

    async def facade(self, mode):
        """Have a replica run with the facade or without; returns once the host's APIService says so."""
        ca = self.site.cp.pki.ext_ca.crt
        words = (f"--host-url={self.url}", f"--host-ca-file={ca}") if mode == "facade" else ()
        await self.site.product.start(flags=(*sites.FAST, f"--host-options={mode}", *words))
        name = chart.RELEASE if mode == "facade" else host_site.NAME

        async def named():
            return (await self.api_service())["spec"]["service"]["name"] == name

        await sites.until(named, sites.LATE, f"the host's APIService names {name}")
        await chart.available(self.site.admin, takeover.HOST_API)

    async def shown(self, wanted):
        """Wait until the tenant's options are of these; kube-apiserver takes a moment to go elsewhere."""

        async def same():
            status, _, said = await self.ask(Asked("", f"{HERE}/options"))
            items = json.loads(said)["items"] if status == HTTPStatus.OK else []
            return [one["metadata"]["name"] for one in items] == wanted

        await sites.until(same, sites.LATE, f"options {wanted}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(binaries_built, tmp_path_factory):
    values = {**chart.UNATTENDED, "hostOptions": {"mode": "facade"}}
    directory = tmp_path_factory.mktemp("plane")
    async with (
        sites.opened(directory, start=False, values=values) as site,
        host_site.running(site) as url,
        aiohttp.ClientSession(auto_decompress=False) as session,
    ):
        await furnished(site)
        made = World(site, session, url)
        await ready(made)
        made.before = {asked.name: await made.ask(asked) for asked in (*REFUSED, *ASKED)}
        made.before["api-service"] = await made.api_service()
        found = await made.listed(f"{HERE}/options")
        made.before["sources"] = [one["metadata"]["name"] for one in found["items"]]
        await made.facade("facade")
        await made.shown(sorted({*made.before["sources"], *OURS}))
        yield made


async def furnished(site):
    """Make two tenants, rights to the host's kinds, and what those show."""
    labels = {f"rbac.cozystack.io/aggregate-to-tenant{tail}": "true" for tail in ("", "-view")}
    rules = [{"apiGroups": ["core.cozystack.io"], "resources": ["*"], "verbs": ["*"]}]
    meta = {"name": "test:host:view", "labels": labels}
    await site.admin.create(host_site.CLUSTER_ROLES, {"metadata": meta, "rules": rules})
    rules = [{**rules[0], "resources": ["tenantnamespaces"]}]
    meta = {"name": "test:host:namespaces"}
    await site.admin.create(host_site.CLUSTER_ROLES, {"metadata": meta, "rules": rules})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": meta["name"]}
    everybody = {"apiGroup": ref["apiGroup"], "kind": "Group", "name": "system:authenticated"}
    body = {"metadata": meta, "roleRef": ref, "subjects": [everybody]}
    await site.admin.create(host_site.CLUSTER_BINDINGS, body)
    for tenant in (TENANT, OTHER):
        await site.tenant(tenant)
    for name, size in (("kept", 10), ("big", 200_000)):
        meta = {"name": name, "namespace": TENANT, "labels": {**host_site.SHOWN, "a": "b"}}
        body = {"metadata": meta, "stringData": {"value": "x" * size}}
        await site.admin.create(host_site.SECRETS, body)
    marks = {"internal.cozystack.io/tenantmodule": "true"}
    meta = {"name": "module", "namespace": TENANT, "labels": marks}
    await site.admin.create(kinds.HELM_RELEASES, {"metadata": meta, "spec": {"interval": "5m"}})
    marks = {"storageclass.kubernetes.io/is-default-class": "true"}
    body = {"metadata": {"name": "replicated", "annotations": marks}, "provisioner": "test"}
    await site.admin.create(kinds.STORAGE_CLASSES, body)
    await site.offer("h100", displayName="NVIDIA H100")


async def ready(world):
    """Wait until the host's caches have what was made, and kube-apiserver knows the rights."""

    last = {}

    async def there():
        found = {asked.name: await world.ask(asked) for asked in ASKED if asked.name in SHOWS}
        last.update(found)
        return all(found[name][0] == 200 and told in found[name][2] for name, told in SHOWS.items())

    await sites.until(there, sites.LATE, lambda: f"the tenant's secrets shown by the host: {last}")


@pytest.mark.parametrize("asked", REFUSED, ids=lambda asked: asked.name)
async def test_the_host_here_refuses_as_was_recorded_of_the_hosts_own(world, asked):
    """Of the stand-in this tells that what it is compared with is what the host answers."""
    recorded, (status, headers, said) = RECORDED[asked.name], world.before[asked.name]
    form = recorded.get("contentType", "application/json")
    assert (status, dict(headers)["Content-Type"]) == (recorded["status"], form)
    if asked.method != "HEAD":
        assert json.loads(said) == recorded["body"]


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.name)
async def test_an_answer_is_the_hosts_to_the_byte(world, asked):
    # Or two refusals of everything would be alike.
    assert world.before[asked.name][0] in {asked.status, OWN.get(asked.name)}
    same(await world.ask(asked), world.before[asked.name])


def same(found, wanted):
    """Compare part by part: what differs is then told."""
    for one, other in zip(found, wanted, strict=True):
        assert one == other


async def test_options_are_the_hosts_and_ours(world):
    host = {name for name in world.before["sources"] if name not in OURS}
    found = await world.listed(f"{HERE}/options")
    assert {one["metadata"]["name"] for one in found["items"]} == host | {*OURS}
    items = {one["metadata"]["name"]: one for one in found["items"]}
    for name in host:
        assert items[name] == await world.listed(f"{HERE}/options/{name}"), name
    table = await world.listed(f"{HERE}/options", headers=TABLE)
    assert [row["cells"][0] for row in table["rows"]] == sorted(items)
    picked = items["gpuclass"]["spec"]["items"]
    assert [one["value"] for one in picked] == ["gpu.cozystack.io/h100"]


async def test_a_watch_of_the_hosts_goes_on_as_it_changes(world):
    """A stream passed on tells what happens after its start, at once."""
    who = {"Impersonate-User": f"somebody@{TENANT}", "Impersonate-Group": tenants.group(TENANT)}
    path = f"{SECRETS}?watch=true&timeoutSeconds=60&labelSelector=a%21%3Db"
    meta = {"name": "later", "namespace": TENANT, "labels": host_site.SHOWN}
    url = f"{world.site.cp.server}{path}"
    async with asyncio.timeout(30), world.session.get(url, ssl=world.tls, headers=who) as answer:
        await world.site.admin.create(host_site.SECRETS, {"metadata": meta})
        assert await told(answer) == ("ADDED", "later")
        await world.site.admin.delete(host_site.SECRETS, "later", TENANT)
        assert await told(answer) == ("DELETED", "later")


async def told(answer):
    """Read the next event of a watch that is no bookmark."""
    while True:
        event = json.loads(await answer.content.readline())
        if event["type"] != "BOOKMARK":
            return event["type"], event["object"]["metadata"]["name"]


async def test_kubectl_discovers_and_explains_the_hosts_kinds(world):
    async def discovered():
        found = await world.site.cp.kubectl(
            "api-resources", "--api-group=core.cozystack.io", "-o=name"
        )
        wanted = ("options", "tenantmodules", "tenantnamespaces", "tenantsecrets")
        return sorted(found.split()) == [f"{name}.core.cozystack.io" for name in wanted]

    await sites.until(discovered, 65, "the host's kinds discovered")
    said = await world.site.cp.kubectl("explain", "tenantsecrets.stringData")
    assert "TenantSecret" in said


async def test_off_gives_the_apiservice_back_and_all_is_as_before(world):
    """Last: there is no facade after it."""
    await world.site.product.stop()
    await world.facade("off")
    assert await world.api_service() == world.before["api-service"]
    await world.shown(world.before["sources"])
    for asked in ASKED:
        same(await world.ask(asked), world.before[asked.name])
