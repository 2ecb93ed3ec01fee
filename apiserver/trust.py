"""Whom to believe: extension-apiserver-authentication, read again and again, the last good kept."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from apiserver.tls import Pool
from gpu.objects.kinds import CONFIG_MAPS, Kind

NAMESPACE: Final = "kube-system"
NAME: Final = "extension-apiserver-authentication"

log = structlog.get_logger(__name__)


class TrustError(Exception):
    """The ConfigMap holds something that is not what kube-apiserver writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """The front proxy: its authorities, its names, and the headers it speaks for users in."""

    pool: Pool
    allowed_names: tuple[str, ...] = ()
    """Empty: any name."""
    user_headers: tuple[str, ...] = ("X-Remote-User",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    uid_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The authorities in force. Without a proxy nobody's headers are believed."""

    proxy: Proxy | None = None
    clients: Pool | None = None

    @property
    def authorities(self) -> str:
        """All certificates of both pools, PEM."""
        pools = (self.proxy.pool if self.proxy else None, self.clients)
        return "\n".join(pool.pem for pool in pools if pool is not None)


class Getter(Protocol):
    """Whoever reads one object."""

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]:
        """Read one object."""


def parse(data: Mapping[str, str]) -> Trust:
    """Read the ConfigMap's data. Raises TrustError; a missing client CA or proxy is no error."""
    try:
        clients = Pool(data["client-ca-file"]) if data.get("client-ca-file") else None
        authorities = data.get("requestheader-client-ca-file")
        proxy = _proxy(Pool(authorities), data) if authorities else None
    except ValueError as error:
        raise TrustError(str(error)) from error
    return Trust(proxy=proxy, clients=clients)


def _proxy(pool: Pool, data: Mapping[str, str]) -> Proxy:
    if not len(pool):
        raise TrustError("requestheader-client-ca-file holds no certificate")
    proxy = Proxy(
        pool=pool,
        allowed_names=_names(data, "requestheader-allowed-names"),
        user_headers=_names(data, "requestheader-username-headers"),
        group_headers=_names(data, "requestheader-group-headers"),
        uid_headers=_names(data, "requestheader-uid-headers"),
        extra_prefixes=_names(data, "requestheader-extra-headers-prefix"),
    )
    if not proxy.user_headers:
        raise TrustError("requestheader-username-headers names no header")
    return proxy


def _names(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    text = data.get(key)
    if not text:
        return ()
    names = json.loads(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TrustError(f"{key} is not a list of strings")
    return tuple(names)


class Keeper:
    """Holds the Trust in force."""

    def __init__(
        self,
        getter: Getter,
        *,
        changed: Callable[[Trust], None] = lambda _trust: None,
        failed: Callable[[], None] = lambda: None,
        every: float = 15.0,
    ) -> None:
        self._getter = getter
        self._changed = changed
        self._failed = failed
        self._every = every
        self._data: Mapping[str, str] | None = None
        self.trust = Trust()

    @property
    def loaded(self) -> bool:
        """Say whether proxied identities can be judged."""
        return self.trust.proxy is not None

    async def run(self) -> None:
        """Read the ConfigMap again and again until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(self._every if self.loaded else min(1.0, self._every))

    async def refresh(self) -> None:
        """Read the ConfigMap once; whatever goes wrong leaves what was in force."""
        try:
            async with asyncio.timeout(10):
                found = await self._getter.get(CONFIG_MAPS, NAME, NAMESPACE)
            data: Mapping[str, str] = found.get("data") or {}
            if data != self._data:
                self._take(parse(data))
                self._data = data
        except Exception as error:  # noqa: BLE001 - an edge: said, counted, tried again
            log.warning("authentication config not read", error=f"{type(error).__name__}: {error}")
            self._failed()

    def _take(self, trust: Trust) -> None:
        if trust.proxy is None and self.trust.proxy is not None:
            raise TrustError("the front proxy's keys are gone; those before stay in force")
        shared = (
            trust.proxy is not None
            and trust.clients is not None
            and not trust.proxy.allowed_names
            and trust.proxy.pool.shares_with(trust.clients)
        )
        if shared:
            # Every client certificate could pose as the proxy (kubernetes 119267).
            raise TrustError("front proxy and clients share an authority and any name is allowed")
        self.trust = trust
        self._changed(trust)
        log.info("authentication config in force", proxy=trust.proxy is not None)
