"""Options through kube-apiserver: the host's recorded contract, and a console's form over our sources."""

import asyncio
import json
import ssl
import time
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml

from devcluster import chart, product
from gpu.cluster import errors
from gpu.cluster.client import Client
from gpu.objects import kinds
from tests.clients import console, host_options
from tests.clients.host_options import RECORDED, Answer
from tests.real import site as sites

pytestmark = pytest.mark.asyncio(loop_scope="module")

L40S, A100, H100, SLICE = (
    f"nvidia.com/{name}"
    for name in ("AD102GL_L40S", "GA100_A100_PCIE_80GB", "GH100_H100_SXM5_80GB", "NVIDIA_L40S-12Q")
)
TENANT = "tenant-a"
EXAMPLE = Path(__file__).parents[2] / "examples" / "application-definition.yaml"
FIELDS = {"gpus[].name": "gpuclass", "claims[]": "gpuclaim"}
ACCESS = {
    "access-direct-anonymous": {},
    "access-direct-remoteuser-spoof": {
        "X-Remote-User": "admin",
        "X-Remote-Group": "system:masters",
    },
}
ELSEWHERE = {"get-list-every-provider-forbidden", "access-apiservice-unavailable", *ACCESS}
"""Asked below in another way, or of clusters that are in another state."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    """The recorded cluster: three nodes, KubeVirt's table of four names; and a class of ours."""
    flags = (*sites.FAST, "--raw-resource-names=allowed")
    async with sites.opened(
        tmp_path_factory.mktemp("options"), values=chart.ORDERS_WAIT, flags=flags
    ) as opened:
        await opened.node("node-12", 8, L40S)
        await opened.node("node-8", 8, H100)
        await opened.nodes.add(
            sites.simulator.Simulated(name="node-4", resources={L40S: 8, SLICE: 4})
        )
        names = [{"resourceName": name} for name in (L40S, A100, H100, SLICE)]
        await opened.admin.create(kinds.NAMESPACES, {"metadata": {"name": "cozy-kubevirt"}})
        table = {"configuration": {"permittedHostDevices": {"pciHostDevices": names}}}
        kubevirt = {"metadata": {"name": "kubevirt", "namespace": "cozy-kubevirt"}, "spec": table}
        await opened.admin.create(kinds.KUBEVIRTS, kubevirt)
        await opened.offer("l40s", L40S, displayName="NVIDIA L40S", maxCount=8)
        await opened.tenant(TENANT, total=8)
        await opened.shown(TENANT, "l40s", total=8)
        form = widget(opened.person(TENANT), "gpu")

        async def recorded() -> bool:
            await form.load()
            return [one.value for one in form.choices] == sorted((L40S, A100, H100, SLICE))

        await sites.until(recorded, 25, lambda: f"four raw names; there are {form.choices}")
        yield opened


def widget(api: Client, source: str, **how) -> console.Widget:
    return console.Widget(api, TENANT, source, **how)


async def test_what_was_recorded_through_kube_apiserver_is_answered_so(site):
    cases = [one for one in RECORDED if one not in ELSEWHERE and not one.startswith("get-gpu-")]

    async def answer(case: str) -> Answer:
        request = host_options.asked(case)
        body = json.dumps(request["body"]).encode() if "body" in request else None
        headers = {"Content-Type": "application/json", **request.get("headers", {})}
        found = await site.admin.raw(request["method"], request["path"], body=body, headers=headers)
        kind = {name.lower(): value for name, value in found.headers.items()}["content-type"]
        return Answer(found.status, kind.partition(";")[0], found.body.decode())

    answers = await asyncio.gather(*(answer(case) for case in cases))
    wrong = {
        case: lines
        for case, found in zip(cases, answers, strict=True)
        if (lines := host_options.differences(case, found))
    }
    assert wrong == {}


@pytest.mark.parametrize("case", ACCESS)
async def test_nobody_is_believed_without_the_proxys_certificate(site, case):
    tls = ssl.create_default_context(cafile=str(site.cp.pki.ext_ca.crt))
    url = site.product.replicas[product.FIRST].url + host_options.asked(case)["path"]
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, ssl=tls, headers=ACCESS[case]) as found,
    ):
        said = Answer(found.status, "application/json", await found.text())
    assert host_options.differences(case, said) == []


