"""Schema of Option, as the host's core.cozystack.io describes it."""

from typing import Final

from openapi import meta

ITEM: Final = f"{meta.PREFIX}catalog.v1alpha1.OptionItem"
SPEC: Final = f"{meta.PREFIX}catalog.v1alpha1.OptionSpec"
KIND: Final = f"{meta.PREFIX}catalog.v1alpha1.Option"

SCHEMAS: Final[dict[str, meta.Schema]] = {
    ITEM: meta.obj(
        "OptionItem is a single selectable option.",
        {
            "value": meta.text("Value is the string written into the target field.", default=""),
            "label": meta.text("Label is a human-friendly title; the value where absent."),
            "description": meta.text("Description is helper text, such as how many are free."),
            "default": {
                "description": "Default marks the option that is selected to begin with.",
                "type": "boolean",
            },
        },
        ("value",),
    ),
    SPEC: meta.obj(
        "OptionSpec holds the computed options of a source.",
        {
            "items": {
                "description": "Items in order of their values; absent when there are none.",
                "type": "array",
                "items": {"allOf": [{"$ref": f"#/components/schemas/{ITEM}"}]},
            }
        },
    ),
    KIND: meta.kind(
        "Option is a list of choices for a field of a form, computed for a tenant. Its name is the "
        "source: gpu (resource names a tenant may name directly), gpuclass (classes that can be "
        "ordered), gpuclaim (this tenant's claims that are bound and free to use), gpuquotakey "
        "(keys that resourceQuotas may have).",
        {"spec": meta.ref(SPEC, "The options.")},
    ),
}
