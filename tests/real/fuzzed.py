"""Requests that nobody would write, from a seed: paths, queries, headers and bodies, right and wrong."""

import json
import random
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from tests.real.raw_http import Sent

HOME: Final = "/apis/catalog.gpu.cozystack.io/v1alpha1"
READ: Final = ("options", "gpuoffers", "quotagates", "explanations", "drainplans")
ASKED: Final = ("orderreviews", "quotareviews", "whatifs")
NAMESPACES: Final = ("tenant-one", "tenant-two", "default", "nowhere")
_PLAIN: Final = (
    *("/", "/apis", "/apis/", "/api", HOME, HOME + "/", "/apis/catalog.gpu.cozystack.io"),
    *("/version", "/openapi/v2", "/openapi/v3", "/openapi/v3" + HOME, "/livez", "/readyz"),
    *("/healthz", "/livez/ping", "/readyz?verbose", "/readyz?exclude=x&exclude=y", "/metrics"),
)
_NAMES: Final = ("h100", "gpuclass", "total", "absent", "a", "x" * 253, "x" * 300, "A_B", "-")
_ODD: Final = (
    *("", ".", "..", "%2e%2e", "%2F", "%", "%zz", "%00", "%C3", "%E2%82%AC", "é", "a b", "a+b"),
    *("a;b", "a=b", "*", "'", '"', "\\", "%5c", "~", "namespaces", "watch", "x" * 4000, "%0d%0a"),
)
_NUMBERS: Final = (
    *("0", "1", "-1", "2", "007", "99999999999", "9" * 40, "1.5", "1e3", "abc", "", " 1", "+1"),
    *("0x10", "٣", "null", "18446744073709551616"),
)
_WORDS: Final = ("", "true", "false", "1", "0", "True", "yes", "null", "All", "Strict", "\x00", "é")
_SELECTORS: Final = (
    *(
        "",
        "a",
        "!a",
        "a=b",
        "a==b",
        "a!=b",
        "a in (b,c)",
        "a notin ()",
        "a>1",
        "a<x",
        "a in (",
        ",",
    ),
    *("metadata.name=h100", "metadata.namespace=x", "spec.x=1", "metadata.name=", "=", "a=b=c"),
    *("(" * 500, "a," * 500, "x" * 5000, "a in (" + "b," * 800 + "b)", "é=ü", "a/b/c=d", "\x00"),
)
_TOKENS: Final = (
    *(
        "",
        "zzz",
        "e30",
        "e30=",
        "bnVsbA",
        "W10",
        "eyJ2IjoxfQ",
        "eyJydiI6MX0",
        "////",
        "=",
        "x" * 3000,
    ),
    *(
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwiYWZ0ZXIiOlsiYSIsImIiXX0",
        "eyJydiI6LTEsImFmdGVyIjpudWxsfQ",
    ),
)
_MATCHES: Final = ("", "Exact", "NotOlderThan", "exact", "Bogus", "\x00")
_DURATIONS: Final = (
    "",
    "1s",
    "100ms",
    "1ns",
    "0s",
    "-1s",
    "1h",
    "abc",
    "9" * 30 + "s",
    "1",
    "1m1m",
)
_QUERY: Final[dict[str, tuple[str, ...]]] = {
    "watch": ("", "true", "1", "false", "x"),
    "limit": _NUMBERS,
    "continue": _TOKENS,
    "resourceVersion": _NUMBERS,
    "resourceVersionMatch": _MATCHES,
    "labelSelector": _SELECTORS,
    "fieldSelector": _SELECTORS,
    "timeoutSeconds": _NUMBERS,
    "timeout": _DURATIONS,
    "allowWatchBookmarks": _WORDS,
    "sendInitialEvents": _WORDS,
    "includeObject": ("", "None", "Metadata", "Object", "none", "x"),
    "pretty": _WORDS,
    "dryRun": _WORDS,
    "fieldValidation": ("", "Strict", "Warn", "Ignore", "strict", "x"),
    "fieldManager": ("", "kubectl", "x" * 200),
    "hash": _TOKENS,
    "nonsense": _TOKENS,
}
_MEDIA: Final = (
    *(
        "application/json",
        "application/yaml",
        "*/*",
        "application/*",
        "text/html",
        "",
        "a",
        "a/b/c",
    ),
    *("application/vnd.kubernetes.protobuf", "application/cbor", "application/json;as=Nothing"),
    *(
        f"application/json;as={form};v={version};g=meta.k8s.io"
        for form in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
        for version in ("v1", "v1beta1", "v9", "")
    ),
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/json;q=abc",
    "application/json;;;=;q=0.1",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "x" * 5000,
)
_USERS: Final = ("admin", "", "system:anonymous", "a:b", "ü", "x" * 3000, "somebody@tenant-one")
_GROUPS: Final = ("system:masters", "system:authenticated", "tenant-one-admin", "", "x" * 200)
_HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "Accept-Encoding": ("gzip", "br", "gzip;q=0", "identity", "*", ""),
    "If-None-Match": ("*", '"abc"', "W/x", "", '"' * 100),
    "If-Modified-Since": ("x", "Mon, 30 Nov 2026 12:00:00 GMT"),
    "Audit-ID": ("abc", "x" * 200, "a b", "ü", ""),
    "X-Remote-Extra-Scopes%2fx": ("1", "%zz", ""),
    "X-Remote-Extra-": ("1",),
    "X-Remote-Uid": ("1", ""),
    "Impersonate-User": ("bob", ""),
    "Impersonate-Group": ("system:masters",),
    "Authorization": ("Bearer abc", "Basic eDp5", "Bearer", "", "Bearer " + "x" * 5000),
    "traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x"),
    "Connection": ("keep-alive", "X-Remote-User", "upgrade"),
    "Upgrade": ("websocket", "h2c", "x"),
    "Sec-WebSocket-Key": ("dGhlIHNhbXBsZSBub25jZQ==", "x"),
    "Sec-WebSocket-Version": ("13", "x"),
    "Sec-WebSocket-Protocol": ("base64url.bearer.authorization.k8s.io.YWJj", "x"),
    "Content-Encoding": ("gzip", "deflate", "br", "zstd", "x", "identity"),
    "Range": ("bytes=0-1", "x"),
    "Expect": ("100-continue", "x"),
    "Cookie": ("a=b", "x" * 3000),
    "User-Agent": ("curl/8", "Mozilla/5.0", "kubectl", "", "ü"),
    "Origin": ("https://example.com",),
    "X-Forwarded-For": ("1.2.3.4", "x"),
    "X-HTTP-Method-Override": ("DELETE",),
    "Host": ("", "a b", "x" * 300),
}
_TYPES: Final = (
    *("application/json", "application/yaml", "", "text/plain", "application/json; charset=x", "a"),
    *("application/merge-patch+json", "multipart/form-data; boundary=x", "multipart/form-data"),
    "application/x-www-form-urlencoded",
)
_METHODS: Final = ("GET",) * 40 + (
    "HEAD",
    "POST",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
)
_JUNK: Final[tuple[Any, ...]] = (
    *(
        None,
        True,
        0,
        -1,
        1.0,
        1.5,
        1e300,
        2**31,
        2**63,
        2**64,
        10**400,
        "",
        "a",
        "x" * 3000,
        [],
        {},
    ),
    *([[]], {"": {}}, "\x00", "\ud7ff", "é", {"a": 1}, ["a"], "4", "-1", "1e3", "4Gi"),
)
_BODIES: Final[tuple[dict[str, Any], ...]] = (
    {"kind": "OrderReview", "spec": {"className": "h100", "count": 1, "claimName": "a"}},
    {"kind": "QuotaReview", "spec": {"resourceQuotas": {"gpu.cozystack.io/total": "4"}}},
    {"kind": "WhatIf", "spec": {"loseNode": {"name": "gpu-1"}}},
)


