"""Stories in a network namespace of their own: where several replicas can stand behind one Service.

EndpointSlices may name no loopback address, and tests send nothing to any other address of this
machine; so such a story runs where the only other address is one made here.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
NETWORK = """
ip link set lo up
ip link add own type veth peer name other
ip address add 198.51.100.1/24 dev own
ip link set own up
ip link set other up
ip route add default dev own  # kube-apiserver wants one
exec "$@"
"""
ISOLATED = ("unshare", "--user", "--map-root-user", "--net", "sh", "-ec", NETWORK, "sh")


def unavailable() -> str:
    """Say why no such story can be told here; empty when it can."""
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed: no network namespace can be made"
    tried = subprocess.run([*ISOLATED, "true"], capture_output=True, text=True, check=False)
    return f"no network namespace can be made: {tried.stderr.strip()}" if tried.returncode else ""


async def told(story: str, base: Path, named: Mapping[str, str] | None = None) -> str:
    """Run a file of tests in there, `named` in its environment; return what pytest said, or fail with it."""
    running = await asyncio.create_subprocess_exec(
        *ISOLATED,
        sys.executable,
        *("-m", "pytest", "--quiet", "--no-header", f"--basetemp={base}"),
        story,
        cwd=ROOT,
        env={**os.environ, **(named or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await running.communicate()
    assert running.returncode == 0, said.decode()
    return said.decode()
