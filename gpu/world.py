"""World: all typed objects of one instant and the Snapshot over them; frozen, pure."""

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from gpu import keys, settings
from gpu.errors import SettingsError
from gpu.model import advance, fit_facts, promises, snapshot, storage
from gpu.model.fit_facts import Facts
from gpu.model.given import Objects
from gpu.model.snapshot import Snapshot
from gpu.model.standing_pods import StandingPods
from gpu.objects.binders import GPUBinder
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.config_maps import ConfigMap
from gpu.objects.kubevirt import VM, VMI, KubeVirt
from gpu.objects.meta import HasMeta, ObjectKey
from gpu.objects.nodes import GPUNode, Node
from gpu.objects.pods import Pod
from gpu.objects.storage import CSINode, StorageClass
from gpu.objects.tenants import Namespace, TenantQuota, TenantRelease
from gpu.objects.volumes import Claim, Volume
from gpu.objects.webhooks import Webhooks
from gpu.objects.workloads import Monitor, Workload
from gpu.settings import Settings

VIEWS: Final[Mapping[str, type[HasMeta]]] = {
    "classes": GPUClass,
    "claims": GPUClaim,
    "inventory": GPUNode,
    "nodes": Node,
    "pods": Pod,
    "volume_claims": Claim,
    "volumes": Volume,
    "storage_classes": StorageClass,
    "csi_nodes": CSINode,
    "vmis": VMI,
    "vms": VM,
    "namespaces": Namespace,
    "releases": TenantRelease,
    "quotas": TenantQuota,
    "kubevirts": KubeVirt,
    "binders": GPUBinder,
    "webhooks": Webhooks,
    "config_maps": ConfigMap,
    "workloads": Workload,
    "monitors": Monitor,
}
"""Field of World to the view that fills it."""


@dataclass(frozen=True, kw_only=True)
class World:
    """Every object a decision may look at. `settings` is what is served, or the last good value."""

    classes: tuple[GPUClass, ...] = ()
    claims: tuple[GPUClaim, ...] = ()
    """In key order, as all the others."""
    inventory: tuple[GPUNode, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    volume_claims: tuple[Claim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    vmis: tuple[VMI, ...] = ()
    vms: tuple[VM, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    releases: tuple[TenantRelease, ...] = ()
    quotas: tuple[TenantQuota, ...] = ()
    kubevirts: tuple[KubeVirt, ...] = ()
    binders: tuple[GPUBinder, ...] = ()
    webhooks: tuple[Webhooks, ...] = ()
    """Our MutatingWebhookConfiguration."""
    config_maps: tuple[ConfigMap, ...] = ()
    workloads: tuple[Workload, ...] = ()
    monitors: tuple[Monitor, ...] = ()
    """Our own: the anchors of usage records."""
    unreadable_claims: frozenset[ObjectKey] = frozenset()
    """Claims in the cluster that could not be decoded: they hold something, nobody knows what."""
    unserved: frozenset[str] = frozenset()
    """Fields whose kind the API server does not serve (another product's, not installed here)."""
    settings: Settings = field(default_factory=Settings)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The model's view; made once per World, of an older one where `follow` named one."""
        given = Objects(
            classes=self.classes,
            claims=self.claims,
            inventory=self.inventory,
            nodes=self.nodes,
            pods=self.pods,
            vmis=self.vmis,
            vms=self.vms,
            namespaces=self.namespaces,
            releases=self.releases,
            quotas=self.quotas,
            kubevirts=self.kubevirts,
        )
        before = self.__dict__.pop("_before", None)
        if before is None:
            return snapshot.of(given, self.settings)
        return advance.advance(before, given, self.settings)

    def follow(self, before: Snapshot | None) -> "World":
        """Have the snapshot, if it is not made yet, made of an older one; returns this World.

        It comes out the same, and sooner the less has changed. The older one is let go of then.
        """
        if before is not None and "snapshot" not in self.__dict__:
            self.__dict__["_before"] = before
        return self

    def newest(self) -> Snapshot | None:
        """Return the snapshot if it is made, else the older one it would be made of, if any."""
        found: Snapshot | None = self.__dict__.get("snapshot", self.__dict__.get("_before"))
        return found

    def fit_facts(self, seen: Snapshot, *, known: StandingPods | None = None) -> Facts:
        """Return what nodes, pods and volumes say of where a launcher fits, as a snapshot has claims.

        `known`: as `fit_facts.of` has it.
        """
        return fit_facts.of(
            nodes=seen.nodes,
            pods=self.pods,
            namespaces=self.namespaces,
            storage=storage.of(
                self.volume_claims, self.volumes, self.storage_classes, self.csi_nodes
            ),
            elsewhere=seen.resources,
            promised=promises.unbound(seen),
            known=known,
        )

    def claims_in(self, namespace: str) -> tuple[GPUClaim, ...]:
        """Return the claims of one namespace without a look at any other; all are in key order."""
        first = bisect.bisect_left(self.claims, (namespace, ""), key=_key)
        last = bisect.bisect_left(self.claims, (f"{namespace}\0", ""), lo=first, key=_key)
        return self.claims[first:last]

    @cached_property
    def settings_map(self) -> ConfigMap | None:
        """The settings ConfigMap as stored, well-formed or not."""
        key = ObjectKey(keys.SETTINGS_NAMESPACE, keys.SETTINGS_NAME)
        return next((item for item in self.config_maps if item.meta.key == key), None)


def _key(item: GPUClaim) -> ObjectKey:
    return item.meta.key


def served_settings(stored: ConfigMap | None, last_good: Settings) -> tuple[Settings, str]:
    """Read the settings as served; a missing or malformed object keeps the last good value.

    Returns the settings in force and, when they are not the stored ones, why.
    """
    if stored is None:
        return last_good, "the settings ConfigMap does not exist"
    try:
        return settings.parse_data(stored.data), ""
    except SettingsError as error:
        return last_good, str(error)
