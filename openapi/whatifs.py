"""Schema of WhatIf."""

from typing import Final

from openapi import meta

_V1: Final = f"{meta.PREFIX}catalog.v1alpha1."
SPEC: Final = f"{_V1}WhatIfSpec"
BUDGET: Final = f"{_V1}WhatIfBudget"
CLASS: Final = f"{_V1}WhatIfClass"
NODE: Final = f"{_V1}WhatIfNode"
NODES: Final = f"{_V1}WhatIfNodes"
STATUS: Final = f"{_V1}WhatIfStatus"
CLAIMS: Final = f"{_V1}WhatIfClaims"
CLAIM: Final = f"{_V1}WhatIfClaim"
VMS: Final = f"{_V1}WhatIfVMs"
VM: Final = f"{_V1}WhatIfVM"
USED: Final = f"{_V1}WhatIfUsed"
KIND: Final = f"{_V1}WhatIf"

MOST_UNITS: Final = 2**31 - 1
MOST_NODES: Final = 100


def _several(title: str, noun: str, together: str, item: str) -> meta.Schema:
    """Return the schema of how many there are of one kind, and the first of them."""
    nouns = noun.replace("vms", "VMs")
    return meta.obj(
        f"{title} is how many {nouns} there are of one kind, and the first of them.",
        {
            noun: meta.whole("How many."),
            "units": meta.whole(together),
            "items": {
                "description": "The first of them.",
                "type": "array",
                "items": {"allOf": [{"$ref": f"#/components/schemas/{item}"}]},
            },
            "more": meta.whole("How many are not in items."),
        },
        (noun, "units", "items", "more"),
    )


SCHEMAS: Final[dict[str, meta.Schema]] = {
    BUDGET: meta.obj(
        "WhatIfBudget is a tenant declaring another amount under a key, lower or higher.",
        {
            "tenant": meta.text("Namespace of the tenant that declares it.", minLength=1),
            "key": meta.text("Key of resourceQuotas, as gpu.cozystack.io/total.", minLength=1),
            "to": {**meta.whole("Units it would declare; 0 is none."), "maximum": MOST_UNITS},
        },
        ("tenant", "key", "to"),
    ),
    CLASS: meta.obj(
        "WhatIfClass is a class that would be retired.",
        {"className": meta.text("Name of the GPUClass.", minLength=1)},
        ("className",),
    ),
    NODE: meta.obj(
        "WhatIfNode is the node that would be lost or cordoned.",
        {"nodeName": meta.text("Name of the node.", minLength=1)},
        ("nodeName",),
    ),
    NODES: meta.obj(
        "WhatIfNodes are nodes that would be there besides, empty, Ready and not cordoned.",
        {
            "like": meta.text("Name of a node that serves what each of them would.", minLength=1),
            "count": {**meta.whole("How many.", smallest=1), "maximum": MOST_NODES},
        },
        ("like", "count"),
    ),
    SPEC: meta.obj(
        "WhatIfSpec is the change that is asked about: exactly one.",
        {
            "setBudget": meta.ref(BUDGET, "A tenant declares another amount."),
            "retireClass": meta.ref(CLASS, "A class takes no new orders any more."),
            "loseNode": meta.ref(NODE, "The Node object goes: nothing runs there any more."),
            "cordonNode": meta.ref(NODE, "The node takes nothing new."),
            "addNodes": meta.ref(NODES, "There are more nodes."),
        },
    ),
    CLAIM: meta.obj(
        "WhatIfClaim is one claim, and what becomes of it.",
        {
            "tenant": meta.text("Its namespace."),
            "name": meta.text("Its name."),
            "className": meta.text("Its class."),
            "units": meta.whole("Its units."),
            "phase": meta.text("Its phase now.", enum=["Pending", "Bound", "Lost"]),
            "nodeName": meta.text("The node it is on, or was."),
            "to": meta.text("The node it would go to."),
            "reason": meta.text(
                "AtOnce, WhenPodsEnd, WhenStopped (its VM), GuestEnded (its VM starts anew): it moves. "
                "NoRoom, GuestMayRun, ClassStays, HeldBack (by the guard), ClassRetired, OverBudget: it "
                "does not. Rebound, Bound: it waits no more."
            ),
        },
        ("tenant", "name", "className", "units", "phase", "reason"),
    ),
    CLAIMS: _several("WhatIfClaims", "claims", "Their units together.", CLAIM),
    VM: meta.obj(
        "WhatIfVM is one VM that waits at the gate without a claim, and what becomes of it.",
        {
            "tenant": meta.text("Its namespace."),
            "name": meta.text("Its name."),
            "units": meta.whole("Units that it asks for."),
            "to": meta.text("The node it would go to."),
            "reason": meta.text("LetIn: it waits no more. ClassRetired, OverBudget: it does."),
        },
        ("tenant", "name", "units", "reason"),
    ),
    VMS: _several("WhatIfVMs", "vms", "Units that they ask for together.", VM),
    USED: meta.obj(
        "WhatIfUsed is how the budget that is asked about stands.",
        {
            "was": meta.whole("Units declared now; absent when the tenant declares none."),
            "to": meta.whole("Units it would declare."),
            "used": meta.whole(
                "Units that count against it: claims of every phase and pods that name a resource, of "
                "the tenant, and what is used by or promised to those below it."
            ),
            "excess": meta.whole("Units used beyond it. What holds units keeps them."),
        },
        ("to", "used", "excess"),
    ),
    STATUS: meta.obj(
        "WhatIfStatus is what the change would come to.",
        {
            "message": meta.text("It all in one sentence."),
            "over": meta.ref(CLAIMS, "The youngest claims without which the budget would be kept."),
            "lost": meta.ref(CLAIMS, "Claims that would be Lost."),
            "movable": meta.ref(CLAIMS, "Claims that would go to another node."),
            "stuck": meta.ref(CLAIMS, "Claims that would stay where they are, or wait for good."),
            "letIn": meta.ref(CLAIMS, "Claims that wait now and would be bound."),
            "vmsLetIn": meta.ref(
                VMS, "VMs that wait at the gate without a claim and would be let in."
            ),
            "vmsStuck": meta.ref(VMS, "VMs that wait so and would not be let in any more."),
            "heldBack": meta.whole("Sets that the guard would ask a person about."),
            "budget": meta.ref(USED, "Of setBudget: how that budget stands."),
        },
        (
            "message",
            "over",
            "lost",
            "movable",
            "stuck",
            "letIn",
            "vmsLetIn",
            "vmsStuck",
            "heldBack",
        ),
    ),
    KIND: meta.kind(
        "WhatIf asks what one change would come to, all else as it is. It is answered at once; nothing "
        "is changed, stored or reserved. For hosters: it names tenants and nodes.",
        {
            "spec": meta.ref(SPEC, "The change that is asked about: exactly one."),
            "status": meta.ref(STATUS, "What it would come to."),
        },
        ("spec",),
    ),
}
