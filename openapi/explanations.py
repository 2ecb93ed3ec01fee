"""Schema of Explanation."""

from typing import Final

from gpu.model.explain import NodeReason
from gpu.model.standing import Kind
from gpu.model.waiters import Queued
from gpu.model.ways import Way
from openapi import meta

_V1: Final = f"{meta.PREFIX}catalog.v1alpha1."
UNITS: Final = f"{_V1}ExplanationUnits"
REASON: Final = f"{_V1}ExplanationReason"
NODES: Final = f"{_V1}ExplanationNodes"
HELP: Final = f"{_V1}ExplanationHelp"
SPEC: Final = f"{_V1}ExplanationSpec"
STATUS: Final = f"{_V1}ExplanationStatus"
KIND: Final = f"{_V1}Explanation"


def _many(of: str, description: str) -> meta.Schema:
    """Return the schema of a list of such objects."""
    items = {"allOf": [{"$ref": f"#/components/schemas/{of}"}]}
    return {"description": description, "type": "array", "items": items}


def _words(description: str, enum: list[str]) -> meta.Schema:
    """Return the schema of a list of words."""
    items = {"type": "string", "enum": enum}
    return {"description": description, "type": "array", "items": items}


SCHEMAS: Final[dict[str, meta.Schema]] = {
    UNITS: meta.obj(
        "ExplanationUnits are units of one class.",
        {
            "className": meta.text("Name of the class."),
            "count": meta.whole("How many.", smallest=1),
        },
        ("className", "count"),
    ),
    SPEC: meta.obj(
        "ExplanationSpec is what waits.",
        {
            "kind": meta.text(
                "GPUClaim, or VirtualMachineInstance of a VM that waits to start.",
                enum=["GPUClaim", "VirtualMachineInstance"],
            ),
            "name": meta.text("Its name, in the namespace of the explanation."),
            "units": _many(UNITS, "Units of each class that one node must have for it."),
        },
        ("kind", "name", "units"),
    ),
    REASON: meta.obj(
        "ExplanationReason is one reason to wait.",
        {
            "code": meta.text("The reason as one word, as conditions of claims have it."),
            "message": meta.text("The reason in words, and what to do."),
        },
        ("code", "message"),
    ),
    NODES: meta.obj(
        "ExplanationNodes are the nodes that one thing keeps from taking it; no node is named.",
        {
            "reason": meta.text(
                "The first thing that keeps them.", enum=[one.value for one in NodeReason]
            ),
            "count": meta.whole("How many nodes."),
        },
        ("reason", "count"),
    ),
    HELP: meta.obj(
        "ExplanationHelp is one change that would let it in by itself, all else as it is.",
        {
            "change": meta.text("What changes.", enum=[one.value for one in Way]),
            "message": meta.text("The change in words."),
            "key": meta.text("The quota key, resource or class that it is about."),
            "tenant": meta.text(
                "The tenant that gets more, or leaves more: this one or one above."
            ),
            "units": meta.whole(
                "Units: how many more, how many free at once, or how many instead."
            ),
        },
        ("change", "message"),
    ),
    STATUS: meta.obj(
        "ExplanationStatus is why it waits, as things are now.",
        {
            "phase": meta.text(
                "Phase of the claim; absent of a VM.", enum=["Pending", "Bound", "Lost"]
            ),
            "reason": meta.text(
                "The first reason as one word; Next when nothing but the next pass is waited for."
            ),
            "message": meta.text(
                "Every reason in words. Numbers that others change are in gpuoffers."
            ),
            "place": meta.text(
                "Place in the queue for the same units, told no more exactly; absent of a claim that "
                "holds its units still.",
                enum=[one.value for one in Queued],
            ),
            "since": meta.text("Since when it waits, as its status says, or since it was made."),
            "reasons": _many(REASON, "Every reason."),
            "nodes": _many(NODES, "Where units on a node are lacking: nodes by what keeps them."),
            "wouldHelp": _many(
                HELP, "Changes each of which would let it in by itself; those that are sure to."
            ),
            "stands": _words(
                "Where no single change is told: what would have to change, the first two things. "
                "Turn: others come before it, and the change would let them in instead.",
                enum=[one.value for one in Kind],
            ),
        },
        ("reason", "message", "since"),
    ),
    KIND: meta.kind(
        "Explanation says why a GPUClaim waits or is not stored where it should be, or why a VM waits to "
        "start: reasons, roughly its place in the queue, and what single change would let it in. "
        "A claim's has the claim's name, a VM's is named vmi:NAME. It is gone once nothing waits.",
        {
            "spec": meta.ref(SPEC, "What waits."),
            "status": meta.ref(STATUS, "Why, and what would help."),
        },
    ),
}
