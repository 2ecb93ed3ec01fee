"""Starts of VMs by KubeVirt's own virt-controller, up to the gate: references, refusals, labels, restarts."""

from typing import Any

import pytest
import pytest_asyncio

from devcluster import control_plane, kubevirt, product, simulator
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real.site import H100
from tests.real.start_site import A, attached, claim, devices, gpu, record, unit
from tests.real.threat_site import said

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    directory = tmp_path_factory.mktemp("starts-kubevirt")
    async with control_plane.control_plane(directory) as cp, kubevirt.running(cp) as kv:
        found = await product.install(cp, kv.admin, kubevirt=False)
        opened = sites.Site(cp, found, kv.admin, simulator.Simulator(kv.admin))
        await found.start(flags=starts.FLAGS)
        await found.available()
        resources = {**kubevirt.NODE_RESOURCES, H100: 8}
        node = simulator.Simulated(name="kv-1", resources=resources, labels=kubevirt.NODE_LABELS)
        await opened.nodes.add(node)
        await opened.offer("h100", maxCount=4)
        await opened.tenant(A)
        await opened.class_has("h100", 8)
        await opened.shown(A, "h100")
        await opened.order(A, "pair", "h100", 2)
        await opened.bound(A, "pair")
        # The claim keeps its units, and no launcher is let past the gate.
        await kv.admin.patch(kinds.NODES, "kv-1", {"spec": {"unschedulable": True}})
        await opened.class_has("h100", 0)
        await sites.until(lambda: in_force(opened), sites.LATE, "the webhook in force")
        yield opened


async def in_force(site: sites.Site) -> bool:
    """Say whether our webhook is asked of instances: kube-apiserver learns of one a moment later."""
    vmi = starts.a_vmi("probe", [claim("none")])
    vmi["spec"]["domain"]["memory"] = {"guest": "64Mi"}
    words = await said(starts.kubevirt(site).create(kinds.VMIS, vmi, dry_run=True))
    return starts.VMIS_SAY in words


def a_vm(name: str, gpus: list[Any], *, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a VM that is to run and has no disk."""
    domain = {"devices": {"gpus": gpus}, "memory": {"guest": "64Mi"}}
    template = {
        "metadata": {"labels": labels or {}},
        "spec": {"domain": domain, "terminationGracePeriodSeconds": 0},
    }
    return {
        "metadata": {"name": name, "namespace": A},
        "spec": {"runStrategy": "Always", "template": template},
    }


async def launcher(site: sites.Site, name: str) -> dict[str, Any]:
    """Wait until the VM's launcher is there; return it."""

    async def there() -> dict[str, Any]:
        found = await site.admin.list(kinds.PODS, A, label_selector=f"vm.kubevirt.io/name={name}")
        return next((dict(pod) for pod in found.items), {})

    return dict(await sites.until(there, sites.LATE, f"launcher of {name}"))


async def refused(site: sites.Site, name: str, saying: str) -> str:
    """Wait until a VM says that its start is refused, with these words among others; return them.

    KubeVirt says there whatever its last try met, an error that passes as well.
    """
    last = ""

    async def words() -> str:
        nonlocal last
        vm = await site.admin.get(kinds.VMS, name, A)
        found = (vm.get("status") or {}).get("conditions") or []
        last = next((it["message"] for it in found if it["type"] == "Failure"), "")
        return last if saying in last else ""

    what = f"{saying!r} on VM {name}"
    return str(await sites.until(words, sites.LATE, lambda: f"{what}, it says {last!r}"))


async def gone(site: sites.Site, name: str) -> None:
    """Delete a VM and wait until its VMI is gone."""
    await site.admin.delete(kinds.VMS, name, A)

    async def absent() -> bool:
        try:
            await site.admin.get(kinds.VMIS, name, A)
        except errors.NotFound:
            return True
        return False

    await sites.until(absent, sites.LATE, f"VMI {name} gone")


async def test_a_vms_launcher_asks_for_its_units_and_waits_at_the_gate(site):
    await site.admin.create(kinds.VMS, a_vm("both", [claim("pair"), unit()]))
    pod = await launcher(site, "both")
    vmi = await site.admin.get(kinds.VMIS, "both", A)
    assert devices(vmi) == [(f"gpuclaim-{number}", H100) for number in range(3)]
    assert (
        record(vmi)
        == record(pod)
        == [
            {"claim": "pair", "admission": (await attached(site, "pair"))["admission"]},
            {"class": "h100", "units": 1},
        ]
    )
    compute = next(one for one in pod["spec"]["containers"] if one["name"] == "compute")
    assert compute["resources"]["requests"][H100] == "3"
    assert pod["spec"]["schedulingGates"] == [{"name": keys.PLACEMENT_GATE}]
    assert await starts.adopted(site, "pair") == vmi["metadata"]["uid"]
    await gone(site, "both")


async def test_a_refusal_is_on_the_vm_and_goes_when_the_vm_is_mended(site):
    await site.admin.create(kinds.VMS, a_vm("wrong", [claim("none"), unit("none")]))
    words = await refused(site, "wrong", "VM wrong: claim none does not exist in tenant-a")
    assert "class none does not exist" in words
    spec = a_vm("wrong", [unit()])["spec"]["template"]["spec"]
    await site.admin.patch(kinds.VMS, "wrong", {"spec": {"template": {"spec": spec}}}, A)
    await launcher(site, "wrong")
    await gone(site, "wrong")


async def test_a_vm_without_gpus_starts_without_us(site):
    await site.admin.create(kinds.VMS, a_vm("plain", []))
    pod = await launcher(site, "plain")
    assert "schedulingGates" not in pod["spec"]
    await gone(site, "plain")


async def test_a_raw_name_never_becomes_a_vmi(site):
    await site.admin.create(kinds.VMS, a_vm("raw", [gpu(H100)]))
    await refused(site, "raw", "raw GPU resource name")
    await gone(site, "raw")


async def test_a_restart_takes_its_claim_over_under_a_new_id(site):
    await site.admin.create(kinds.VMS, a_vm("again", [claim("pair")]))
    await launcher(site, "again")
    first = await starts.adopted(site, "pair")
    before = (await attached(site, "pair"))["admission"]
    await site.admin.delete(kinds.VMIS, "again", A)

    async def anew() -> bool:
        found = await attached(site, "pair") or {}
        return found.get("uid", first) != first and found["admission"] != before

    await sites.until(anew, sites.LATE, "the claim with the next VMI")
    await gone(site, "again")
