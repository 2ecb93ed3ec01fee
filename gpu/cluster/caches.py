"""WATCHED: every kind this product looks at; Caches: their stores, filled for ever."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from gpu import keys
from gpu.cluster import reflector
from gpu.cluster.store import Report, Store
from gpu.objects import (
    binders,
    claims,
    classes,
    config_maps,
    kinds,
    kubevirt,
    nodes,
    pods,
    storage,
    tenants,
    volumes,
    webhooks,
    workloads,
)
from gpu.objects.kinds import Kind
from gpu.objects.meta import HasMeta, ObjectKey

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One kind, the view it is read as, and which of its objects are looked at."""

    kind: Kind
    view: type[HasMeta]
    decode: Callable[[Mapping[str, Any]], HasMeta]
    scope: reflector.Scope = reflector.EVERYTHING
    optional: bool = False
    """Another product's kind: it may be served later or never, and nothing waits for it."""
    lingers: Callable[[Any], bool] | None = None
    """Which of its objects are still shown for a while once they are deleted."""


WATCHED: Final = (
    Watched(kind=kinds.GPU_CLASSES, view=classes.GPUClass, decode=classes.decode),
    Watched(kind=kinds.GPU_CLAIMS, view=claims.GPUClaim, decode=claims.decode),
    Watched(kind=kinds.GPU_NODES, view=nodes.GPUNode, decode=nodes.decode_inventory),
    Watched(kind=kinds.GPU_BINDERS, view=binders.GPUBinder, decode=binders.decode),
    Watched(kind=kinds.NODES, view=nodes.Node, decode=nodes.decode),
    # A finished pod may be gone 60 ms later: its end is evidence, and passes must get to see it.
    Watched(kind=kinds.PODS, view=pods.Pod, decode=pods.decode, lingers=lambda pod: not pod.live),
    Watched(kind=kinds.VOLUME_CLAIMS, view=volumes.Claim, decode=volumes.decode),
    Watched(kind=kinds.VOLUMES, view=volumes.Volume, decode=volumes.decode_volume),
    Watched(kind=kinds.STORAGE_CLASSES, view=storage.StorageClass, decode=storage.decode_class),
    Watched(kind=kinds.CSI_NODES, view=storage.CSINode, decode=storage.decode_csi_node),
    Watched(kind=kinds.NAMESPACES, view=tenants.Namespace, decode=tenants.decode_namespace),
    Watched(
        kind=kinds.HELM_RELEASES,
        view=tenants.TenantRelease,
        decode=tenants.decode_release,
        scope=reflector.Scope(label_selector=f"{keys.APPLICATION_KIND_LABEL}=Tenant"),
        optional=True,
    ),
    Watched(
        kind=kinds.RESOURCE_QUOTAS,
        view=tenants.TenantQuota,
        decode=tenants.decode_quota,
        scope=reflector.Scope(field_selector=f"metadata.name={keys.TENANT_QUOTA_NAME}"),
    ),
    Watched(
        kind=kinds.MUTATING_WEBHOOKS,
        view=webhooks.Webhooks,
        decode=webhooks.decode,
        scope=reflector.Scope(field_selector=f"metadata.name={keys.WEBHOOKS_NAME}"),
    ),
    Watched(
        kind=kinds.CONFIG_MAPS,
        view=config_maps.ConfigMap,
        decode=config_maps.decode,
        scope=reflector.Scope(
            namespace=keys.SETTINGS_NAMESPACE, field_selector=f"metadata.name={keys.SETTINGS_NAME}"
        ),
    ),
    Watched(
        kind=kinds.KUBEVIRTS,
        view=kubevirt.KubeVirt,
        decode=kubevirt.decode_kubevirt,
        optional=True,
    ),
    Watched(kind=kinds.VMIS, view=kubevirt.VMI, decode=kubevirt.decode_vmi, optional=True),
    Watched(kind=kinds.VMS, view=kubevirt.VM, decode=kubevirt.decode_vm, optional=True),
    Watched(kind=kinds.WORKLOADS, view=workloads.Workload, decode=workloads.decode, optional=True),
    Watched(
        kind=kinds.WORKLOAD_MONITORS,
        view=workloads.Monitor,
        decode=workloads.decode_monitor,
        scope=reflector.Scope(field_selector=f"metadata.name={keys.USAGE_MONITOR_NAME}"),
        optional=True,
    ),
)


