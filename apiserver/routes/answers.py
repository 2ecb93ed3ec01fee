"""Values to responses: encoding, compression, ETags."""

import asyncio
import hashlib
from typing import Final

from aiohttp import web
from aiohttp.web_response import ContentCoding

from apiserver.rendered import Body
from apiserver.wire import negotiate, options
from apiserver.wire.negotiate import YAML, View
from apiserver.wire.values import JsonObject, json_line, json_pretty, yaml_text

GZIP_FROM: Final = 128 * 1024
"""Smaller bodies are not worth the time, as upstream found."""
_PEOPLE: Final = ("curl", "Wget", "Mozilla/")


def document(request: web.Request, content: JsonObject, view: View) -> web.Response:
    """Return a document in the media type of a view."""
    body = encoded(content, view, pretty=is_pretty(request))
    return sized(request, web.Response(body=body, content_type=view.media))


def encoded(content: JsonObject, view: View, *, pretty: bool) -> bytes:
    """Return the text of a document in the media type of a view."""
    if view.media == YAML:
        return yaml_text(content)
    return json_pretty(content) if pretty else json_line(content)


async def ready(request: web.Request, body: Body, view: View) -> web.Response:
    """Return a body that may have been sent before; compressed, as `sized` would, but once for all."""
    if len(body.plain) <= GZIP_FROM:
        return web.Response(body=body.plain, content_type=view.media)
    headers = {"Vary": "Accept, Accept-Encoding"}
    if not negotiate.takes_gzip(request.headers.get("Accept-Encoding", "")):
        return web.Response(body=body.plain, content_type=view.media, headers=headers)
    packed = body.packed or await asyncio.to_thread(body.pack)
    headers["Content-Encoding"] = "gzip"
    return web.Response(body=packed, content_type=view.media, headers=headers)


async def listed(request: web.Request, content: JsonObject, view: View) -> web.Response:
    """Return a document that can be long: YAML, many times slower than JSON, is not made in the loop."""
    if view.media == YAML:
        return await asyncio.to_thread(document, request, content, view)
    return document(request, content, view)


def sized(request: web.Request, response: web.Response) -> web.Response:
    """Compress a large body for a client that takes gzip; say to caches that others get it whole."""
    body = response.body
    if isinstance(body, bytes) and len(body) > GZIP_FROM:
        response.headers["Vary"] = "Accept, Accept-Encoding"
        if negotiate.takes_gzip(request.headers.get("Accept-Encoding", "")):
            response.enable_compression(ContentCoding.gzip)
    return response


def tagged(
    request: web.Request, body: bytes, content_type: str, headers: dict[str, str] | None = None
) -> web.Response:
    """Return static bytes with a strong ETag, or 304 when the client has them."""
    tag = f'"{etag(body)}"'
    sent = {"Vary": "Accept", "ETag": tag, "Content-Type": content_type, **(headers or {})}
    wanted = [one.strip() for one in request.headers.get("If-None-Match", "").split(",")]
    if tag in wanted or "*" in wanted:
        del sent["Content-Type"]
        return web.Response(status=304, headers=sent)
    return sized(request, web.Response(body=body, headers=sent))


def etag(body: bytes) -> str:
    """Return the hash of a document, the same on every replica."""
    return hashlib.sha512(body).hexdigest().upper()


def is_pretty(request: web.Request) -> bool:
    """Say whether a person reads the answer: asked for, or guessed from the client."""
    asked = request.query.get("pretty")
    if asked is not None:
        return options.is_true(asked)
    return request.headers.get("User-Agent", "").startswith(_PEOPLE)
