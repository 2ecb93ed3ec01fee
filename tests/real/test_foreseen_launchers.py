"""Launchers that are foreseen (`binding: request`): held to those that KubeVirt makes, networks and own state too.

No Multus runs: the kind of its definitions is all of it that KubeVirt's controller asks. The provisioner is
played by the test.
"""

import pytest
import pytest_asyncio

from gpu.objects import foreseen, kinds, networks, pods
from gpu.objects.kinds import NETWORK_DEFINITIONS
from tests.real import site as sites
from tests.real import vm_site as vms
from tests.real.test_vm_volumes import PROVISIONER, STORAGE, provisioned
from tests.real.vm_site import ACME, GLOBEX, gates, guest, pins, to_node, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

NIC = "example.com/nic"
STATE = "persistent-state-for"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD = {
    "metadata": {"name": NETWORK_DEFINITIONS.resource},
    "spec": {
        "group": NETWORK_DEFINITIONS.group,
        "scope": "Namespaced",
        "names": {
            "plural": NETWORK_DEFINITIONS.plural,
            "singular": "network-attachment-definition",
            "kind": NETWORK_DEFINITIONS.kind,
        },
        "versions": [
            {
                "name": NETWORK_DEFINITIONS.version,
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": ANYTHING},
            }
        ],
    },
}


async def define(site, name, resource="", tenant=ACME):
    """Have a network, of which each guest takes a unit of a resource."""
    meta = {"name": name, "namespace": tenant}
    if resource:
        meta["annotations"] = {networks.RESOURCE: resource}
    await site.admin.create(NETWORK_DEFINITIONS, {"metadata": meta, "spec": {}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    directory = tmp_path_factory.mktemp("foreseen")
    flags, values = ("--binding=request", "--attachment-grace=20"), {"binding": "request"}
    async with vms.opened(directory, flags=flags, values=values) as opened:
        await opened.admin.create(kinds.CRDS, CRD)

        async def served():
            found = await opened.admin.get(kinds.CRDS, NETWORK_DEFINITIONS.resource)
            said = found.get("status", {}).get("conditions") or []
            return {"Established"} <= {it["type"] for it in said if it["status"] == "True"}

        await sites.until(served, vms.LATE, "definitions of networks served")
        late = {
            "metadata": {
                "name": "late",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": PROVISIONER,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await opened.admin.create(STORAGE, late)
        for tenant in (ACME, GLOBEX):
            await define(opened, "nic", NIC, tenant)
        await define(opened, "plain")
        await opened.nodes.set_allocatable("gpu-2", {NIC: 3})
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    await plane.clear()


def wired(*definitions):
    """The spec of a guest with one unit, on these networks alone."""
    named = [(f"n-{index}", name) for index, name in enumerate(definitions)]
    interfaces = [{"name": name, "bridge": {}} for name, _ in named]
    devices = {"gpus": [unit()], "interfaces": interfaces}
    return {
        "domain": guest(devices=devices),
        "networks": [{"name": it, "multus": {"networkName": name}} for it, name in named],
    }


async def told(site, name):
    """The launcher that was foreseen for the VM's start."""
    (claim,) = [it for it in await site.of_templates() if user(it) == name]
    request = claim["status"]["bindRequest"]
    return foreseen.launcher(request["launcher"], ACME, request["id"])


FORMS = {
    "plain": {"domain": guest(unit("l40s"))},
    "sized": {
        "domain": guest(
            unit("l40s"),
            cpu={"cores": 2, "sockets": 2},
            memory={"guest": "4Gi"},
            devices={"gpus": [unit("l40s")], "tpm": {}, "autoattachGraphicsDevice": False},
        ),
        "livenessProbe": {"exec": {"command": ["true"]}},
        "tolerations": [{"key": "mine", "operator": "Exists"}],
    },
    "firm": {
        "domain": guest(
            unit("l40s"),
            memory={"guest": "256Mi"},
            resources={
                part: {"cpu": "2", "memory": "512Mi", "ephemeral-storage": "10M"}
                for part in ("requests", "limits")
            },
        ),
        "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/disk:1"}}],
    },
    "apart": {
        "domain": guest(unit("l40s"), cpu={"model": "host-passthrough"}),
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "x"}}}
                ]
            }
        },
    },
    "wired": wired("nic", "nic", f"{GLOBEX}/nic", "plain"),
}


