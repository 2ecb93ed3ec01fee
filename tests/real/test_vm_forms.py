"""Forms of a VM that name GPUs: today's chart, lists, annotations, instance types, clones, restores, run strategies."""

import pytest
import pytest_asyncio

from devcluster import examples, kubevirt, kubevirt_objects, simulator
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real import vm_site as vms
from tests.real.vm_site import ACME, GLOBEX, H100, L40S, held, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

NIC = "vendor.com/nic"
BOTH = "gpu-4"
"""The one node that serves a card of each kind and what is no card."""
RAW_ALLOWED = (*vms.FLAGS, "--raw-resource-names=allowed")
CLONES = Kind("clone.kubevirt.io", "v1beta1", "virtualmachineclones", "VirtualMachineClone")
SNAPSHOTS = Kind(
    "snapshot.kubevirt.io", "v1beta1", "virtualmachinesnapshots", "VirtualMachineSnapshot"
)
RESTORES = Kind(
    "snapshot.kubevirt.io", "v1beta1", "virtualmachinerestores", "VirtualMachineRestore"
)
INSTANCE_TYPES = Kind(
    "instancetype.kubevirt.io",
    "v1beta1",
    "virtualmachineclusterinstancetypes",
    "VirtualMachineClusterInstancetype",
    namespaced=False,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-forms")) as opened:
        node = simulator.Simulated(name=BOTH, resources={H100: 1, L40S: 2, NIC: 1})
        await opened.sim.add(node)
        await opened.class_has("h100", 7)
        await opened.class_has("l40s", 6)
        await opened.kv.permit(examples.permitted(NIC))
        await with_snapshots(opened)
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    await plane.clear()


async def with_snapshots(site):
    """Have KubeVirt take snapshots; a disk needs more than that, and these VMs have none."""
    found = await site.admin.get(kinds.KUBEVIRTS, "kubevirt", kubevirt_objects.NAMESPACE)
    gates = found["spec"]["configuration"]["developerConfiguration"]["featureGates"]
    more = {"developerConfiguration": {"featureGates": [*gates, "Snapshot"]}}
    patch = {"spec": {"configuration": more}}
    await site.admin.patch(kinds.KUBEVIRTS, "kubevirt", patch, kubevirt_objects.NAMESPACE)

    async def taken():
        body = of_vm("probe", "source", "none")
        try:
            await site.admin.create(SNAPSHOTS, body, dry_run=True)
        except errors.ApiError as error:
            return "not enabled" not in str(error)
        return True

    await sites.until(taken, vms.LATE, "snapshots of VMs enabled")


def of_vm(name, member, vm, **more):
    """A snapshot, restore or clone: `member` of its spec names a VM."""
    about = {"apiGroup": kinds.VMS.group, "kind": kinds.VMS.kind, "name": vm}
    return {"metadata": {"name": name, "namespace": ACME}, "spec": {member: about, **more}}


async def ready(site, kind, name, *of):
    """Wait until a snapshot, restore or clone is done, and the VMs of it may be started again."""
    last = {}

    async def done():
        last.update((await site.found(kind, name)).get("status") or {})
        found = last.get("conditions") or []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in found)

    await sites.until(done, vms.LATE, lambda: f"{kind.kind} {name} done: {last}")

    async def let_go():
        found = [(await site.found(kinds.VMS, vm)).get("status") or {} for vm in of]
        return not any(it.get("snapshotInProgress") or it.get("restoreInProgress") for it in found)

    await sites.until(let_go, vms.LATE, f"{kind.kind} {name} of no VM of {of} in progress")


