"""Schema of QuotaReview."""

from typing import Final

from openapi import meta

SPEC: Final = f"{meta.PREFIX}catalog.v1alpha1.QuotaReviewSpec"
STATUS: Final = f"{meta.PREFIX}catalog.v1alpha1.QuotaReviewStatus"
CAUSE: Final = f"{meta.PREFIX}catalog.v1alpha1.QuotaReviewCause"
KIND: Final = f"{meta.PREFIX}catalog.v1alpha1.QuotaReview"

SCHEMAS: Final[dict[str, meta.Schema]] = {
    SPEC: meta.obj(
        "QuotaReviewSpec is what is asked about: quotas of one child of the tenant.",
        {
            "childName": meta.text(
                "Name of the child as its Tenant has it. Its present share is then not counted "
                "against it, and what it keeps or lowers is accepted. Absent: a new child.",
                pattern="^[a-z][a-z0-9]*$",
                maxLength=63,
            ),
            "resourceQuotas": {
                "description": "As in a Tenant. Keys that are no GPU keys are not judged.",
                "type": "object",
                "additionalProperties": {
                    "description": "A whole number of units, as a number or as a Kubernetes quantity.",
                    "x-kubernetes-int-or-string": True,
                },
            },
        },
        ("resourceQuotas",),
    ),
    CAUSE: meta.obj(
        "QuotaReviewCause is one key that would be refused.",
        {
            "key": meta.text("The key."),
            "field": meta.text("Field of the Tenant that it is about."),
            "reason": meta.text("FieldValueForbidden or FieldValueInvalid, as Kubernetes has it."),
            "message": meta.text("Why, with numbers and what to do."),
            "mostAccepted": meta.whole("The largest amount that would be accepted, if it is that."),
        },
        ("reason", "message"),
    ),
    STATUS: meta.obj(
        "QuotaReviewStatus is what would become of the quotas now. What was granted to others in the "
        "last seconds and is not seen yet can still refuse them.",
        {
            "allowed": {
                "description": "Whether the quotas would be accepted.",
                "type": "boolean",
            },
            "causes": {
                "description": "Every key that would be refused, by name.",
                "type": "array",
                "items": {"allOf": [{"$ref": f"#/components/schemas/{CAUSE}"}]},
            },
            "warnings": {
                "description": "What would come of accepting them.",
                "type": "array",
                "items": {"type": "string", "default": ""},
            },
        },
        ("allowed", "causes", "warnings"),
    ),
    KIND: meta.kind(
        "QuotaReview asks whether a child of the tenant would be granted these GPU quotas now. It is "
        "answered at once; nothing is stored or reserved.",
        {
            "spec": meta.ref(SPEC, "The quotas that are asked about."),
            "status": meta.ref(STATUS, "What would become of them now."),
        },
        ("spec",),
    ),
}
