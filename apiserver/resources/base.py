"""Resource: names, scope, verbs, columns, and the rows it shows of a world."""

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from apiserver.identity import User
from apiserver.wire.items import Row, Type
from apiserver.wire.table import Column
from apiserver.wire.values import Json, JsonObject, Scalar
from gpu import keys
from gpu.model.premises import NOTHING, Premises
from gpu.objects.tenants import Namespace
from gpu.world import World

READ: Final = ("get", "list", "watch")
ASK: Final = ("create",)
CATEGORIES: Final = ("cozystack", "gpu")

# Uids are made, not stored: this namespace and the object's coordinates give the same one everywhere.
_UIDS: Final = uuid.UUID("6f1c2f0e-6b0d-5c37-9b0a-1f6f4f6c9d11")


@dataclass(frozen=True, slots=True)
class Said:
    """The answer to a question: the members beside kind and metadata."""

    members: JsonObject
    rests_on: Premises = NOTHING
    """What has to be current for a no to stand."""
    cells: tuple[Scalar, ...] = ()
    """The values of the resource's Table columns after the name."""


Answers = Callable[[World, str, JsonObject, User], Said]
"""A world, a namespace, what was posted and by whom to what is said of it."""


def no_rows(world: World, namespace: str) -> tuple[Row, ...]:
    """Return nothing: what is only asked is never stored."""
    del world, namespace
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One served resource: objects that are read, or a question that is posted and answered.

    `rows` gives a namespace's objects in any order, one by one where each takes long, so that others get
    the thread in between; it reads nothing but the world it is given, and so does `answer`, of a question
    whose body fits the served schema.
    """

    plural: str
    singular: str
    kind: str
    description: str
    rows: Callable[[World, str], tuple[Row, ...] | Iterator[Row]] = no_rows
    answer: Answers | None = None
    """Of what is only created, as SubjectAccessReview is: nothing is stored."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = CATEGORIES
    verbs: tuple[str, ...] = READ
    columns: tuple[Column, ...] = ()
    namespaced: bool = True
    group: str = keys.CATALOG_GROUP
    version: str = keys.CATALOG_VERSION

    @property
    def is_followed(self) -> bool:
        """Say whether it is computed at each change while it is read now and then, not only when it is."""
        return "watch" in self.verbs

    @property
    def type(self) -> Type:
        """Group, version and kind of its objects."""
        return Type(self.group, self.version, self.kind)


def uid(plural: str, namespace: str, name: str) -> str:
    """Return the uid of a computed object: the same on every replica and after every restart."""
    return str(uuid.uuid5(_UIDS, f"{keys.CATALOG_GROUP}/{plural}/{namespace}/{name}"))


def namespace(world: World, name: str) -> Namespace | None:
    """Return a namespace by name, None when there is no such one."""
    return next((one for one in world.namespaces if one.meta.name == name), None)


def filled(members: Mapping[str, Json]) -> JsonObject:
    """Leave out what is absent or an empty text; zero stays."""
    return {key: value for key, value in members.items() if value is not None and value != ""}


def text(members: JsonObject, name: str) -> str:
    """Return a text of an object, empty where there is none: a Table's cell."""
    found = members.get(name)
    return found if isinstance(found, str) else ""
