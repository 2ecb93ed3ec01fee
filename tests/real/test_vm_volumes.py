"""A VM whose volume is bound where its first pod goes: the temporary pod, the hole after it, the launcher.

The provisioner and CDI are played by the test: it binds the volume on the node that the scheduler
chose, and imports it when the story wants it.
"""

import pytest
import pytest_asyncio

from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site as sites
from tests.real import vm_site as vms
from tests.real.vm_site import ACME, GLOBEX, gates, held, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

STORAGE = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
DATA_VOLUMES = Kind("cdi.kubevirt.io", "v1beta1", "datavolumes", "DataVolume")
CHOSEN = "volume.kubernetes.io/selected-node"
PROVISIONER = "local.example.com"
TEMPORARY = "kubevirt.io/ephemeral-provisioning"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    async with vms.opened(tmp_path_factory.mktemp("vm-volumes"), cdi=True) as opened:
        late = {
            "metadata": {"name": "late"},
            "provisioner": PROVISIONER,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await opened.admin.create(STORAGE, late)
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    await plane.clear()


async def a_volume(site, name):
    """An import that waits for its first consumer, and the claim it made."""
    meta = {"name": name, "namespace": ACME}
    made = await site.admin.create(DATA_VOLUMES, {"metadata": meta, "spec": {}})
    await phase(site, name, "WaitForFirstConsumer")
    owner = {
        "apiVersion": DATA_VOLUMES.api_version,
        "kind": DATA_VOLUMES.kind,
        "name": name,
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "late",
    }
    claim = {"metadata": {**meta, "ownerReferences": [owner]}, "spec": spec}
    await site.admin.create(kinds.VOLUME_CLAIMS, claim)


async def phase(site, name, said):
    """Report an import's phase, as CDI does."""
    found = await site.admin.get(DATA_VOLUMES, name, ACME)
    version = {"resourceVersion": found["metadata"]["resourceVersion"]}
    patch = {"metadata": version, "status": {"phase": said}}
    await site.admin.patch(DATA_VOLUMES, name, patch, ACME)


async def provisioned(site, name):
    """Bind the volume on the node that the scheduler chose; return that node."""

    async def chosen():
        claim = await site.admin.get(kinds.VOLUME_CLAIMS, name, ACME)
        return (claim["metadata"].get("annotations") or {}).get(CHOSEN, "")

    node = str(await sites.until(chosen, vms.LATE, f"a node chosen for {name}"))
    claim = await site.admin.get(kinds.VOLUME_CLAIMS, name, ACME)
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    volume = {
        "metadata": {
            "name": f"pv-{name}",
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "csi": {"driver": PROVISIONER, "volumeHandle": name},
            "claimRef": {"name": name, "namespace": ACME, "uid": claim["metadata"]["uid"]},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
    await site.admin.create(kinds.VOLUMES, volume)
    bound = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": f"pv-{name}"},
    }
    await site.admin.patch(kinds.VOLUME_CLAIMS, name, bound, ACME)
    await site.admin.patch(
        kinds.VOLUME_CLAIMS, name, {"status": {"phase": "Bound"}}, ACME, subresource="status"
    )
    await site.admin.patch(
        kinds.VOLUMES, f"pv-{name}", {"status": {"phase": "Bound"}}, subresource="status"
    )
    return node


async def with_volume(site, name, gpus):
    volumes = [{"name": "disk", "dataVolume": {"name": name}}]
    body = vms.a_vm(name, gpus, volumes=volumes)
    devices = body["spec"]["template"]["spec"]["domain"]["devices"]
    devices["disks"] = [{"name": "disk", "disk": {"bus": "virtio"}}]
    return await site.owner().create(kinds.VMS, body)


async def is_empty(site, name):
    """There is an instance, and no pod of it."""
    return await site.found(kinds.VMIS, name) and not await site.pods(name)


@pytest.mark.parametrize("by", ["claim", "class"])
async def test_units_stay_on_the_volumes_node_from_its_binding_to_the_launcher(site, by):
    name = f"by-{by}"
    if by == "claim":
        await site.hold("c", "l40s", 2)
    gpus = [held("c")] if by == "claim" else [unit("l40s", "a"), unit("l40s", "b")]
    await a_volume(site, name)
    await with_volume(site, name, gpus)
    node = await provisioned(site, name)
    assert node == "gpu-3"
    pod = next(iter(await site.pods(name)))
    assert pod["metadata"]["annotations"][TEMPORARY] == "true"
    await phase(site, name, "ImportInProgress")
    await sites.until(lambda: is_empty(site, name), vms.LATE, "the hole: an instance without pods")

    # However long it takes, nobody else gets the units.
    await site.hold("rest", "l40s", 2, tenant=GLOBEX)
    assert await site.booked() == {node: 4}
    await phase(site, name, "Succeeded")
    vmi = await site.runs(name)
    last = await site.launcher(name)
    assert (vmi["status"]["nodeName"], gates(last)) == (node, [])
    assert TEMPORARY not in last["metadata"]["annotations"]
    assert await site.booked() == {node: 4}
