"""What virt-operator would install for virt-api and virt-controller, as objects, and their writing."""

import asyncio
import base64
import json
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devcluster import commands, recipes
from devcluster import errors as devcluster_errors
from gpu.cluster import client, errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind

NAMESPACE: Final = recipes.KUBEVIRT_NAMESPACE
SERVICE: Final = "virt-api"

Object = Mapping[str, Any]

PERMITTED: Final[Mapping[str, Any]] = {
    "pciHostDevices": [
        {
            "pciVendorSelector": "10DE:2331",
            "resourceName": "nvidia.com/GH100_H100",
            "externalResourceProvider": True,
        }
    ],
    "mediatedDevices": [
        {
            "mdevNameSelector": "NVIDIA L40S-24Q",
            "resourceName": "nvidia.com/L40S-24Q",
            "externalResourceProvider": True,
        }
    ],
}
"""The devices that VMs may use, as the KubeVirt object lists them, unless a caller has others."""

_FEATURE_GATES = (  # the host's, in its order
    "HotplugVolumes",
    "ExpandDisks",
    "LiveMigration",
    "AutoResourceLimitsGate",
    "CPUManager",
    "GPU",
    "VMExport",
    "HostDevices",
)
_CA_CONFIG_MAPS = ("kubevirt-ca", "kubevirt-export-ca", "kubevirt-backup-ca")
_CDI_GROUP = "cdi.kubevirt.io"
_CDI_KINDS = (
    # What virt-controller watches once it finds the first of these; without one it never starts.
    ("datavolumes", "DataVolume", "Namespaced"),
    ("datasources", "DataSource", "Namespaced"),
    ("cdis", "CDI", "Cluster"),
    ("cdiconfigs", "CDIConfig", "Cluster"),
    ("storageprofiles", "StorageProfile", "Cluster"),
)
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_KINDS = {
    kind.kind: kind
    for kind in (
        kinds.API_SERVICES,
        kinds.CONFIG_MAPS,
        kinds.CRDS,
        kinds.KUBEVIRTS,
        kinds.NAMESPACES,
        Kind("", "v1", "serviceaccounts", "ServiceAccount"),
        Kind("", "v1", "services", "Service"),
        Kind(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
        Kind(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        Kind(_RBAC, "v1", "roles", "Role"),
        Kind(_RBAC, "v1", "rolebindings", "RoleBinding"),
        Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
        Kind(
            _ADMISSION,
            "v1",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            namespaced=False,
        ),
        Kind(
            _ADMISSION,
            "v1",
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            namespaced=False,
        ),
    )
}
_AT_ONCE = 8
_AGAIN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """What KubeVirt's own generators make, by step of the installation."""

    crds: Sequence[Object]
    rbac: Sequence[Object]
    webhooks: Sequence[Object]
    api_services: Sequence[Object]


async def shipped(program: Path) -> Shipped:
    """Run the generators' program and return what it printed."""
    said = json.loads(await commands.run((str(program), NAMESPACE)))
    return Shipped(
        crds=said["crds"],
        rbac=said["rbac"],
        webhooks=said["webhooks"],
        api_services=said["apiservices"],
    )


def cdi_kinds() -> list[Object]:
    """Return CDI's kinds, any content allowed: without CDI, for stories of volumes that are imported."""
    return [_cdi_kind(*names) for names in _CDI_KINDS]


def namespace() -> Object:
    """Return the namespace of KubeVirt's own."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def certificates(ca: Path) -> list[Object]:
    """Return the ConfigMaps in which virt-operator would publish the authority `ca`."""
    data = {"ca-bundle": ca.read_text(encoding="ascii")}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _place(name), "data": data}
        for name in _CA_CONFIG_MAPS
    ]


def settings(permitted: Mapping[str, Any] | None) -> Object:
    """Return the KubeVirt object; with None it lists no devices, and then any may be asked for."""
    configuration: dict[str, Any] = {
        "commonInstancetypesDeployment": {"enabled": False},
        "developerConfiguration": {"featureGates": list(_FEATURE_GATES)},
        "evictionStrategy": "LiveMigrate",
        "virtualMachineOptions": {"disableSerialConsoleLog": {}},
        "vmRolloutStrategy": "LiveUpdate",
    }
    if permitted is not None:
        configuration["permittedHostDevices"] = permitted
    return {
        "apiVersion": kinds.KUBEVIRTS.api_version,
        "kind": kinds.KUBEVIRTS.kind,
        "metadata": _place("kubevirt"),
        "spec": {
            "certificateRotateStrategy": {},
            "configuration": configuration,
            "workloadUpdateStrategy": {"workloadUpdateMethods": ["LiveMigrate", "Evict"]},
            "imagePullPolicy": "IfNotPresent",
        },
    }


STATUS: Final[Mapping[str, Any]] = {"phase": "Deployed", "defaultArchitecture": "amd64"}
"""What virt-operator would report: without a phase the settings are passed over, without an
architecture every VM is refused."""


def service() -> Object:
    """Return virt-api's Service: this machine."""
    spec = {"type": "ExternalName", "externalName": "localhost"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _place(SERVICE), "spec": spec}


def routed(objects: Iterable[Object], *, ca: Path, port: int) -> list[Object]:
    """Return webhook configurations and APIServices that call `port`, trusting the authority `ca`."""
    bundle = base64.b64encode(ca.read_bytes()).decode("ascii")

    def called(holder: Mapping[str, Any]) -> dict[str, Any]:
        return {**holder, "caBundle": bundle, "service": {**holder["service"], "port": port}}

    def changed(shown: Object) -> Object:
        if "webhooks" not in shown:
            return {**shown, "spec": called(shown["spec"])}
        hooks = [{**h, "clientConfig": called(h["clientConfig"])} for h in shown["webhooks"]]
        return {**shown, "webhooks": hooks}

    return [changed(shown) for shown in objects]


async def write(admin: client.Client, objects: Iterable[Object]) -> None:
    """Create objects, a few at once; what is there already is replaced."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(shown: Object) -> None:
        async with slots:
            await _write(admin, _KINDS[shown["kind"]], shown)

    await at_once(one(shown) for shown in objects)


async def served(admin: client.Client, crds: Iterable[Object], *, within: float = 60.0) -> None:
    """Wait until every kind of these CRDs can be listed; NotReadyError names the first that cannot."""
    await at_once(_served(admin, _stored(crd), within) for crd in crds)


async def at_once(steps: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all at once; raises what the first to fail says, the rest cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            for step in steps:
                group.create_task(step)
    except* (errors.ApiError, devcluster_errors.DevclusterError) as caught:
        raise caught.exceptions[0] from None


async def _write(admin: client.Client, kind: Kind, shown: Object) -> None:
    # Without the status that Go's types print empty.
    body = {key: value for key, value in shown.items() if key != "status"}
    try:
        await admin.create(kind, body, deadline=60)
    except errors.AlreadyExists:
        # Not an apply: what an earlier version said and this one does not has to go.
        meta = body["metadata"]
        found = await admin.get(kind, meta["name"], meta.get("namespace"))
        version = found["metadata"]["resourceVersion"]
        replaced = {**body, "metadata": {**meta, "resourceVersion": version}}
        await admin.update(kind, replaced, deadline=60)


async def _served(admin: client.Client, kind: Kind, within: float) -> None:
    try:
        async with asyncio.timeout(within):
            while True:
                try:
                    await admin.list(kind, limit=1)
                except (errors.NotFound, errors.Throttled):  # "storage is (re)initializing"
                    await asyncio.sleep(_AGAIN)
                else:
                    return
    except TimeoutError as error:
        message = f"Kind {kind.resource} is not served {within:.0f} s after its CRD was written."
        raise devcluster_errors.NotReadyError(message) from error


def _stored(crd: Object) -> Kind:
    spec = crd["spec"]
    names = spec["names"]
    version = next(v["name"] for v in spec["versions"] if v["storage"])
    return Kind(spec["group"], version, names["plural"], names["kind"])


def _cdi_kind(plural: str, kind: str, scope: str) -> Object:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
    }
    return {
        "apiVersion": kinds.CRDS.api_version,
        "kind": kinds.CRDS.kind,
        "metadata": {"name": f"{plural}.{_CDI_GROUP}"},
        "spec": {
            "group": _CDI_GROUP,
            "scope": scope,
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "listKind": f"{kind}List",
            },
            "versions": [version],
        },
    }


def _place(name: str) -> dict[str, str]:
    return {"name": name, "namespace": NAMESPACE}
