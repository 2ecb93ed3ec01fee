"""Which ConfigMap the policies read: the settings themselves, or a copy of them under a new name.

An API server that has stopped following ConfigMaps serves those it knows as they were, and reads a
name it does not know anew each time (kubernetes 130887). So a copy under a new name is the way out
that needs no restart. Numbers only grow: a name that was in use once may be known somewhere. Other
readers keep to the settings themselves, and the copy follows them.

The name is noted on GPUBinder before a binding names it, so that the next leader goes on with it.
"""

import re
from collections.abc import Callable
from typing import Final

import structlog

from gpu import keys, ports
from gpu.config import Config, PolicyMode
from gpu.objects import kinds
from policies import stored, upkeep
from policies.shapes import LABELS, Document

log = structlog.get_logger(__name__)

_COPY = re.compile(f"{re.escape(keys.SETTINGS_NAME)}-([1-9][0-9]{{0,8}})")
_ORIGINAL: Final = 0


def number_of(name: str) -> int:
    """Return the number of a copy; 0 for the settings themselves and for any other name."""
    found = _COPY.fullmatch(name)
    return int(found[1]) if found else _ORIGINAL


def name_of(number: int) -> str:
    """Return the name of a copy; the settings themselves are number 0."""
    return f"{keys.SETTINGS_NAME}-{number}" if number else keys.SETTINGS_NAME


class Revisions:
    """The settings as the policies read them; writes only while `leading` says so."""

    def __init__(
        self, writer: ports.Writer, config: Config, *, leading: Callable[[], bool]
    ) -> None:
        self._writer = writer
        self._config = config
        self._leading = leading
        self._tidied = ""

    async def current(self, binder: Document | None) -> str:
        """Return the name that bindings shall have: as noted on GPUBinder, else as they have it.

        Bindings that others keep (mode `rendered`) name the settings themselves.
        """
        if self._config.policies is PolicyMode.RENDERED:
            return keys.SETTINGS_NAME
        noted = _noted(binder)
        if number_of(noted):
            return noted
        bound = await self._bound()
        if number_of(bound) and binder is not None:
            await self._note(bound)
        return name_of(number_of(bound))

    async def follow(self, name: str) -> Document | None:
        """Bring a copy to what the settings are; return those, None when they are not there."""
        settings = await self._find(keys.SETTINGS_NAME)
        if settings is not None and number_of(name):
            copy = await self._find(name)
            if (copy is None or _data(copy) != _data(settings)) and self._leading():
                await self._copy(settings, name)
        return settings

    async def move(self, name: str) -> str | None:
        """Copy the settings to the next name and note that; None when nothing could be copied."""
        settings = await self._find(keys.SETTINGS_NAME)
        if settings is None or not self._leading():
            return None
        moved = name_of(number_of(name) + 1)
        await self._copy(settings, moved)
        if not self._leading():
            return None
        await self._note(moved)
        log.warning("policies read the settings under a new name", before=name, now=moved)
        return moved

    async def tidy(self, name: str) -> None:
        """Remove the copies beside the one in use, once: no binding names them.

        The one before was in use; the one after was made by a leader that ended before noting it.
        """
        if self._tidied == name or self._config.policies is PolicyMode.RENDERED:
            return
        number = number_of(name)
        for other in (number - 1, number + 1):
            found = await self._find(name_of(other)) if other > _ORIGINAL else None
            if found is not None:
                if not self._leading():
                    return
                await self._remove(found["metadata"])
        self._tidied = name

    async def _remove(self, meta: Document) -> None:
        try:
            await self._writer.delete(
                kinds.CONFIG_MAPS, meta["name"], self._config.settings_namespace, uid=meta["uid"]
            )
        except Exception as error:
            if self._writer.outcome(error) is not ports.Outcome.GONE:
                raise
        log.info("copy of the settings removed", name=meta["name"])

    async def _bound(self) -> str:
        keeper = upkeep.policies(self._config)[0]
        found = await stored.find(self._writer, kinds.POLICY_BINDINGS, keeper.name)
        param = ((found or {}).get("spec") or {}).get("paramRef") or {}
        return str(param.get("name", ""))

    async def _copy(self, settings: Document, name: str) -> None:
        await self._writer.apply(
            kinds.CONFIG_MAPS,
            name,
            {"metadata": {"labels": dict(LABELS)}, "data": _data(settings)},
            self._config.settings_namespace,
            field_manager=keys.POLICIES_MANAGER,
        )

    async def _note(self, name: str) -> None:
        # A merge patch: the applied set of this manager is the condition alone.
        await self._writer.patch(
            kinds.GPU_BINDERS,
            keys.BINDER_NAME,
            {"status": {"settings": {"configMap": name}}},
            subresource="status",
            field_manager=keys.POLICIES_MANAGER,
        )

    async def _find(self, name: str) -> Document | None:
        return await stored.find(
            self._writer, kinds.CONFIG_MAPS, name, self._config.settings_namespace
        )


def _noted(binder: Document | None) -> str:
    settings = ((binder or {}).get("status") or {}).get("settings") or {}
    return str(settings.get("configMap", ""))


def _data(config_map: Document) -> Document:
    return dict(config_map.get("data") or {})
