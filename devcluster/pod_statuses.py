"""What kubelet reports of a pod, as bodies for its status; pod and time in, status out."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from devcluster.machines import Refusal

Json = Mapping[str, Any]

DONE: Final = ("Succeeded", "Failed")
KILLED: Final = 137
REBOOTED: Final = 255
"""What containerd says of a container that it finds dead after a start of the machine."""

_DIGEST = "ab" * 32
_ADDRESSES = 60_000


def stamp(now: datetime) -> str:
    """Return a time as metav1.Time writes it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def admitted(pod: Json, now: datetime) -> dict[str, Any]:
    """Return the status of a pod that was taken and whose containers are being made."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    names = [container["name"] for container in pod["spec"]["containers"]]
    message = f"containers with unready status: [{' '.join(names)}]"
    unready = {"status": "False", "reason": "ContainersNotReady", "message": message}
    return {
        **_place(pod, now),
        "phase": "Pending",
        "conditions": _merged(
            pod,
            now,
            {"type": "PodReadyToStartContainers", "status": "False"},
            {"type": "Initialized", "status": "True"},
            {"type": "ContainersReady", **unready},
            {"type": "Ready", **unready},
        ),
        "containerStatuses": _containers(pod, waiting, ready=False),
    }


def running(pod: Json, now: datetime) -> dict[str, Any]:
    """Return the status of a pod whose containers all run; Ready is its readiness gates' business."""
    address = _address(pod)
    return {
        **_place(pod, now),
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _merged(
            pod,
            now,
            {"type": "PodReadyToStartContainers", "status": "True"},
            {"type": "Initialized", "status": "True"},
            {"type": "ContainersReady", "status": "True"},
            readiness(pod),
        ),
        "containerStatuses": _containers(pod, {"running": {"startedAt": stamp(now)}}, ready=True),
    }


def ended(pod: Json, phase: str, now: datetime, *, code: int | None = None) -> dict[str, Any]:
    """Return the status of a pod whose containers have all ended, with an exit code (0 or 1)."""
    if code is None:
        code = 0 if phase == "Succeeded" else 1
    why = {"status": "False", "reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    terminated = {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error" if code != REBOOTED else "Unknown",
        "startedAt": _started(pod) or stamp(now),
        "finishedAt": stamp(now),
    }
    return {
        "phase": phase,
        "conditions": _merged(
            pod,
            now,
            {"type": "PodReadyToStartContainers", "status": "False"},
            {"type": "Initialized", "status": "True"},
            {"type": "ContainersReady", **why},
            {"type": "Ready", **why},
        ),
        "containerStatuses": _containers(pod, {"terminated": terminated}, ready=False),
    }


def refused(refusal: Refusal) -> dict[str, Any]:
    """Return the status of a pod that was not taken; of containers nothing is said."""
    return {"phase": "Failed", "reason": refusal.reason, "message": refusal.told}


def readiness(pod: Json) -> dict[str, Any]:
    """Return condition Ready of a pod whose containers are ready: its readiness gates decide."""
    found = {c["type"]: c["status"] for c in _conditions(pod)}
    lacking = []
    for gate in pod["spec"].get("readinessGates") or []:
        name = gate["conditionType"]
        if name not in found:
            lacking.append(
                f'corresponding condition of pod readiness gate "{name}" does not exist.'
            )
        elif found[name] != "True":
            words = f'the status of pod readiness gate "{name}" is not "True", but {found[name]}'
            lacking.append(words)
    if lacking:
        message = ", ".join(lacking)
        return {
            "type": "Ready",
            "status": "False",
            "reason": "ReadinessGatesNotReady",
            "message": message,
        }
    return {"type": "Ready", "status": "True"}


def reready(pod: Json, now: datetime) -> dict[str, Any] | None:
    """Return the change of a running pod's status once its gates say otherwise; None while they do not."""
    wanted = readiness(pod)
    known = next((c for c in _conditions(pod) if c["type"] == "Ready"), {})
    if all(known.get(name) == value for name, value in wanted.items()):
        return None
    return {"conditions": _merged(pod, now, wanted)}


def not_ready(pod: Json, now: datetime) -> dict[str, Any]:
    """Return what is reported of a pod on a node that is not heard of: not ready, all else as it was."""
    return {"conditions": _merged(pod, now, {"type": "Ready", "status": "False"})}


def event(pod: Json, refusal: Refusal, now: datetime) -> dict[str, Any]:
    """Return kubelet's event of a refusal, a core/v1 Event."""
    meta, node = pod["metadata"], pod["spec"]["nodeName"]
    when = stamp(now)
    return {
        "metadata": {
            "name": f"{meta['name']}.{int(now.timestamp() * 1e6):x}",
            "namespace": meta["namespace"],
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
        },
        "type": "Warning",
        "reason": refusal.reason,
        "message": refusal.message,
        "count": 1,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "source": {"component": "kubelet", "host": node},
        "reportingComponent": "kubelet",
        "reportingInstance": node,
    }


def merged(
    before: Iterable[Json], now: datetime, new: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return conditions with new ones in the places of those of their types.

    `lastTransitionTime` stays where the status does.
    """
    found = {c["type"]: dict(c) for c in before}
    for condition in new:
        old = found.get(condition["type"], {})
        same = old.get("status") == condition["status"]
        since = old["lastTransitionTime"] if same and "lastTransitionTime" in old else stamp(now)
        found[condition["type"]] = {
            "lastProbeTime": None,
            "lastTransitionTime": since,
            **condition,
        }
    return list(found.values())


def _merged(pod: Json, now: datetime, *new: Mapping[str, Any]) -> list[dict[str, Any]]:
    generation = pod["metadata"].get("generation")
    observed = {"observedGeneration": generation} if generation else {}
    return merged(_conditions(pod), now, [{**observed, **condition} for condition in new])


def _conditions(pod: Json) -> Sequence[Json]:
    found: Sequence[Json] = (pod.get("status") or {}).get("conditions") or []
    return found


def _place(pod: Json, now: datetime) -> dict[str, Any]:
    start = (pod.get("status") or {}).get("startTime") or stamp(now)
    return {"hostIP": host_address(pod["spec"]["nodeName"]), "startTime": start}


def host_address(node: str) -> str:
    """Return an address for a node; nothing listens there."""
    high, low = divmod(_number(node), 250)
    return f"10.0.{high}.{low + 1}"


def _address(pod: Json) -> str:
    high, low = divmod(_number(pod["metadata"]["uid"]), 250)
    return f"10.244.{high}.{low + 1}"


def _number(text: str) -> int:
    """Return a number below 60000 that is the same in every process."""
    return zlib.crc32(text.encode()) % _ADDRESSES


def _containers(pod: Json, state: Mapping[str, Any], *, ready: bool) -> list[dict[str, Any]]:
    running = "running" in state
    return [
        {
            "name": container["name"],
            "image": container["image"],
            # A migration wants the digest of every container disk.
            "imageID": "" if "waiting" in state else _digest(container["image"]),
            "containerID": "" if "waiting" in state else f"containerd://{container['name']}",
            "lastState": {},
            "restartCount": 0,
            "started": running,
            "ready": ready,
            "state": dict(state),
        }
        for container in pod["spec"]["containers"]
    ]


def _digest(image: str) -> str:
    name, _, tag = image.rpartition(":")
    return f"{name if name and '/' not in tag else image}@sha256:{_DIGEST}"


def _started(pod: Json) -> str | None:
    for container in (pod.get("status") or {}).get("containerStatuses") or []:
        if "running" in container.get("state", {}):
            return str(container["state"]["running"]["startedAt"])
    return None
