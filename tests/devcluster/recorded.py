"""Objects as KubeVirt v1.8.4 left them on a real cluster, and turned back to before the node's part."""

import copy
from pathlib import Path
from typing import Any

import yaml

from devcluster import simulator
from gpu.objects import kinds
from tests.fakes.cluster import FakeCluster

FOLDER = Path(__file__).parents[1] / "vectors" / "kubevirt"
NODES = ("gpu-1", "gpu-2")
H100 = "nvidia.com/GH100_H100"
NAMESPACE, VM = "tenant-a", "vm-instance-one"
HANDLERS = {"LiveMigratable", "AgentConnected"}
"""Conditions of a VMI that virt-handler writes."""


def recorded(name: str) -> dict[str, Any]:
    """Return one recorded object, fresh."""
    return copy.deepcopy(
        _READ.setdefault(name, yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))
    )


_READ: dict[str, dict[str, Any]] = {}


def launcher(*, uid: str = "", node: str = "gpu-1", **meta: Any) -> dict[str, Any]:
    """Return the recorded launcher, bound, as the scheduler and virt-controller leave it."""
    pod = recorded("launcher-running")
    ours = {"PodScheduled", "kubevirt.io/virtual-machine-unpaused"}
    conditions = [c for c in pod["status"]["conditions"] if c["type"] in ours]
    pod["status"] = {"phase": "Pending", "qosClass": "Burstable", "conditions": conditions}
    pod["spec"]["nodeName"] = node
    if uid:
        pod["metadata"] |= {"uid": uid, "name": f"virt-launcher-{uid}", "ownerReferences": []}
    pod["metadata"] |= meta
    return pod


def running_launcher(**meta: Any) -> dict[str, Any]:
    """Return the recorded launcher with its containers running."""
    pod = recorded("launcher-running")
    pod["metadata"] |= meta
    return pod


def scheduled(**meta: Any) -> dict[str, Any]:
    """Return the recorded VMI as virt-controller leaves it: Scheduled, nothing of virt-handler's."""
    vmi = recorded("vmi-running")
    status = vmi["status"]
    for name in ("guestOSInfo", "machine", "migrationMethod"):
        del status[name]
    status["conditions"] = [c for c in status["conditions"] if c["type"] not in HANDLERS]
    status["phaseTransitionTimestamps"].pop()
    status["phase"] = "Scheduled"
    vmi["metadata"] |= meta
    return vmi


def running_vmi(**meta: Any) -> dict[str, Any]:
    """Return the recorded VMI with its guest up."""
    vmi = recorded("vmi-running")
    vmi["metadata"] |= meta
    return vmi


def a_cluster(*, units: int = 4) -> FakeCluster:
    """Return a cluster with two nodes that serve units."""
    fake = FakeCluster()
    for name in NODES:
        amounts = {
            "cpu": "64",
            H100: str(units),
            **{f"devices.kubevirt.io/{kind}": "1k" for kind in ("kvm", "tun", "vhost-net")},
        }
        ready = {"type": "Ready", "status": "True"}
        fake.put(
            kinds.NODES,
            {
                "metadata": {"name": name, "labels": {simulator.LABEL: "true"}},
                "spec": {},
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
            },
        )
    return fake
