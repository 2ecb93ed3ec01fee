"""Read a World through a Reader: the store as it is, or for the binder never older than its writes.

`read` and `Live` show what the watch has delivered; followers, webhooks and the API use them.
`FreshView` is the leader's (domain contract 6, Fresh view): one consistent list of claims when it
takes over, then the store overlaid with the answers of its own writes until the watch has proved
their resourceVersion; an object whose write got no answer is read directly before the next pass, and a
claim is written to, so that the lost write cannot arrive after that (decision 17).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar, cast

from gpu import echoes, outrun, world
from gpu.echoes import Items, Own
from gpu.errors import DecodeError
from gpu.model.snapshot import Snapshot
from gpu.objects import binders, claims, classes, config_maps, nodes, pods, workloads
from gpu.objects.claims import GPUClaim
from gpu.objects.decode import Raw
from gpu.objects.kinds import (
    CONFIG_MAPS,
    GPU_BINDERS,
    GPU_CLAIMS,
    GPU_CLASSES,
    GPU_NODES,
    PODS,
    WORKLOAD_MONITORS,
    WORKLOADS,
    Kind,
)
from gpu.objects.meta import HasMeta, ObjectKey
from gpu.ports import Outcome, Reader, Writer
from gpu.settings import Settings
from gpu.world import VIEWS, World

T = TypeVar("T")

_OWN: Final[Mapping[Kind, tuple[str, Callable[[Raw], HasMeta]]]] = {
    GPU_CLASSES: ("classes", classes.decode),
    GPU_CLAIMS: ("claims", claims.decode),
    GPU_NODES: ("inventory", nodes.decode_inventory),
    PODS: ("pods", pods.decode),
    GPU_BINDERS: ("binders", binders.decode),
    CONFIG_MAPS: ("config_maps", config_maps.decode),
    WORKLOADS: ("workloads", workloads.decode),
    WORKLOAD_MONITORS: ("monitors", workloads.decode_monitor),
}
"""Kinds the leader writes: the field of World they are in, and how an answer is read."""
_OUTRUN: Final = frozenset({GPU_CLAIMS, PODS})
"""Kinds whose writes give units out: one that got no answer must not be executed later."""
_NEWS: Final = ("claims", "pods", "vmis")
"""Fields of World whose objects are placed, let through, or free units by their end."""


class InThread(Protocol):
    """Run pure work beside the event loop; `asyncio.to_thread`, or in tests a direct call."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Run it to its end."""


def read(reader: Reader, last_good: Settings | None = None) -> World:
    """Return the World as the watch has shown it; malformed settings leave `last_good` in force."""
    items = {name: cast("Items", reader.items(view)) for name, view in VIEWS.items()}
    unreadable = frozenset(reader.malformed(GPUClaim))
    return _assemble(items, unreadable, last_good or Settings(), _unserved(reader))


