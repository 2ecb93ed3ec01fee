"""Json: what JSON text can mean, so that no signature has to say Any."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import yaml

Scalar: TypeAlias = str | int | float | bool | None
Json: TypeAlias = "Scalar | Sequence[Json] | Mapping[str, Json]"
JsonObject: TypeAlias = Mapping[str, Json]


def _plain(value: object) -> int:
    """Encode an int of a type of its own (Units), which msgspec leaves to us."""
    if isinstance(value, int):
        return int(value)
    raise NotImplementedError(type(value).__name__)


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def json_line(value: Json) -> bytes:
    """Encode as compact JSON and a newline, as kube-apiserver ends its bodies."""
    return _encoder.encode(value) + b"\n"


def json_pretty(value: Json) -> bytes:
    """Encode as JSON indented by two spaces, for people."""
    return msgspec.json.format(_encoder.encode(value), indent=2) + b"\n"


def yaml_text(value: Json) -> bytes:
    """Encode as YAML, fields in their order."""
    # Through JSON, so that the dumper meets plain dicts and lists only.
    plain: object = msgspec.json.decode(_encoder.encode(value))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).encode()
