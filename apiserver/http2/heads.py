"""The head of a request over HTTP/2: judged by RFC 9113, section 8, and put as aiohttp has it from HTTP/1.1.

Judged here and not by `h2`, which would end the connection: kube-apiserver sends the requests of all its
users over one, and passes on what any of them puts in a header.
"""

import functools
import re
from collections.abc import Iterable
from typing import Final

from aiohttp.http import HttpVersion
from aiohttp.http_parser import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy, istr
from yarl import URL

from apiserver.wire.status import BadRequest, ExpectationFailed, StatusError, TooLong

VERSION: Final = HttpVersion(2, 0)
MOST: Final = 2048
"""Headers of a request: a user may be in a thousand groups, each in a header of its own."""
LONGEST: Final = 16 * 1024
"""Bytes of one header."""
LONGEST_PATH: Final = 64 * 1024
"""Bytes of a path with its query: selectors and tokens of pages are in it."""
_PSEUDO: Final = frozenset({b":method", b":scheme", b":authority", b":path"})
_NEEDED: Final = (b":method", b":scheme", b":path")
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_METHOD: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PATH: Final = re.compile(rb"/[\x21-\x7e]*")
_CONTROL: Final = re.compile(rb"[\0\r\n]")
_OF_CONNECTION: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_ALL: Final = ("OPTIONS", b"*")
CONTINUE: Final = "100-continue"
NOTHING_EXPECTED: Final = "nothing can be expected of this server but 100-continue"
_PACKED: Final = frozenset({"gzip", "deflate"})
_NOT_UNPACKED: Final = frozenset({"br", "zstd"})
REMEMBERED: Final = 2048
SHORT: Final = 256
"""Headers remembered, and how long: callers choose them, so their number must be bounded."""

Pairs = Iterable[tuple[bytes, bytes]]


def read(pairs: Pairs) -> RawRequestMessage:
    """Return what a request's head says.

    Raises BadRequest for a malformed one, TooLong for what is over the limits and ExpectationFailed for one that
    expects what nobody does (RFC 9110, 10.1.1), none with a word of it.
    """
    pseudo: dict[bytes, bytes] = {}
    headers: CIMultiDict[str] = CIMultiDict()
    raw: list[tuple[bytes, bytes]] = []
    for name, value in pairs:
        if name[:1] == b":":
            if raw or name in pseudo or name not in _PSEUDO:
                raise _malformed("its pseudo-headers are not each there once, before all others")
            pseudo[name] = value
            continue
        known, text, clean = (_short if len(value) <= SHORT else _header)(name, value)
        headers.add(known, text)
        raw.append((name, clean))
        if len(raw) > MOST:
            raise TooLong("too many headers")
    return _message(pseudo, headers, raw)


def _message(
    pseudo: dict[bytes, bytes], headers: CIMultiDict[str], raw: list[tuple[bytes, bytes]]
) -> RawRequestMessage:
    if not all(pseudo.get(name) for name in _NEEDED):
        raise _malformed("a pseudo-header is missing")
    method = _method(pseudo[b":method"])
    path = "*" if (method, pseudo[b":path"]) == _ALL else _path(pseudo[b":path"])
    _say_host(pseudo.get(b":authority", b""), headers)
    if headers.get("Expect", CONTINUE).lower() != CONTINUE:
        raise ExpectationFailed(NOTHING_EXPECTED)
    target, _, _ = path.partition("#")
    before, _, query = target.partition("?")
    packed = headers.get("Content-Encoding", "").lower()
    if packed in _NOT_UNPACKED:
        raise _malformed("the content encoding is not supported")
    return RawRequestMessage(
        method=method,
        path=path,
        version=VERSION,
        headers=CIMultiDictProxy(headers),
        raw_headers=tuple(raw),
        should_close=False,
        compression=packed if packed in _PACKED else None,
        upgrade=False,
        chunked=False,
        url=URL.build(path=before, query_string=query, encoded=True),
    )


def _method(sent: bytes) -> str:
    if not _METHOD.fullmatch(sent) or sent == b"CONNECT":
        raise _malformed("the method is not known")
    return sent.decode("ascii")


def _path(sent: bytes) -> str:
    if len(sent) > LONGEST_PATH:
        raise TooLong("the request line or a header is too long")
    if not _PATH.fullmatch(sent):
        raise _malformed("the target of the request is no path")
    return sent.decode("ascii")


def _say_host(authority: bytes, headers: CIMultiDict[str]) -> None:
    """Have the authority stand where HTTP/1.1 has it."""
    if not authority:
        return
    if _CONTROL.search(authority):
        raise _malformed("a header is not valid")
    host = authority.decode("utf-8", "surrogateescape")
    if headers.setdefault("Host", host) != host:
        raise _malformed("it is for two hosts")


def _header(name: bytes, value: bytes) -> tuple[istr, str, bytes]:
    if len(name) + len(value) > LONGEST:
        raise TooLong("the request line or a header is too long")
    if not _NAME.fullmatch(name) or _CONTROL.search(value):
        raise _malformed("a header is not valid")
    if name in _OF_CONNECTION or (name == b"te" and value.strip().lower() != b"trailers"):
        raise _malformed("a header is about the connection")
    clean = value.strip(b" \t")
    return istr(name.decode("ascii")), clean.decode("utf-8", "surrogateescape"), clean


_short = functools.lru_cache(REMEMBERED)(_header)
"""Most headers of a kube-apiserver's requests are those of the ones before."""


def _malformed(why: str) -> StatusError:
    return BadRequest(f"not a valid HTTP request: {why}")
