"""`make demo` as a newcomer runs it, with a state folder of its own; it may run beside yours."""

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from devcluster import (
    control_plane,
    examples,
    kubevirt,
    nodes_story,
    processes,
    product,
    simulating,
    state,
    tenants,
)
from devcluster.plane import ControlPlane
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(900)
UNCURED = {"COZYSTACK_GPU_RESYNC": "600"}
"""As `sites.UNCURED`: what a story waits for has to come by itself."""


@dataclass
class Said:
    status: int
    out: str
    err: str


class Demo:
    """Runs devcluster's commands with their state under one folder."""

    def __init__(self, home: Path):
        self.home = home
        self.directory = home / "cozystack-gpu" / "demo"

    async def run(self, *words: str, env: Mapping[str, str] | None = None) -> Said:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "devcluster",
            *words,
            cwd=ROOT,
            env={**os.environ, **UNCURED, "XDG_STATE_HOME": str(self.home), **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return Said(process.returncode, out.decode(), err.decode())

    def records(self) -> dict[str, processes.Record]:
        written = state.read(self.directory)
        return dict(written.processes) if written else {}

    def running(self) -> list[str]:
        return sorted(name for name, r in self.records().items() if processes.is_running(r))


@pytest.fixture
async def demo(binaries_built: None, tmp_path: Path):
    made = Demo(tmp_path)
    yield made
    await made.run("demo-down")


EVERYTHING = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    product.FIRST,
    simulating.PROCESS,
    kubevirt.API,
    kubevirt.CONTROLLER,
]


async def test_the_demo_tells_its_story_stays_and_goes(demo: Demo):
    said = await demo.run("demo")
    assert (said.status, said.err) == (0, "")
    for line in (
        r"training: 4 x h100 Bound on demo-gpu-2",
        r"rendering: 1 x l40s Bound on demo-gpu-3",
        r"prototype: 1 x h100 Bound on demo-gpu-1",
        r"desktop: 1 x l40s-quarter Bound on demo-gpu-4",
        r"\(Forbidden\): admission webhook .orders.gpu.cozystack.io. denied the request: order scale-up",
        r"2 units asked, budget gpu.cozystack.io/h100 of tenant-globex is 2 and 1 are used",
        r"at most 1 would be accepted now; class l40s would take all 2",
        r"The Tenant .lab. is invalid: spec.resourceQuotas\[gpu.cozystack.io/h100\]: Forbidden: requested 2",
        r"remaining .gpu.cozystack.io/h100. quota of 0 .parent allows 4",
        r"trainer Running on demo-gpu-2, where training is held",
        r"trainer is off; training is still Bound on demo-gpu-2",
        r"trainer Running on demo-gpu-2, the same node",
        r"notebook waits: OverBudget: .*1 unit asked, budget gpu.cozystack.io/h100 of tenant-acme",
        r"notebook Running on demo-gpu-2, by itself",
        r"kubectl get gpuclaims -A",
    ):
        assert re.search(line, said.out), f"{line} is not in:\n{said.out}"
    assert demo.running() == EVERYTHING

    first = demo.records()
    processes.kill(first["kube-scheduler"], signal.SIGKILL)
    again = await demo.run("demo")
    assert again.status == 0, again.err
    assert "stopped what was left of an earlier demo" in again.out
    assert not any(processes.is_running(record) for record in first.values())

    more = await demo.run("demo-story")
    assert (more.status, more.err) == (0, "")
    for line in (
        r"train-a says: 2 claims of one VM need 3 units of class story-a100 on one node",
        r"younger order is refused: .*1 unit of class story-a100 asked",
        r"Moved  2 units of story-a100 held on node story-gpu-2, no longer on story-gpu-1",
        r"Lost  its units are lost: its node is gone",
        r"Rebound  2 units of story-a100 held on node story-gpu-2",
    ):
        assert re.search(line, more.out), f"{line} is not in:\n{more.out}"

    second = demo.records()
    down = await demo.run("demo-down")
    assert down.status == 0, down.err
    assert not any(processes.is_running(record) for record in second.values())
    assert [path.name for path in demo.directory.iterdir() if path.is_dir()] == ["logs"]


async def test_a_busy_port_is_one_message_and_nothing_is_left(demo: Demo):
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = await demo.run("demo", f"--port={server.getsockname()[1]}")
    assert said.status == 1
    assert re.fullmatch(
        r"\nPort \d+ of 127\.0\.0\.1 is in use by pid \d+ \(.*\)\. "
        r"Stop that, or choose another port\.\n",
        said.err,
    )
    assert demo.running() == []