class Fuzzer:
    """A stream of requests; the same seed, the same stream."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def request(self) -> Sent:
        """Return the next request."""
        dice = self._dice
        method = dice.choice(_METHODS)
        target, posts = self._target()
        if posts and dice.random() < 0.9:
            method = "POST"
        headers = self._headers(method)
        body = self._body() if method not in {"GET", "HEAD"} or dice.random() < 0.02 else b""
        if body:
            headers += [("Content-Type", self._type()), ("Content-Length", str(len(body)))]
        elif method == "POST":
            headers.append(("Content-Length", "0"))
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{a}: {b}\r\n" for a, b in headers)
        data = head.encode("utf-8", "surrogatepass") + b"\r\n" + body
        if dice.random() < 0.03:
            return self._broken(data)
        watches = "watch" in target and method == "GET"
        leaves = "head" if watches or dice.random() < 0.02 else ""
        if dice.random() < 0.01:
            leaves = "sent"
        return Sent(data, method, leaves)

    def _target(self) -> tuple[str, bool]:
        dice = self._dice
        kind = dice.random()
        posts = False
        if kind < 0.1:
            path = dice.choice(_PLAIN)
        elif kind < 0.14:
            path, posts = "/admission/" + dice.choice(("orders", "pods", "vmis", "x", "..")), True
        else:
            plural = dice.choice(READ if kind < 0.75 else ASKED)
            posts = plural in ASKED
            home = f"/namespaces/{dice.choice(NAMESPACES)}" if dice.random() < 0.85 else ""
            name = f"/{quote(dice.choice(_NAMES))}" if dice.random() < 0.3 else ""
            path = f"{HOME}{home}/{plural}{name}"
        if dice.random() < 0.08:
            parts = path.split("/")
            parts[dice.randrange(len(parts))] = dice.choice(_ODD).replace(" ", "%20")
            path = "/".join(parts)
        if "?" in path or dice.random() < 0.4:
            return path or "/", posts
        return f"{path or '/'}?{self._query()}", posts

    def _query(self) -> str:
        dice = self._dice
        found = []
        for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
            name = dice.choice(tuple(_QUERY))
            value = dice.choice(_QUERY[name][: 4 if dice.random() < 0.5 else None])
            if dice.random() < 0.9:
                value = quote(value)
            found.append(f"{name}={value.replace(' ', '+')}" if dice.random() < 0.97 else name)
        if any(one.startswith("watch=") for one in found) and dice.random() < 0.8:
            found.append("timeoutSeconds=1")
        text = "&".join(found)
        return text.replace("\x00", "%00").replace("\r", "").replace("\n", "")

    def _headers(self, method: str) -> list[tuple[str, str]]:
        dice = self._dice
        found = [("Host", "localhost")]
        user, group = ("admin", "system:masters") if dice.random() < 0.9 else ("somebody@tenant-one", "tenant-one-admin")  # fmt: skip
        if dice.random() < 0.05:
            user, group = dice.choice(_USERS), dice.choice(_GROUPS)
        found += [("X-Remote-User", user), ("X-Remote-Group", group)]
        if dice.random() < 0.5:
            count = dice.choice((1, 2, 2, 5, 8))
            found.append(("Accept", ",".join(dice.choice(_MEDIA) for _ in range(count))))
        for _ in range(dice.choice((0, 0, 0, 1, 2, 4))):
            name = dice.choice(tuple(_HEADERS))
            # Who says to expect a word before the body waits for it.
            if name != "Expect" or method == "GET":
                found.append((name, dice.choice(_HEADERS[name])))
        if dice.random() < 0.01:
            found += [(f"X-Many-{number}", "x") for number in range(dice.choice((50, 500, 5000)))]
        return found

    def _type(self) -> str:
        return _TYPES[0] if self._dice.random() < 0.8 else self._dice.choice(_TYPES)

    def _body(self) -> bytes:
        dice = self._dice
        kind = dice.random()
        if kind < 0.04:
            return dice.randbytes(dice.choice((1, 10, 1000)))
        if kind < 0.06:
            return (b"[" * 5000, b'{"a":' * 5000, b"- " * 5000, b"&a [*a]", b'"' + b"x" * 200_000)[
                dice.randrange(5)
            ]
        content: Any = json.loads(json.dumps(dice.choice(_BODIES)))
        content["apiVersion"] = "catalog.gpu.cozystack.io/v1alpha1"
        if dice.random() < 0.3:
            content["metadata"] = {"name": dice.choice(_NAMES)}
        for _ in range(dice.choice((0, 0, 1, 1, 2, 5))):
            content = self._changed(content)
        text = json.dumps(content, ensure_ascii=dice.random() < 0.5)
        if dice.random() < 0.05:
            text = text[: dice.randrange(len(text) + 1)]
        return text.encode("utf-8", "surrogatepass")

    def _changed(self, content: Any) -> Any:
        """Return the content with one part of it replaced, added or taken out."""
        dice = self._dice
        if not isinstance(content, dict) or not content or dice.random() < 0.15:
            return dice.choice(_JUNK)
        name = dice.choice(tuple(content))
        way = dice.random()
        if way < 0.5:
            return {**content, name: self._changed(content[name])}
        if way < 0.7:
            return {key: value for key, value in content.items() if key != name}
        return {**content, dice.choice(("more", "", "é", "x" * 300)): dice.choice(_JUNK)}

    def _broken(self, data: bytes) -> Sent:
        """Return a request whose framing is no HTTP; the connection ends with it."""
        dice = self._dice
        ways: tuple[Callable[[bytes], bytes], ...] = (
            lambda text: text.replace(b" HTTP/1.1", dice.choice((b" HTTP/9.9", b"", b" HTTX/1.1"))),
            lambda text: text.replace(b"\r\n", b"\n"),
            lambda text: text.replace(b": ", dice.choice((b" : ", b"", b":\x00")), 3),
            lambda text: text.replace(
                b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 1
            ),
            lambda text: text.replace(b"\r\n\r\n", b"\r\nContent-Length: -1\r\n\r\n", 1),
            lambda text: text.replace(
                b"\r\n\r\n", b"\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", 1
            ),
            lambda text: b"\x16\x03\x01" + text,
            lambda text: b"BREW" + text,
            lambda text: text.replace(b" /", b" http://other/", 1),
            lambda text: text.replace(b" /", b" ", 1),
        )
        # What is cut off may leave the server waiting for more: nobody waits for it here.
        cut = dice.random() < 0.3
        text = data[: dice.randrange(len(data))] if cut else dice.choice(ways)(data)
        return Sent(text, leaves="sent" if cut else "head", closes=True)
