"""A claim that a VMI uses or used with one pod, and what a witness of it looks at."""

from datetime import timedelta
from typing import Any

from gpu.config import Grace
from gpu.model import evidence, witness
from gpu.model.sightings import Sightings
from gpu.model.signs import Lack, Missing
from gpu.model.witness import Witness
from tests.builders import START, a_claim, a_pod, a_snapshot, a_taint, attachment

GRACE = Grace(release_settle=180, inventory_stale=180, attachment=60)
OUT = a_taint("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute")
PINNED = a_pod(uid="p", phase="Pending", pinned="n1")


def at(seconds: float):
    return START + timedelta(seconds=seconds)


NOW = 1000
GONE = Sightings(absent={"p": at(700)})
"""The pod was seen to be gone 300 s ago."""
JUST_GONE = Sightings(absent={"p": at(900)})


def a_user(*, on: str | None = "n1", pods: Any = None, **attached: Any):
    """A claim that VMI vmi-1 uses or used with pod p, on n1 unless told otherwise."""
    found = {"uid": "vmi-1", "pods": {"p": "n1"} if pods is None else pods, **attached}
    return a_claim("c", on=on, attached=attachment("vm", **found))


def a_witness(
    claim: Any = None,
    seen: Sightings = GONE,
    *,
    inventory: Any = (),
    now: float = NOW,
    **objects: Any,
) -> Witness:
    snapshot = a_snapshot(claims=[claim or a_user()], **objects)
    return witness.of(snapshot, inventory, seen, GRACE, at(now))


def look(claim: Any = None, seen: Sightings = GONE, **objects: Any):
    claim = claim or a_user()
    return evidence.look(a_witness(claim, seen, **objects), [claim])


def a_lack(lack: Lack, node: str | None = "n1", seconds: int = 0, pod: str = "p") -> Missing:
    return Missing(lack=lack, vm="vm", pod=pod, node=node, seconds=seconds)
