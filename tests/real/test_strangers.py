"""Clients that nobody here wrote: kubectl of two minors, client-go's informer, the Python client, the controllers."""

import asyncio
import json
import re

import kubernetes
import pytest
import pytest_asyncio

from devcluster import components, errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import stranger_site as strangers
from tests.real.stranger_site import KNOWN, KUBECTLS, TENANT

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

GROUP = "catalog.gpu.cozystack.io"
REVIEW = f"apiVersion: {GROUP}/v1alpha1\nkind: OrderReview\nspec: {{className: h100, count: 99}}\n"
ROWS = re.compile(r"^(\S+) +passthrough +8 +8 ", re.MULTILINE)
QUIET = 1.0
"""Seconds in which an informer that was told of one change would print another."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guest(binaries_built, tmp_path_factory):
    async with strangers.invited(tmp_path_factory.mktemp("strangers")) as opened:
        yield opened


async def test_the_kubectls_are_of_two_minors(guest):
    said = [json.loads(await guest.kubectl(one, "version", "-o", "json")) for one in KUBECTLS]
    assert len({one["clientVersion"]["minor"] for one in said}) == len(KUBECTLS)


@pytest.mark.parametrize("binary", KUBECTLS)
@pytest.mark.parametrize(
    "words",
    ["gpuoffers", "offers", "gpuoffers --chunk-size=1", "gpuoffers -o wide", f"gpuoffers.{GROUP}"],
)
async def test_kubectl_prints_our_columns(guest, binary, words):
    printed = await guest.kubectl(binary, "get", *words.split())
    heads = printed.splitlines()[0]
    assert re.match(r"NAME +MODE +FREE +ORDERABLE +WHY NOT MORE", heads)
    assert ("DESCRIPTION" in heads) == ("wide" in words)
    assert tuple(ROWS.findall(printed)) == KNOWN


@pytest.mark.parametrize("binary", KUBECTLS)
@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("-o name", "".join(f"gpuoffer.{GROUP}/{name}\n" for name in KNOWN)),
        ("-o jsonpath={.items[*].metadata.name}", " ".join(KNOWN)),
        ("-o jsonpath={.items[*].status.free} --chunk-size=1", "8 8 8"),
        ("-o name -l gpu.cozystack.io/class=h100", f"gpuoffer.{GROUP}/h100\n"),
        ("-o name -l gpu.cozystack.io/class!=h100,gpu.cozystack.io/mode", None),
        ("-o name --field-selector metadata.name=h100", f"gpuoffer.{GROUP}/h100\n"),
        ("--sort-by=.metadata.name --no-headers -o custom-columns=N:.status.orderable", "8\n8\n8\n"),
    ],
)  # fmt: skip
async def test_kubectl_picks_and_shapes(guest, binary, words, printed):
    if printed is None:
        printed = f"gpuoffer.{GROUP}/a100\ngpuoffer.{GROUP}/l40s\n"
    assert await guest.kubectl(binary, "get", "gpuoffers", *words.split()) == printed


@pytest.mark.parametrize("binary", KUBECTLS)
async def test_kubectl_reads_one_as_yaml_and_as_json_and_describes_it(guest, binary):
    shown = json.loads(await guest.kubectl(binary, "get", "gpuoffer", "h100", "-o", "json"))
    assert shown["spec"]["description"] == "cards: h100"
    yaml = await guest.kubectl(binary, "get", "gpuoffer", "h100", "-o", "yaml")
    assert f"kind: GPUOffer\nmetadata:\n  creationTimestamp: \"{shown['metadata']['creation' + 'Timestamp']}\"" in yaml  # fmt: skip
    described = await guest.kubectl(binary, "describe", "gpuoffer", "h100")
    assert re.search(r"^  Orderable: +8$", described, re.MULTILINE)


@pytest.mark.parametrize("binary", KUBECTLS)
async def test_kubectl_lists_what_there_is_and_explains_it(guest, binary):
    listed = await guest.kubectl(binary, "api-resources", f"--api-group={GROUP}", "-o", "wide")
    rows = {line.split()[0]: line for line in listed.splitlines()[1:]}
    assert rows.keys() >= {"gpuoffers", "options", "quotagates", "orderreviews", "quotareviews"}
    assert "get,list,watch" in rows["gpuoffers"]
    assert re.search(r" create +$", rows["orderreviews"] + " ")

    async def explained():
        try:
            return await guest.kubectl(binary, "explain", "orderreviews.spec.count")
        except (
            errors.CommandError
        ):  # kube-apiserver reads an aggregated server's OpenAPI when it likes
            return ""

    told = await sites.until(explained, 140, "the schema is known")
    assert "FIELD: count <integer>" in told
    assert "Units wanted." in told
    whole = await guest.kubectl(binary, "explain", "gpuoffers", "--recursive")
    assert re.search(r"^ +orderable\t<integer> -required-$", whole, re.MULTILINE)


@pytest.mark.parametrize("binary", KUBECTLS)
async def test_kubectl_asks_a_question_and_checks_it_first(guest, binary):
    said = await guest.kubectl(binary, "create", "-f", "-", "-o", "json", stdin=REVIEW)
    assert json.loads(said)["status"]["mostAccepted"] == 8
    wrong = REVIEW.replace("count", "cuont")
    with pytest.raises(
        errors.CommandError, match=r'strict decoding error: unknown field "spec\.cuont"'
    ):
        await guest.kubectl(binary, "create", "-f", "-", stdin=wrong)
    with pytest.raises(errors.CommandError, match=r"spec\.count: Required value"):
        await guest.kubectl(binary, "create", "-f", "-", "--validate=warn", stdin=wrong)


@pytest.mark.parametrize("binary", KUBECTLS)
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "get gpuoffers --field-selector spec.mode=x",
            r'\(BadRequest\).*"spec\.mode" is not a known field .*"metadata\.name"',
        ),
        ("get gpuoffers -A", r"\(Forbidden\).* at the cluster scope"),
        ("get gpuoffers -n tenant-host", r"\(Forbidden\).* in the namespace .tenant-host."),
        ("get gpuoffer absent", r'\(NotFound\): gpuoffers\.catalog\S+ "absent" not found'),
        ("delete gpuoffer h100", r"\(Forbidden\)"),
    ],
)
async def test_kubectl_tells_why_not(guest, binary, words, told):
    with pytest.raises(errors.CommandError, match=told):
        await guest.kubectl(binary, *words.split())


@pytest.mark.parametrize("binary", KUBECTLS)
async def test_kubectl_waits_for_a_field(guest, binary):
    words = ("wait", "gpuoffer/h100", "--for=jsonpath={.status.orderable}=8", "--timeout=45s")
    assert "condition met" in await guest.kubectl(binary, *words)


@pytest.mark.parametrize("binary", KUBECTLS)
async def test_kubectl_watches_tables_and_events(guest, binary):
    words = ("get", "gpuoffers", "-w", "-o", "wide", "--output-watch-events")
    async with guest.watching(binary, *words) as lines:
        await lines.until("ADDED", "l40s")
        await guest.site.offer("extra", description="as first")
        await lines.until("ADDED", "extra", "as first")
        patch = {"spec": {"description": "as later"}}
        await guest.site.admin.patch(kinds.GPU_CLASSES, "extra", patch)
        await lines.until("MODIFIED", "extra", "as later")
        await guest.site.admin.delete(kinds.GPU_CLASSES, "extra")
        await lines.until("DELETED", "extra")
    await withdrawn(guest, "extra")


async def withdrawn(guest, name):
    """Wait until a class is not stored any more: it is offered no more before the leader lets it go."""

    async def absent():
        page = await guest.site.admin.list_all(kinds.GPU_CLASSES)
        return name not in {item["metadata"]["name"] for item in page.items}

    await sites.until(absent, 45, f"class {name} gone")


def asked(guest, since):
    """Return the verbs of an informer's requests that ended, in order."""
    log = guest.site.product.replicas["replica-1"].log.read_text(encoding="utf-8")[since:]
    whole = log.rpartition("\n")[0].splitlines()
    requests = [json.loads(line) for line in whole if '"agent": "informer-' in line]
    return [one["verb"] for one in requests]


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "listing"])
@pytest.mark.parametrize("form", ["full", "metadata"])
async def test_an_informer_of_client_go_follows(guest, form, streaming):
    since = len(guest.site.product.replicas["replica-1"].log.read_text(encoding="utf-8"))
    async with guest.informer(form, streaming=streaming) as lines:
        synced = json.loads(await lines.until('"synced"'))
        assert synced["count"] == len(KNOWN)
        await guest.site.offer("late")
        added = json.loads(await lines.until('"added"', '"late"'))
        await guest.site.admin.patch(kinds.GPU_CLASSES, "late", {"spec": {"displayName": "Later"}})
        updated = json.loads(await lines.until('"updated"', '"late"'))
        await guest.site.admin.delete(kinds.GPU_CLASSES, "late")
        deleted = json.loads(await lines.until('"deleted"', '"late"'))
        assert await lines.quiet(QUIET) == []
    versions = [int(one["version"]) for one in (added, updated, deleted)]
    assert versions == sorted(set(versions))
    await sites.until(lambda: ended(guest, since), 45, "the watch ends with its client")
    assert asked(guest, since) == (["watch"] if streaming else ["list", "watch"])
    await withdrawn(guest, "late")