def of_chart(name, *devices):
    """A VM as the host's chart for VM instances renders it: `gpus[].name` is the device's name."""
    gpus = [{"name": f"gpu{number}", "deviceName": it} for number, it in enumerate(devices, 1)]
    body = vms.a_vm(name, gpus, networks=[{"name": "default", "pod": {}}])
    marks = {"app.kubernetes.io/instance": name}
    body["metadata"]["labels"] = marks
    template = body["spec"]["template"]
    bridged = {"kubevirt.io/allow-pod-bridge-network-live-migration": "true"}
    template["metadata"] = {"labels": marks, "annotations": bridged}
    domain = template["spec"]["domain"]
    domain["devices"]["interfaces"] = [{"name": "default", "bridge": {}}]
    domain["machine"] = {"type": ""}
    domain["firmware"] = {"uuid": "7b1c1e9e-62f1-4cf2-9f0a-1d5a1f3c9b52"}
    return body


async def claim_nodes(site, *names):
    return {await site.bound(ACME, name) for name in names}


async def test_todays_chart_starts_with_a_claim_and_a_class_in_its_gpus(site):
    node = await site.hold("training", "l40s", 2)
    devices = ("claim.gpu.cozystack.io/training", "gpu.cozystack.io/l40s")
    made = await site.owner().create(kinds.VMS, of_chart("vm-instance-desk", *devices))
    vmi = await site.runs("vm-instance-desk")
    assert starts.devices(vmi) == [(f"gpuclaim-{number}", L40S) for number in range(3)]
    assert await site.user("training") == "vm-instance-desk"
    (claim,) = await site.of_templates()
    now = vmi["status"]["nodeName"]
    assert await claim_nodes(site, "training", claim["metadata"]["name"]) == {now}
    assert node

    vm = await site.found(kinds.VMS, "vm-instance-desk")
    assert vm["spec"] == made["spec"], "a VM says what its owner wrote, not what its guest got"
    assert "RestartRequired" not in {it["type"] for it in vm["status"].get("conditions") or []}


async def test_entries_of_gpus_and_of_host_devices_are_one_set(site):
    await site.hold("card", "l40s", 1)
    body = vms.a_vm("both", [unit("h100")])
    body["spec"]["template"]["spec"]["domain"]["devices"]["hostDevices"] = [held("card")]
    await site.owner().create(kinds.VMS, body)
    vmi = await site.runs("both")
    assert starts.devices(vmi) == [("gpuclaim-0", H100)]
    assert starts.devices(vmi, "hostDevices") == [("gpuclaim-1", L40S)]
    assert vmi["status"]["nodeName"] == BOTH
    assert await claim_nodes(site, "card") == {BOTH}


async def test_claims_named_by_an_annotation_are_gathered_on_one_node(site):
    assert await site.hold("a", "h100", 1) == BOTH
    assert await site.hold("b", "h100", 2) == "gpu-1"
    body = vms.a_vm("web", [])
    body["spec"]["template"]["metadata"] = {"annotations": {keys.CLAIMS_ANNOTATION: "a,b"}}
    await site.owner().create(kinds.VMS, body)
    vmi = await site.runs("web")
    assert starts.devices(vmi) == [(f"gpuclaim-{number}", H100) for number in range(3)]
    assert vmi["status"]["nodeName"] == "gpu-2"
    assert await claim_nodes(site, "a", "b") == {"gpu-2"}
    assert [await site.user(name) for name in ("a", "b")] == ["web", "web"]


async def test_an_owners_own_entries_keep_their_names_their_order_and_their_tags(site):
    await site.product.stop()
    await site.product.start(flags=RAW_ALLOWED)
    try:
        shown = {"virtualGPUOptions": {"display": {"enabled": True}}}
        own = starts.gpu(NIC, "nic", tag="fabric")
        two = [starts.unit("l40s", name="a", tag="ai", **shown), own, unit("l40s", "b")]
        await site.make("web", two)
        vmi = await site.runs("web")
        assert vmi["spec"]["domain"]["devices"]["gpus"] == [
            {"name": "gpuclaim-0", "deviceName": L40S, "tag": "ai", **shown},
            {"name": "nic", "deviceName": NIC, "tag": "fabric"},
            {"name": "gpuclaim-1", "deviceName": L40S},
        ]
        assert vmi["status"]["nodeName"] == BOTH
        await site.delete("web")
    finally:
        await site.product.stop()
        await site.product.start(flags=vms.FLAGS)


