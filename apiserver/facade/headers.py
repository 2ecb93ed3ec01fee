"""Which headers go on to the host and back, and the caller's identity in them; pure.

The caller is named by impersonation: the host asks kube-apiserver whether our service account may act
as that user, and then judges the request as that user's.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from multidict import CIMultiDict

from apiserver.identity import User

_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Of one connection, not of what is said on it (RFC 9110 7.6.1)."""
_OURS: Final = frozenset({"host", "authorization", "content-length"})
_SPOKEN_FOR: Final = ("x-remote-", "impersonate-")


def identity(user: User) -> CIMultiDict[str]:
    """Return the headers that name a user; keys of extra values are escaped, as client-go does."""
    found = CIMultiDict({"Impersonate-User": user.name})
    for group in user.groups:
        found.add("Impersonate-Group", group)
    if user.uid:
        found["Impersonate-Uid"] = user.uid
    for key, values in user.extra:
        for value in values:
            found.add(f"Impersonate-Extra-{quote(key, safe='')}", value)
    return found


def onward(headers: Iterable[tuple[str, str]], user: User, audit_id: str) -> CIMultiDict[str]:
    """Return a request's headers for the host: the caller's own, and who the caller is.

    Nothing that names a user by itself goes on, whoever wrote it.
    """
    found = identity(user)
    named = _named({name: value for name, value in headers if name.lower() == "connection"})
    for name, value in headers:
        low = name.lower()
        if low in _HOP | _OURS | named or low.startswith(_SPOKEN_FOR):
            continue
        found.add(name, value)
    found["Audit-ID"] = audit_id
    return found


def back(headers: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    """Return an answer's headers for the caller: all of them but those of the connection."""
    pairs = list(headers)
    named = _named(dict(pairs))
    found: CIMultiDict[str] = CIMultiDict()
    for name, value in pairs:
        if name.lower() not in _HOP | named:
            found.add(name, value)
    return found


def _named(headers: Mapping[str, str]) -> frozenset[str]:
    """Return what the Connection header says is of this connection alone."""
    said = next((value for name, value in headers.items() if name.lower() == "connection"), "")
    return frozenset(part.strip().lower() for part in said.split(",") if part.strip())
