"""Schema of OrderReview."""

from typing import Final

from openapi import meta

SPEC: Final = f"{meta.PREFIX}catalog.v1alpha1.OrderReviewSpec"
STATUS: Final = f"{meta.PREFIX}catalog.v1alpha1.OrderReviewStatus"
REASON: Final = f"{meta.PREFIX}catalog.v1alpha1.OrderReviewReason"
KIND: Final = f"{meta.PREFIX}catalog.v1alpha1.OrderReview"

MOST: Final = 2**31 - 1
"""As in the stored schema of a GPUClaim."""

SCHEMAS: Final[dict[str, meta.Schema]] = {
    SPEC: meta.obj(
        "OrderReviewSpec is the order that is asked about.",
        {
            "className": meta.text("Name of the class, as in a GPUClaim.", minLength=1),
            "count": {**meta.whole("Units wanted.", smallest=1), "maximum": MOST},
            "claimName": meta.text(
                "Name the GPUClaim would have. It matters only where a VM names it already: then "
                "its node must have room for the VM's other claims too."
            ),
        },
        ("className", "count"),
    ),
    REASON: meta.obj(
        "OrderReviewReason is one reason why the order would be refused.",
        {
            "code": meta.text("The reason as one word; stable."),
            "message": meta.text("The reason in words, with numbers and what to do."),
            "field": meta.text("Field of the GPUClaim that it is about."),
        },
        ("code", "message"),
    ),
    STATUS: meta.obj(
        "OrderReviewStatus is what would become of the order now.",
        {
            "allowed": {
                "description": "Whether it would be accepted, and bound as soon as it is stored.",
                "type": "boolean",
            },
            "reasons": {
                "description": "Every reason why it would be refused; empty when it would not.",
                "type": "array",
                "items": {"allOf": [{"$ref": f"#/components/schemas/{REASON}"}]},
            },
            "message": meta.text("What a refused order is told, in one line."),
            "mostAccepted": meta.whole("The largest count of the class that would be accepted."),
            "alternatives": {
                "description": "Other classes that would take the whole count: those of the same "
                "mode first, then by name. Empty when the order would be accepted.",
                "type": "array",
                "items": {"type": "string", "default": ""},
            },
        },
        ("allowed", "reasons", "mostAccepted", "alternatives"),
    ),
    KIND: meta.kind(
        "OrderReview asks whether an order would be accepted now, and what would be in its place. It "
        "is answered at once and never stored.",
        {
            "spec": meta.ref(SPEC, "The order that is asked about."),
            "status": meta.ref(STATUS, "What would become of it now."),
        },
        ("spec",),
    ),
}
