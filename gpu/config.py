"""Config: what a hoster sets, frozen and grouped; each field with its unit and default.

Durations are seconds. Defaults are those of domain contract section 6.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from gpu import keys
from gpu.settings import RawNames


class PolicyMode(StrEnum):
    """Who keeps the ValidatingAdmissionPolicies."""

    MANAGED = "managed"
    RENDERED = "rendered"
    OFF = "off"


class RunningGuests(StrEnum):
    """What becomes of a guest that runs on a node that cannot keep its set."""

    RESTART = "restart"
    """Its VMI is deleted where another node has room for all of it."""
    KEEP = "keep"
    """It is never ended; its set is Degraded, and Lost when the node is gone."""


class RawPlacement(StrEnum):
    """Who places launchers that name a class's resource directly, where that is allowed."""

    BINDER = "binder"
    """They wait at the gate and are pinned, so that they take no held units."""
    SCHEDULER = "scheduler"
    """kube-scheduler does, past every hold."""


class Binding(StrEnum):
    """How a starting VM that units are lacking for is told."""

    GATE = "gate"
    """Its launcher waits at the gate, for as long as it takes."""
    REQUEST = "request"
    """Its start is refused: the VMI is admitted with all its units on one node, or not at all."""


class UsageRecordMonitor(StrEnum):
    """Under which WorkloadMonitor usage records are kept."""

    AUTO = "auto"
    """None, until the host is seen to delete a record: then as ANCHOR."""
    NONE = "none"
    ANCHOR = "anchor"
    """One of ours in each namespace with claims, that selects no pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """How much may be made Lost or moved at once before a person is asked."""

    window: float = 600.0
    """Seconds over which sets are summed."""
    share: float = 0.2
    """Of the sets held."""
    at_least: int = 10
    """Sets that are always let through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """How long each state is borne before it is acted on, in seconds."""

    attachment: float = 60.0
    not_ready: float = 300.0
    degraded: float = 300.0
    pin: float = 60.0
    release_settle: float = 180.0
    rejection: float = 600.0
    inventory_stale: float = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When passes run and how the leader holds its lease, in seconds."""

    resync: float = 30.0
    conflict: float = 0.1
    backoff_first: float = 0.2
    backoff_most: float = 30.0
    quarantine_first: float = 5.0
    quarantine_most: float = 300.0
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    fence_wait: float = 2.0
    write_timeout: float = 5.0
    """Shorter than the renew deadline, so that a write ends before the lease does."""
    sets_in_flight: int = 8
    canary: float = 60.0
    """Between two proofs that the API servers use the current settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a pass, a webhook or the API may look at besides the cluster itself."""

    enabled: bool = True
    namespace: str = "cozy-system"
    """The product's own namespace: Lease, settings, reservations."""
    service_account: str = "cozystack-gpu"
    """'The controller' of domain contract section 10 is this account in `namespace`."""
    identity: str = "cozystack-gpu-0"
    """This replica, as the Lease and GPUBinder show it; unique per process."""
    raw_names: RawNames = RawNames.DENIED
    policies: PolicyMode = PolicyMode.MANAGED
    owner_cluster_role: str = "cozystack-gpu"
    """Cluster-scoped object of the release that owns managed policies, so uninstall removes them."""
    settings_namespace: str = keys.SETTINGS_NAMESPACE
    kubevirt_namespace: str = "cozy-kubevirt"
    """Where KubeVirt's controllers run: its controller's account makes launcher pods."""
    running_guests: RunningGuests = RunningGuests.RESTART
    vm_webhooks: bool = True
    """Starts of VMs are resolved and gated; off: no VM uses a claim, and none of its names is ours."""
    raw_placement: RawPlacement = RawPlacement.BINDER
    binding: Binding = Binding.GATE
    usage_record_monitor: UsageRecordMonitor = UsageRecordMonitor.AUTO
    grace: Grace = field(default_factory=Grace)
    guard: Guard = field(default_factory=Guard)
    pace: Pace = field(default_factory=Pace)

    @property
    def controller_user(self) -> str:
        """The user name kube-apiserver gives the controller's service account."""
        return f"system:serviceaccount:{self.namespace}:{self.service_account}"

    @property
    def kubevirt_controller_user(self) -> str:
        """The user that makes pods from VMIs."""
        return f"system:serviceaccount:{self.kubevirt_namespace}:kubevirt-controller"