async def ended(guest, since):
    return "watch" in asked(guest, since)


async def test_an_informer_goes_on_over_a_restart_of_ours(guest):
    async with guest.informer("full", streaming=True) as lines:
        await lines.until('"synced"')
        await guest.site.product.stop()
        await guest.site.product.start(flags=sites.FAST)
        await guest.site.product.available()
        await guest.site.offer("after")
        await lines.until('"added"', '"after"', within=90)
        await guest.site.admin.delete(kinds.GPU_CLASSES, "after")
        await lines.until('"deleted"', '"after"')


def read_by_python(login):
    """List, page, watch and ask with the Python client, as its readme has it."""
    configured = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(login), client_configuration=configured)
    with kubernetes.client.ApiClient(configured) as api:
        custom = kubernetes.client.CustomObjectsApi(api)
        place = (GROUP, "v1alpha1", TENANT)
        listed = custom.list_namespaced_custom_object(*place, "gpuoffers")
        page = custom.list_namespaced_custom_object(*place, "gpuoffers", limit=2)
        version = listed["metadata"]["resourceVersion"]
        stream = kubernetes.watch.Watch().stream(
            custom.list_namespaced_custom_object, *place, "gpuoffers", timeout_seconds=1
        )
        seen = [(event["type"], event["object"]["metadata"]["name"]) for event in stream]
        from_now = kubernetes.watch.Watch().stream(
            custom.list_namespaced_custom_object,
            *(*place, "gpuoffers"),
            resource_version=version,
            timeout_seconds=1,
        )
        later = list(from_now)
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "OrderReview"}
        body["spec"] = {"className": "h100", "count": 9}
        said = custom.create_namespaced_custom_object(*place, "orderreviews", body)
        dynamic = kubernetes.dynamic.DynamicClient(api)
        offers = dynamic.resources.get(api_version=f"{GROUP}/v1alpha1", kind="GPUOffer")
        found = offers.get(namespace=TENANT, name="h100")
    return {
        "listed": [item["metadata"]["name"] for item in listed["items"]],
        "page": (len(page["items"]), bool(page["metadata"].get("continue"))),
        "seen": seen,
        "later": later,
        "said": said["status"]["allowed"],
        "found": found.status.orderable,
    }


