"""Accept to a View: JSON or YAML, as itself, as a Table or as metadata only; else 406."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from apiserver.wire import status

JSON: Final = "application/json"
YAML: Final = "application/yaml"
META_GROUP: Final = "meta.k8s.io"
DISCOVERY_GROUP: Final = "apidiscovery.k8s.io"
_HEADERS: Final = 128
"""Accept headers of which the choice is remembered: clients have few, and could make up any number."""


class Form(StrEnum):
    """The form of the same objects that is asked for; the value is the `as` parameter."""

    PLAIN = ""
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"
    PARTIAL_LIST = "PartialObjectMetadataList"


class Subject(StrEnum):
    """What the answer is about; it decides which forms and encodings are possible."""

    OBJECT = "object"
    LIST = "list"
    WATCH = "watch"
    OTHER = "other"
    """No objects at all: an error, a discovery document."""


_FORMS: Final = {
    Subject.OBJECT: frozenset({Form.PLAIN, Form.TABLE, Form.PARTIAL}),
    Subject.LIST: frozenset({Form.PLAIN, Form.TABLE, Form.PARTIAL_LIST}),
    Subject.WATCH: frozenset({Form.PLAIN, Form.TABLE, Form.PARTIAL}),
    Subject.OTHER: frozenset({Form.PLAIN}),
}
_MEDIA: Final = {
    Subject.OBJECT: (JSON, YAML),
    Subject.LIST: (JSON, YAML),
    Subject.WATCH: (JSON,),
    Subject.OTHER: (JSON, YAML),
}


@dataclass(frozen=True, slots=True)
class View:
    """Encoding and form of an answer; `version` is that of the Table or partial object."""

    media: str = JSON
    form: Form = Form.PLAIN
    version: str = "v1"

    @property
    def api_version(self) -> str:
        """The apiVersion of a Table or partial object in this view."""
        return f"{META_GROUP}/{self.version}"


@dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header."""

    media: str
    quality: float
    params: tuple[tuple[str, str], ...]

    def param(self, name: str) -> str:
        """Return a parameter, empty when absent."""
        return dict(self.params).get(name, "")

    @property
    def specificity(self) -> int:
        """Two for a media type, one for `type/*`, none for `*/*`."""
        return 2 - self.media.count("*")


def clauses(accept: str) -> list[Clause]:
    """Read an Accept header, most wanted first: by quality, then specific, then as written."""
    found = [_clause(part) for part in accept.split(",") if part.strip()]
    return sorted(
        (one for one in found if one.quality > 0), key=lambda one: (-one.quality, -one.specificity)
    )


@lru_cache(maxsize=_HEADERS)
def choose(accept: str | None, subject: Subject) -> View:
    """Return the first view the client wants that can be made. Raises NotAcceptable."""
    for clause in clauses(accept or "*/*"):
        media = _media(clause.media, _MEDIA[subject])
        form = clause.param("as")
        if not media or form not in set(Form) or Form(form) not in _FORMS[subject]:
            continue
        if not form:
            return View(media=media)
        version = clause.param("v")
        if clause.param("g") == META_GROUP and version in {"v1", "v1beta1"}:
            return View(media=media, form=Form(form), version=version)
    raise status.not_acceptable(_MEDIA[subject])


def takes_gzip(accept_encoding: str) -> bool:
    """Say whether a client lets its answer be compressed by gzip (RFC 9110, 12.5.3)."""
    said = {one.media: one.quality > 0 for one in map(_clause, accept_encoding.split(","))}
    return said.get("gzip", said.get("*", False))


def wants_aggregated(accept: str | None) -> str:
    """Return `v2` or `v2beta1` when aggregated discovery is wanted, empty for the plain list.

    Raises NotAcceptable when neither is.
    """
    for clause in clauses(accept or "*/*"):
        if not _media(clause.media, (JSON, YAML)):
            continue
        if not clause.param("as"):
            return ""
        version = clause.param("v")
        wanted = (clause.param("as"), clause.param("g"))
        if wanted == ("APIGroupDiscoveryList", DISCOVERY_GROUP) and version in {"v2", "v2beta1"}:
            return version
    raise status.not_acceptable((JSON, YAML))


def _media(wanted: str, offers: tuple[str, ...]) -> str:
    if wanted in {"*/*", "application/*"}:
        return offers[0]
    return wanted if wanted in offers else ""


def _clause(part: str) -> Clause:
    media, *rest = (piece.strip() for piece in part.split(";"))
    params = []
    quality = 1.0
    for piece in rest:
        name, _, value = piece.partition("=")
        name = name.strip().lower()
        value = value.strip().strip('"')
        if name == "q":
            quality = _quality(value)
        else:
            params.append((name, value))
    return Clause(media.lower(), quality, tuple(params))


def _quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0
