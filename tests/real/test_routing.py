"""Several replicas behind one Service: in a network namespace of the test's own.

EndpointSlices may name no loopback address, and tests send nothing to any other address of this
machine; so the story of `routing_story.py` runs where the only other address is one made here.
"""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
    for tool in ("unshare", "ip"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed: no network namespace can be made"
    tried = subprocess.run([*ISOLATED, "true"], capture_output=True, text=True, check=False)
    return f"no network namespace can be made: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.mark.timeout(240)
async def test_two_replicas_by_endpoint_slices(binaries_built, tmp_path):
    if reason := unavailable():
        pytest.skip(reason)
    story = await asyncio.create_subprocess_exec(
        *ISOLATED,
        sys.executable,
        *("-m", "pytest", "--quiet", "--no-header", f"--basetemp={tmp_path / 'story'}"),
        "tests/real/routing_story.py",
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await story.communicate()
    assert story.returncode == 0, said.decode()
    assert "1 passed" in said.decode()
