"""The product's chart on a real control plane, without the process: kinds, roles, Service, APIService."""

import asyncio
import base64
from pathlib import Path
from typing import Final

from devcluster.plane import ControlPlane

CHART: Final = Path(__file__).parents[2] / "charts" / "cozystack-gpu"
RELEASE: Final = "cozystack-gpu"
NAMESPACE: Final = "cozy-system"
KINDS: Final = ("gpubinders", "gpuclaims", "gpuclasses", "gpunodes")


async def install(cp: ControlPlane) -> None:
    """Install the chart as devcluster does, and wait until its kinds are served."""
    ca = base64.b64encode(cp.pki.serving_ca.crt.read_bytes()).decode()
    await cp.helm(
        "install",
        RELEASE,
        str(CHART),
        f"--namespace={NAMESPACE}",
        "--create-namespace",
        "--set=deployment.enabled=false,service.externalName=localhost,service.port=8443",
        f"--set=caBundle={ca}",
    )
    await served(cp)


async def uninstall(cp: ControlPlane) -> str:
    """Uninstall the release; return what helm said."""
    return await cp.helm("uninstall", RELEASE, f"--namespace={NAMESPACE}")


async def served(cp: ControlPlane) -> None:
    """Wait until every kind of the chart is in discovery."""
    async with asyncio.timeout(10):
        while True:
            crds = [f"crd/{kind}.gpu.cozystack.io" for kind in KINDS]
            await cp.kubectl("wait", "--for=condition=Established", *crds, "--timeout=10s")
            listed = await cp.kubectl("get", "--raw", "/apis/gpu.cozystack.io/v1alpha1")
            if all(f'"name":"{kind}/status"' in listed for kind in KINDS):
                return
            await asyncio.sleep(0.05)
