"""Watch: a Reader that shows each kind as it was when that kind was last delivered, or even earlier."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu.errors import DecodeError
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import ObjectKey
from soak.api import Api
from tests.binder.window import DECODERS

VIEWS = tuple(DECODERS)
_KEPT = 20_000


@dataclass(frozen=True)
class Shown:
    """One kind at one version."""

    version: int
    count: int
    items: tuple[Any, ...] = ()
    malformed: Mapping[ObjectKey, str] = field(default_factory=dict)


class Watch:
    """One leader's store."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._shown: dict[type, Shown] = {}
        self._before: dict[type, Shown] = {}
        self.show()

    def show(self, views: Iterable[type] = VIEWS) -> None:
        """Deliver everything stored so far, of these views."""
        for view in views:
            kind, decode = DECODERS[view]
            old, count = self._shown.get(view), self._api.counts[kind]
            if old is not None and old.count == count:
                self._shown[view] = Shown(self._api.version, count, old.items, old.malformed)
                continue
            found, malformed = [], {}
            for raw in self._api.all(kind):
                try:
                    found.append(self._decode(raw, decode))
                except DecodeError as error:
                    meta = raw["metadata"]
                    malformed[ObjectKey(meta.get("namespace", ""), meta["name"])] = str(error)
            if old is not None:
                self._before[view] = old
            self._shown[view] = Shown(self._api.version, count, tuple(found), malformed)

    def go_back(self) -> None:
        """Show claims as before the last delivery: a list from an API server that lags."""
        if GPUClaim in self._before:
            self._shown[GPUClaim] = self._before.pop(GPUClaim)

    def _decode(self, raw: dict[str, Any], decode: Callable[[Any], Any]) -> Any:
        meta = raw["metadata"]
        version = (meta["uid"], meta["resourceVersion"])
        found = self._api.decoded.get(version)
        if found is None:
            if len(self._api.decoded) > _KEPT:
                self._api.decoded.clear()
            found = self._api.decoded[version] = decode(raw)
        return found

    def items(self, view: type) -> tuple[Any, ...]:
        return self._shown[view].items

    def malformed(self, view: type) -> Mapping[ObjectKey, str]:
        return self._shown[view].malformed

    def served(self, _view: type) -> bool:
        return True

    def version(self, view: type) -> int:
        return self._shown[view].version

    def subscribe(self, _changed: Callable[[], None]) -> Callable[[], None]:
        return lambda: None
