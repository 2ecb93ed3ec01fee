"""FakeCluster: an API server in memory with the methods of gpu.cluster.client.Client; nothing more.

Does: resourceVersions, conflicts, 404 and 409, generation, the status subresource, merge patch,
strategic merge patch and server-side apply (roughly: tests/fakes/merging.py), dry run, finalizers
and deletionTimestamp, selectors by label and by field path, pages, watches with Gone after `compact()`, gates and node
affinity of a pod.

Does not: schemas, defaulting, admission, RBAC, namespaces that must exist, owner references,
JSON patch, field ownership, `raw`. What it does is checked against a real API server by
tests/contract; whoever needs more takes the real one.
"""

import asyncio
import copy
import itertools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu import ports
from gpu.cluster import errors, wire
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey
from tests.fakes import merging, rules

CREATED = "2026-01-01T00:00:00Z"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Write:
    """One write that arrived, executed or not."""

    verb: str
    kind: Kind
    key: ObjectKey
    subresource: str | None
    body: Any


@dataclass(frozen=True)
class Fault:
    """The `at`-th write from now (1 is the next) fails, after it was executed when `executed`."""

    at: int
    executed: bool
    error: errors.ApiError = field(
        default_factory=lambda: errors.Unreachable("the line was cut", sent=True)
    )