class Live:
    """The World as the store shows it now; built anew only after something changed.

    `close` ends the subscription. Not for several threads.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last_good = Settings()
        self._world: World | None = None
        self._newest: Snapshot | None = None
        """The last one anybody asked for: the next is made of it."""
        self.close = reader.subscribe(self._changed)

    def world(self) -> World:
        """Return the present World; the same object until the store changes."""
        if self._world is None:
            self._world = read(self._reader, self._last_good).follow(self._newest)
            self._last_good = self._world.settings
        return self._world

    def _changed(self) -> None:
        newest = None if self._world is None else self._world.newest()
        if newest is not None:
            # None while the snapshot is being made: the older one goes on serving then.
            self._newest = newest
        self._world = None


@dataclass(frozen=True, slots=True)
class _Glance:
    """What a pass starts from: references only, taken on the event loop in no time."""

    items: dict[str, Items]
    proved: dict[str, int]
    own: dict[str, dict[ObjectKey, Own]]
    unreadable: frozenset[ObjectKey]
    last_good: Settings
    unserved: frozenset[str] = frozenset()

    def world(self) -> tuple[World, dict[str, dict[ObjectKey, Own]]]:
        """Assemble; returns also what is still needed of our own knowledge."""
        items = dict(self.items)
        needed: dict[str, dict[ObjectKey, Own]] = {}
        for name, own in self.own.items():
            items[name], needed[name] = echoes.overlay(items[name], own, self.proved[name])
        return _assemble(items, self.unreadable, self.last_good, self.unserved), needed


class FreshView:
    """The leader's Worlds. One instance per term.

    One full pass at a time asks for `world` and `expected`; `look` is for a pass beside it.
    """

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._own: dict[str, dict[ObjectKey, Own]] = {name: {} for name, _ in _OWN.values()}
        self._doubted: dict[tuple[Kind, ObjectKey], bool] = {}
        """Objects in doubt, and whether a write of ours may be on its way to them still."""
        self._unreadable: dict[ObjectKey, int] = {}
        self._last_good = Settings()
        self._seen: dict[str, int] = {}
        self._last = _Glance({}, {}, {}, frozenset(), self._last_good)
        self._merged = False
        """An answer since the last World shows what somebody else wrote as well."""
        self._settling = asyncio.Lock()

    async def begin(self) -> int:
        """List all claims consistently; returns the highest term any of them carries.

        Raises what the Writer raises. Call it after the fence is up and before the first pass.
        """
        listing = await self._writer.list_all(GPU_CLAIMS)
        at = int(listing.resource_version)
        shown = self._reader.items(GPUClaim)
        proved = self._reader.version(GPUClaim)
        listed, broken = await asyncio.to_thread(_decode_claims, listing.items)
        self._unreadable.update(broken)
        own = self._own["claims"]
        for key in own.keys() - listed.keys():
            own[key] = Own(own[key].uid)
        for claim in listed.values():
            if claim.meta.version > proved:
                own[claim.key] = Own(claim.meta.uid, claim.meta.version, claim)
        for claim in shown:
            if claim.key not in listed and claim.meta.version <= at:
                own[claim.key] = Own(claim.meta.uid)
        return max((claim.term for claim in listed.values()), default=0)

    def wrote(self, kind: Kind, raw: Mapping[str, Any]) -> None:
        """Take the answer of an own write; a deleted object without finalizers is gone with it."""
        name, decode = _OWN[kind]
        meta = raw["metadata"]
        key = ObjectKey(meta.get("namespace", ""), meta["name"])
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            self.gone(kind, key, meta.get("uid", ""))
            return
        try:
            item = decode(raw)
        except DecodeError:
            self._own[name].pop(key, None)
            if kind == GPU_CLAIMS:
                self._unreadable[key] = int(meta.get("resourceVersion", 0))
            return
        known = self._own[name].get(key)
        before = known.item if known else echoes.find(self._last.items.get(name, ()), key)
        self._merged |= echoes.is_merged(before, item)
        self._own[name][key] = Own(item.meta.uid, item.meta.version, item)

    def gone(self, kind: Kind, key: ObjectKey, uid: str) -> None:
        """Note that the object of that uid is no more, whatever the watch still shows."""
        if kind in _OWN:
            name, _ = _OWN[kind]
            self._own[name][key] = Own(uid)

    def doubt(self, kind: Kind, key: ObjectKey, *, may_arrive: bool = False) -> None:
        """Have the object read directly before the next pass: nobody knows what became of a write.

        `may_arrive`: it got no answer, and may be executed yet. An object of a kind that we only delete
        is left to the watch.
        """
        if kind in _OWN:
            self._doubted[kind, key] = may_arrive or self._doubted.get((kind, key), False)

    async def settle(self) -> None:
        """Read directly every object in doubt. Raises what the Writer raises; those left stay so."""
        async with self._settling:
            for kind, key in sorted(self._doubted, key=lambda it: (it[0].plural, it[1])):
                may_arrive = self._doubted.pop((kind, key))
                try:
                    await self._reread(kind, key, may_arrive=may_arrive)
                except BaseException:
                    self.doubt(kind, key, may_arrive=may_arrive)
                    raise

    async def world(self, in_thread: InThread = asyncio.to_thread) -> World:
        """Settle what is in doubt, then return a World not older than any own write."""
        glance = await self._glance()
        self._merged = False
        made, needed = await in_thread(glance.world)
        for name, known in glance.own.items():
            # What another pass wrote meanwhile is not in it, and is needed still.
            self._own[name] = {
                key: own
                for key, own in self._own[name].items()
                if key in needed[name] or known.get(key) is not own
            }
        self._last_good = made.settings
        self._last = glance
        return made

    async def look(self, in_thread: InThread = asyncio.to_thread) -> World:
        """Return such a World for a pass beside a full one, whose own view stays as it is."""
        made, _ = await in_thread((await self._glance()).world)
        return made

    def claims(self) -> tuple[GPUClaim, ...]:
        """Return the claims as the watch shows them, which may be older than our own writes."""
        return self._reader.items(GPUClaim)

    def has_news(self) -> bool:
        """Say whether the watch has shown anything to place or let go of since the last World."""
        return any(
            echoes.has_news(
                self._last.items[name],
                cast("Items", self._reader.items(VIEWS[name])),
                self._own.get(name, {}),
            )
            for name in _NEWS
        )

    async def _glance(self) -> _Glance:
        await self.settle()
        proved = {name: self._reader.version(VIEWS[name]) for name in self._own}
        if proved["claims"] < self._seen.get("claims", 0):
            # A list from a server that lags: what it hides of ours is no longer remembered here.
            await self.begin()
            self._merged = True  # it shows what others wrote as well
        self._seen = {name: max(at, self._seen.get(name, 0)) for name, at in proved.items()}
        return _Glance(
            items={name: cast("Items", self._reader.items(view)) for name, view in VIEWS.items()},
            proved=proved,
            own={name: dict(own) for name, own in self._own.items()},
            unreadable=self._unread(),
            last_good=self._last_good,
            unserved=_unserved(self._reader),
        )

    async def expected(self, in_thread: InThread = asyncio.to_thread) -> World | None:
        """Return the last World with our own writes since then: what their events will show.

        A later World equal to it is an echo. None where an answer shows more than our write: nobody has
        looked at that yet. Call it before anything else is read.
        """
        if self._merged:
            return None
        own = {name: dict(known) for name, known in self._own.items()}
        glance = replace(self._last, own=own, last_good=self._last_good)
        made, _ = await in_thread(glance.world)
        return made

    def _unread(self) -> frozenset[ObjectKey]:
        proved = self._reader.version(GPUClaim)
        self._unreadable = {k: v for k, v in self._unreadable.items() if v > proved}
        return frozenset(self._reader.malformed(GPUClaim)) | self._unreadable.keys()

    async def _reread(self, kind: Kind, key: ObjectKey, *, may_arrive: bool) -> None:
        try:
            if may_arrive and kind in _OUTRUN:
                raw = await outrun.one(self._writer, kind, key)
            else:
                raw = await self._writer.get(kind, key.name, key.namespace or None)
        except Exception as error:
            if self._writer.outcome(error) is not Outcome.GONE:
                raise
            self._forget(kind, key)
        else:
            self.wrote(kind, raw)

    def _forget(self, kind: Kind, key: ObjectKey) -> None:
        """Hide whichever uid the watch still shows: the object is not there."""
        name, _ = _OWN[kind]
        shown = self._reader.items(VIEWS[name])
        found = next((item.meta.uid for item in shown if item.meta.key == key), None)
        if found is None:
            self._own[name].pop(key, None)
        else:
            self._own[name][key] = Own(found)


def _decode_claims(
    listed: Iterable[Mapping[str, Any]],
) -> tuple[dict[ObjectKey, GPUClaim], dict[ObjectKey, int]]:
    found: dict[ObjectKey, GPUClaim] = {}
    broken: dict[ObjectKey, int] = {}
    for raw in listed:
        try:
            claim = claims.decode(raw)
        except DecodeError:
            meta = raw["metadata"]
            broken[ObjectKey(meta["namespace"], meta["name"])] = int(meta["resourceVersion"])
        else:
            found[claim.key] = claim
    return found, broken


def _unserved(reader: Reader) -> frozenset[str]:
    return frozenset(name for name, view in VIEWS.items() if not reader.served(view))


def _assemble(
    items: Mapping[str, Items],
    unreadable: frozenset[ObjectKey],
    last_good: Settings,
    unserved: frozenset[str],
) -> World:
    fields: dict[str, Any] = dict(items)
    bare = World(**fields, unreadable_claims=unreadable, unserved=unserved)
    in_force, _ = world.served_settings(bare.settings_map, last_good)
    return replace(bare, settings=in_force)