class Caches:
    """A store for each row of a table; satisfies the Reader port.

    Answers from whatever has been read so far; `synced` says whether that is all.
    """

    def __init__(
        self,
        api: reflector.Api,
        watched: tuple[Watched, ...] = WATCHED,
        *,
        pace: reflector.Pace = reflector.USUAL,
        report: Report | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.reflectors: Mapping[Kind, reflector.Reflector[Any]] = {
            row.kind: reflector.Reflector(
                api,
                Store(row.kind, row.decode, report, lingers=row.lingers),
                row.scope,
                pace=pace,
                jitter=jitter,
            )
            for row in watched
        }
        self._rows = tuple((row, self.reflectors[row.kind].store) for row in watched)
        self._by_view = {row.view: self.reflectors[row.kind].store for row in watched}

    def __getitem__(self, kind: Kind) -> Store[Any]:
        """Return the store of a kind; KeyError when it is not watched."""
        return self.reflectors[kind].store

    async def run(self) -> None:
        """Fill the stores until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for each in self.reflectors.values():
                tasks.create_task(each.run(), name=f"reflector {each.store.kind.resource}")

    def kind(self, view: type[HasMeta]) -> Kind:
        """Return the kind that is read as a view."""
        return self._store(view).kind

    # The Reader port.

    def items(self, view: type[V]) -> tuple[V, ...]:
        """Return every well-formed object of a view, in key order."""
        return cast("tuple[V, ...]", self._store(view).items())

    def malformed(self, view: type[V]) -> Mapping[ObjectKey, str]:
        """Return the objects of a view that could not be read, and why."""
        return {key: str(error) for key, error in self._store(view).malformed.items()}

    def served(self, view: type[V]) -> bool:
        """Say whether the API server serves the view's kind at all, as far as is known."""
        return self._store(view).served

    def version(self, view: type[V]) -> int:
        """Return the highest resourceVersion a view's store has come to."""
        return self._store(view).resource_version

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after each change of a typed view of any kind; returns what ends it."""
        ends = [each.store.subscribe(changed) for each in self.reflectors.values()]

        def end() -> None:
            for one in ends:
                one()

        return end

    def subscribe_served(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` when a kind begins or ceases to be served; returns what ends it."""
        served = {kind: each.store.served for kind, each in self.reflectors.items()}

        def look() -> None:
            now = {kind: each.store.served for kind, each in self.reflectors.items()}
            if now != served:
                served.update(now)
                changed()

        return self.subscribe(look)

    # How far the stores are to be trusted.

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The kinds whose first list is not there yet; optional ones that are not served are fine."""
        return tuple(row.kind.resource for row, store in self._rows if _is_awaited(row, store))

    @property
    def synced(self) -> bool:
        """Whether every kind that is served has been listed once."""
        return not any(_is_awaited(row, store) for row, store in self._rows)

    @property
    def failing(self) -> Mapping[str, float]:
        """The kinds that cannot be read now, and since when (loop time)."""
        return {
            each.store.kind.resource: each.failing_since
            for each in self.reflectors.values()
            if each.failing_since is not None
        }

    async def wait_synced(self) -> None:
        """Wait until `synced`."""
        done = asyncio.Event()
        end = self.subscribe(done.set)
        try:
            while not self.synced:
                done.clear()
                await done.wait()
        finally:
            end()

    async def refresh(self, *views: type[Any]) -> None:
        """List these views anew (all when none is named): no store then is older than this call.

        A kind that is not served is not waited for. Waits on while the server does not answer.
        """
        chosen = [self._store(view).kind for view in views] or list(self.reflectors)
        async with asyncio.TaskGroup() as tasks:
            for kind in chosen:
                if self[kind].served:
                    tasks.create_task(self.reflectors[kind].refresh())

    def _store(self, view: type[Any]) -> Store[Any]:
        return self._by_view[view]


def _is_awaited(row: Watched, store: Store[Any]) -> bool:
    return not store.has_synced and (store.served or not row.optional)
