"""Facade: what is asked of `core.cozystack.io` goes to the host, and `options` are the host's and ours.

Ours are answered while the host is away; a list is then without the host's and says so in a Warning
header, as the host itself leaves out a source that fails. Versions are ours: the host's objects are
all of version 0 and its watch tells of nothing after its start, so a watch tells what the host has
once, and then of ours.
"""

import asyncio
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

import msgspec
import structlog
from aiohttp import web

from apiserver import appkeys
from apiserver.facade import headers, merging, passing
from apiserver.facade.documents import Documents
from apiserver.facade.host import BROKEN, Host
from apiserver.identity import User
from apiserver.resources.options import OPTIONS, SOURCES
from apiserver.routes import answers, objects, watches
from apiserver.wire import frames, listing, negotiate, options
from apiserver.wire.attributes import Attributes
from apiserver.wire.frames import Event, Framer
from apiserver.wire.items import Item
from apiserver.wire.negotiate import Subject
from apiserver.wire.options import Options
from gpu import keys

ROOT: Final = f"/apis/{keys.HOST_CORE_GROUP}/{keys.HOST_CORE_VERSION}"
SERVED: Final = replace(OPTIONS, group=keys.HOST_CORE_GROUP, version=keys.HOST_CORE_VERSION)
"""Our options under the host's group; the rows are the same."""
LISTED_WITHIN: Final = 10.0
"""Seconds for the host's list; without it ours are answered alone."""
SHORT: Final = 30
"""Seconds of a watch that began without the host's: its client then lists again."""
_READS: Final = frozenset({"get", "list", "watch"})
_MISSING: Final = '299 - "the host does not answer: its own option sources are missing"'

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Facade:
    """The host behind us, and what is known of its documents."""

    host: Host
    documents: Documents

    def mount(self, app: web.Application) -> None:
        """Add the routes; to be called before those of the same paths are added."""
        router = app.router
        for path in ("/apis", "/apis/"):
            router.add_route("GET", path, self.documents.groups)
        router.add_route("GET", "/openapi/v3", self.documents.index)
        router.add_route("GET", f"/openapi/v3{ROOT}", self.passed)
        for path in (f"/apis/{keys.HOST_CORE_GROUP}", ROOT):
            router.add_route("GET", path, self.discovered)
        router.add_route("*", f"{ROOT}/{{rest:.+}}", self.serve)

    async def passed(self, request: web.Request) -> web.StreamResponse:
        """Let the host answer."""
        return await passing.serve(request, self.host)

    async def discovered(self, request: web.Request) -> web.StreamResponse:
        """Answer a discovery document: the host's, or what was last seen of it.

        It never fails: the deletion of every namespace waits for it.
        """
        return await self.documents.one(request, self.host)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer anything below the group's version."""
        about = request[appkeys.ATTRIBUTES]
        if not is_ours(about, request.method):
            return await self.passed(request)
        if about.name and about.path.endswith(f"/{about.name}"):
            return await objects.get(request, SERVED, about)
        asked = options.parse(request.query)
        if asked.watch and request.method == "GET":
            return await self._watch(request, about, asked)
        return await self._list(request, about, asked)

    async def _list(
        self, request: web.Request, about: Attributes, asked: Options
    ) -> web.StreamResponse:
        view = negotiate.choose(request.headers.get("Accept"), Subject.LIST)
        mark = listing.query_mark(f"{ROOT}/{about.namespace}", asked.selector)
        at = await objects.read(request, SERVED, about.namespace, asked, mark)
        theirs = await self._theirs(request, about.namespace)
        page = listing.page(
            merging.merged(theirs or (), at.items), at.version, asked.selector, asked.limit,
            mark=mark, after=at.after,
        )  # fmt: skip
        content = listing.render(SERVED.type, SERVED.columns, page, view, asked.include)
        response = await answers.listed(request, content, view)
        if theirs is None:
            response.headers["Warning"] = _MISSING
        return response

    async def _watch(
        self, request: web.Request, about: Attributes, asked: Options
    ) -> web.StreamResponse:
        at = asyncio.get_running_loop().time()
        view = negotiate.choose(request.headers.get("Accept"), Subject.WATCH)
        framer = Framer(SERVED.type, SERVED.columns, view, asked.include)
        begun = await watches.begin(request.app[appkeys.SERVICES], SERVED, about.namespace, asked)
        theirs = await self._theirs(request, about.namespace) if begun.tells_all else ()
        if theirs is None:
            asked = msgspec.structs.replace(asked, timeout=min(asked.timeout or SHORT, SHORT))
        before = [
            framer.event(Event(frames.ADDED, item))
            for item in listing.select(merging.merged(theirs or (), ()), asked.selector)
        ]
        return await watches.stream(request, SERVED, begun, asked, framer, begun=at, before=before)

    async def _theirs(self, request: web.Request, namespace: str) -> tuple[Item, ...] | None:
        """Return the host's rows as this caller may see them; None when the host has no answer."""
        where = f"/namespaces/{namespace}" if namespace else ""
        user, audit_id = request[appkeys.USER], request[appkeys.AUDIT_ID]
        sent = headers.onward([("Accept", "application/json")], user, audit_id)
        try:
            async with (
                asyncio.timeout(LISTED_WITHIN),
                self.host.ask("GET", f"{ROOT}{where}/options", sent) as answer,
            ):
                body = await answer.read()
                if answer.status == HTTPStatus.OK:
                    return merging.items(body, SOURCES)
                log.warning("the host lists no options", code=answer.status, audit_id=audit_id)
        except (*BROKEN, ValueError) as error:
            log.warning(
                "the host lists no options",
                error=f"{type(error).__name__}: {error}",
                audit_id=audit_id,
            )
        passing.failures(request).labels("list").inc()
        return None


def is_ours(about: Attributes, method: str) -> bool:
    """Say whether we answer: reads of our own sources, and of all options together."""
    if about.resource != OPTIONS.plural or about.subresource or method not in {"GET", "HEAD"}:
        return False
    if not (about.name and about.path.endswith(f"/{OPTIONS.plural}/{about.name}")):
        return True
    return bool(about.namespace) and about.name in SOURCES


@dataclass(frozen=True, slots=True)
class Judging:
    """Authorization: the host judges what it answers, everything else is judged as before."""

    inner: appkeys.Authorizes

    async def require(self, user: User, attributes: Attributes) -> None:
        """Return when allowed, or when it is for the host to say. Raises as `inner` does."""
        of_host = (attributes.group, attributes.version) == (SERVED.group, SERVED.version)
        method = "GET" if attributes.verb in _READS else "POST"
        if of_host and not is_ours(attributes, method):
            return
        await self.inner.require(user, attributes)
