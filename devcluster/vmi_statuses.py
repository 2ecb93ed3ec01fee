"""What virt-handler writes into a VMI: its guest up, its guest down, each step of a migration.

The VMI as stored and time in, the whole VMI out: it has no status subresource. Every function returns
a new object.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from devcluster import pod_statuses

Json = Mapping[str, Any]

DONE: Final = ("Succeeded", "Failed")
UP: Final = ("Scheduled", "Running")
"""The phases in which a VMI is virt-handler's."""
NODE_LABEL: Final = "kubevirt.io/nodeName"
TARGET_LABEL: Final = "kubevirt.io/migrationTargetNodeName"
HEARTBEAT: Final = "kubevirt.io/heartbeat"
SCHEDULABLE: Final = "kubevirt.io/schedulable"

_MACHINE: Final = "pc-q35-rhel9.6.0"
"""One of the machine types that the nodes' labels name."""
_PORTS: Final = {"49152": 0}


def running(vmi: Json, now: datetime, *, migratable: bool) -> dict[str, Any]:
    """Return a VMI whose guest is up; with devices it is not migratable unless told so."""
    made = _copy(vmi)
    status = made["status"]
    devices = made["spec"].get("domain", {}).get("devices", {})
    movable: dict[str, Any] = {"type": "LiveMigratable", "status": "True"}
    if (devices.get("gpus") or devices.get("hostDevices")) and not migratable:
        movable |= {
            "status": "False",
            "reason": "HostDeviceNotLiveMigratable",
            "message": "VMI uses a PCI host devices",
        }
    agent = {"type": "AgentConnected", "status": "True", "lastProbeTime": pod_statuses.stamp(now)}
    status["conditions"] = pod_statuses.merged(
        status.get("conditions") or [], now, [movable, agent]
    )
    status |= {
        "guestOSInfo": {},
        "machine": {"type": _MACHINE},
        "migrationMethod": "BlockMigration",
        "selinuxContext": "none",  # without one no migration begins
    }
    return _in_phase(made, "Running", now)


def ended(vmi: Json, phase: str, now: datetime) -> dict[str, Any]:
    """Return a VMI whose guest has ended, Succeeded or Failed."""
    return _in_phase(_copy(vmi), phase, now)


def migration(vmi: Json) -> dict[str, Any]:
    """Return the state of the VMI's migration, empty where there is none."""
    found: dict[str, Any] = (vmi.get("status") or {}).get("migrationState") or {}
    return found


def listening(vmi: Json, now: datetime, *, address: str) -> dict[str, Any]:
    """Return a VMI whose target node awaits the guest (TargetReady)."""
    del now
    return _migrating(
        vmi, {"targetNodeAddress": address, "targetDirectMigrationNodePorts": dict(_PORTS)}
    )


def moving(vmi: Json, now: datetime) -> dict[str, Any]:
    """Return a VMI whose guest is on its way (Running)."""
    return _migrating(
        vmi,
        {
            "startTimestamp": pod_statuses.stamp(now),
            "mode": "PreCopy",
            "targetNodeDomainDetected": True,
        },
    )


def handed_over(vmi: Json, now: datetime) -> dict[str, Any]:
    """Return a VMI whose guest now runs on the target node."""
    when = pod_statuses.stamp(now)
    made = _migrating(vmi, {"targetNodeDomainReadyTimestamp": when, "endTimestamp": when})
    target = migration(vmi)["targetNode"]
    made["status"] |= {"nodeName": target, "evacuationNodeName": ""}
    made["metadata"]["labels"][NODE_LABEL] = target
    return made


def completed(vmi: Json, now: datetime) -> dict[str, Any]:
    """Return a VMI whose migration is over (Succeeded)."""
    del now
    return _migrating(vmi, {"completed": True})


def failed(vmi: Json, now: datetime) -> dict[str, Any]:
    """Return a VMI whose migration failed; its guest runs on where it was."""
    when = pod_statuses.stamp(now)
    reason = "simulated: the guest could not be handed over"
    return _migrating(
        vmi, {"failed": True, "completed": True, "endTimestamp": when, "failureReason": reason}
    )


def tidied(vmi: Json) -> dict[str, Any]:
    """Return a VMI without the label that names its migration's target."""
    made = _copy(vmi)
    made["metadata"]["labels"].pop(TARGET_LABEL, None)
    return made


def heartbeat(now: datetime) -> dict[str, Any]:
    """Return virt-handler's patch of its node."""
    return {
        "metadata": {
            "labels": {SCHEDULABLE: "true"},
            "annotations": {HEARTBEAT: pod_statuses.stamp(now)},
        }
    }


def _migrating(vmi: Json, change: Json) -> dict[str, Any]:
    made = _copy(vmi)
    made["status"]["migrationState"] |= change
    return made


def _in_phase(made: dict[str, Any], phase: str, now: datetime) -> dict[str, Any]:
    status = made["status"]
    status["phase"] = phase
    entry = {"phase": phase, "phaseTransitionTimestamp": pod_statuses.stamp(now)}
    status["phaseTransitionTimestamps"] = [*(status.get("phaseTransitionTimestamps") or []), entry]
    return made


def _copy(vmi: Json) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(vmi))
    made["metadata"].setdefault("labels", {})
    return made