async def test_the_python_client_lists_watches_and_asks(guest):
    assert await asyncio.to_thread(read_by_python, guest.login) == {
        "listed": list(KNOWN),
        "page": (2, True),
        "seen": [("ADDED", name) for name in KNOWN],
        "later": [],
        "said": False,
        "found": 8,
    }


async def test_the_controllers_start_beside_us_and_say_nothing_of_us(guest):
    """While we serve: what they said before we came, or while we were away, is no more than true."""
    site = guest.site
    await site.product.available()
    await sites.until(lambda: is_discovered(site), 140, "what is served discovered anew")
    name = components.CONTROLLER_MANAGER
    log = site.cp.site.log(name)
    await site.cp.stop_process(name)
    before = len(log.read_text(encoding="utf-8")) if log.exists() else 0
    await site.cp.start_process(name)

    def said():
        text = log.read_text(encoding="utf-8")
        return text if len(text) < before else text[before:]

    async def synced():
        words = ("all resource monitors have synced", "synced quota controller")
        return all(one in said() for one in words)

    await sites.until(synced, 90, "garbage collector and quota have looked at everything")
    await site.admin.create(kinds.NAMESPACES, {"metadata": {"name": "short-lived"}})
    await site.admin.delete(kinds.NAMESPACES, "short-lived")
    await sites.until(lambda: gone(site, "short-lived"), 60, "a namespace deletes")
    assert [line for line in said().splitlines() if GROUP in line] == []


async def is_discovered(site):
    """After we were away kube-apiserver calls our group stale until it asks us again, once a minute or sooner."""
    asked = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    answer = await site.admin.raw("GET", "/apis", headers=asked)
    found = {it["metadata"]["name"]: it["versions"] for it in json.loads(answer.body)["items"]}
    return [it["freshness"] for it in found.get(GROUP, ())] == ["Current"]


async def gone(site, name):
    found = await site.admin.list(kinds.NAMESPACES, field_selector=f"metadata.name={name}")
    return not found.items
