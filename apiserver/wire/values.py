"""Json: what JSON text can mean, so that no signature has to say Any."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import yaml

from gpu import units

Scalar: TypeAlias = str | int | float | bool | None
Json: TypeAlias = "Scalar | Sequence[Json] | Mapping[str, Json]"
JsonObject: TypeAlias = Mapping[str, Json]


# libyaml's is four times as fast; not every build of PyYAML has it.
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_encoder = msgspec.json.Encoder(enc_hook=units.plain)


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
    text: str = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text.encode()
