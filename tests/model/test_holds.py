"""Whether launchers can take held units past the gate: each way they can is told, and no other."""

import dataclasses
from dataclasses import replace

import pytest

from gpu.config import Binding, Config, PolicyMode, RawPlacement
from gpu.model import holds, launch_webhooks
from gpu.model.holds import Gap
from gpu.objects import webhooks
from gpu.objects.webhooks import Webhook
from gpu.settings import RawNames
from tests.builders import Raw

VMIS, PODS = launch_webhooks.expected(Config())


def stored(*changed: Webhook, name: str = "cozystack-gpu") -> list[webhooks.Webhooks]:
    by_name = {one.name: one for one in (VMIS, PODS, *changed)}
    found = webhooks.decode({"metadata": {"name": name}})
    return [replace(found, webhooks=tuple(by_name.values()))]


def gaps(config: Config, found: list[webhooks.Webhooks]) -> list[Gap]:
    return [one.gap for one in holds.gaps(config, found)]


OPEN = Config(raw_names=RawNames.ALLOWED)
OFF = Config(vm_webhooks=False)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (Config(), []),
        (OPEN, []),
        (replace(OPEN, raw_placement=RawPlacement.SCHEDULER), [Gap.SCHEDULER]),
        (Config(raw_placement=RawPlacement.SCHEDULER), []),
        (OFF, []),
        (replace(OFF, raw_names=RawNames.ALLOWED), [Gap.OFF]),
        (replace(OFF, policies=PolicyMode.OFF), [Gap.OFF]),
        (Config(policies=PolicyMode.OFF), []),
    ],
    ids=[
        "as installed",
        "names allowed and placed by the binder",
        "placed by the scheduler",
        "nothing to place",
        "no VM has units",
        "nobody holds them at the gate",
        "nobody refuses names",
        "names refused by the webhook alone",
    ],
)
def test_a_setting_that_lets_launchers_past_is_told(config, expected):
    assert gaps(config, stored()) == expected


def test_webhooks_that_are_gone_are_told_unless_they_are_meant_to_be():
    assert gaps(Config(), []) == [Gap.MISSING]
    assert gaps(Config(), stored(name="another")) == [Gap.MISSING]
    assert gaps(OFF, []) == []


@pytest.mark.parametrize("ours", [VMIS, PODS], ids=["of VMIs", "of pods"])
@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("rules", {"rules": frozenset()}),
        ("matchConditions", {"match_conditions": frozenset()}),
        ("objectSelector", {"object_selector": webhooks.selector({"matchLabels": {"a": "b"}})}),
        ("namespaceSelector", {"namespace_selector": webhooks.selector({"matchLabels": {}})}),
        ("matchPolicy", {"match_policy": "Exact"}),
        ("failurePolicy", {"failure_policy": "Ignore"}),
        ("sideEffects", {"side_effects": "Some"}),
        ("reinvocationPolicy", {"reinvocation_policy": "IfNeeded"}),
        ("timeoutSeconds", {"timeout_seconds": 30}),
        ("clientConfig", {"client_config": ("cozy-system", "another", "/admission/vmis")}),
    ],
)
def test_a_webhook_that_is_not_the_charts_is_told_by_name_and_field(ours, field, change):
    (found,) = holds.gaps(Config(), stored(replace(ours, **change)))
    assert found.gap is Gap.CHANGED
    assert f"in {ours.name} ({field}):" in found.words


def test_every_field_of_a_webhook_is_looked_at():
    told = webhooks.Webhook(name="a").differs(webhooks.Webhook(name="b"))
    assert told == ("name",)
    decoded = webhooks.decode({"metadata": {"name": "x"}, "webhooks": [OTHER]}).webhooks[0]
    assert set(webhooks.Webhook(name="x").differs(decoded)) == {
        webhooks._camel(one.name) for one in dataclasses.fields(webhooks.Webhook)
    }


OTHER: Raw = {
    "name": "other",
    "rules": [{"apiGroups": ["a"], "operations": ["UPDATE"], "resources": ["b"]}],
    "matchConditions": [{"name": "c", "expression": "false"}],
    "objectSelector": {"matchLabels": {"a": "b"}},
    "namespaceSelector": {"matchLabels": {"a": "b"}},
    "matchPolicy": "Exact",
    "failurePolicy": "Ignore",
    "sideEffects": "None",
    "reinvocationPolicy": "IfNeeded",
    "timeoutSeconds": 1,
    "clientConfig": {"url": "https://somewhere"},
}


def test_several_fields_are_told_together():
    (found,) = holds.gaps(
        Config(), stored(replace(PODS, failure_policy="Ignore", timeout_seconds=1))
    )
    assert f"{PODS.name} (failurePolicy, timeoutSeconds)" in found.words


@pytest.mark.parametrize(
    ("config", "ours"),
    [
        (Config(binding=Binding.REQUEST), VMIS),
        (Config(kubevirt_namespace="kv"), PODS),
        (Config(namespace="elsewhere"), VMIS),
        (Config(service_account="another"), PODS),
    ],
    ids=["the leader is waited for", "who makes launchers", "our namespace", "our Service"],
)
def test_what_is_installed_goes_by_how_the_process_is_set_up(config, ours):
    (found,) = holds.gaps(config, stored())
    assert ours.name in found.words
    mine = webhooks.decode({"metadata": {"name": "cozystack-gpu"}})
    assert holds.gaps(config, [replace(mine, webhooks=launch_webhooks.expected(config))]) == ()


def test_a_webhook_that_was_taken_out_or_put_in_is_told_by_name():
    (found,) = holds.gaps(Config(), [replace(stored()[0], webhooks=(VMIS,))])
    assert (found.gap, f"{PODS.name} (taken out)" in found.words) == (Gap.CHANGED, True)
    assert VMIS.name not in found.words
    (found,) = holds.gaps(Config(), stored(replace(PODS, name="more.example.org")))
    assert "more.example.org (put in)" in found.words