async def test_gpus_of_an_instance_type_are_read_as_the_vms_own(site):
    guest = {"cpu": {"guest": 1}, "memory": {"guest": "64Mi"}, "gpus": [unit(), unit(entry="h")]}
    await site.admin.create(INSTANCE_TYPES, {"metadata": {"name": "two-h100"}, "spec": guest})
    body = vms.a_vm("web", [])
    del body["spec"]["template"]["spec"]["domain"]["memory"]
    del body["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]
    body["spec"]["instancetype"] = {"kind": INSTANCE_TYPES.kind, "name": "two-h100"}
    await site.owner().create(kinds.VMS, body)
    vmi = await site.runs("web")
    assert starts.devices(vmi) == [("gpuclaim-0", H100), ("gpuclaim-1", H100)]
    (claim,) = await site.of_templates()
    assert (claim["spec"]["count"], claim["status"]["nodeName"]) == (2, vmi["status"]["nodeName"])


async def test_a_live_change_of_a_running_vm_leaves_its_guest_and_its_claims_alone(site):
    node = await site.hold("c", "h100", 2)
    await site.make("web", [held("c")])
    before = await site.runs("web")
    spec = {"template": {"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}}
    await site.owner().patch(kinds.VMS, "web", {"spec": spec}, ACME)

    async def changed():
        vmi = await site.found(kinds.VMIS, "web")
        return vmi if vmi["spec"].get("nodeSelector") else {}

    after = await sites.until(changed, vms.LATE, "the running instance changed by KubeVirt")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["domain"]["devices"] == before["spec"]["domain"]["devices"]
    assert starts.record(after) == starts.record(before)
    assert (await site.claim(ACME, "c"))["status"]["nodeName"] == node
    assert await site.user("c") == "web"


async def test_a_clone_has_units_of_its_own(site):
    await site.make("web", [unit()])
    await site.runs("web")
    await site.stop("web")
    await cloned(site, "web", "twin")
    await site.start("web")
    await site.start("twin")
    vmis = [await site.runs(name) for name in ("web", "twin")]
    owners = {it["metadata"]["ownerReferences"][0]["uid"] for it in await site.of_templates()}
    assert owners == {vmi["metadata"]["uid"] for vmi in vmis}


async def test_a_clone_names_the_same_claim_and_has_it_only_while_the_first_is_off(site):
    node = await site.hold("c", "h100", 2)
    await site.make("web", [held("c")])
    await site.runs("web")
    await site.stop("web")
    await cloned(site, "web", "twin")
    await site.start("web")
    await site.runs("web")
    await site.start("twin")
    await site.refused("twin", "claim c is used by VM web")
    await site.stop("web")
    await site.stop("twin")  # a start is tried at once, a retry only after a while
    await site.start("twin")
    assert (await site.runs("twin"))["status"]["nodeName"] == node
    assert await site.user("c") == "twin"


async def cloned(site, name, target):
    """Clone a VM that is off, and so is the clone; a guest that runs would have to be frozen by its node."""
    to = {"apiGroup": kinds.VMS.group, "kind": kinds.VMS.kind, "name": target}
    body = of_vm("", "source", name, target=to)
    body["metadata"] = {"generateName": "clone-", "namespace": ACME}
    made = await site.admin.create(CLONES, body)
    await ready(site, CLONES, made["metadata"]["name"], name, target)


async def test_a_restored_vm_has_again_what_its_snapshot_named(site):
    node = await site.hold("c", "h100", 2)
    await site.make("web", [held("c")])
    await site.runs("web")
    await site.stop("web")
    await site.admin.create(SNAPSHOTS, of_vm("before", "source", "web"))
    await ready(site, SNAPSHOTS, "before", "web")

    spec = vms.a_template([unit("l40s")])["spec"]
    await site.owner().patch(kinds.VMS, "web", {"spec": {"template": {"spec": spec}}}, ACME)
    await site.start("web")
    assert starts.devices(await site.runs("web")) == [("gpuclaim-0", L40S)]
    await site.stop("web")

    back = of_vm("back", "target", "web", virtualMachineSnapshotName="before")
    await site.admin.create(RESTORES, back)
    await ready(site, RESTORES, "back", "web")
    await site.start("web")
    assert (await site.runs("web"))["status"]["nodeName"] == node
    assert await site.user("c") == "web"

    async def none_left():
        return not await site.of_templates()

    await sites.until(none_left, vms.LATE, "the units by class given back")


async def test_a_vm_that_is_started_by_hand_holds_units_from_start_to_shutdown(site):
    body = vms.a_vm("web", [unit(), unit(entry="h")])
    body["spec"]["runStrategy"] = "Manual"
    await site.owner().create(kinds.VMS, body)
    for _ in range(2):
        await kubevirt.command(site.admin, "start", "web", ACME)
        first = await site.runs("web")
        (claim,) = await site.of_templates()
        assert await site.booked() == {first["status"]["nodeName"]: 2}
        site.sim.end_guest(ACME, "web")
        await site.gone(ACME, claim["metadata"]["name"], vms.LATE)
        # KubeVirt keeps the instance and its finished pod for whoever wants to look.
        await sites.until(lambda: succeeded(site, "web"), vms.LATE, "the instance Succeeded")
        assert await site.booked() == {}


async def succeeded(site, name):
    return (await site.found(kinds.VMIS, name))["status"]["phase"] == "Succeeded"


async def free(site, claim):
    """Say whether no VM uses a claim."""
    return await site.user(claim) == ""


async def test_a_vm_that_reruns_on_failure_keeps_its_claim_through_crash_and_shutdown(site):
    node = await site.hold("c", "h100", 2)
    body = vms.a_vm("web", [held("c")])
    body["spec"]["runStrategy"] = "RerunOnFailure"
    await site.owner().create(kinds.VMS, body)
    before = await site.runs("web")
    site.sim.end_guest(ACME, "web", crashed=True)
    after = await site.runs("web", but=before["metadata"]["uid"])
    assert after["status"]["nodeName"] == node
    site.sim.end_guest(ACME, "web")
    await site.ended("web")
    await sites.until(lambda: free(site, "c"), vms.LATE, "c used by nobody")
    status = (await site.claim(ACME, "c"))["status"]
    assert (status["phase"], status["nodeName"]) == ("Bound", node)
    with pytest.raises(errors.Forbidden):
        await site.order(GLOBEX, "theirs", "h100", 6)


async def test_a_vm_that_is_halted_holds_nothing_and_a_deleted_one_gives_back_all_but_what_was_ordered(
    site,
):
    await site.hold("c", "h100", 1)
    body = vms.a_vm("web", [held("c"), unit("h100", "more")])
    body["spec"]["runStrategy"] = "Halted"
    await site.owner().create(kinds.VMS, body)

    async def seen():
        status = (await site.found(kinds.VMS, "web")).get("status") or {}
        return status.get("printableStatus") == "Stopped"

    await sites.until(seen, vms.LATE, "KubeVirt has seen the VM")
    assert (await site.user("c"), await site.of_templates()) == ("", [])
    await site.start("web")
    await site.runs("web")
    (claim,) = await site.of_templates()
    await site.delete("web")
    await site.gone(ACME, claim["metadata"]["name"], vms.LATE)
    await sites.until(lambda: free(site, "c"), vms.LATE, "c used by nobody")
    assert (await site.claim(ACME, "c"))["status"]["phase"] == "Bound"
