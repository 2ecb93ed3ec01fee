"""Worlds in which a node cannot keep a set: its trouble, what the guest does, room elsewhere or not."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from gpu.binder import bodies
from gpu.binder.phase import Scene
from gpu.binder.phases import moves
from gpu.config import Config, RunningGuests
from gpu.model.sightings import Sightings
from gpu.objects.claims import Cause
from tests.binder import raws
from tests.binder.scenes import NOW, scene_of

CONFIG = Config()
KEEP = replace(CONFIG, running_guests=RunningGuests.KEEP)
FINALIZER = {"finalizers": ["gpu.cozystack.io/claim"]}
TAINT = {"key": "dedicated", "effect": "NoSchedule"}


def ago(seconds: float) -> str:
    return bodies.time(NOW - timedelta(seconds=seconds))


def degraded(cause: Cause, *, since: float = 1000, message: str = "said before") -> raws.Raw:
    """Conditions of a claim that says so for some seconds."""
    return {
        "conditions": [
            {
                "type": "Degraded",
                "status": "True",
                "reason": cause.value,
                "message": message,
                "lastTransitionTime": ago(since),
            }
        ]
    }


def node_with(cause: Cause | None, name: str = "n1", *, units: int = 8) -> list[raws.Raw]:
    """The node in such trouble, past any grace; no node at all when it is gone."""
    match cause:
        case Cause.NODE_GONE:
            return []
        case Cause.NODE_NOT_READY:
            return [raws.a_node(name, units=units, ready="Unknown", since=ago(1000))]
        case Cause.UNITS_MISSING:
            return [raws.a_node(name, units=0)]
        case Cause.NODE_TAINTED:
            return [raws.a_node(name, units=units, taints=[TAINT])]
        case Cause.NODE_CORDONED:
            return [raws.a_node(name, units=units, unschedulable=True)]
        case _:
            return [raws.a_node(name, units=units)]


def guest(state: str, vm: str = "vm", node: str = "n1") -> dict[str, Any]:
    """How a claim is attached, VMIs and pods: off, gated, starting, running, ending, ended."""
    pod, uid = f"{vm}-pod", f"{vm}-uid"
    told = raws.attached(vm, uid=uid, pods={pod: node}, ended=[pod] if state == "ended" else [])
    match state:
        case "off":
            return {"attached": {}, "vmis": [], "pods": []}
        case "gated":
            vmi = raws.a_vmi(vm, uid=uid, phase="Scheduling", pods={pod: ""})
            waiting = raws.a_pod(pod, node="", phase="Pending", gated=True)
            return {
                "attached": raws.attached(vm, uid=uid),
                "vmis": [vmi],
                "pods": [waiting],
            }
        case "starting" | "running":
            phase = "Scheduled" if state == "starting" else "Running"
            vmi = raws.a_vmi(vm, uid=uid, phase=phase, node=node, pods={pod: node})
            return {"attached": told, "vmis": [vmi], "pods": [raws.a_pod(pod, node=node)]}
        case "ending":
            vmi = raws.a_vmi(vm, uid=uid, pods={pod: node}, deleting=True)
            return {"attached": told, "vmis": [vmi], "pods": [raws.a_pod(pod, node=node)]}
        case _:
            return {"attached": told, "vmis": [], "pods": []}


def a_hold(
    name: str = "x", node: str = "n1", *, count: int = 1, at: int = 0, **status: Any
) -> raws.Raw:
    """A claim Bound on a node; `status` is laid over."""
    meta = FINALIZER | status.pop("meta", {})
    return raws.a_claim(name, count=count, at=at, meta=meta, status=raws.bound(node) | status)


def a_scene(
    *claims: raws.Raw,
    nodes: list[raws.Raw],
    config: Config = CONFIG,
    seen: Sightings | None = None,
    skip: tuple[str, ...] = (),
    **more: Any,
) -> Scene:
    """A scene of one class, tenant-a and these claims."""
    objects = {
        "claims": claims,
        "nodes": nodes,
        "classes": more.pop("classes", [raws.a_class()]),
        "namespaces": [raws.a_tenant()],
        **more,
    }
    scene = scene_of(raws.a_world(**objects), config=config, skip=skip)
    return replace(scene, sightings=seen) if seen else scene


def one(
    cause: Cause | None,
    state: str,
    *,
    room: bool = True,
    config: Config = CONFIG,
    **status: Any,
) -> Scene:
    """One claim whose guest does something, on n1, with its clock long run out; n2 has room or not."""
    found = guest(state)
    if cause in {Cause.UNITS_MISSING, Cause.NODE_GONE}:
        status = degraded(cause) | status
    return a_scene(
        a_hold("x", **(found["attached"] | status)),
        nodes=[*node_with(cause), raws.a_node("n2", units=1 if room else 0)],
        vmis=found["vmis"],
        pods=found["pods"],
        config=config,
    )


def done(scene: Scene) -> list[str]:
    """What phase moves does, by claim and VMI, without what it makes claims say."""
    return [line for line in told(scene) if not line.startswith(("mark", "clear"))]


def told(scene: Scene) -> list[str]:
    """What phase moves does and says, in words."""
    lines = []
    for change in moves.changes_of(scene):
        match type(change).__name__:
            case "Place":
                lines.append(f"place {change.claim.meta.name} {change.node}")
            case "Lose":
                lines.append(f"lose {change.claim.meta.name}")
            case "EndGuest":
                lines.append(f"end {change.vmi.name}")
            case "Degrade":
                what = f"mark {change.claim.meta.name} {change.cause}" if change.cause else ""
                lines.append(what or f"clear {change.claim.meta.name}")
            case other:
                lines.append(other)
    return lines
