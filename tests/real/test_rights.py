"""What the process asks of the API server is what the chart grants, and who asked us: read from the audit log."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from devcluster import chart, control_plane, product, simulator
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.charts.granted import ADMISSION, API_SERVERS, LEADER, PROCESS, SETTINGS
from tests.real import site as sites

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

USER = f"system:serviceaccount:{chart.NAMESPACE}:{chart.SERVICE_ACCOUNT}"
DELEGATED = {  # system:auth-delegator and extension-apiserver-authentication-reader
    ("subjectaccessreviews.authorization.k8s.io", "create"),
    ("tokenreviews.authentication.k8s.io", "create"),
}
# Granted, and not surely asked for in this story.
NOT_HERE = {
    ("gpuclasses.gpu.cozystack.io", "get"): "after a write with an unclear outcome",
    ("gpuclaims.gpu.cozystack.io", "get"): "the same",
    ("gpunodes.gpu.cozystack.io", "get"): "the same",
    ("apiservices.apiregistration.k8s.io", "patch"): "a host whose APIService named us",
    ("pods", "patch"): "a launcher is pinned; teardown --release-gates",
    ("pods", "get"): "a pin that got no answer",
    ("pods", "delete"): "a launcher that its node refused",
    ("endpointslices.discovery.k8s.io", "get"): "a canary, which the story may not wait for",
    ("namespaces", "get"): "before an order is refused for want of entitlement",
    ("gpuclaims.gpu.cozystack.io", "create"): "template claims, of VMs",
    ("configmaps", "delete"): "copies of settings that a kube-apiserver had stopped to read",
    ("workloads.cozystack.io", "get"): "after a write with an unclear outcome",
    ("workloads.cozystack.io", "delete"): "a record without a claim that nobody collected",
    ("workloadmonitors.cozystack.io", "get"): "after a write with an unclear outcome",
    ("gpuclaims.gpu.cozystack.io", "delete"): "template claims, of VMs",
    ("resourcequotas", "get"): "before a tenant is granted quota",
    ("helmreleases.helm.toolkit.fluxcd.io", "get"): "the same",
    ("nodes", "get"): "before something that ran is let go",
    ("virtualmachineinstances.kubevirt.io", "get"): "before something that ran is let go",
    ("virtualmachineinstances.kubevirt.io", "delete"): "a guest whose node cannot keep its set",
    (
        f"validatingadmissionpolicies.{ADMISSION}",
        "create",
    ): "an apply that creates is logged as patch",
    (f"validatingadmissionpolicybindings.{ADMISSION}", "create"): "the same",
}


OPTIONS = f"{sites.CATALOG}/namespaces/tenant-a/options"
CHOSEN = "an-id-of-the-clients-own"


@dataclass
class Story:
    """What was asked in the story, of the API server and of us."""

    asked: set[tuple[str, str, bool]] = field(default_factory=set)
    """Resource, verb, allowed."""
    answers: list[tuple[str, set[str]]] = field(default_factory=list)
    """Each path of ours that was read through kube-apiserver, and the audit ids that its answer told."""
    audit: Path = Path()
    log: Path = Path()


@contextlib.asynccontextmanager
async def audited(directory: Path) -> AsyncIterator[sites.Site]:
    async with control_plane.control_plane(directory, audit=True) as cp, cp.admin() as admin:
        found = await product.install(cp, admin, values=chart.ORDERS_WAIT)
        await found.start(flags=sites.FAST)
        await found.available()
        yield sites.Site(cp, found, admin, simulator.Simulator(admin))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(binaries_built, tmp_path_factory) -> Story:
    """Run a story from install to teardown; return what was asked."""
    told = Story()
    directory = tmp_path_factory.mktemp("rights")
    async with audited(directory) as site:
        await site.node("gpu-1", 8)
        await site.admin.create(kinds.GPU_NODES, {"metadata": {"name": "gpu-1"}})
        await site.offer("h100")
        await site.tenant("tenant-a", total=4)
        await site.order("tenant-a", "held", "h100", 2)
        await site.bound("tenant-a", "held")
        await sites.until(lambda: settings_name(site, sites.H100), sites.LATE, "settings")
        await site.offer("l40s", "nvidia.com/L40S")
        await sites.until(
            lambda: settings_name(site, "nvidia.com/L40S"), sites.LATE, "settings with L40S"
        )
        await records(site)
        await site.order("tenant-a", "waiting", "h100", 99)
        await site.waits("tenant-a", "waiting", "NoFreeUnits")
        await site.admin.delete(kinds.GPU_CLAIMS, "held", "tenant-a")
        await site.gone("tenant-a", "held")
        for path, headers in ((OPTIONS, {}), (f"{OPTIONS}/gpu", {"Audit-ID": CHOSEN})):
            answer = await site.person("tenant-a").raw("GET", path, headers=headers)
            ids = {value for name, value in answer.headers.items() if name.lower() == "audit-id"}
            told.answers.append((path, ids))
        log = told.audit = site.cp.site.log("audit")
        told.log = site.product.replicas[product.FIRST].log
        await sites.until(lambda: has_written(log), sites.LATE, "each status and an Event written")
        await site.product.teardown()
    told.asked = set(requests(log))
    return told


async def has_written(log: Path) -> bool:
    """Tell whether what the leader writes after all else has been asked for: teardown ends it."""
    wanted = {
        (resource, verb)
        for (resource, _), verbs in PROCESS.items()
        for verb in verbs
        if "/status." in resource or resource.startswith("events.")
    }
    return wanted <= {(resource, verb) for resource, verb, _ in requests(log)}


async def records(site: sites.Site) -> None:
    """Have a record healed, then lose it to a host, then have its monitor healed."""
    api, name, monitor = site.controller(), "gpuclaim-held", keys.USAGE_MONITOR_NAME

    async def operational() -> bool:
        return bool((await api.get(kinds.WORKLOADS, name, "tenant-a"))["status"]["operational"])

    async def selects_something() -> bool:
        try:
            found = await api.get(kinds.WORKLOAD_MONITORS, monitor, "tenant-a")
        except errors.NotFound:
            return False
        return bool(found["spec"]["selector"])

    await api.patch(kinds.WORKLOADS, name, {"status": {"operational": False}}, "tenant-a")
    await sites.until(operational, sites.LATE, "the record healed")
    await site.host().delete(kinds.WORKLOADS, name, "tenant-a")
    await sites.until(selects_something, sites.LATE, "a monitor of records")
    empty = {"spec": {"selector": {keys.USAGE_MONITOR_SELECTOR_LABEL: None}}}
    await api.patch(kinds.WORKLOAD_MONITORS, monitor, empty, "tenant-a")
    await sites.until(selects_something, sites.LATE, "the monitor healed")


async def settings_name(site: sites.Site, resource: str) -> bool:
    """Tell whether the settings know a resource: they were there before, so they were patched."""
    try:
        found = await site.admin.get(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, keys.SETTINGS_NAMESPACE)
    except errors.NotFound:
        return False
    return resource in found["data"]["resourceNames"]


def lines(log: Path) -> Iterator[dict]:
    """Yield what is in a log, as far as its lines are whole and are JSON."""
    whole, _, _ = log.read_text(encoding="utf-8").rpartition("\n")
    return (msgspec.json.decode(line) for line in whole.splitlines() if line.startswith("{"))


def requests(log: Path) -> Iterator[tuple[str, str, bool]]:
    for event in lines(log):
        about = event.get("objectRef")
        if event["user"]["username"] != USER or about is None:
            continue
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        group = about.get("apiGroup")
        decision = event["annotations"]["authorization.k8s.io/decision"]
        yield f"{resource}.{group}" if group else resource, event["verb"], decision == "allow"


async def test_nothing_is_asked_that_is_not_granted(story):
    assert {(resource, verb) for resource, verb, allowed in story.asked if not allowed} == set()


async def test_a_request_has_one_audit_id_from_kube_apiserver_to_our_log(story):
    """Its audit log, the answer and our line of it say the same; so they do of an id that a client chose."""
    audited_as = {path: set() for path, _ in story.answers}
    for event in lines(story.audit):
        if event["requestURI"] in audited_as:
            audited_as[event["requestURI"]].add(event["auditID"])
    logged = {path: set() for path, _ in story.answers}
    for line in lines(story.log):
        if line.get("msg") == "request" and line["path"] in logged:
            logged[line["path"]].add(line["audit_id"])
    assert audited_as == logged == dict(story.answers)
    assert [len(ids) for _, ids in story.answers] == [1, 1]
    assert story.answers[-1] == (f"{OPTIONS}/gpu", {CHOSEN})


async def test_nothing_is_granted_that_is_not_asked(story):
    granted = {
        (resource, verb)
        for role in (PROCESS, LEADER, API_SERVERS, SETTINGS)
        for (resource, _), verbs in role.items()
        for verb in verbs
    }
    used = {(resource, verb) for resource, verb, _ in story.asked}
    assert granted - used - set(NOT_HERE) == set()
    assert set(NOT_HERE) - granted == set()
    assert used - granted - DELEGATED == set()