class FakeCluster:
    """See the module. Controls of a test: `put`, `fail`, `refuse`, `unserve`, `serve`, `compact`,
    `down`, `cut_watches`, `writes`."""

    def __init__(self, with_status: Sequence[Kind] = ()) -> None:
        """`with_status`: kinds with a status subresource, besides those rules.py knows."""
        self._with_status = frozenset(with_status)
        self.writes: list[Write] = []
        """Every write that arrived, dry runs apart."""
        self.down = False
        """While True, nothing answers; set it with `cut_watches()` for a server that died."""
        self._objects: dict[Kind, dict[ObjectKey, dict[str, Any]]] = {}
        self._applied: dict[tuple[Kind, ObjectKey, str, str | None], Any] = {}
        self._history: list[rules.Happened] = []
        self._version = 100
        self._uids = itertools.count(1)
        self._names = itertools.count(1)
        self._oldest = 0
        self._pages: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._unserved: set[Kind] = set()
        self._faults: list[tuple[int, Fault]] = []
        self._refusals: list[tuple[Callable[[Write], bool], errors.ApiError]] = []
        self._changed = asyncio.Event()
        self._cuts = 0

    # Controls of a test.

    def put(self, kind: Kind, body: Json) -> dict[str, Any]:
        """Store an object as it is, status and all, as if it had always been there."""
        body = merging.fresh(dict(body))
        body |= {"apiVersion": kind.api_version, "kind": kind.kind}
        meta = body.setdefault("metadata", {})
        meta.setdefault("uid", f"uid-{next(self._uids)}")
        meta.setdefault("creationTimestamp", CREATED)
        meta.setdefault("generation", 1)
        return merging.fresh(self._store(kind, rules.key_of(body), body))

    def fail(self, *faults: Fault) -> None:
        """Plan faults, counted from the next write."""
        self._faults += [(len(self.writes) + fault.at, fault) for fault in faults]

    def refuse(self, which: Callable[[Write], bool], error: errors.ApiError) -> Callable[[], None]:
        """Refuse writes by predicate; returns what ends it."""
        row = (which, error)
        self._refusals.append(row)
        return lambda: self._refusals.remove(row)

    def unserve(self, kind: Kind) -> None:
        """Stop serving a kind and forget its objects."""
        self._unserved.add(kind)
        self._objects.pop(kind, None)
        self.cut_watches()

    def serve(self, kind: Kind) -> None:
        """Serve a kind again."""
        self._unserved.discard(kind)

    def compact(self) -> None:
        """Forget history: watches and pages of older versions are Gone."""
        self._oldest = self._version
        self._history.clear()
        self._pages.clear()
        self._wake()

    def cut_watches(self) -> None:
        """Break every open watch, as a server that goes down does."""
        self._cuts += 1
        self._wake()

    @property
    def version(self) -> int:
        """The newest resourceVersion."""
        return self._version

    # The client's methods.

    def acting_as(self, _user: str, _groups: Any = ()) -> "FakeCluster":
        return self

    def outcome(self, error: Exception) -> ports.Outcome | None:
        return error.outcome if isinstance(error, errors.ApiError) else None

    async def close(self) -> None:
        pass

    async def get(
        self, kind: Kind, name: str, namespace: str | None = None, **_how: Any
    ) -> dict[str, Any]:
        await self._arrive(kind)
        return merging.fresh(self._find(kind, ObjectKey(namespace or "", name)))

    async def list(self, kind: Kind, namespace: str | None = None, **which: Any) -> wire.ListPage:
        await self._arrive(kind)
        token = which.get("continue_")
        if token:
            if token not in self._pages:
                raise errors.from_status({"reason": "Expired", "message": "too old", "code": 410})
            version, items = self._pages.pop(token)
        else:
            version = self._version
            found = sorted(self._objects.get(kind, {}).items())
            items = [body for _, body in found if rules.selected(body, namespace, which)]
        limit = which.get("limit") or len(items)
        rest, more = items[limit:], ""
        if rest:
            more = f"page-{next(self._names)}"
            self._pages[more] = (version, rest)
        return wire.ListPage(tuple(merging.fresh(items[:limit])), str(version), more)

    async def list_all(
        self, kind: Kind, namespace: str | None = None, **which: Any
    ) -> wire.ListPage:
        return await self.list(kind, namespace, **which)

    async def create(self, kind: Kind, body: Json, **how: Any) -> dict[str, Any]:
        made = merging.fresh(dict(body)) | {"apiVersion": kind.api_version, "kind": kind.kind}
        meta = made["metadata"] = dict(made.get("metadata") or {})
        if "name" not in meta and meta.get("generateName"):
            meta["name"] = f"{meta['generateName']}{next(self._names):05d}"

        def run() -> dict[str, Any]:
            if rules.key_of(made) in self._objects.get(kind, {}):
                raise rules.error(
                    409, "AlreadyExists", f'"{meta["name"]}" already exists', kind, meta
                )
            if self._has_status(kind):
                made.pop("status", None)
            meta.pop("resourceVersion", None)
            meta.update({"uid": f"uid-{next(self._uids)}", "creationTimestamp": CREATED})
            if kind != kinds.EVENTS:
                meta["generation"] = 1
            return made

        return await self._write(Write("create", kind, rules.key_of(made), None, body), run, how)

    async def update(self, kind: Kind, body: Json, **how: Any) -> dict[str, Any]:
        sub = how.get("subresource")

        def run() -> dict[str, Any]:
            live = self._find(kind, rules.key_of(body))
            if not body["metadata"].get("resourceVersion") and kind.group:
                raise rules.error(
                    422, "Invalid", "must be specified for an update", kind, live["metadata"]
                )
            return self._next(kind, live, merging.fresh(dict(body)), sub)

        return await self._write(Write("update", kind, rules.key_of(body), sub, body), run, how)

    async def patch(
        self, kind: Kind, name: str, patch: Any, namespace: str | None = None, **how: Any
    ) -> dict[str, Any]:
        change = merging.BY_TYPE[how.get("content_type", ports.MERGE_PATCH)]
        sub, key = how.get("subresource"), ObjectKey(namespace or "", name)

        def run() -> dict[str, Any]:
            live = self._find(kind, key)
            return self._next(kind, live, change(live, merging.fresh(patch)), sub)

        return await self._write(Write("patch", kind, key, sub, patch), run, how)

    async def apply(
        self, kind: Kind, name: str, body: Json, namespace: str | None = None, **how: Any
    ) -> dict[str, Any]:
        sub, key = how.get("subresource"), ObjectKey(namespace or "", name)
        record = (kind, key, how["field_manager"], sub)

        def run() -> dict[str, Any]:
            body_now = merging.fresh(dict(body)) | {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
            }
            live = self._objects.get(kind, {}).get(key)
            if live is None:
                if sub:
                    raise self._missing(kind, key)
                made = merging.apply({}, body_now, None)
                made["metadata"] = dict(made.get("metadata") or {}) | {
                    "name": name,
                    **({"namespace": namespace} if namespace else {}),
                    "uid": f"uid-{next(self._uids)}",
                    "creationTimestamp": CREATED,
                    "generation": 1,
                }
                if self._has_status(kind):
                    made.pop("status", None)
            else:
                made = merging.apply(live, body_now, self._applied.get(record))
                made = self._next(kind, live, made, sub)
            if not how.get("dry_run"):
                self._applied[record] = body_now
            return made

        return await self._write(Write("apply", kind, key, sub, body), run, how)

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, **how: Any) -> None:
        key = ObjectKey(namespace or "", name)

        def run() -> dict[str, Any]:
            live = self._find(kind, key)
            meta = live["metadata"]
            for wanted, held in (("uid", "uid"), ("resource_version", "resourceVersion")):
                if how.get(wanted) and how[wanted] != meta[held]:
                    raise rules.error(409, "Conflict", f"Precondition failed: {held}", kind, meta)
            gone = merging.fresh(live)
            if "deletionTimestamp" not in meta:
                gone["metadata"] |= {
                    "deletionTimestamp": CREATED,
                    "deletionGracePeriodSeconds": 0,
                    "generation": meta.get("generation", 0) + 1,
                }
            return gone

        await self._write(Write("delete", kind, key, None, None), run, how)

    async def watch(
        self, kind: Kind, namespace: str | None = None, **which: Any
    ) -> AsyncGenerator[wire.WatchEvent, None]:
        await self._arrive(kind)
        since, cuts = int(which.get("resource_version") or self._version), self._cuts
        if which.get("opened"):
            which["opened"]()
        loop = asyncio.get_running_loop()
        end = loop.time() + which.get("timeout_seconds", 300)
        while True:
            if since < self._oldest:
                raise errors.from_status({"reason": "Expired", "message": "too old", "code": 410})
            if cuts != self._cuts:
                raise errors.Unreachable("the watch was cut", sent=True)
            until = self._version
            for one in [one for one in self._history if one.version > since]:
                event = rules.event(one, namespace, which) if one.kind == kind else None
                if event is not None:
                    yield copy.deepcopy(event)
            since = until
            if since < self._version:
                continue  # something happened while the events were handed out
            try:
                async with asyncio.timeout_at(end):
                    await self._changed.wait()
            except TimeoutError:
                return

    # Inside.

    async def _arrive(self, kind: Kind) -> None:
        await asyncio.sleep(0)
        if self.down:
            raise errors.Unreachable("connection refused", sent=False)
        if kind in self._unserved:
            raise errors.from_answer(404, b"404 page not found\n")

    async def _write(
        self, write: Write, run: Callable[[], dict[str, Any]], how: Json
    ) -> dict[str, Any]:
        await self._arrive(write.kind)
        wire.encode(write.body)  # what the client could not send fails here too
        if not how.get("dry_run"):
            self.writes.append(write)
        for which, error in self._refusals:
            if which(write):
                raise error
        number = len(self.writes)
        fault = next((fault for at, fault in self._faults if at == number), None)
        if fault is not None and not fault.executed:
            raise fault.error
        made = run()
        if not how.get("dry_run"):
            made = self._store(write.kind, write.key, made)
        if fault is not None:
            raise fault.error
        return merging.fresh(made)

    def _find(self, kind: Kind, key: ObjectKey) -> dict[str, Any]:
        found = self._objects.get(kind, {}).get(key)
        if found is None:
            raise self._missing(kind, key)
        return found

    def _missing(self, kind: Kind, key: ObjectKey) -> errors.ApiError:
        return rules.error(404, "NotFound", f'"{key.name}" not found', kind, {"name": key.name})

    def _next(
        self, kind: Kind, live: dict[str, Any], wanted: dict[str, Any], sub: str | None
    ) -> dict[str, Any]:
        """Return the object after a write of `wanted` to the main resource or a subresource."""
        meta = live["metadata"]
        asked = wanted["metadata"].get("resourceVersion") or meta["resourceVersion"]
        if asked != meta["resourceVersion"]:
            raise rules.error(409, "Conflict", "the object has been modified", kind, meta)
        if wanted["metadata"].get("uid", meta["uid"]) != meta["uid"]:
            raise rules.error(409, "Conflict", "Precondition failed: UID", kind, meta)
        if sub == "status":
            return {**merging.fresh(live), **rules.part(wanted, "status")}
        if kind == kinds.PODS and (words := rules.pod_update(live, wanted)):
            raise rules.error(422, "Invalid", words, kind, meta)
        if self._has_status(kind):
            wanted = {name: value for name, value in wanted.items() if name != "status"}
            wanted |= rules.part(live, "status")
        fixed = {"uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "generation"}
        wanted["metadata"] = {
            **{name: value for name, value in wanted["metadata"].items() if name not in fixed},
            **{name: value for name, value in meta.items() if name in fixed},
        }
        if rules.spec_of(wanted) != rules.spec_of(live) and "generation" in meta:
            wanted["metadata"]["generation"] = meta["generation"] + 1
        return wanted

    def _store(self, kind: Kind, key: ObjectKey, made: dict[str, Any]) -> dict[str, Any]:
        """Keep an object, or let it go when it is deleted and nothing holds it; tell the watches."""
        objects = self._objects.setdefault(kind, {})
        before = objects.get(key)
        made = merging.fresh(made)
        if before is not None and made == before:
            return made  # nothing changed: no new version, no event
        self._version += 1
        made["metadata"]["resourceVersion"] = str(self._version)
        over = "deletionTimestamp" in made["metadata"] and not made["metadata"].get("finalizers")
        if over:
            objects.pop(key, None)
        else:
            objects[key] = made
        if not (over and before is None):
            self._history.append(
                rules.Happened(
                    self._version, kind, before, None if over else made, made if over else None
                )
            )
        self._wake()
        return made

    def _has_status(self, kind: Kind) -> bool:
        return kind in self._with_status or rules.has_status(kind)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
