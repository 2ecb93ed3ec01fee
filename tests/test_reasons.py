"""Strings that stored objects, policies, dashboards and people rely on, frozen.

A change here is a change of the API: an object written by an older version carries the old string.
"""

import ast
import re
from pathlib import Path
from typing import get_args

from gpu import keys
from gpu.binder import budget_news, changes, conditions, news
from gpu.binder import standing as binder
from gpu.binder.phases import status
from gpu.model import budgets, gate_reasons, holds, refusals, signs, start_refusals, violations
from gpu.objects import claims, kinds
from policies import standing

RUNBOOK = Path(__file__).parent.parent / "docs" / "runbook.md"

KEYS = {
    "DOMAIN": "gpu.cozystack.io",
    "GROUP": "gpu.cozystack.io",
    "VERSION": "v1alpha1",
    "CATALOG_GROUP": "catalog.gpu.cozystack.io",
    "CATALOG_VERSION": "v1alpha1",
    "HOST_CORE_GROUP": "core.cozystack.io",
    "HOST_CORE_VERSION": "v1alpha1",
    "HOST_API_ANNOTATION": "gpu.cozystack.io/host-api",
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
    "OUTRUN_LABEL": "gpu.cozystack.io/outrun",
    "TEARDOWN_ANNOTATION": "gpu.cozystack.io/teardown",
    "SOURCE_LABEL": "gpu.cozystack.io/source",
    "CLASS_LABEL": "gpu.cozystack.io/class",
    "MODE_LABEL": "gpu.cozystack.io/mode",
    "GATE_LABEL": "gpu.cozystack.io/gate",
    "VGPU_ENTITLED_LABEL": "gpu.cozystack.io/vgpu-entitled",
    "CLAIM_FINALIZER": "gpu.cozystack.io/claim",
    "CLASS_FINALIZER": "gpu.cozystack.io/class",
    "SETTINGS_NAMESPACE": "cozy-system",
    "SETTINGS_NAME": "cozystack-gpu-settings",
    "CANARY_NAME": "cozystack-gpu-canary",
    "RESERVED_PREFIX": "cozystack-gpu-reserved-",
    "USAGE_RECORD_PREFIX": "gpuclaim-",
    "USAGE_MONITOR_NAME": "cozystack-gpu-usage",
    "USAGE_MONITOR_SELECTOR_LABEL": "gpu.cozystack.io/selects-no-pod",
    "WORKLOAD_MONITOR_LABEL": "workloads.cozystack.io/monitor",
    "BINDER_NAME": "binder",
    "WEBHOOKS_NAME": "cozystack-gpu",
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
REFUSALS = {
    "BadCount",
    "ClassDeleting",
    "ClassRetired",
    "GuestMayRun",
    "NoFreeUnits",
    "NoNodeAccepts",
    "NoNodeEligible",
    "NoNodeForSet",
    "NoNodeServes",
    "NoSuchClass",
    "NoTenant",
    "NotEntitled",
    "NotPermitted",
    "OverBudget",
    "OverMaxCount",
}
STARTS = {
    "ClaimDeleting",
    "ClaimElsewhere",
    "ClaimInUse",
    "ClaimListedTwice",
    "ClaimMissing",
    "ClaimOfVM",
    "NameMissing",
    "NameReserved",
    "NoReference",
    "RawNameDenied",
    "TooManyUnits",
}
CONDITIONS = {
    "Bound",
    "Degraded",
    "Enabled",
    "HoldsNotEnforced",
    "Leading",
    "Lost",
    "PoliciesCurrent",
    "Releasing",
    "SettingsCurrent",
    "Waiting",
    "WriteRefused",
}
WAITS = {
    "ClaimDeleting",
    "ClaimInUse",
    "ClaimMissing",
    "ClaimNameTaken",
    "ClaimPending",
    "ClaimsUnreadable",
    "NoRoomForPod",
    "NodesRefused",
    "PodFitsNowhere",
    "RawNameDenied",
    "StartsFail",
}
"""Why a launcher waits at the gate, beside the codes of refusals."""
ALARMS = {"LauncherUnpinned"}
LACKS = {"NodeSettling", "NodeUnknown", "PodNotEnded", "StartPending"}
SIGNS = {"Ended", "NeverPlaced", "NodeLooked", "NodeOff", "NotHeld"}
BOUND_REASONS = {"Gathered", "Migrated", "Moved", "Placed", "Rebound"}
EVENTS = {
    "Placed",
    "Moved",
    "Rebound",
    "Gathered",
    "Migrated",
    "Lost",
    "Recovered",
    "Detached",
    "Released",
    "TemplateClaimDeleted",
    "GuestEnded",
    "UsageRecordDropped",
    "PlanRefused",
    "Pinned",
    "Ungated",
    "StartRefused",
    "AwaitsUncordon",
    "LauncherRefused",
    "LauncherUnschedulable",
    "QuotaReadable",
    "QuotaUnreadable",
}
RULES = {
    "AnswerAstray",
    "BookedTwice",
    "SetSplit",
    "OverBudget",
    "WrongNode",
    "WrongClass",
    "WrongStep",
    "PinAstray",
    "Blind",
}
CAUSES = {
    "NodeCordoned",
    "NodeGone",
    "NodeNotReady",
    "NodeTainted",
    "SetTorn",
    "UnitsMissing",
}
DERIVED_REASONS = {
    "Deleting",
    "Listed",
    "NoNodeEligible",
    "NoNodeServes",
    "NoTable",
    "NotListed",
    "Retired",
    "Served",
    "WriteRefused",
    "Written",
}
GATE_REASONS = {
    "NoBudget",
    "Overdrawn",
    "RawNameDenied",
    "Remaining",
    "Unlimited",
    "Unreadable",
    "UsedUp",
}
HOLDS_REASONS = {
    "Enforced",
    "SchedulerPlaces",
    "WebhooksChanged",
    "WebhooksMissing",
    "WebhooksOff",
}
SWITCH_REASONS = {"SwitchedOff", "SwitchedOn"}
GATES = {"Closed", "Exhausted", "Open"}
POLICY_REASONS = {
    "Current",
    "KindNotServed",
    "Off",
    "ParameterMissing",
    "Rendered",
    "RenderedDiffer",
    "NotInForce",
    "NotProved",
    "SettingsStale",
    "TearingDown",
    "WriteFailed",
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


def test_a_refusal_keeps_its_code():
    assert {refusal.reason for refusal in get_args(refusals.Refusal)} == REFUSALS
    waits = {reason.reason for reason in get_args(gate_reasons.GateReason)}
    assert waits - REFUSALS == WAITS


def test_a_refusal_of_a_start_keeps_its_code():
    codes = {refusal.reason for refusal in get_args(start_refusals.StartRefusal)}
    assert codes - REFUSALS == STARTS


def test_a_code_can_be_a_reason_of_a_condition():
    assert [name for name in REFUSALS if not re.fullmatch("[A-Z][A-Za-z]{0,63}", name)] == []


def test_reasons_of_a_placement_and_causes_of_a_loss_keep_their_names():
    assert {how.value for how in changes.How} == BOUND_REASONS
    assert {cause.value for cause in claims.Cause} == CAUSES
    assert {alarm.value for alarm in claims.Alarm} == ALARMS


def test_evidence_and_the_lack_of_it_keep_their_names():
    assert {lack.value for lack in signs.Lack} == LACKS
    assert {sign.value for sign in signs.Sign} == SIGNS


def test_conditions_and_their_reasons_keep_their_names():
    texts = {
        value
        for name, value in vars(conditions).items()
        if name.isupper() and isinstance(value, str)
    }
    assert {*texts, standing.CONDITION} == CONDITIONS


def test_derived_status_keeps_its_conditions_and_reasons():
    calls = [
        node
        for node in ast.walk(ast.parse(Path(status.__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_is"
    ]
    reasons = {node.args[2].value for node in calls}
    assert (status.READY, status.PERMITTED, reasons) == ("Ready", "Permitted", DERIVED_REASONS)


def test_whether_holds_are_enforced_keeps_its_reasons():
    assert {gap.value for gap in holds.Gap} | {binder.ENFORCED} == HOLDS_REASONS
    assert {binder.switched_on().reason, binder.switched_off(0).reason} == SWITCH_REASONS


def test_a_quota_gate_keeps_its_words():
    reasons = {reason.value for reason in budgets.GateReason}
    assert ({state.value for state in budgets.GateState}, reasons) == (GATES, GATE_REASONS)


def test_events_and_rules_of_the_checker_keep_their_names():
    assert {*news.REASONS, *budget_news.REASONS} == EVENTS
    assert {rule.value for rule in violations.Rule} == RULES


def test_the_page_on_binding_knows_every_rule_of_the_checker():
    text = RUNBOOK.with_name("binding.md").read_text(encoding="utf-8")
    assert sorted(rule for rule in RULES if f"| `{rule}` |" not in text) == []


def test_the_policies_standing_keeps_its_reasons():
    assert {reason.value for reason in standing.Reason} == POLICY_REASONS


def test_the_runbook_knows_every_code_condition_and_reason():
    said = {
        *EVENTS,
        *LACKS,
        *REFUSALS,
        *STARTS,
        *POLICY_REASONS,
        *CONDITIONS,
        *DERIVED_REASONS,
        *GATE_REASONS,
        *GATES,
        *HOLDS_REASONS,
        *SWITCH_REASONS,
        *WAITS,
        *ALARMS,
    }
    text = RUNBOOK.read_text(encoding="utf-8")
    assert sorted(name for name in said if f"`{name}`" not in text) == []