async def test_what_is_foreseen_of_a_launcher_is_what_kubevirt_asks_for_or_a_little_more(site):
    for name, form in FORMS.items():
        await site.make(name, [], **form)
    for name in FORMS:
        await site.runs(name)
        real = pods.decode(await site.launcher(name))
        found = await told(site, name)
        real_amounts = {
            it: n for it, n in real.needs.amounts.items() if it not in {vms.H100, vms.L40S}
        }
        assert found.needs.amounts.keys() == real_amounts.keys()
        for amount, wanted in real_amounts.items():
            more = 16 << 20 if amount == "memory" else 10 if amount == "cpu" else 0
            assert wanted <= found.needs.amounts[amount] <= wanted + more, (name, amount)
        assert found.needs.amounts.get(NIC, 0) == (3 if name == "wired" else 0)
        assert found.volumes == real.volumes
        assert dict(found.needs.selector) == dict(real.needs.selector)
        assert found.needs.anti_affinity == real.needs.anti_affinity
        assert {it.key for it in found.needs.tolerations} <= {
            it.key for it in real.needs.tolerations
        }
        labels = [[it.key for it in term.labels] for term in found.needs.node_terms or ()]
        terms = [[it.key for it in term.labels] for term in real.needs.node_terms]
        assert (labels or [[]]) == terms
        assert found.meta.labels.items() <= real.meta.labels.items()


def user(claim):
    """The VM that uses it; none of one whose start has only just made it."""
    return (claim.get("status", {}).get("attachedTo") or {}).get("name")


async def test_a_vm_goes_where_its_network_is_and_one_for_which_none_is_left_is_refused(site):
    """By its units alone it would go to gpu-1, which has fewer."""
    await site.make("web", [], **wired(f"{GLOBEX}/nic", "nic"))
    assert (await site.runs("web"))["status"]["nodeName"] == "gpu-2"
    pod = await site.launcher("web")
    assert (gates(pod), pins(pod)) == ([], [to_node("gpu-2")])
    assert (await told(site, "web")).needs.amounts[NIC] == 2
    await site.make("more", [], **wired("nic", "nic"))
    words = await site.refused("more", f"of 2 nodes: 2 lack {NIC}")
    assert f"it asks for 2 of {NIC}" in words
    assert GLOBEX not in words
    await site.make("plain", [], **wired("plain"))
    assert (await site.runs("plain"))["status"]["nodeName"] == "gpu-1"


async def test_a_vm_whose_network_is_not_there_is_admitted_and_runs_once_it_is(site):
    await site.make("web", [], **wired("later"))

    async def said():
        status = (await site.found(kinds.VMIS, "web")).get("status") or {}
        found = [it.get("message", "") for it in status.get("conditions") or ()]
        return any("failed to locate network attachment definition" in it for it in found)

    await sites.until(said, vms.LATE, "KubeVirt finds no such network")
    await define(site, "later")
    assert (await site.runs("web"))["status"]["nodeName"] == "gpu-1"


async def test_a_vm_starts_again_where_its_own_state_is(site):
    """Its first start makes the volume, on the node that it was given; by units alone the next goes elsewhere."""
    tpm = {"gpus": [unit()], "tpm": {"persistent": True}}
    await site.make("vault", [], domain=guest(devices=tpm))

    async def kept():
        label = f"{STATE}=vault"
        found = await site.admin.list(kinds.VOLUME_CLAIMS, ACME, label_selector=label)
        return found.items[0]["metadata"]["name"] if found.items else ""

    name = await sites.until(kept, vms.LATE, "a volume for its state")
    assert await provisioned(site, name) == "gpu-1"
    first = await site.runs("vault")
    assert first["status"]["nodeName"] == "gpu-1"
    assert (await told(site, "vault")).volumes == ()
    await site.stop("vault")
    assert await site.hold("most", "h100", 3) == "gpu-2"
    await site.start("vault")
    again = await site.runs("vault", but=first["metadata"]["uid"])
    assert again["status"]["nodeName"] == "gpu-1"
    real = pods.decode(await site.launcher("vault"))
    assert (await told(site, "vault")).volumes == real.volumes == (name,)
