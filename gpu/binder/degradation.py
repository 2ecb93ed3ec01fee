"""What condition Degraded says of a node that cannot keep a claim: what is wrong and what is next."""

from enum import StrEnum
from typing import Final

from gpu.binder import conditions
from gpu.config import Grace
from gpu.model import keeping
from gpu.model.keeping import Trouble
from gpu.objects import meta
from gpu.objects.claims import Cause, GPUClaim


class Stage(StrEnum):
    """What comes next for a set that is Degraded."""

    GRACE = "Grace"
    """Its node has a while to get well."""
    LEAVES = "Leaves"
    """It leaves once its pods are known to have ended."""
    HELD_BACK = "HeldBack"
    """The guard asks a person first."""
    KEPT = "Kept"
    """Its guest runs and is let run."""


_WRONG: Final = {
    Cause.NODE_GONE: "is gone",
    Cause.NODE_NOT_READY: "is not Ready",
    Cause.UNITS_MISSING: "serves fewer units than are held on it",
    Cause.NODE_TAINTED: "has a taint that the class does not tolerate",
}
_NEXT: Final = {
    Stage.LEAVES: "the claim leaves it once no pod of its VM can run there any more",
    Stage.HELD_BACK: "so much is lost at once that the hoster is asked before the claim leaves it",
    Stage.KEPT: "its VM runs on: stop it, and the claim is moved",
}


def words(trouble: Trouble, stage: Stage, grace: Grace) -> str:
    """Word it for the tenant; the same until the trouble or the stage is another."""
    wrong = f"node {trouble.node} {_WRONG[trouble.cause]}"
    if stage is Stage.GRACE:
        borne = grace.not_ready if trouble.cause is Cause.NODE_NOT_READY else grace.degraded
        return (
            f"{wrong}: if that lasts {borne:.0f} s, the claim is moved, or Lost where none has room"
        )
    return f"{wrong}: {_NEXT[stage]}"


def is_told(claim: GPUClaim, cause: Cause | None, said: str) -> bool:
    """Say whether the claim says so already; None is that it says none of what a node can cause."""
    found = meta.condition(claim.conditions, conditions.DEGRADED)
    if cause is None:
        return found is None or found.reason not in {item.value for item in keeping.CAUSES}
    return (
        found is not None
        and found.status == "True"
        and (found.reason, found.message) == (cause.value, said)
    )
