"""The body of a create: what upstream refuses or warns of before anything else looks at it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import jsonschema
import msgspec

from apiserver.wire import status
from apiserver.wire.items import Type
from apiserver.wire.status import BadRequest, Cause
from apiserver.wire.values import Json, JsonObject

IGNORE: Final = "Ignore"
WARN: Final = "Warn"
STRICT: Final = "Strict"
ALL: Final = "All"

Schema = Mapping[str, Any]  # type: ignore[explicit-any]  # a JSON schema

_TOLD: Final = 128
"""Characters of a value that a message quotes."""
_MOST_CAUSES: Final = 20
_MOST_FIELDS: Final = 100
"""As many strict errors as upstream tells."""
_FREE: Final = frozenset({"apiVersion", "kind", "metadata"})
"""Members of every object; of metadata clients may send more than we serve."""


def require_type(found: JsonObject, wanted: Type) -> None:
    """Raise BadRequest unless the body says to be of the type; what it leaves out is filled in."""
    said = (found.get("apiVersion") or wanted.api_version, found.get("kind") or wanted.kind)
    if said != (wanted.api_version, wanted.kind):
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {wanted.kind}): "
            f"it is {said[1]!s:.64} of {said[0]!s:.64}"
        )
    for name in ("metadata", "spec"):
        if not isinstance(found.get(name, {}), Mapping):
            # Upstream cannot even decode such a one, so it is no 422.
            raise BadRequest(f"{wanted.kind} cannot be read: {name} must be an object")


def require_namespace(found: JsonObject, namespace: str) -> None:
    """Raise BadRequest when the body names another namespace than the path."""
    meta = found.get("metadata")
    said = meta.get("namespace") if isinstance(meta, Mapping) else None
    if said not in {None, "", namespace}:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def require_dry_run(text: str | None) -> None:
    """Raise Invalid for a dryRun that is not `All`; nothing is ever stored, so it changes nothing."""
    if text not in {None, "", ALL}:
        cause = _unsupported("dryRun", text or "", [ALL])
        raise status.invalid("meta.k8s.io", "CreateOptions", "", [cause])


def unknown_fields(found: JsonObject, schema: Schema, schemas: Mapping[str, Schema]) -> list[str]:
    """Return paths of members that the schema does not have, metadata aside."""
    parts = {name: value for name, value in found.items() if name not in _FREE}
    return list(_unknown(parts, schema, schemas, ""))


def judge_fields(
    unknown: Sequence[str], doubled: Sequence[str], how: str | None, kind: Type
) -> list[str]:
    """Return warnings of fields that are unknown or stand twice, by the query's fieldValidation.

    Raises BadRequest for Strict, Invalid for a word that is none of the three. Not all of very many.
    """
    if how not in {None, "", IGNORE, WARN, STRICT}:
        cause = _unsupported("fieldValidation", how or "", [IGNORE, STRICT, WARN])
        raise status.invalid("meta.k8s.io", "CreateOptions", "", [cause])
    texts = [f'unknown field "{name}"' for name in unknown[:_MOST_FIELDS]]
    texts += [f'duplicate field "{name}"' for name in doubled[: _MOST_FIELDS - len(texts)]]
    if how == STRICT and texts:
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {', '.join(texts)}"
        )
    return [] if how == IGNORE else texts


def causes(found: JsonObject, judge: jsonschema.protocols.Validator) -> list[Cause]:
    """Return what is wrong with a body by its schema, in upstream's words; not all of very much."""
    errors = sorted(judge.iter_errors(found), key=lambda error: [str(part) for part in error.path])
    return [_cause(error) for error in errors[:_MOST_CAUSES]]


def _cause(error: jsonschema.ValidationError) -> Cause:
    path = _path(error.absolute_path)
    if error.validator == "required":
        lacking = error.message.split("'")[1]  # one error for each
        field = f"{path}.{lacking}" if path else lacking
        return Cause("FieldValueRequired", "Required value", field)
    value = msgspec.json.encode(error.instance).decode()[:_TOLD]
    if error.validator == "type":
        message = f"Invalid value: {value}: must be of type {error.validator_value}"
        return Cause("FieldValueTypeInvalid", message, path)
    if error.validator == "minimum":
        message = f"should be greater than or equal to {error.validator_value}"
    elif error.validator == "maximum":
        message = f"should be less than or equal to {error.validator_value}"
    else:
        message = error.message[:_TOLD]
    return Cause("FieldValueInvalid", f"Invalid value: {value}: {message}", path)


def _path(parts: Iterable[str | int]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def _unknown(
    found: Json, schema: Schema, schemas: Mapping[str, Schema], path: str
) -> Iterator[str]:
    schema = _resolved(schema, schemas)
    known = schema.get("properties")
    if known is None or not isinstance(found, Mapping):
        return
    for name, value in found.items():
        where = f"{path}.{name}" if path else name
        if name in known:
            yield from _unknown(value, known[name], schemas, where)
        else:
            yield where


def _resolved(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    while "allOf" in schema or "$ref" in schema:
        target = schema["$ref"] if "$ref" in schema else schema["allOf"][0]["$ref"]
        schema = schemas[target.rsplit("/", 1)[-1]]
    return schema


def _unsupported(field: str, value: str, known: Sequence[str]) -> Cause:
    words = ", ".join(f'"{one}"' for one in known)
    text = f'Unsupported value: "{value[:_TOLD]}": supported values: {words}'
    return Cause("FieldValueNotSupported", text, field)
