"""The bundle as a whole: the checked-in copy, names, users, and where nothing may ever apply."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu import keys
from gpu.config import Config, PolicyMode
from policies import bundle, users
from policies.shapes import LABELS, Policy, Stay

ROOT = Path(__file__).parents[2]
CONFIG = Config(namespace="elsewhere", service_account="acme", kubevirt_namespace="kv")
POLICIES = bundle.policies(CONFIG)
SYSTEM = ("kube-system", "cozy-system", "cozy-kubevirt", "elsewhere")
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.topic)


def test_the_checked_in_copy_is_fresh():
    assert (ROOT / bundle.FILE).read_text(encoding="utf-8") == bundle.chart_file(), (
        "run `make generate`"
    )


def test_the_bundle_is_these_policies_in_this_order():
    assert [(policy.name, policy.stay.value, policy.failure.value) for policy in POLICIES] == [
        ("cozystack-gpu-settings-policy", "managed", "Fail"),
        ("cozystack-gpu-keeper-policy", "forever", "Ignore"),
        ("cozystack-gpu-placement-policy", "managed", "Fail"),
        ("cozystack-gpu-term-policy", "always", "Fail"),
        ("cozystack-gpu-claim-marks-policy", "managed", "Fail"),
        ("cozystack-gpu-class-marks-policy", "managed", "Fail"),
        ("cozystack-gpu-usage-records-policy", "managed", "Fail"),
        ("cozystack-gpu-usage-monitor-policy", "managed", "Fail"),
        ("cozystack-gpu-gate-policy", "managed", "Fail"),
        ("cozystack-gpu-pin-term-policy", "always", "Ignore"),
        ("cozystack-gpu-raw-names-policy", "managed", "Fail"),
        ("cozystack-gpu-vmi-raw-names-policy", "managed", "Fail"),
        ("cozystack-gpu-canary-policy", "managed", "Fail"),
    ]


@every_policy
def test_a_policy_is_in_the_style_of_the_host(policy: Policy):
    document = policy.document()
    assert document["metadata"] == {"name": policy.name, "labels": LABELS}
    assert re.fullmatch(r"cozystack-gpu-[a-z-]+-policy", policy.name)
    for validation in document["spec"]["validations"]:
        assert validation["reason"] == "Forbidden"
        assert validation["message"]
        assert "request.namespace" in validation["messageExpression"] or (
            not policy.rule.kind.namespaced
        )
        assert len(validation["messageExpression"]) < 5 * 1024
    for binding in policy.bindings:
        assert policy.binding_document(binding)["spec"]["validationActions"] == ["Deny"]


@every_policy
def test_a_policy_names_no_user_but_those_of_the_config(policy: Policy):
    named = set(re.findall(r"system:serviceaccount:[a-z0-9:-]+", str(policy.document())))
    assert named <= {
        CONFIG.controller_user,
        CONFIG.kubevirt_controller_user,
        "system:serviceaccount:kube-system:namespace-controller",
        "system:serviceaccount:kube-system:generic-garbage-collector",
        *({users.HOST_CONTROLLER} if policy.topic == "usage-records" else ()),
    }
    assert "userInfo.groups" not in str(policy.document())


@every_policy
def test_no_rule_depends_on_what_a_tenant_can_write(policy: Policy):
    """But for the two keys whose writing itself is what a policy refuses."""
    text = str([policy.conditions, policy.variables, [v.expression for v in policy.validations]])
    asked = {key.strip("'\\") for key in re.findall(r"(?:labels|annotations)\[\?([^]]+)\]", text)}
    assert asked == {
        "claim-marks": {keys.TEMPLATE_CLAIM_LABEL},
        "gate": {keys.TERM_ANNOTATION},
        "pin-term": {keys.TERM_ANNOTATION},
    }.get(policy.topic, set())
    assert len(re.findall("labels|annotations", text)) == len(
        re.findall(r"(?:labels|annotations)\[", text)
    )


@every_policy
def test_a_policy_over_objects_of_others_is_bound_to_tenants_alone(policy: Policy):
    """Kinds of ours are judged anywhere; settings only in the one namespace they are in."""
    if policy.rule.kind.group == keys.GROUP:
        return
    selectors = [
        policy.binding_document(binding)["spec"]["matchResources"]["namespaceSelector"]
        for binding in policy.bindings
    ]
    label = {"key": "tenant.cozystack.io/tenant-root", "operator": "Exists"}
    tenants = [[label], [_named("tenant-root")]]
    settings = [[_named(CONFIG.settings_namespace)]]
    ours = policy.topic in {"settings", "canary"}
    assert [selector["matchExpressions"] for selector in selectors] == (
        settings if ours else tenants
    )
    if not ours:
        assert policy.conditions[0].expression == "request.namespace.startsWith('tenant-')"


def _named(name: str) -> dict[str, Any]:
    return {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [name]}


def test_only_the_fence_of_claims_refuses_when_its_parameter_is_missing():
    """A parameter is looked for before any condition is asked: a policy of pods must not deny."""
    missing = {
        policy.topic: binding.param.missing.value
        for policy in POLICIES
        for binding in policy.bindings
        if binding.param
    }
    assert missing == {
        "keeper": "Allow",
        "term": "Deny",
        "pin-term": "Allow",
        "raw-names": "Allow",
        "vmi-raw-names": "Allow",
        "canary": "Allow",
    }


def test_a_config_map_parameter_is_always_bound():
    """Mode off, feature off: the reading of ConfigMap parameters must never end."""
    config = Config(enabled=False, policies=PolicyMode.OFF)
    bound = [
        policy.topic
        for policy in bundle.kept(config)
        if policy.param_kind
        and policy.param_kind.kind == "ConfigMap"
        and bundle.wanted_bindings(policy, enabled=False)
    ]
    assert bound == ["keeper"]


@pytest.mark.parametrize(
    ("mode", "topics"),
    [
        (PolicyMode.MANAGED, [policy.topic for policy in POLICIES]),
        (PolicyMode.RENDERED, ["keeper", "term", "pin-term"]),
        (PolicyMode.OFF, ["keeper", "term", "pin-term"]),
    ],
)
def test_the_leader_keeps_what_the_mode_leaves_to_it(mode: PolicyMode, topics: list[str]):
    assert [policy.topic for policy in bundle.kept(Config(policies=mode))] == topics


def test_what_is_rendered_is_what_the_leader_would_not_keep():
    documents = list(yaml.safe_load_all(bundle.rendered(CONFIG)))
    managed = {policy.name for policy in POLICIES if policy.stay is Stay.MANAGED}
    names = [item["metadata"]["name"] for item in documents]
    assert {name for name in names if not name.endswith("-root")} == managed
    kinds = [item["kind"] for item in documents]
    assert kinds == sorted(kinds, key=len), "policies come before bindings"
    assert documents == list(bundle.documents(CONFIG))


def test_with_the_feature_off_only_what_starts_pods_is_unbound():
    """What guards stored state stays: claims are let go and usage is recorded with it off too."""
    bound = {policy.topic for policy in POLICIES if bundle.wanted_bindings(policy, enabled=False)}
    assert {policy.topic for policy in POLICIES} - bound == {
        "gate",
        "pin-term",
        "raw-names",
        "vmi-raw-names",
    }
    rendered = {
        item["spec"]["policyName"]
        for item in bundle.documents(Config(enabled=False))
        if item["kind"] == "ValidatingAdmissionPolicyBinding"
    }
    assert rendered == {
        policy.name for policy in POLICIES if policy.stay is Stay.MANAGED and policy.topic in bound
    }


def test_only_policies_of_the_hosts_kinds_may_wait_for_ever():
    optional = {policy.rule.kind.group for policy in POLICIES if policy.optional}
    assert optional == {"kubevirt.io", "cozystack.io"}
    assert {policy.rule.kind.group for policy in POLICIES if not policy.optional} == {
        "",
        keys.GROUP,
    }


def test_the_chart_puts_its_own_account_into_the_text():
    text = bundle.chart_file()
    account = 'system:serviceaccount:{{ .Release.Namespace }}:{{ include "cozystack-gpu.name" . }}'
    assert account in text
    assert Config().controller_user not in text


def test_the_chart_puts_the_namespace_of_kubevirt_into_the_text():
    text = bundle.chart_file()
    assert "system:serviceaccount:{{ .Values.kubevirtNamespace }}:kubevirt-controller" in text
    assert Config().kubevirt_controller_user not in text


@pytest.mark.parametrize("vm_webhooks", [False, True], ids=["without", "with"])
def test_units_of_the_webhook_are_excepted_only_where_the_webhook_is(vm_webhooks):
    """Without it the reserved name would be anybody's to take."""
    found = {
        policy.topic: "'gpuclaim-'" in policy.validations[0].expression
        for policy in bundle.policies(Config(vm_webhooks=vm_webhooks))
        if policy.topic.endswith("raw-names")
    }
    assert found == {"raw-names": False, "vmi-raw-names": vm_webhooks}


def test_the_chart_carries_the_policy_of_either_value():
    text = bundle.chart_file()
    assert text.count("name: cozystack-gpu-vmi-raw-names-policy\n  labels") == 3, (
        "two, and bindings"
    )
    assert text.count("and (not .Values.vmWebhooks.enabled) (.Cap") == 1
    assert text.count("and .Values.vmWebhooks.enabled (.Cap") == 1
