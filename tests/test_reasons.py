"""Strings that stored objects, policies, dashboards and people rely on, frozen.

A change here is a change of the API: an object written by an older version carries the old string.
"""

from gpu import keys
from gpu.objects import claims, kinds

KEYS = {
    "DOMAIN": "gpu.cozystack.io",
    "GROUP": "gpu.cozystack.io",
    "VERSION": "v1alpha1",
    "CATALOG_GROUP": "catalog.gpu.cozystack.io",
    "CATALOG_VERSION": "v1alpha1",
    "QUOTA_PREFIX": "gpu.cozystack.io/",
    "TOTAL": "total",
    "QUOTA_TOTAL": "gpu.cozystack.io/total",
    "CLAIM_DEVICE_PREFIX": "claim.gpu.cozystack.io/",
    "CLASS_DEVICE_PREFIX": "gpu.cozystack.io/",
    "CLAIMS_ANNOTATION": "gpu.cozystack.io/claims",
    "RESOLVED_CLAIMS_ANNOTATION": "gpu.cozystack.io/resolved-claims",
    "UNIT_NAME_PREFIX": "gpuclaim-",
    "TEMPLATE_CLAIM_LABEL": "gpu.cozystack.io/template-claim",
    "PLACEMENT_GATE": "gpu.cozystack.io/placement",
    "TERM_ANNOTATION": "gpu.cozystack.io/term",
    "ACKNOWLEDGE_LOST_ANNOTATION": "gpu.cozystack.io/acknowledge-lost",
    "VGPU_ENTITLED_LABEL": "gpu.cozystack.io/vgpu-entitled",
    "CLAIM_FINALIZER": "gpu.cozystack.io/claim",
    "CLASS_FINALIZER": "gpu.cozystack.io/class",
    "SETTINGS_NAMESPACE": "cozy-system",
    "SETTINGS_NAME": "cozystack-gpu-settings",
    "BINDER_NAME": "binder",
    "LEASE_NAME": "cozystack-gpu-binder",
    "BINDER_MANAGER": "cozystack-gpu-binder",
    "WEBHOOK_MANAGER": "cozystack-gpu-webhook",
    "AGENT_MANAGER": "cozystack-gpu-agent",
    "POLICIES_MANAGER": "cozystack-gpu-policies",
    "TENANT_NAMESPACE_PREFIX": "tenant-",
    "TENANT_ROOT": "tenant-root",
    "APPLICATION_KIND_LABEL": "apps.cozystack.io/application.kind",
    "APPLICATION_GROUP_LABEL": "apps.cozystack.io/application.group",
    "APPLICATION_NAME_LABEL": "apps.cozystack.io/application.name",
    "TENANT_QUOTA_NAME": "tenant-quota",
}
TRANSITIONS = {
    "Pending": {"Pending", "Bound"},
    "Bound": {"Bound", "Lost"},
    "Lost": {"Lost", "Bound"},
}
OURS = {
    "gpuclasses.gpu.cozystack.io",
    "gpuclaims.gpu.cozystack.io",
    "gpunodes.gpu.cozystack.io",
    "gpubinders.gpu.cozystack.io",
}


def test_every_key_is_what_stored_objects_carry():
    assert {name: value for name, value in vars(keys).items() if name.isupper()} == KEYS


def test_a_class_is_budgeted_under_its_own_name():
    assert keys.quota_key_of_class("h100") == "gpu.cozystack.io/h100"


def test_a_claim_takes_no_other_step_than_these():
    steps = {source.value: {step.value for step in to} for source, to in claims.TRANSITIONS.items()}
    assert steps == TRANSITIONS


def test_our_kinds_keep_their_names():
    found = {kind.resource for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)}
    assert {name for name in found if name.endswith(f".{keys.GROUP}")} == OURS
