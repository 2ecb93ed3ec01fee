"""Whether launchers can take held units past the gate: each way they can is told, and no other."""

from dataclasses import replace

import pytest

from gpu.config import Config, PolicyMode, RawPlacement
from gpu.model import holds
from gpu.model.holds import Gap
from gpu.objects import webhooks
from gpu.settings import RawNames
from tests.builders import Raw

RULES = {
    "vmis.gpu.cozystack.io": ("kubevirt.io", "virtualmachineinstances"),
    "pods.gpu.cozystack.io": ("", "pods"),
}


def raw_webhook(name: str, **more: object) -> Raw:
    group, plural = RULES[name]
    rule = {"apiGroups": [group], "operations": ["CREATE"], "resources": [plural]}
    # kube-apiserver stores an empty selector where none is given.
    return {"name": name, "failurePolicy": "Fail", "rules": [rule], "namespaceSelector": {}} | more


def stored(*changed: Raw, name: str = "cozystack-gpu") -> list[webhooks.Webhooks]:
    by_name = {one: raw_webhook(one) for one in RULES} | {one["name"]: one for one in changed}
    raw = {"metadata": {"name": name}, "webhooks": list(by_name.values())}
    return [webhooks.decode(raw)]


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


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(
    "change",
    [
        {"failurePolicy": "Ignore"},
        {"rules": []},
        {"rules": [{"apiGroups": ["x"], "operations": ["CREATE"], "resources": ["pods"]}]},
        {"namespaceSelector": {"matchLabels": {"some": "thing"}}},
    ],
    ids=["fails open", "asked of nothing", "asked of something else", "asked of some namespaces"],
)
def test_a_webhook_that_lets_something_through_is_told_by_name(name, change):
    (found,) = holds.gaps(Config(), stored(raw_webhook(name, **change)))
    assert (found.gap, name in found.words) == (Gap.CHANGED, True)


def test_a_webhook_that_was_taken_out_is_told_by_name():
    (left, _) = stored()[0].webhooks
    (found,) = holds.gaps(Config(), [replace(stored()[0], webhooks=(left,))])
    assert (found.gap, "pods.gpu.cozystack.io" in found.words) == (Gap.CHANGED, True)
    assert "vmis.gpu.cozystack.io" not in found.words
