"""Schema of DrainPlan."""

from typing import Final

from openapi import meta

_V1: Final = f"{meta.PREFIX}catalog.v1alpha1."
SPEC: Final = f"{_V1}DrainPlanSpec"
STATUS: Final = f"{_V1}DrainPlanStatus"
SET: Final = f"{_V1}DrainPlanSet"
CLAIM: Final = f"{_V1}DrainPlanClaim"
SUM: Final = f"{_V1}DrainPlanSum"
GUARD: Final = f"{_V1}DrainPlanGuard"
KIND: Final = f"{_V1}DrainPlan"

OUTCOMES: Final = ["Move", "MoveWhenStopped", "Stay", "NoRoom", "Release"]
GUESTS: Final = ["Off", "Gated", "Provisioning", "Starting", "Running", "Ending"]


def _yes(description: str) -> meta.Schema:
    return {"description": description, "type": "boolean"}


def _list(name: str, description: str) -> meta.Schema:
    return {
        "description": description,
        "type": "array",
        "items": {"allOf": [{"$ref": f"#/components/schemas/{name}"}]},
    }


SCHEMAS: Final[dict[str, meta.Schema]] = {
    SPEC: meta.obj(
        "DrainPlanSpec is the node that is asked about.",
        {
            "nodeName": meta.text("Name of the node."),
            "cordoned": _yes("Whether it is cordoned already: what is told is then what is left."),
            "ready": _yes("Whether it is Ready. What is done for a node that is not comes beside."),
        },
        ("nodeName", "cordoned", "ready"),
    ),
    CLAIM: meta.obj(
        "DrainPlanClaim is one claim that holds units on the node.",
        {
            "name": meta.text("Name of the GPUClaim."),
            "className": meta.text("Its class."),
            "units": meta.whole("Units that it holds."),
        },
        ("name", "className", "units"),
    ),
    SET: meta.obj(
        "DrainPlanSet is all claims of one VM, or a claim that no VM names: they go together.",
        {
            "tenant": meta.text("Namespace of the claims."),
            "vmName": meta.text("The VM that uses them, or whose template names them."),
            "guest": meta.text("What that VM does now.", enum=GUESTS),
            "outcome": meta.text(
                "Move: it goes to another node. MoveWhenStopped: its guest runs, which a cordon does "
                "not end; it goes once the VM is stopped. Stay: a class of it stays through a cordon. "
                "NoRoom: no other node has room for all of it. Release: it is being deleted, and goes "
                "by itself.",
                enum=OUTCOMES,
            ),
            "to": meta.text(
                "The node it would go to. Of several that wait, the older one goes first."
            ),
            "atOnce": _yes(
                "It moves within a pass of the cordon; else when pods have ended, or a VM is stopped."
            ),
            "heldBack": _yes("It has room, and the guard asks a person before it goes."),
            "units": meta.whole("Units that it holds on the node."),
            "claims": _list(CLAIM, "Its claims on the node, oldest first."),
        },
        ("tenant", "guest", "outcome", "atOnce", "heldBack", "units", "claims"),
    ),
    SUM: meta.obj(
        "DrainPlanSum is how much there is of one outcome.",
        {"sets": meta.whole("Sets of claims."), "units": meta.whole("Units that they hold.")},
        ("sets", "units"),
    ),
    GUARD: meta.obj(
        "DrainPlanGuard is what the guard would say.",
        {
            "limit": meta.whole("Sets that may be moved or lost within its window, everywhere."),
            "heldBack": meta.whole("Sets of this node that it would hold back."),
            "id": meta.text(
                "What a person acknowledges to let them go: the value of annotation "
                "gpu.cozystack.io/acknowledge-lost on the GPUNode."
            ),
        },
        ("limit", "heldBack", "id"),
    ),
    STATUS: meta.obj(
        "DrainPlanStatus is what would come of a cordon.",
        {
            "message": meta.text("It all in one sentence."),
            "total": meta.ref(SUM, "Everything held on the node."),
            "move": meta.ref(SUM, "What would move without anybody's doing."),
            "moveWhenStopped": meta.ref(SUM, "What would move once its VM is stopped."),
            "stay": meta.ref(SUM, "What stays, as its class says."),
            "noRoom": meta.ref(SUM, "What no other node has room for."),
            "release": meta.ref(SUM, "What is being deleted."),
            "guard": meta.ref(GUARD, "Whether a person would be asked first."),
            "sets": _list(
                SET, "Every set with claims on the node, in the order in which they would leave."
            ),
        },
        (
            "message",
            "total",
            "move",
            "moveWhenStopped",
            "stay",
            "noRoom",
            "release",
            "guard",
            "sets",
        ),
    ),
    KIND: meta.kind(
        "DrainPlan is what each set of claims on a GPU node would do if the node were cordoned now, all "
        "else as it is. It has the node's name. For hosters: it names tenants and nodes.",
        {
            "spec": meta.ref(SPEC, "The node that is asked about."),
            "status": meta.ref(STATUS, "What would come of a cordon."),
        },
    ),
}
