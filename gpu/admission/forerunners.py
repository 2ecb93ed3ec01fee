"""Forerunners: launchers of a VMI that had the id of a start before, and is gone already.

A call that is made again keeps the id of one whose VMI has not come. Where it came and went before a leader
saw it, its launcher may run on: then the id is spent, and what runs needs evidence.
"""

from gpu.admission import unanswered
from gpu.model import attaching
from gpu.objects import pods
from gpu.objects.claims import AttachedPod
from gpu.objects.kinds import PODS
from gpu.ports import Writer
from gpu.units import NodeName


async def of(writer: Writer, namespace: str, name: str) -> tuple[AttachedPod, ...]:
    """Return live launchers of a VMI of this name that are past the gate, read past the cache.

    Asked where no VMI of the name is there. Raises DecodeError for a launcher that cannot be read, and what
    the Writer raises for a refusal.
    """
    listed = await unanswered.again(writer, lambda: writer.list_all(PODS, namespace))
    found = []
    for raw in listed.items:
        labels = raw["metadata"].get("labels") or {}
        if labels.get(pods.LAUNCHER_LABEL) != pods.LAUNCHER_VALUE:
            continue
        pod = pods.decode(raw)
        if pod.live and attaching.is_launcher_of(pod, name, ""):
            node = pod.node or pod.pinned or NodeName("")
            found.append(AttachedPod(uid=pod.meta.uid, node=node))
    return tuple(found)
