"""The ConfigMaps with what is reserved: read past the cache, written by compare-and-swap."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpu import keys
from gpu.admission.unanswered import PAUSE
from gpu.model import reservations
from gpu.model.reservations import Book, Entry
from gpu.objects.kinds import CONFIG_MAPS, GPU_BINDERS
from gpu.ports import Outcome, Writer
from gpu.units import TenantName


class UnstorableError(Exception):
    """A grant could not be reserved; the text says why and what is next."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One tenant's reservations as stored."""

    version: str
    book: Book


class Shelf:
    """All of those ConfigMaps. Calls without an answer are made again; put a deadline around them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def present(self) -> int:
        """Return the version the API server is at now. Raises UnstorableError.

        It is that of a list; any kind's will do, and of this one there is one object.
        """
        while True:
            try:
                return int((await self._writer.list_all(GPU_BINDERS)).resource_version)
            except Exception as error:  # noqa: BLE001 -- judged by its outcome, or raised again
                self._outcome(error, f"list {GPU_BINDERS.resource}")
                await asyncio.sleep(PAUSE)

    async def read_all(
        self, tenants: Collection[TenantName], now: datetime, *, make: bool
    ) -> dict[TenantName, Stored]:
        """Read reservations of several tenants beside each other, as `read` does."""
        try:
            async with asyncio.TaskGroup() as tasks:
                found = [tasks.create_task(self.read(one, now, make=make)) for one in tenants]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        return {one: task.result() for one, task in zip(tenants, found, strict=True)}

    async def read(self, tenant: TenantName, now: datetime, *, make: bool) -> Stored:
        """Read a tenant's reservations; where there is no ConfigMap, an empty one is made if asked.

        Raises UnstorableError.
        """
        raw = await self._stored(name_of(tenant), make=make)
        if raw is None:
            return Stored("0", Book())
        return Stored(raw["metadata"]["resourceVersion"], reservations.parse(raw.get("data"), now))

    async def _stored(self, name: str, *, make: bool) -> dict[str, Any] | None:
        while True:
            try:
                return await self._writer.get(CONFIG_MAPS, name, keys.SETTINGS_NAMESPACE)
            except Exception as error:  # noqa: BLE001 -- judged by its outcome, or raised again
                if self._outcome(error, f"read {_map(name)}") is not Outcome.GONE:
                    await asyncio.sleep(PAUSE)
                    continue
            if not make:
                return None
            try:
                return await self._writer.create(CONFIG_MAPS, _empty(name))
            except Exception as error:  # noqa: BLE001 -- judged by its outcome, or raised again
                if self._outcome(error, f"create {_map(name)}") is not Outcome.CONFLICT:
                    await asyncio.sleep(PAUSE)

    async def swap(
        self, tenant: TenantName, stored: Stored, child: TenantName, entry: Entry, now: datetime
    ) -> bool:
        """Write an entry over what was read; False when that is not what is stored any more.

        False too when nobody knows what came of it. Raises UnstorableError.
        """
        if reservations.is_full(stored.book, tenant, child, entry, now):
            raise UnstorableError(
                f"too many quotas below {tenant} were changed in the last half minute: try again then"
            )
        name = name_of(tenant)
        patch = {
            "metadata": {"resourceVersion": stored.version},
            "data": reservations.changes(stored.book, child, entry, now),
        }
        try:
            await self._writer.patch(
                CONFIG_MAPS,
                name,
                patch,
                keys.SETTINGS_NAMESPACE,
                field_manager=keys.WEBHOOK_MANAGER,
            )
        except Exception as error:  # noqa: BLE001 -- judged by its outcome, or raised again
            if self._outcome(error, f"write {_map(name)}") is not Outcome.CONFLICT:
                await asyncio.sleep(PAUSE)
            return False
        return True

    def _outcome(self, error: Exception, call: str) -> Outcome:
        """Return what a failed call means; what trying again cannot cure is raised."""
        outcome = self._writer.outcome(error)
        if outcome is None:
            raise error
        if outcome is Outcome.REFUSED:
            raise UnstorableError(
                f"cannot {call}, so nothing can be reserved: {error}; ask the hoster"
            ) from error
        return outcome


def name_of(tenant: TenantName) -> str:
    """Return the name of the ConfigMap with what is reserved of a tenant's budgets."""
    return f"{keys.RESERVED_PREFIX}{tenant}"


def _empty(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": keys.SETTINGS_NAMESPACE}}


def _map(name: str) -> str:
    return f"ConfigMap {keys.SETTINGS_NAMESPACE}/{name}"
