"""What an answer to the canary proves, and what it does not."""

import re

import pytest

from gpu import keys
from gpu.config import Config
from policies import bundle, canary
from policies.canary import Expected, Finding
from tests.policies.servers import said

NOW = Expected(digest="abc123", settings=keys.SETTINGS_NAME, version="812")
RIGHT_NO = said("abc123", keys.SETTINGS_NAME, "812", "0")
RBAC = 'configmaps is forbidden: User "x" cannot create resource "configmaps" in API group ""'


@pytest.mark.parametrize(
    ("right", "wrong", "finding", "words"),
    [
        pytest.param(None, RIGHT_NO, Finding.PROVED, "", id="as it should be"),
        pytest.param(
            None,
            None,
            Finding.NOT_IN_FORCE,
            "accepts what the canary policy refuses",
            id="it passes what must be refused",
        ),
        pytest.param(
            said("abc123", keys.SETTINGS_NAME, "700", "812"),
            said("abc123", keys.SETTINGS_NAME, "700", "0"),
            Finding.STALE,
            "reads cozystack-gpu-settings at version 700, stored is 812",
            id="it refuses what must pass: older settings",
        ),
        pytest.param(
            None,
            said("abc123", keys.SETTINGS_NAME, "700", "0"),
            Finding.STALE,
            "reads cozystack-gpu-settings at version 700, stored is 812",
            id="it told older settings and passed the stored version",
        ),
        pytest.param(
            said("f00", keys.SETTINGS_NAME, "812", "812"),
            said("f00", keys.SETTINGS_NAME, "812", "0"),
            Finding.NOT_IN_FORCE,
            "knows policies f00, stored are abc123",
            id="policies of another version",
        ),
        pytest.param(
            said("abc123", "cozystack-gpu-settings-1", "812", "812"),
            said("abc123", "cozystack-gpu-settings-1", "812", "0"),
            Finding.NOT_IN_FORCE,
            "reads ConfigMap cozystack-gpu-settings-1, bound is cozystack-gpu-settings",
            id="an older binding",
        ),
        pytest.param(
            RBAC,
            RBAC,
            Finding.BLOCKED,
            f"something else refuses the question: {RBAC}",
            id="no right to ask",
        ),
        pytest.param(
            None,
            'admission webhook "x" denied the request: no',
            Finding.BLOCKED,
            'something else refuses the question: admission webhook "x" denied the request: no',
            id="refused, by a webhook and not by us",
        ),
        pytest.param(
            RBAC,
            RIGHT_NO,
            Finding.BLOCKED,
            f"something else refuses the question: {RBAC}",
            id="what must pass is refused by something else",
        ),
        pytest.param(
            said("abc123", keys.SETTINGS_NAME, "812", "812"),
            RIGHT_NO,
            Finding.BLOCKED,
            f"refuses what must pass: {said('abc123', keys.SETTINGS_NAME, '812', '812')}"[:320],
            id="the right words for the wrong request",
        ),
    ],
)
def test_an_answer_proves_this(right: str | None, wrong: str | None, finding: Finding, words: str):
    verdict = canary.judge(NOW, right=right, wrong=wrong)
    assert verdict.finding is finding
    assert verdict.words[:300] == words[:300]


def test_a_long_refusal_is_cut():
    verdict = canary.judge(NOW, right="x" * 5000, wrong="x" * 5000)
    assert len(verdict.words) < 400


def test_the_policy_says_what_the_judge_reads():
    """The message's CEL, with its expressions filled in by hand, is read as what it says."""
    policy = bundle.policies(Config())[-1]
    text = policy.validations[0].message
    for expression, value in (
        ("request.namespace", "cozy-system"),
        ("object.metadata.name", keys.CANARY_NAME),
        ("params.metadata.name", keys.SETTINGS_NAME),
        ("params.metadata.resourceVersion", "700"),
        ("(object.?data[?'version'].orValue(''))", "812"),
    ):
        assert expression in text
        text = text.replace(expression, f"'{value}'")
    words = "".join(re.findall("'([^']*)'", text))
    wrapped = said("d", "s", "v", "a").split("configmap cozy-system")[0] + words
    expected = Expected(digest=bundle.digest(), settings=keys.SETTINGS_NAME, version="812")
    verdict = canary.judge(expected, right=wrapped, wrong=wrapped)
    assert (verdict.finding, "version 700, stored is 812" in verdict.words) == (Finding.STALE, True)


def test_the_canary_is_the_last_policy_and_names_the_others():
    policies = bundle.policies(Config(namespace="elsewhere"))
    assert policies[-1].topic == canary.TOPIC
    assert bundle.digest() in policies[-1].validations[0].message


def test_a_name_of_the_settings_is_no_name_of_the_canary():
    """The settings policy guards that prefix: nobody could ask."""
    assert not keys.CANARY_NAME.startswith(keys.SETTINGS_NAME)


def test_all_that_reads_the_settings_reads_the_copy_and_nothing_else_moves():
    before = bundle.policies(Config())
    after = bundle.reading(before, "cozystack-gpu-settings-4")
    params = {
        (policy.topic, old.param.name, new.param.name)
        for policy, moved in zip(before, after, strict=True)
        for old, new in zip(policy.bindings, moved.bindings, strict=True)
        if old.param and new.param
    }
    moved = {topic for topic, old, new in params if old != new}
    assert moved == {"keeper", "raw-names", "vmi-raw-names", "canary"}
    assert {new for topic, _, new in params if topic in moved} == {"cozystack-gpu-settings-4"}
    assert {new for topic, _, new in params if topic not in moved} == {keys.BINDER_NAME}
    assert [policy.document() for policy in before] == [policy.document() for policy in after]
