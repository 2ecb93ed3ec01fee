"""Shared schemas under our own names: ObjectMeta, ListMeta, Status.

Upstream's names are not reused: the aggregator merges every server's definitions by name, and one that
differs in a word from the cluster's own is renamed for the whole cluster. Ours say what we serve, no
more. No boolean `additionalProperties` anywhere: kube-controller-manager panics on it.
"""

from typing import Any, Final

Schema = dict[str, Any]

PREFIX: Final = "com.cozystack.gpu."
OBJECT_META: Final = f"{PREFIX}meta.v1.ObjectMeta"
LIST_META: Final = f"{PREFIX}meta.v1.ListMeta"
STATUS: Final = f"{PREFIX}meta.v1.Status"
DETAILS: Final = f"{PREFIX}meta.v1.StatusDetails"
CAUSE: Final = f"{PREFIX}meta.v1.StatusCause"

_API_VERSION: Final = "APIVersion defines the versioned schema of this representation of an object."
_KIND: Final = "Kind is a string value representing the REST resource this object represents."


def text(description: str, **more: Any) -> Schema:
    """Return the schema of a string."""
    return {"description": description, "type": "string", **more}


def whole(description: str, *, smallest: int | None = 0) -> Schema:
    """Return the schema of a whole number; not negative unless said otherwise."""
    schema: Schema = {"description": description, "type": "integer", "format": "int64"}
    return schema if smallest is None else {**schema, "minimum": smallest}


def ref(name: str, description: str) -> Schema:
    """Return a described reference; v2 drops the description, which must not stand beside a $ref."""
    return {
        "description": description,
        "allOf": [{"$ref": f"#/components/schemas/{name}"}],
    }


def texts(description: str) -> Schema:
    """Return the schema of a map of strings."""
    return {
        "description": description,
        "type": "object",
        "additionalProperties": {"type": "string", "default": ""},
    }


def obj(description: str, properties: Schema, required: tuple[str, ...] = ()) -> Schema:
    """Return the schema of an object."""
    schema: Schema = {"description": description, "type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def kind(description: str, parts: Schema, required: tuple[str, ...] = ()) -> Schema:
    """Return the schema of a top-level object with those parts beside its metadata."""
    head = {
        "apiVersion": text(_API_VERSION),
        "kind": text(_KIND),
        "metadata": ref(OBJECT_META, "Standard object's metadata."),
    }
    return obj(description, {**head, **parts}, required)


def kind_list(name: str, of: str) -> Schema:
    """Return the schema of a list of a kind."""
    item = {"allOf": [{"$ref": f"#/components/schemas/{of}"}]}
    return obj(
        f"{name}List is a list of {name}.",
        {
            "apiVersion": text(_API_VERSION),
            "kind": text(_KIND),
            "metadata": ref(LIST_META, "Standard list metadata."),
            "items": {
                "description": "Items in order of namespace and name.",
                "type": "array",
                "items": item,
            },
        },
        ("items",),
    )


def _time(description: str) -> Schema:
    return text(description, format="date-time")


SCHEMAS: Final[dict[str, Schema]] = {
    OBJECT_META: obj(
        "ObjectMeta is the metadata of a computed object: nothing of it can be written.",
        {
            "name": text("Name is unique within a namespace."),
            "namespace": text("Namespace the object was computed for."),
            "uid": text("UID is made from resource, namespace and name; it never changes."),
            "resourceVersion": text(
                "ResourceVersion at which the object last changed; comparable as a number."
            ),
            "creationTimestamp": _time(
                "CreationTimestamp of what the object is computed from, else of its namespace."
            ),
            "labels": texts("Labels to select by."),
            "annotations": texts("Annotations; none are set."),
        },
    ),
    LIST_META: obj(
        "ListMeta is the metadata of a list.",
        {
            "resourceVersion": text("Version at which the list holds; a watch can start there."),
            "continue": text("Token for the next page; absent on the last one."),
            "remainingItemCount": whole("How many objects follow, when no selector is used."),
        },
    ),
    STATUS: obj(
        "Status is the answer to a request that failed.",
        {
            "apiVersion": text(_API_VERSION),
            "kind": text(_KIND),
            "metadata": ref(LIST_META, "Standard list metadata."),
            "status": text("Success or Failure."),
            "message": text("What went wrong, for people."),
            "reason": text("What went wrong, for programs."),
            "details": ref(DETAILS, "What it went wrong with."),
            "code": whole("The HTTP status code."),
        },
    ),
    DETAILS: obj(
        "StatusDetails says what went wrong with what; each member only where it says something.",
        {
            "name": text("Name of the object."),
            "group": text("Group of the resource."),
            "kind": text("The resource in the plural, or a kind."),
            "causes": {
                "description": "One entry a fault.",
                "type": "array",
                "items": {"allOf": [{"$ref": f"#/components/schemas/{CAUSE}"}]},
            },
            "retryAfterSeconds": whole("When to try again."),
        },
    ),
    CAUSE: obj(
        "StatusCause is one fault.",
        {
            "reason": text("The fault, for programs."),
            "message": text("The fault, for people."),
            "field": text("Path of the field that has it, as in spec.items[0].value."),
        },
    ),
}