async def test_a_child_that_dies_is_one_message_with_its_log_and_nothing_is_left(demo: Demo):
    said = await demo.run("demo", env={"COZYSTACK_GPU_LEASE_DURATION": "1"})
    assert said.status == 1
    log = demo.directory / "logs" / f"{product.FIRST}.log"
    assert said.err.startswith(f"\n{product.FIRST} ended by itself.\n")
    assert said.err.endswith(f"\nLog: {log}\n")
    assert "--lease-duration" in said.err
    assert demo.running() == []


async def test_on_an_external_cluster_only_the_demos_own_objects_are_touched(
    demo: Demo, fresh_plane: ControlPlane
):
    env = {"CLUSTER": "external", "KUBECONFIG": str(fresh_plane.kubeconfig)}
    async with product.running(fresh_plane, kubevirt=False, flags=(sites.UNCURED,)) as gpu:
        await tenants.add(gpu.admin, "tenant-mine", {"gpu.cozystack.io/total": 1})
        source = {"devicePlugin": {"resourceName": "example.com/mine"}}
        mine = {"metadata": {"name": "mine"}, "spec": {"mode": "vgpu", "source": source}}
        await gpu.admin.create(kinds.GPU_CLASSES, mine)

        node = await gpu.admin.create(kinds.NODES, {"metadata": {"name": "demo-gpu-2"}})
        said = await demo.run("demo", env=env)
        assert (said.status, '"demo-gpu-2" already exists' in said.err) == (1, True)
        left = await gpu.admin.get(kinds.NODES, "demo-gpu-2")
        assert left["metadata"]["uid"] == node["metadata"]["uid"]
        await gpu.admin.delete(kinds.NODES, "demo-gpu-2")

        said = await demo.run("demo", env=env)
        assert (said.status, said.err) == (0, "")
        assert "This cluster has no KubeVirt: the story of VMs is left out." in said.out
        again = await demo.run("demo", env=env)
        assert (again.status, again.err) == (0, "")
        more = await demo.run("demo-story", env=env)
        assert (more.status, more.err) == (0, "")
        assert "the story of nodes needs VMs and is left out" in more.out
        down = await demo.run("demo-down", env=env)
        assert down.status == 0, down.err

        assert [
            item["metadata"]["name"] for item in (await gpu.admin.list(kinds.GPU_CLASSES)).items
        ] == ["mine"]
        for kind in (kinds.GPU_CLAIMS, kinds.NODES):
            assert (await gpu.admin.list(kind)).items == ()
        await gpu.admin.get(kinds.NAMESPACES, "tenant-mine")
        with pytest.raises(errors.NotFound):
            await gpu.admin.get(kinds.NAMESPACES, "tenant-acme")
    assert demo.running() == []


async def test_on_an_external_cluster_with_kubevirt_vms_are_told_and_removed(
    demo: Demo, binaries_built: None, tmp_path: Path
):
    permitted = examples.permitted(nodes_story.RESOURCE)
    async with (
        control_plane.control_plane(tmp_path / "external") as cp,
        kubevirt.running(cp, permitted=permitted),
        product.running(cp, kubevirt=False, flags=(sites.UNCURED,)) as gpu,
    ):
        env = {"CLUSTER": "external", "KUBECONFIG": str(cp.kubeconfig)}
        said = await demo.run("demo", env=env)
        assert (said.status, said.err) == (0, "")
        assert "notebook Running on demo-gpu-2, by itself" in said.out
        for _ in range(2):  # the second removes what the first left
            more = await demo.run("demo-story", env=env)
            assert (more.status, more.err) == (0, "")
        down = await demo.run("demo-down", env=env)
        assert down.status == 0, down.err
        for kind in (kinds.VMS, kinds.VMIS, kinds.PODS, kinds.GPU_CLAIMS, kinds.NODES):
            assert (await gpu.admin.list(kind)).items == ()


async def test_a_cluster_without_the_product_is_told_so(demo: Demo, plane: ControlPlane):
    env = {"CLUSTER": "external", "KUBECONFIG": str(plane.kubeconfig)}
    said = await demo.run("demo", env=env)
    assert said.status == 1
    assert said.err.startswith("\nThe product is not installed on this cluster")