async def test_a_form_drawn_from_the_example_offers_our_sources(site):
    definition = yaml.safe_load(EXAMPLE.read_text())
    schema = json.loads(definition["spec"]["application"]["openAPISchema"])
    assert {one.path: one.source for one in console.fields(schema)} == FIELDS
    person = site.person(TENANT)
    await site.order(TENANT, "kept", "l40s", 2)
    await site.bound(TENANT, "kept")
    forms = {source: widget(person, source) for source in (*FIELDS.values(), "gpu", "gpuquotakey")}

    async def filled() -> bool:
        await forms["gpuclaim"].load()
        return bool(forms["gpuclaim"].choices)

    await sites.until(filled, 15, "the claim among the choices")
    await asyncio.gather(*(form.load() for form in forms.values()))
    assert forms["gpuclass"].pick("NVIDIA L40S") == "gpu.cozystack.io/l40s"
    assert forms["gpuclass"].choices[0].tooltip == "14 free, up to 6 in one order"
    (claim,) = forms["gpuclaim"].choices
    assert claim == (
        "claim.gpu.cozystack.io/kept",
        "claim.gpu.cozystack.io/kept",
        "2 units of l40s",
    )
    assert [one.value for one in forms["gpuquotakey"].choices] == [
        "gpu.cozystack.io/l40s", "gpu.cozystack.io/total", L40S, A100, H100, SLICE,
    ]  # fmt: skip
    assert forms["gpu"].choices[0] == (L40S, L40S, "16 available")


async def test_an_open_form_follows_the_cluster_and_lists_again_after_its_watch(site):
    """The host's watch tells nothing after its start: its forms learn of a change minutes later."""
    form = widget(site.person(TENANT), "gpuclass", rest=0.1)
    await form.load()
    form.pick("NVIDIA L40S")
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(form.follow())
        await site.offer("h100", H100, displayName="NVIDIA H100")
        await sites.until(lambda: shows(form, "NVIDIA H100"), 15, "the new class in the form")
        await site.admin.delete(kinds.GPU_CLASSES, "h100")
        await sites.until(lambda: lacks(form, "NVIDIA H100"), 15, "the class gone from the form")
        assert form.lists == 1, "told by the watch"
        following.cancel()
        following = tasks.create_task(form.follow(seconds=1))
        await sites.until(lambda: listed(form, 2), 20, "a second list, after the watch has ended")
        following.cancel()
    assert (form.value, form.shown) == ("gpu.cozystack.io/l40s", "NVIDIA L40S")


async def test_a_value_stays_in_its_field_when_it_is_no_choice_any_more(site):
    form = widget(site.person(TENANT), "gpuclass")
    form.value = "gpu.cozystack.io/withdrawn"
    await form.load()
    assert form.shown == "gpu.cozystack.io/withdrawn"
    nothing = widget(site.person(TENANT), "nosuch")
    await nothing.load()
    assert (nothing.choices, nothing.hint) == ([], "no options")


async def test_a_form_of_another_tenant_is_refused(site):
    await site.tenant("tenant-b")
    with pytest.raises(errors.Forbidden):
        await widget(site.person("tenant-b"), "gpuclaim").load()


async def test_while_nobody_serves_a_form_is_told_so_as_the_hosts_is(site):
    """Last in this module: the product is gone after it."""
    case = "access-apiservice-unavailable"
    form = widget(site.person(TENANT), "gpuclass")
    await form.load()
    await site.product.stop()
    with pytest.raises(errors.ServerFault):
        await form.load()
    assert form.choices, "what was listed stays in the form"

    async def refused() -> str:
        # It looks every 30 s, and at once at an APIService that was touched.
        touched = {"metadata": {"annotations": {"test/asked": str(time.monotonic())}}}
        await site.admin.patch(kinds.API_SERVICES, chart.API_SERVICE, touched)
        found = await site.admin.raw("GET", host_options.asked(case)["path"])
        return found.body.decode() if found.status == RECORDED[case]["status"] else ""

    await sites.until(
        lambda: said(refused, RECORDED[case]["body"]), 60, "kube-apiserver knows that we are away"
    )


async def shows(form: console.Widget, text: str) -> bool:
    return text in [one.shown for one in form.choices]


async def lacks(form: console.Widget, text: str) -> bool:
    return not await shows(form, text)


async def listed(form: console.Widget, times: int) -> bool:
    return form.lists >= times


async def said(ask, words: str) -> bool:
    return await ask() == words
