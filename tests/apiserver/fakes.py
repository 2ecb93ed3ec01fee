"""What stands behind the HTTP face in its tests: a world one sets, a reviewer one programs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from apiserver import app, appkeys, metrics, projection
from apiserver.identity import MASTERS, User
from apiserver.resources import base
from apiserver.wire.items import Row
from apiserver.wire.table import Column
from gpu.objects.meta import ObjectKey, ObjectMeta
from gpu.objects.tenants import Namespace
from gpu.world import World

CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class FakeSource:
    """Caches whose world and version a test sets by hand."""

    def __init__(self, world: World | None = None, version: int = 100) -> None:
        self.current = world or World()
        self.version = version
        self.synced = True
        self.reachable = True
        self.proofs = 0
        self.live = True
        """Every watch is well."""
        self.proved: list[type[Any]] = []
        self.settled: list[type[Any]] = []
        self.until: list[float] = []
        self.read_alone: list[tuple[type[Any], str]] = []
        self._listeners: list[Callable[[], None]] = []

    @property
    def resource_version(self) -> int:
        return self.version if self.synced else 0

    def world(self) -> World:
        return self.current

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(changed)
        return lambda: self._listeners.remove(changed)

    async def progress(self) -> None:
        self.proofs += 1
        await asyncio.sleep(0)
        if not self.reachable:
            raise ConnectionError("no answer")

    def is_live(self, view: type[Any]) -> bool:  # noqa: ARG002 -- the port's shape
        return self.live

    async def settle(self, views: Sequence[type[Any]], until: float) -> None:
        self.until.append(until)
        self.settled += views
        await asyncio.sleep(0)

    async def read(self, view: type[Any], key: ObjectKey) -> None:
        self.read_alone.append((view, key.name))
        await asyncio.sleep(0)
        if not self.reachable:
            raise ConnectionError("no answer")

    async def prove(self, view: type[Any]) -> None:
        self.proved.append(view)
        await asyncio.sleep(0)
        if not self.reachable:
            raise ConnectionError("no answer")

    def set(self, world: World, version: int | None = None) -> None:
        """Change the world; its version grows by ten unless given."""
        self.current = world
        self.version = self.version + 10 if version is None else version
        for listener in list(self._listeners):
            listener()


@dataclass
class FakeIdentity:
    """Authentication that always finds the same user."""

    user: User = field(default_factory=lambda: User("admin", groups=(MASTERS,)))

    async def identify(self, headers, connection):  # noqa: ARG002 -- the port's shape
        return self.user


@dataclass
class FakeAccess:
    """Authorization that lets everything pass and remembers what was asked."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    async def require(self, user, attributes):  # noqa: ARG002 -- the port's shape
        self.asked.append((attributes.verb, attributes.path))


class FakeReviewer:
    """Answers reviews from a function of the posted spec; may be slow or broken."""

    def __init__(self, answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self.answer = answer
        self.posted: list[Mapping[str, Any]] = []
        self.audit_ids: list[str] = []
        self.delay = 0.0
        self.error: Exception | None = None

    async def create(self, kind, body, *, audit_id):
        self.posted.append({"kind": kind.kind, **body["spec"]})
        self.audit_ids.append(audit_id)
        await asyncio.sleep(self.delay)
        if self.error is not None:
            raise self.error
        return {**body, "status": dict(self.answer(body["spec"]))}


def namespaces(*names: str, labels: Mapping[str, str] | None = None) -> tuple[Namespace, ...]:
    return tuple(
        Namespace(meta=ObjectMeta(name=name, created=CREATED, labels=labels or {}))
        for name in names
    )


WORDS_COLUMNS = (
    Column(name="Length", type="integer", description="Length of the text."),
    Column(name="Text", description="The text.", priority=1),
)


def words(world: World, namespace: str) -> tuple[Row, ...]:
    """Rows from the labels of a namespace, `word.NAME: text`; a test changes those."""
    home = base.namespace(world, namespace)
    found = home.meta.labels if home else {}
    return tuple(
        Row(
            namespace=namespace,
            name=key.removeprefix("word."),
            uid=base.uid("words", namespace, key),
            created=CREATED,
            labels={"length": str(len(text)), **({"vowel": text[0]} if text[0] in "aeiou" else {})},
            body={"spec": {"text": text}},
            cells=(len(text), text),
        )
        for key, text in found.items()
        if key.startswith("word.")
    )


WORDS = base.Resource(
    plural="words",
    singular="word",
    kind="Word",
    short_names=("wd",),
    description="Words.",
    columns=WORDS_COLUMNS,
    rows=words,
)


def words_world(**by_namespace: Mapping[str, str]) -> World:
    """A world of namespaces (underscores for dashes) with words in them."""
    found = tuple(
        namespaces(
            name.replace("_", "-"), labels={f"word.{key}": text for key, text in texts.items()}
        )[0]
        for name, texts in by_namespace.items()
    )
    return World(namespaces=found)


FAST = projection.Pace(
    coalesce=0.0,
    interval=0.0,
    rest=0.0,
    prove=0.5,
    fresh=0.5,
    catch_up=0.3,
    retry=0.01,
    interest=30.0,
)


@dataclass
class Face:
    """The application over its fakes."""

    source: FakeSource
    projection: projection.Projection
    identity: FakeIdentity = field(default_factory=FakeIdentity)
    access: FakeAccess = field(default_factory=FakeAccess)
    services: appkeys.Services = None  # type: ignore[assignment]  # set below

    def build(self, **changes) -> web.Application:
        return app.build(self._with(changes))

    def runner(self, **changes) -> web.AppRunner:
        """Return what the process listens with."""
        return app.runner(self._with(changes))

    def _with(self, changes) -> appkeys.Services:
        self.services = replace(
            appkeys.Services(
                authenticator=self.identity,
                authorizer=self.access,
                projection=self.projection,
                metrics=metrics.create(),
                resources=(WORDS,),
            ),
            **changes,
        )
        return self.services


def a_face(world: World | None = None, *, enabled: bool = True, pace=FAST) -> Face:
    source = FakeSource(world)
    return Face(source, projection.Projection(source, enabled=enabled, pace=pace))
