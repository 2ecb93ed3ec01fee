"""Forerunners: launchers of a VMI that had the claims of a start before, past the gate and noted by nobody.

A call that is made again keeps the id of one whose VMI has not come. Where it came and went before a leader
saw it, its launcher may run on: then the id is spent, and what runs needs evidence. So does the target of a
migration that was begun when its VMI was forced away: nothing lists it any more, and who takes the claim over is
the last that knows whose it is.
"""

from gpu.admission import unanswered
from gpu.model import attaching
from gpu.objects import pods
from gpu.objects.kinds import PODS
from gpu.objects.pods import Pod
from gpu.ports import Writer


async def of(writer: Writer, namespace: str, name: str, *, only_targets: bool) -> tuple[Pod, ...]:
    """Return live launchers of VMIs of this name that are past the gate, read past the cache.

    Asked once that VMI is known to be gone or going; `only_targets` of migrations are few, however many pods there
    are. Raises DecodeError for a launcher of the name that cannot be read, and what the Writer raises for a refusal.
    """
    label = pods.MIGRATION_LABEL if only_targets else f"{pods.LAUNCHER_LABEL}={pods.LAUNCHER_VALUE}"
    listed = await unanswered.again(
        writer, lambda: writer.list_all(PODS, namespace, label_selector=label)
    )
    found = []
    for raw in listed.items:
        if name not in {it.get("name") for it in raw["metadata"].get("ownerReferences") or ()}:
            continue
        pod = pods.decode(raw)
        if pod.live and attaching.is_launcher_of(pod, name, ""):
            found.append(pod)
    return tuple(found)
