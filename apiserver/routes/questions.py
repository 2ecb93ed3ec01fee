"""POST of what is only asked: the body is judged by its schema, answered from a view, never stored."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import jsonschema
from aiohttp import web

from apiserver import appkeys
from apiserver.identity import NOBODY, User
from apiserver.resources import base
from apiserver.resources.base import Answers, Resource, Said
from apiserver.routes import answers
from apiserver.wire import bodies, decoding, items, negotiate, options, status, table, warnings
from apiserver.wire.items import Item, Row
from apiserver.wire.negotiate import Form, Subject, View
from apiserver.wire.status import Unavailable
from apiserver.wire.values import Json, JsonObject
from gpu.model.premises import Premises, of_object
from gpu.objects.tenants import Namespace
from gpu.world import World
from openapi import document

_CREATED: Final = 201
_NEVER: Final = datetime.fromtimestamp(0, UTC)
"""Stands where an object has the time of its creation: an answer tells of none."""
_MUCH: Final = 16 * 1024
"""Bytes of a body from which on it is read in a thread."""


@dataclass(frozen=True, slots=True)
class Judges:
    """What bodies are judged by: a validator of each kind's schema, and all schemas by name."""

    by_kind: Mapping[str, jsonschema.protocols.Validator]
    names: Mapping[str, str]
    schemas: Mapping[str, Mapping[str, Any]]


JUDGES: Final = web.AppKey("judges", Judges)
_Validator: Final = jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # it has no types
    jsonschema.Draft202012Validator,
    # For JSON Schema 1.0 is an integer. Who reads the body after it was judged takes none.
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def build() -> Judges:
    """Make the validators of every kind that is described."""
    schemas = document.schemas()
    by_kind = {
        kind.kind: _Validator(
            {"$ref": f"#/components/schemas/{kind.schema}", "components": {"schemas": schemas}}
        )
        for kind in document.KINDS
    }
    return Judges(by_kind, {kind.kind: kind.schema for kind in document.KINDS}, schemas)


async def serve(request: web.Request, resource: Resource, answer: Answers) -> web.StreamResponse:
    """Answer a question. Raises StatusError for what is no question of that kind."""
    about = request[appkeys.ATTRIBUTES]
    if request.method != "POST" or about.name or (resource.namespaced and not about.namespace):
        raise status.method_not_allowed(["POST"])
    media = decoding.media(request.headers.get("Content-Type"))
    view = negotiate.choose(request.headers.get("Accept"), Subject.OBJECT)
    include = options.parse_include(request.query.get("includeObject", ""))
    bodies.require_dry_run(request.query.get("dryRun"))
    sent = await request.read()
    judged = partial(_judged, request, resource, sent, media)
    # Reading much takes long, and nobody else is answered while the loop reads.
    found, texts = await asyncio.to_thread(judged) if len(sent) > _MUCH else judged()
    said = await _answered(request, answer, about.namespace, found)
    item = _item(about.namespace, found, said)
    response = answers.document(request, _shown(resource, item, view, include), view)
    response.set_status(_CREATED)
    for line in warnings.lines(texts):
        response.headers.add("Warning", line)
    return response


def _judged(
    request: web.Request, resource: Resource, sent: bytes, media: str
) -> tuple[JsonObject, Sequence[str]]:
    """Return a body and warnings about it. Raises BadRequest or Invalid for what is no question."""
    about, judges = request[appkeys.ATTRIBUTES], request.app[JUDGES]
    found, doubled = decoding.decode(sent, media)
    bodies.require_type(found, resource.type)
    if resource.namespaced:  # else it is passed over, as kube-apiserver does
        bodies.require_namespace(found, about.namespace)
    schema = judges.schemas[judges.names[resource.kind]]
    unknown = bodies.unknown_fields(found, schema, judges.schemas)
    how = request.query.get("fieldValidation")
    texts = bodies.judge_fields(unknown, doubled, how, resource.type)
    asked = {name: value for name, value in found.items() if name not in {"metadata", "status"}}
    causes = bodies.causes(asked, judges.by_kind[resource.kind])
    if causes:
        meta = found.get("metadata")
        name = meta.get("name") if isinstance(meta, Mapping) else ""
        raise status.invalid(resource.group, resource.kind, str(name or ""), causes)
    return found, texts


async def _answered(
    request: web.Request, answer: Answers, namespace: str, found: JsonObject
) -> Said:
    views = request.app[appkeys.SERVICES].views
    if views is None:
        raise Unavailable("GPUs are switched off on this cluster: nothing can be ordered")
    user = request.get(appkeys.USER, NOBODY)
    question = partial(_put, answer=answer, namespace=namespace, found=found, user=user)
    absent = of_object(Namespace, namespace)
    said = await views.ask(question, rests_on=lambda said: _rests_on(said, absent))
    if said is None:
        raise status.no_such_object("", "namespaces", namespace)
    return said


def _put(
    world: World, *, answer: Answers, namespace: str, found: JsonObject, user: User
) -> Said | None:
    """Return the answer of one world; None where the namespace does not exist."""
    if namespace and base.namespace(world, namespace) is None:
        return None
    return answer(world, namespace, found, user)


def _rests_on(said: Said | None, absent: Premises) -> Premises:
    """Return what has to be current for an answer to stand; None says that there is no namespace."""
    return absent if said is None else said.rests_on


def _item(namespace: str, found: JsonObject, said: Said) -> Item:
    """Return what is said under the name that the question was given, if any; it is of no version."""
    given = found.get("metadata")
    name = given.get("name") if isinstance(given, Mapping) else None
    meta: dict[str, Json] = {}
    if isinstance(name, str):
        meta["name"] = name
    if namespace:
        meta["namespace"] = namespace
    row = Row(
        namespace=namespace,
        name=name if isinstance(name, str) else "",
        uid="",
        created=_NEVER,
        body=said.members,
        cells=said.cells,
        given=meta,
    )
    return Item(row, 0)


def _shown(resource: Resource, item: Item, view: View, include: str) -> JsonObject:
    """Return an answer in the form that is asked for, as a CRD's object that was created."""
    match view.form:
        case Form.TABLE:
            return table.table(resource.type, resource.columns, (item,), view, include)
        case Form.PARTIAL:
            return items.partial(view.version, item)
        case _:
            return items.document(resource.type, item)
