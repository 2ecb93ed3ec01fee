"""Every label, annotation, finalizer, scheduling gate, quota key and group, once; nothing else.

Source of each: domain contract section 3. A string here is a promise to stored objects and to
policies generated from it; `tests/test_reasons.py` freezes them.
"""

from typing import Final

DOMAIN: Final = "gpu.cozystack.io"

# API groups.
GROUP: Final = DOMAIN
VERSION: Final = "v1alpha1"
CATALOG_GROUP: Final = f"catalog.{DOMAIN}"
CATALOG_VERSION: Final = "v1alpha1"
HOST_CORE_GROUP: Final = "core.cozystack.io"
HOST_CORE_VERSION: Final = "v1alpha1"
"""The host's; ours to answer with `hostOptions: facade` alone."""

# Quota keys: `gpu.cozystack.io/<class>` and `gpu.cozystack.io/total`; a raw name is its own key.
QUOTA_PREFIX: Final = f"{DOMAIN}/"
TOTAL: Final = "total"
QUOTA_TOTAL: Final = f"{QUOTA_PREFIX}{TOTAL}"

# Claim references on a VM(I).
CLAIM_DEVICE_PREFIX: Final = f"claim.{DOMAIN}/"
CLASS_DEVICE_PREFIX: Final = f"{DOMAIN}/"
CLAIMS_ANNOTATION: Final = f"{DOMAIN}/claims"
RESOLVED_CLAIMS_ANNOTATION: Final = f"{DOMAIN}/resolved-claims"
UNIT_NAME_PREFIX: Final = "gpuclaim-"

# Marks on claims, pods and namespaces.
TEMPLATE_CLAIM_LABEL: Final = f"{DOMAIN}/template-claim"
PLACEMENT_GATE: Final = f"{DOMAIN}/placement"
TERM_ANNOTATION: Final = f"{DOMAIN}/term"
ACKNOWLEDGE_LOST_ANNOTATION: Final = f"{DOMAIN}/acknowledge-lost"
TEARDOWN_ANNOTATION: Final = f"{DOMAIN}/teardown"
"""On GPUBinder, from `cozystack-gpu teardown`: the leader puts nothing back (decision 0010)."""
HOST_API_ANNOTATION: Final = f"{DOMAIN}/host-api"
"""On the host's APIService while it names us: what it named before, as JSON, to be put back."""
OUTRUN_LABEL: Final = f"{DOMAIN}/outrun"
"""On a claim: the version of it at which a write of ours that got no answer was outrun (decision 17)."""
VGPU_ENTITLED_LABEL: Final = f"{DOMAIN}/vgpu-entitled"

# Labels of computed objects, to select by.
SOURCE_LABEL: Final = f"{DOMAIN}/source"
CLASS_LABEL: Final = f"{DOMAIN}/class"
MODE_LABEL: Final = f"{DOMAIN}/mode"
GATE_LABEL: Final = f"{DOMAIN}/gate"

# Finalizers.
CLAIM_FINALIZER: Final = f"{DOMAIN}/claim"
CLASS_FINALIZER: Final = f"{DOMAIN}/class"

# Settings ConfigMap.
SETTINGS_NAMESPACE: Final = "cozy-system"
SETTINGS_NAME: Final = "cozystack-gpu-settings"
CANARY_NAME: Final = "cozystack-gpu-canary"
"""A ConfigMap that is never stored: asking for it by dry run tells what an API server knows."""

# What the quota gate has let pass: one ConfigMap per bounding tenant, beside the settings.
RESERVED_PREFIX: Final = "cozystack-gpu-reserved-"

# Usage records: Workloads under no WorkloadMonitor, or under one of ours that selects no pod.
USAGE_RECORD_PREFIX: Final = "gpuclaim-"
USAGE_MONITOR_NAME: Final = "cozystack-gpu-usage"
USAGE_MONITOR_SELECTOR_LABEL: Final = f"{DOMAIN}/selects-no-pod"
WORKLOAD_MONITOR_LABEL: Final = "workloads.cozystack.io/monitor"
"""The host's: the monitor a Workload belongs to; one without it is deleted by hosts of today."""

# The singleton GPUBinder and the leader's Lease.
BINDER_NAME: Final = "binder"
WEBHOOKS_NAME: Final = "cozystack-gpu"
LEASE_NAME: Final = "cozystack-gpu-binder"

# Field managers.
BINDER_MANAGER: Final = "cozystack-gpu-binder"
WEBHOOK_MANAGER: Final = "cozystack-gpu-webhook"
AGENT_MANAGER: Final = "cozystack-gpu-agent"
POLICIES_MANAGER: Final = "cozystack-gpu-policies"

# The host's.
TENANT_NAMESPACE_PREFIX: Final = "tenant-"
TENANT_ROOT: Final = "tenant-root"
APPLICATION_KIND_LABEL: Final = "apps.cozystack.io/application.kind"
APPLICATION_GROUP_LABEL: Final = "apps.cozystack.io/application.group"
APPLICATION_NAME_LABEL: Final = "apps.cozystack.io/application.name"
TENANT_QUOTA_NAME: Final = "tenant-quota"


def quota_key_of_class(class_name: str) -> str:
    """Return the quota key under which units of a class are budgeted."""
    return f"{QUOTA_PREFIX}{class_name}"
