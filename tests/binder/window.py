"""Window: a Reader over a FakeCluster that shows what was stored when `show` was last called."""

from collections.abc import Callable, Mapping
from typing import Any

from gpu.errors import DecodeError
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
from gpu.objects.meta import ObjectKey
from tests.fakes.cluster import FakeCluster

DECODERS: dict[type, tuple[kinds.Kind, Callable[[Any], Any]]] = {
    classes.GPUClass: (kinds.GPU_CLASSES, classes.decode),
    claims.GPUClaim: (kinds.GPU_CLAIMS, claims.decode),
    nodes.GPUNode: (kinds.GPU_NODES, nodes.decode_inventory),
    nodes.Node: (kinds.NODES, nodes.decode),
    pods.Pod: (kinds.PODS, pods.decode),
    volumes.Claim: (kinds.VOLUME_CLAIMS, volumes.decode),
    volumes.Volume: (kinds.VOLUMES, volumes.decode_volume),
    storage.StorageClass: (kinds.STORAGE_CLASSES, storage.decode_class),
    storage.CSINode: (kinds.CSI_NODES, storage.decode_csi_node),
    kubevirt.VMI: (kinds.VMIS, kubevirt.decode_vmi),
    kubevirt.KubeVirt: (kinds.KUBEVIRTS, kubevirt.decode_kubevirt),
    tenants.Namespace: (kinds.NAMESPACES, tenants.decode_namespace),
    tenants.TenantRelease: (kinds.HELM_RELEASES, tenants.decode_release),
    tenants.TenantQuota: (kinds.RESOURCE_QUOTAS, tenants.decode_quota),
    binders.GPUBinder: (kinds.GPU_BINDERS, binders.decode),
    webhooks.Webhooks: (kinds.MUTATING_WEBHOOKS, webhooks.decode),
    config_maps.ConfigMap: (kinds.CONFIG_MAPS, config_maps.decode),
    kubevirt.VM: (kinds.VMS, kubevirt.decode_vm),
    workloads.Workload: (kinds.WORKLOADS, workloads.decode),
    workloads.Monitor: (kinds.WORKLOAD_MONITORS, workloads.decode_monitor),
}


class Window:
    """The watch, delivered when the test says so."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self._items: dict[type, tuple[Any, ...]] = {}
        self._malformed: dict[type, dict[ObjectKey, str]] = {}
        self._subscribers: list[Callable[[], None]] = []
        self._at = 0
        self._seen: dict[tuple[str, str], Any] = {}
        self.lingering: dict[kinds.Kind, dict[ObjectKey, Any]] = {}
        """Objects that are deleted and shown on, as the store shows finished pods."""
        self.show()

    def show(self) -> None:
        """Deliver everything stored so far."""
        self._at = self._cluster.version
        for view, (kind, decode) in DECODERS.items():
            found, malformed = [], {}
            stored = self._cluster._objects.get(kind, {})
            for key, raw in sorted((self.lingering.get(kind, {}) | stored).items()):
                try:
                    found.append(self._decoded(raw, decode))
                except DecodeError as error:
                    malformed[key] = str(error)
            self._items[view], self._malformed[view] = tuple(found), malformed
        for changed in self._subscribers:
            changed()

    def _decoded(self, raw: dict[str, Any], decode: Callable[[Any], Any]) -> Any:
        """Decode each version of an object once; the cluster never changes a stored dict in place."""
        version = (raw["metadata"]["uid"], raw["metadata"]["resourceVersion"])
        if version not in self._seen:
            self._seen[version] = decode(raw)
        return self._seen[version]

    def items(self, view: type) -> tuple[Any, ...]:
        return self._items[view]

    def malformed(self, view: type) -> Mapping[ObjectKey, str]:
        return self._malformed[view]

    def served(self, view: type) -> bool:
        return DECODERS[view][0] not in self._cluster._unserved

    def version(self, _view: type) -> int:
        return self._at

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self._subscribers.append(changed)
        return lambda: self._subscribers.remove(changed)
