"""The simulation of kubelets and virt-handlers as a process of a plane: start it, be it.

Every node that carries the simulator's label is served, also one that is made later.
"""

import asyncio
import sys
from pathlib import Path
from typing import Final

from devcluster import plane, processes, simulated
from gpu.cluster import client, credentials

PROCESS: Final = "simulator"
_READY: Final = "simulated nodes are served"


async def start(cp: plane.ControlPlane) -> processes.Record:
    """Start it as part of a plane, which also stops it; returns once it has read the cluster."""
    log = cp.site.log(PROCESS)
    argv = (sys.executable, "-m", "devcluster.simulating", str(cp.kubeconfig))
    log.unlink(missing_ok=True)

    async def has_read() -> bool:
        return log.exists() and _READY in log.read_text("utf-8")

    return await cp.run(processes.Command(name=PROCESS, argv=argv, log=log), has_read)


async def serve(kubeconfig: Path) -> None:
    """Serve every simulated node of a cluster until the process is ended, or breaks."""
    admin = client.Client(await credentials.load(kubeconfig))
    async with admin, simulated.simulated(admin, adopting=True) as sim:
        sys.stdout.write(f"{_READY}\n")
        sys.stdout.flush()
        await sim.ended.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
