"""Worker pools of tenant clusters as cluster-api-provider-kubevirt makes them: its kinds, and what it does.

Its controllers are played: a machine is made from a template, and a VM from the machine, with the
labels, the disk and the bootstrap volume it gives them; and CDI, which fills the disk at once. The
kinds are stand-ins of the same shape, in which a VM's spec is any object.
"""

import contextlib
import copy
from collections.abc import Sequence
from typing import Any, Final

from devcluster import kubevirt_objects
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site as sites
from tests.real import vm_site as vms
from tests.real.vm_site import ACME

Json = dict[str, Any]

GROUP: Final = "infrastructure.cluster.x-k8s.io"
TEMPLATES: Final = Kind(GROUP, "v1alpha1", "kubevirtmachinetemplates", "KubevirtMachineTemplate")
MACHINES: Final = Kind(GROUP, "v1alpha1", "kubevirtmachines", "KubevirtMachine")
DATA_VOLUMES: Final = Kind("cdi.kubevirt.io", "v1beta1", "datavolumes", "DataVolume")
WRITER: Final = "worker-pool"
"""The field manager of everything that is written here."""
CLUSTER: Final = "kubernetes-prod"
_DISK: Final = "disk-system"
_ANY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _object(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


_MACHINE: Final = _object(
    providerID={"type": "string"},
    infraClusterSecretRef=_ANY,
    virtualMachineTemplate=_object(metadata={**_ANY, "nullable": True}, spec=_ANY),
    virtualMachineBootstrapCheck=_object(
        checkStrategy={"type": "string", "enum": ["none", "ssh"], "default": "ssh"}
    ),
)
_READY: Final = _object(
    ready={"type": "boolean", "default": False}, nodeupdated={"type": "boolean"}
)


def _crd(kind: Kind, **properties: Any) -> Json:
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _object(**properties)},
        "subresources": {"status": {}},
    }
    names = {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind}
    return {
        "apiVersion": kinds.CRDS.api_version,
        "kind": kinds.CRDS.kind,
        "metadata": {"name": kind.resource},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def installed(site: vms.VmSite) -> None:
    """Install both kinds and wait until they are served."""
    crds = [
        _crd(TEMPLATES, spec=_object(template=_object(spec=_MACHINE))),
        _crd(MACHINES, spec=_MACHINE, status=_READY),
    ]
    await kubevirt_objects.write(site.admin, crds)
    await kubevirt_objects.served(site.admin, crds)


async def template(site: vms.VmSite, name: str, devices: Sequence[str]) -> Json:
    """Make the template of a pool's machines as the host's chart for tenant clusters renders it."""
    gpus = [{"name": f"gpu{number}", "deviceName": it} for number, it in enumerate(devices, 1)]
    guest = vms.a_template(gpus, evictionStrategy="External")
    guest["metadata"] = {"labels": {"cluster.x-k8s.io/deployment-name": f"{CLUSTER}-md0"}}
    guest["spec"]["domain"]["devices"]["disks"] = [{"name": "system", "disk": {"bus": "virtio"}}]
    guest["spec"]["volumes"] = [{"name": "system", "dataVolume": {"name": _DISK}}]
    storage = {"resources": {"requests": {"storage": "1Gi"}}}
    disk = {"metadata": {"name": _DISK}, "spec": {"source": {"blank": {}}, "storage": storage}}
    spec = {"runStrategy": "Always", "dataVolumeTemplates": [disk], "template": guest}
    made = {
        "virtualMachineBootstrapCheck": {"checkStrategy": "none"},
        "virtualMachineTemplate": {"metadata": {"namespace": ACME}, "spec": spec},
    }
    body = {"metadata": {"name": name, "namespace": ACME}, "spec": {"template": {"spec": made}}}
    return await site.admin.create(TEMPLATES, body, field_manager=WRITER)


async def machine(site: vms.VmSite, name: str, of: Json) -> None:
    """Make a machine of a template, its VM, and the disk that the VM asks for."""
    spec = copy.deepcopy(of["spec"]["template"]["spec"])
    body = {"metadata": {"name": name, "namespace": ACME}, "spec": spec}
    made = await site.admin.create(MACHINES, body, field_manager=WRITER)
    vm = copy.deepcopy(spec["virtualMachineTemplate"]["spec"])
    labels = {
        "kubevirt.io/vm": name,
        "name": name,
        "cluster.x-k8s.io/role": "worker",
        "cluster.x-k8s.io/cluster-name": CLUSTER,
    }
    guest = vm["template"]
    guest["metadata"]["labels"] |= labels
    own = f"{name}-{_DISK}"
    vm["dataVolumeTemplates"][0]["metadata"]["name"] = own
    guest["spec"]["volumes"][0]["dataVolume"]["name"] = own
    secret = {"cloudInitConfigDrive": {"secretRef": {"name": f"{name}-userdata"}}}
    guest["spec"]["volumes"].append({"name": "cloudinitvolume", **secret})
    boot = {"name": "cloudinitvolume", "disk": {"bus": "virtio"}}
    guest["spec"]["domain"]["devices"]["disks"].append(boot)
    meta = {"name": name, "namespace": ACME, "labels": labels}
    meta["ownerReferences"] = [_owner(MACHINES, made)]
    await site.admin.create(kinds.VMS, {"metadata": meta, "spec": vm}, field_manager=WRITER)
    await _filled(site, own)


async def remove(site: vms.VmSite, name: str) -> None:
    """Delete a machine, its VM, its disk; wait until nothing of the VM is there."""
    await site.delete(name)
    await site.admin.delete(MACHINES, name, ACME)
    with contextlib.suppress(errors.NotFound):  # it goes after its disk, which goes after the VM
        await site.admin.delete(kinds.VOLUME_CLAIMS, f"{name}-{_DISK}", ACME)
    await site.admin.delete(kinds.VOLUMES, f"pv-{name}-{_DISK}")


async def stored(site: vms.VmSite, *machines: str) -> dict[str, Json]:
    """Return what a pool is made of: templates, machines, VMs and disks, by kind and name."""
    found: dict[str, Json] = {}
    for kind in (TEMPLATES, MACHINES, kinds.VMS, DATA_VOLUMES):
        for item in (await site.admin.list(kind, ACME)).items:
            found[f"{kind.kind} {item['metadata']['name']}"] = item
    assert {f"{kinds.VMS.kind} {name}" for name in machines} <= found.keys()
    return found


async def _filled(site: vms.VmSite, name: str) -> None:
    """Do as CDI does with a disk that KubeVirt ordered: bind a volume, report it filled."""

    async def ordered() -> Json:
        return await site.found(DATA_VOLUMES, name)

    disk = await sites.until(ordered, vms.LATE, f"DataVolume {name} made by KubeVirt")
    size = {"storage": "1Gi"}
    same = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    meta = {"name": name, "namespace": ACME}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = await site.admin.create(
        kinds.VOLUME_CLAIMS,
        {
            "metadata": {
                **meta,
                "annotations": bound,
                "ownerReferences": [_owner(DATA_VOLUMES, disk)],
            },
            "spec": {**same, "resources": {"requests": size}, "volumeName": f"pv-{name}"},
        },
    )
    volume = {
        **same,
        "capacity": size,
        "csi": {"driver": "remote.example.com", "volumeHandle": name},
        "claimRef": {**meta, "uid": claim["metadata"]["uid"]},
    }
    await site.admin.create(kinds.VOLUMES, {"metadata": {"name": f"pv-{name}"}, "spec": volume})
    phase = {"status": {"phase": "Bound"}}
    await site.admin.patch(kinds.VOLUME_CLAIMS, name, phase, ACME, subresource="status")
    await site.admin.patch(kinds.VOLUMES, f"pv-{name}", phase, subresource="status")
    done = {"status": {"phase": "Succeeded"}}
    await site.admin.patch(DATA_VOLUMES, name, done, ACME, field_manager=WRITER)


def _owner(kind: Kind, item: Json) -> Json:
    meta = item["metadata"]
    about = {"name": meta["name"], "uid": meta["uid"], "controller": True}
    return {"apiVersion": kind.api_version, "kind": kind.kind, **about}
