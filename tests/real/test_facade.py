"""The facade before a host that tells how it was asked and fails as it is told: taken over, put back.

What it passes on is compared in test_facade_host.py, before a host of the host's own library.
"""

import asyncio
import contextlib
import json
import ssl
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from apiserver import takeover
from devcluster import chart
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.clients import console
from tests.clients.host_options import OURS, RECORDED
from tests.clients.stand_in_host import KINDS, ROOT, StandIn
from tests.real import host_site
from tests.real import site as sites

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLUSTER_ROLES = Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole")
TENANT = "tenant-a"
HOSTS = [one["metadata"]["name"] for one in RECORDED["list"]["body"]["items"]]
BOTH = sorted({*HOSTS, *OURS})
ACCOUNT = f"system:serviceaccount:{chart.NAMESPACE}:{chart.SERVICE_ACCOUNT}"


@dataclass
class Facade:
    """A site with a facade, and the host behind it."""

    site: sites.Site
    host: StandIn
    runner: web.AppRunner
    before: dict
    flags: tuple[str, ...]

    async def ask(self, path: str) -> tuple[int, dict]:
        """Ask as a person of the tenant; kube-apiserver's own words are no JSON."""
        found = await self.site.person(TENANT).raw("GET", path)
        is_json = found.body.startswith(b"{")
        return found.status, json.loads(found.body) if is_json else {"said": found.body.decode()}

    async def shows(self, wanted: list[str]) -> None:
        """Wait for a tenant's options: kube-apiserver takes a moment to ask whom it shall now."""
        listed: list[str] = []

        async def same() -> bool:
            code, said = await self.ask(f"{ROOT}/namespaces/{TENANT}/options")
            listed[:] = [one["metadata"]["name"] for one in said.get("items", [])]
            return code == 200 and listed == wanted

        await sites.until(same, sites.LATE, lambda: f"options {wanted}; there are {listed}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def facade(binaries_built, tmp_path_factory):
    values = {**chart.UNATTENDED, "hostOptions": {"mode": "facade"}}
    directory = tmp_path_factory.mktemp("facade")
    async with sites.opened(directory, start=False, values=values) as site:
        port = site.cp.reserve_port()
        host = StandIn()
        await site.tenant(TENANT)
        await site.offer("h100", displayName="NVIDIA H100")
        await site.admin.create(CLUSTER_ROLES, READER)
        async with served(site, host, port) as runner:
            before = kept(await host_site.named(site, port))
            await chart.available(site.admin, takeover.HOST_API)
            ca = site.cp.pki.ext_ca.crt
            url = f"--host-url=https://localhost:{port}"
            flags = (*sites.FAST, "--host-options=facade", url, f"--host-ca-file={ca}")
            await site.product.start(flags=flags)
            await site.product.available()
            made = Facade(site, host, runner, before, flags)
            await sites.until(lambda: is_taken(made), sites.LATE, "the host's APIService taken")
            await chart.available(site.admin, takeover.HOST_API)
            yield made


READER = {
    "metadata": {
        "name": "test:host:view",
        "labels": {
            "rbac.cozystack.io/aggregate-to-tenant": "true",
            "rbac.cozystack.io/aggregate-to-tenant-view": "true",
        },
    },
    "rules": [
        {"apiGroups": ["core.cozystack.io"], "resources": [*KINDS], "verbs": ["*"]},
    ],
}


@contextlib.asynccontextmanager
async def served(site: sites.Site, host: StandIn, port: int):
    """Serve the stand-in over TLS, as the host's pods would be."""
    pair = site.cp.pki.sign_server("host", names=["cozystack-api.cozy-system.svc"], now=sites.now())
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.crt, pair.key)
    runner = web.AppRunner(host.application(), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        yield runner
    finally:
        await runner.cleanup()


def kept(api_service: dict) -> dict:
    annotations = api_service["metadata"].get("annotations", {})
    found = {key: one for key, one in annotations.items() if "devcluster" not in key}
    return {"spec": api_service["spec"], "annotations": found}


async def is_taken(facade: Facade) -> bool:
    found = await facade.site.admin.get(kinds.API_SERVICES, takeover.HOST_API)
    return found["spec"]["service"]["name"] == chart.RELEASE


async def test_a_console_that_asks_the_hosts_group_is_shown_our_sources_too(facade):
    await facade.shows(BOTH)
    form = console.Widget(facade.site.person(TENANT), TENANT, "gpuclass", kind=console.HOSTS)
    await form.load()
    assert form.pick("NVIDIA H100") == "gpu.cozystack.io/h100"
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(form.follow(seconds=20))
        await facade.site.offer("l40s", "nvidia.com/L40S", displayName="NVIDIA L40S")
        await sites.until(lambda: has(form, "NVIDIA L40S"), 15, "a new class in the open form")
        assert form.lists == 1
        following.cancel()


async def has(form: console.Widget, text: str) -> bool:
    return text in [one.shown for one in form.choices]


async def test_the_host_is_asked_as_who_asks_and_may_believe_us(facade):
    """It reviews our token, then asks whether we may act as that user: the chart says yes."""
    await facade.shows(BOTH)
    path = f"{ROOT}/namespaces/{TENANT}/options"  # kube-apiserver asks for itself now and then
    asked = next(one for one in reversed(facade.host.asked) if one.path == path)
    assert asked.headers["Impersonate-User"] == f"somebody@{TENANT}"
    assert set(asked.headers.getall("Impersonate-Group")) == {
        f"{TENANT}-admin",
        "system:authenticated",
    }
    token = asked.headers["Authorization"].removeprefix("Bearer ")
    admin = facade.site.admin
    review = await admin.create(kinds.TOKEN_REVIEWS, {"spec": {"token": token}})
    assert review["status"]["user"]["username"] == ACCOUNT
    for group, resource, part in (
        ("", "users", ""),
        ("", "groups", ""),
        ("", "serviceaccounts", ""),
        ("authentication.k8s.io", "uids", ""),
        ("authentication.k8s.io", "userextras", "scopes"),
    ):
        wanted = {"verb": "impersonate", "group": group, "resource": resource, "subresource": part}
        assert await sites.allowed(admin, ACCOUNT, (), wanted), wanted


SECOND = "replica-2"


class Replicas:
    """Both replicas, each asked at its own address."""

    def __init__(self, facade: Facade, session: aiohttp.ClientSession) -> None:
        pki = facade.site.cp.pki
        pair = pki.pair("admin")
        self.tls = ssl.create_default_context(cafile=str(pki.ext_ca.crt))
        self.tls.load_cert_chain(pair.crt, pair.key)
        self.product, self.session = facade.site.product, session

    async def options(self, identity: str, query: str = "") -> tuple[int, dict]:
        """Ask as clients do: a replica that is not yet as far as the query says so, to be asked again."""

        async def caught_up() -> tuple[int, dict] | None:
            code, said = await self._ask(identity, query)
            return None if code == HTTPStatus.GATEWAY_TIMEOUT else (code, said)

        return await sites.until(caught_up, 30, f"{identity} as far as {query}")

    async def _ask(self, identity: str, query: str) -> tuple[int, dict]:
        url = f"{self.product.replicas[identity].url}{ROOT}/namespaces/{TENANT}/options{query}"
        async with self.session.get(url, ssl=self.tls) as answer:
            return answer.status, await answer.json()


async def test_two_replicas_are_one_facade(facade):
    """Lists are the same at both, pages go on at the other; who is left keeps the host's APIService."""
    product = facade.site.product
    await product.start(SECOND, flags=facade.flags)
    async with aiohttp.ClientSession() as session:
        replicas = Replicas(facade, session)
        _, first = await replicas.options("replica-1")
        version = first["metadata"]["resourceVersion"]
        code, second = await replicas.options(SECOND, f"?resourceVersion={version}")
        assert (code, names(second)) == (200, BOTH)
        _, page = await replicas.options("replica-1", "?limit=3")
        code, rest = await replicas.options(SECOND, f"?continue={page['metadata']['continue']}")
        if code == 410:  # it has not followed these for so long, and says how to go on
            _, rest = await replicas.options(SECOND, f"?continue={rest['metadata']['continue']}")
        assert names(page) + names(rest) == BOTH
        await product.stop()
        # As an upgrade of the host does: its APIService is written anew.
        meta = {"annotations": facade.before["annotations"]}
        anew = {"metadata": meta, "spec": facade.before["spec"]}
        await facade.site.admin.patch(kinds.API_SERVICES, takeover.HOST_API, anew)
        await sites.until(
            lambda: is_taken(facade), sites.LATE, "taken again by the replica that is left"
        )
        assert names((await replicas.options(SECOND))[1]) == BOTH
        await product.start(flags=facade.flags)
        await product.stop(SECOND)
    await facade.shows(BOTH)


def names(listed: dict) -> list[str]:
    return [one["metadata"]["name"] for one in listed["items"]]


async def test_ours_are_there_while_the_host_is_down_and_it_is_put_back_whole(facade):
    """Last in this module: the host, then the facade is gone after it."""
    facade.host.refuses = 503
    await facade.shows([*OURS])
    code, _ = await facade.ask(f"{ROOT}/namespaces/{TENANT}/options/gpuclass")
    assert code == 200
    facade.host.refuses = 0
    said = await facade.site.product.teardown()
    assert f"gave APIService {takeover.HOST_API} back to the host" in said
    found = await facade.site.admin.get(kinds.API_SERVICES, takeover.HOST_API)
    assert kept(found) == facade.before
    await facade.site.product.stop()
    await chart.available(facade.site.admin, takeover.HOST_API)
    await facade.shows(HOSTS)
