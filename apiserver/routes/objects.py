"""GET and LIST of any registered resource; WATCH is in watches.py, questions in questions.py."""

from typing import NamedTuple

from aiohttp import web

from apiserver import appkeys
from apiserver.feeds import Feed
from apiserver.resources.base import Resource
from apiserver.routes import answers, questions, watches
from apiserver.wire import listing, negotiate, options, status
from apiserver.wire.attributes import Attributes
from apiserver.wire.items import Item, Key
from apiserver.wire.listing import ANY_VERSION, Page
from apiserver.wire.negotiate import YAML, Subject, View
from apiserver.wire.options import EXACT, Options
from apiserver.wire.status import Expired


async def serve(request: web.Request) -> web.StreamResponse:
    """Answer anything below /apis/GROUP/VERSION/."""
    about = request[appkeys.ATTRIBUTES]
    resource = find(request, about)
    if resource.answer is not None:
        return await questions.serve(request, resource, resource.answer)
    if request.method not in {"GET", "HEAD"}:
        raise status.method_not_allowed(["GET", "HEAD"])
    if about.name and _is_one(about, request):
        return await get(request, resource, about)
    asked = options.parse(request.query, namespaced=resource.namespaced)
    if asked.watch and request.method == "GET":
        if "watch" not in resource.verbs:
            raise status.not_supported(resource.group, resource.plural, "watch")
        return await watches.serve(request, resource, about.namespace, asked)
    return await _list(request, resource, about, asked)


def find(request: web.Request, about: Attributes) -> Resource:
    """Return the resource a request is about. Raises NotFound for what is not served."""
    table = request.app[appkeys.RESOURCES]
    resource = table.get((about.group, about.version, about.resource))
    if resource is None or about.subresource:
        raise status.no_such_path()
    if about.namespace and not resource.namespaced:
        raise status.no_such_path()
    if _is_one(about, request) and resource.namespaced and not about.namespace:
        raise status.no_such_path()
    return resource


def _is_one(about: Attributes, request: web.Request) -> bool:
    """Say whether the path itself names an object: a field selector only narrows a list."""
    del request
    return bool(about.name) and about.path.endswith(f"/{about.resource}/{about.name}")


async def get(request: web.Request, resource: Resource, about: Attributes) -> web.StreamResponse:
    """Answer one object. Raises NotFound."""
    view = negotiate.choose(request.headers.get("Accept"), Subject.OBJECT)
    include = options.parse_include(request.query.get("includeObject", ""))
    projection = request.app[appkeys.SERVICES].projection
    version = options.parse_version(request.query.get("resourceVersion", ""))
    feed, state, _ = await projection.read(resource, about.namespace, at_least=version)
    item = state.find(Key(about.namespace, about.name))
    if item is None:
        raise status.no_such_object(resource.group, resource.plural, about.name)

    def made() -> bytes:
        content = listing.render_one(resource.type, resource.columns, item, view, include)
        return answers.encoded(content, view, pretty=pretty)

    pretty = answers.is_pretty(request)
    form = ("get", about.name, view, include, pretty)
    return await answers.ready(request, feed.rendered.body(form, item.version, made), view)


async def _list(
    request: web.Request, resource: Resource, about: Attributes, asked: Options
) -> web.StreamResponse:
    view = negotiate.choose(request.headers.get("Accept"), Subject.LIST)
    if asked.is_plain and view.media != YAML:
        projection = request.app[appkeys.SERVICES].projection
        feed, state, version = await projection.read(
            resource, about.namespace, at_least=asked.version
        )
        if not asked.limit or len(state.items) <= asked.limit:
            page = Page(items=state.items, version=version)
            return await _whole(request, feed, page, view, asked.include)
    scope = f"{resource.group}/{resource.plural}/{about.namespace}"
    mark = listing.query_mark(scope, asked.selector)
    at = await read(request, resource, about.namespace, asked, mark)
    page = listing.page(
        at.items, at.version, asked.selector, asked.limit, mark=mark, after=at.after
    )
    content = listing.render(resource.type, resource.columns, page, view, asked.include)
    return await answers.listed(request, content, view)


async def _whole(
    request: web.Request, feed: Feed, page: Page, view: View, include: str
) -> web.StreamResponse:
    """Answer with all of a list's newest state, in the bytes that whoever asked before was sent."""
    resource = feed.resource

    def made() -> bytes:
        content = listing.render(resource.type, resource.columns, page, view, include)
        return answers.encoded(content, view, pretty=pretty)

    pretty = answers.is_pretty(request)
    form = ("list", view, include, pretty)
    return await answers.ready(request, feed.rendered.body(form, page.version, made), view)


class Read(NamedTuple):
    """All items of a list at a version, and after which of them the page that is asked for begins."""

    items: tuple[Item, ...]
    version: int
    after: Key | None


async def read(
    request: web.Request, resource: Resource, namespace: str, asked: Options, mark: str
) -> Read:
    """Return what a list is made of. Raises Expired for a version that is forgotten."""
    projection = request.app[appkeys.SERVICES].projection
    token = listing.read_token(asked.token, mark) if asked.token else None
    after = Key(*token.after) if token else None
    wanted = asked.version
    if token is not None and token.rv != ANY_VERSION:
        wanted = token.rv
    feed, state, version = await projection.read(resource, namespace, at_least=wanted)
    exact = asked.match == EXACT or (token is not None and token.rv != ANY_VERSION)
    if exact and wanted is not None and version != wanted:
        past = feed.history.at(wanted)
        if past is None:
            raise _forgotten(token, wanted, feed.history.oldest)
        state, version = past, wanted
    elif exact and wanted is not None:
        version = wanted
    return Read(state.items, version, after)


def _forgotten(token: listing.Token | None, wanted: int, oldest: int) -> Expired:
    if token is None:
        return status.watch_too_old(wanted, oldest)
    go_on = listing.Token(v=token.v, rv=ANY_VERSION, after=token.after, query=token.query)
    return status.page_too_old(go_on.text())
