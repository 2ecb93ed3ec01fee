"""The settings ConfigMap: parse and format, nothing about who writes it (domain contract 4)."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu.errors import SettingsError
from gpu.units import ResourceName

RESOURCE_NAMES: Final = "resourceNames"
RAW_RESOURCE_NAMES: Final = "rawResourceNames"

# Kubernetes' shape of an extended resource name: a DNS subdomain, a slash, a qualified name.
_NAME = re.compile(
    r"(?=.{1,317}$)[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


class RawNames(StrEnum):
    """Whether a tenant may name a resource directly."""

    ALLOWED = "allowed"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective GPU resource names, sorted, and whether tenants may name them directly."""

    resource_names: tuple[ResourceName, ...] = ()
    raw_names: RawNames = RawNames.DENIED

    @staticmethod
    def of(names: Iterable[ResourceName], raw_names: RawNames) -> "Settings":
        """Sort the names and drop repeats."""
        return Settings(tuple(sorted(set(names))), raw_names)


def is_resource_name(text: str) -> bool:
    """Say whether an extended resource of a node can be called this."""
    return _NAME.fullmatch(text) is not None


def format_data(settings: Settings) -> dict[str, str]:
    """Return the ConfigMap's `data`; `parse_data` of it gives equal settings."""
    return {
        RESOURCE_NAMES: ",".join(settings.resource_names),
        RAW_RESOURCE_NAMES: settings.raw_names.value,
    }


def parse_data(data: Mapping[str, str]) -> Settings:
    """Read the ConfigMap's `data`.

    Raises SettingsError, naming key and text, for anything `format_data` would not have written.
    """
    for key in (RESOURCE_NAMES, RAW_RESOURCE_NAMES):
        if key not in data:
            raise SettingsError(f"data.{key} is missing")
    text = data[RESOURCE_NAMES]
    names = text.split(",") if text else []
    for name in names:
        if not is_resource_name(name):
            raise SettingsError(f"data.{RESOURCE_NAMES}: {name[:80]!r} is no resource name")
    raw = data[RAW_RESOURCE_NAMES]
    if raw not in set(RawNames):
        raise SettingsError(
            f"data.{RAW_RESOURCE_NAMES}: {raw[:80]!r} is neither 'allowed' nor 'denied'"
        )
    return Settings.of((ResourceName(name) for name in names), RawNames(raw))
