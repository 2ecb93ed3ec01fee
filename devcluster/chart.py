"""The product's chart on a plane, with the process outside the cluster: install, reach, uninstall."""

import asyncio
import base64
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from devcluster import errors, plane
from gpu import keys
from gpu.cluster import client
from gpu.cluster import errors as api
from gpu.objects import kinds

ROOT: Final = Path(__file__).parents[1]
CHART: Final = ROOT / "charts" / "cozystack-gpu"
HOST: Final = Path(__file__).parent / "host"
RELEASE: Final = "cozystack-gpu"
SERVICE_ACCOUNT: Final = RELEASE
NAMESPACE: Final = "cozy-system"
API_SERVICE: Final = f"{keys.CATALOG_VERSION}.{keys.CATALOG_GROUP}"
ORDERS_WAIT: Final[Mapping[str, Any]] = {"orderWebhook": {"enabled": False}}
"""Values with which an order is taken unjudged and waits: also where no process is up to judge it."""
STARTS_UNJUDGED: Final[Mapping[str, Any]] = {"vmWebhooks": {"enabled": False}}
"""Values with which no start of a VM is judged: where KubeVirt's part is played by objects alone (guests.py)."""
UNATTENDED: Final[Mapping[str, Any]] = {
    **ORDERS_WAIT,
    **STARTS_UNJUDGED,
    "quotaGate": {"enabled": False},
}
"""Values without webhooks, for a plane on which no process is up to answer them."""
SLICE_PORT: Final = "https"  # the name of the Service's port; slices must repeat it

_CRDS = tuple(
    f"crd/{kind.resource}"
    for kind in (kinds.GPU_CLASSES, kinds.GPU_CLAIMS, kinds.GPU_NODES, kinds.GPU_BINDERS)
)
_SCHEMAS_READ: Final = 60.0
"""Seconds; kube-apiserver looks for schemas that a mutating policy needs every 5 s."""
_ASKED = "devcluster.cozystack.io/asked"


async def install_host(cp: plane.ControlPlane, *, kubevirt: bool = True) -> None:
    """Install the kinds and tenant roles of the host; returns once every one of them is served.

    Three of KubeVirt's kinds too, any content allowed: the keeper passes over a kind that may come
    later, and a story would begin without its policy. Not with `kubevirt` False: where the real
    ones are there already (devcluster.kubevirt), or shall come after the product.
    """
    kinds_ = ("crds.yaml", "kubevirt.yaml") if kubevirt else ("crds.yaml",)
    files = [f"--filename={HOST / name}" for name in kinds_]
    roles = f"--filename={HOST / 'rbac.yaml'}"
    await cp.kubectl("apply", "--server-side", *files, roles)
    await cp.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)


async def install(
    cp: plane.ControlPlane, *, port: int | None, values: Mapping[str, Any] | None = None
) -> None:
    """Install or upgrade the chart, with kube-apiserver sent to `port` of this machine.

    Port None is for a plane with aggregator routing: the Service then has no backend until
    EndpointSlices name some. `values` go over ours.
    """
    merged = _merged(_values(cp, port), values or {})
    file = cp.directory / "values.json"
    file.write_text(json.dumps(merged), encoding="utf-8")
    words = ("--install", "--create-namespace", f"--namespace={NAMESPACE}", f"--values={file}")
    await cp.helm("upgrade", RELEASE, str(CHART), *words)
    await cp.kubectl("wait", "--for=condition=Established", "--timeout=30s", *_CRDS)
    if merged.get("claimFinalizerPolicy", {}).get("enabled", True):
        await _claims_get_their_finalizer(cp)


async def _claims_get_their_finalizer(cp: plane.ControlPlane) -> None:
    """Wait until kube-apiserver knows the schema of claims: until then it has only 503 for new ones."""
    meta = {"name": "probe", "namespace": "kube-system"}  # where no webhook of ours is asked
    body = {"metadata": meta, "spec": {"className": "probe", "count": 1}}
    async with cp.admin() as admin:
        try:
            async with asyncio.timeout(_SCHEMAS_READ):
                while True:
                    with contextlib.suppress(api.ServerFault, api.NotFound, api.Throttled):
                        made = await admin.create(kinds.GPU_CLAIMS, body, dry_run=True)
                        if keys.CLAIM_FINALIZER in made["metadata"].get("finalizers", ()):
                            return
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            raise errors.NotReadyError(
                f"New claims get no finalizer after {_SCHEMAS_READ:.0f} s."
            ) from error


async def uninstall(cp: plane.ControlPlane) -> str:
    """Uninstall the release as `helm uninstall` does; return what helm said. Teardown goes before."""
    return await cp.helm("uninstall", RELEASE, f"--namespace={NAMESPACE}")


async def available(
    admin: client.Client, api_service: str = API_SERVICE, *, within: float = 60.0
) -> None:
    """Wait until kube-apiserver calls an aggregated API available, ours unless another is named.

    After a probe that failed it would look again only every 30 s; a touched APIService is looked
    at now.
    """
    try:
        async with asyncio.timeout(within):
            asked = 0
            while True:
                found = await admin.get(kinds.API_SERVICES, api_service)
                if _is_available(found):
                    return
                asked += 1
                touched = {"metadata": {"annotations": {_ASKED: str(asked)}}}
                await admin.patch(kinds.API_SERVICES, api_service, touched)
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise errors.NotReadyError(
            f"APIService {api_service} is not available after {within:.0f} s."
        ) from error


def _is_available(api_service: Mapping[str, Any]) -> bool:
    conditions = api_service.get("status", {}).get("conditions", [])
    return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)


def _values(cp: plane.ControlPlane, port: int | None) -> dict[str, Any]:
    ca = base64.b64encode(cp.pki.ext_ca.crt.read_bytes()).decode("ascii")
    service = {} if port is None else {"externalName": "localhost", "port": port}
    return {"deployment": {"enabled": False}, "caBundle": ca, "service": service}


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _merged(below, value)
        else:
            merged[key] = value
    return merged
