"""What the tenant chart makes of resourceQuotas; tests/charts runs the chart itself beside it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import keys
from gpu.errors import DecodeError
from gpu.objects import tenants
from gpu.units import ResourceName
from tests.charts import quota_twin
from tests.model import host_quotas

L40S = ResourceName("nvidia.com/AD102GL_L40S")
H100 = ResourceName("nvidia.com/GH100_H100")
ASKED = {
    "cpu": "10",
    "memory": "20Gi",
    "storage": "100Gi",
    "pods": "50",
    L40S: "4",
    "gpu.cozystack.io/gold": "4",
}
HOST = {
    "limits.cpu": "10",
    "limits.gpu.cozystack.io/gold": "4",
    "limits.memory": "20Gi",
    f"limits.{L40S}": "4",
    "pods": "50",
    "requests.cpu": "1",
    "requests.gpu.cozystack.io/gold": "4",
    "requests.memory": "21474836480",
    f"requests.{L40S}": "4",
    "requests.storage": "100Gi",
}
"""What the tenant chart of a Cozystack of today was seen to render of ASKED."""


def test_of_what_the_host_renders_only_the_dead_gpu_keys_go():
    gone = {f"limits.{L40S}", "limits.gpu.cozystack.io/gold", "requests.gpu.cozystack.io/gold"}
    assert quota_twin.hard(ASKED, {L40S}) == {k: v for k, v in HOST.items() if k not in gone}


def test_a_name_that_becomes_a_gpu_loses_its_limit_and_nothing_else():
    before, after = quota_twin.hard(ASKED, ()), quota_twin.hard(ASKED, {L40S})
    assert before.items() - after.items() == {(f"limits.{L40S}", "4")}
    assert after.items() - before.items() == set()


@pytest.mark.parametrize("row", host_quotas.AMOUNTS, ids=repr)
def test_amounts_come_out_as_the_host_writes_them(row):
    amount, limit, *requests = row
    scaled = ("cpu", "memory", "ephemeral-storage")
    assert quota_twin.hard(dict.fromkeys((*scaled, "storage", "pods", "foo"), amount), ()) == {
        **{f"limits.{key}": limit for key in scaled},
        **{f"requests.{key}": request for key, request in zip(scaled, requests, strict=True)},
        "requests.storage": amount,
        "pods": amount,
        "limits.foo": amount,
        "requests.foo": amount,
    }


@pytest.mark.parametrize("key", host_quotas.KEYS)
def test_keys_that_are_none_of_a_gpu_become_what_the_host_makes_of_them(key):
    assert tuple(sorted(quota_twin.hard({key: "4"}, {L40S}))) == host_quotas.KEYS[key]


@pytest.mark.parametrize("key", ["limits", "requests"])
def test_nested_quotas_are_refused_by_their_key(key):
    with pytest.raises(DecodeError) as caught:
        quota_twin.hard({"cpu": "1", key: {"cpu": "1"}}, ())
    assert caught.value.path == f"resourceQuotas[{key}]"


@pytest.mark.parametrize(
    ("ratios", "requests"),
    [
        ({}, ("0.7", "1073741824", "26843545")),
        ({"cpu": 3}, ("2.3333333333333335", "1073741824", "26843545")),
        ({"cpu": 1, "memory": 1.5, "ephemeral_storage": 1}, ("7", "715827882", "1073741824")),
        ({"cpu": 0.5}, ("14", "1073741824", "26843545")),
        ({"cpu": 1e6}, ("7e-06", "1073741824", "26843545")),
    ],
    ids=str,
)
def test_requests_are_limits_by_the_ratio(ratios, requests):
    quotas = {"cpu": "7", "memory": "1Gi", "ephemeral-storage": "1Gi"}
    found = quota_twin.hard(quotas, (), ratios=quota_twin.Ratios(**ratios))
    assert found == {
        **{f"limits.{key}": value for key, value in quotas.items()},
        **{f"requests.{key}": value for key, value in zip(quotas, requests, strict=True)},
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.0, "4"),
        (0.25, "0.25"),
        (0.0, "0"),
        (0.0001, "0.0001"),
        (1e-05, "1e-05"),
        (999999.0, "999999"),
        (1e6, "1e+06"),
        (2147483648.0, "2.147483648e+09"),
        (-1.5e21, "-1.5e+21"),
    ],
    ids=repr,
)
def test_numbers_are_written_as_go_writes_them(value, text):
    assert quota_twin.hard({"cpu": value}, ())["limits.cpu"] == text


NAMES = st.sampled_from([L40S, H100, "example.com/fpga", "cpu", "pods", "gpu.cozystack.io/gold"])
VALUES = (
    st.integers(-3, 10**12)
    | st.from_regex(
        r"[+-]?[0-9]{0,4}\.?[0-9]{0,3}([numkMGTPE]|[KMGTPE]i|e-?[0-9])?", fullmatch=True
    )
    | st.sampled_from(["", "x", None, True, [], 1.5, 4.0, "1e99"])
)


def read_back(hard: dict[str, object]) -> tenants.Declared:
    raw: dict[str, Any] = {
        "metadata": {"name": keys.TENANT_QUOTA_NAME, "namespace": "tenant-a"},
        "spec": {"hard": hard},
    }
    return tenants.decode_quota(raw).declared


@given(quotas=st.dictionaries(NAMES, VALUES), gpus=st.frozensets(st.sampled_from([L40S, H100])))
def test_what_is_rendered_of_gpus_reads_back_as_what_was_declared(quotas, gpus):
    declared = tenants.declared(quotas).units
    found = read_back(quota_twin.hard(quotas, gpus))
    assert found.unreadable.keys().isdisjoint(gpus)
    assert {key: units for key, units in found.units.items() if key in gpus} == {
        key: units for key, units in declared.items() if key in gpus
    }


@given(quotas=st.dictionaries(NAMES, VALUES), gpus=st.frozensets(st.sampled_from([L40S, H100])))
def test_no_gpu_has_a_limit_and_no_budget_has_a_key(quotas, gpus):
    hard = quota_twin.hard(quotas, gpus)
    assert not {f"limits.{name}" for name in gpus} & hard.keys()
    assert not [key for key in hard if keys.QUOTA_PREFIX in key]


def test_budgets_are_not_in_the_resource_quota():
    declared = {"gpu.cozystack.io/gold": 4, "gpu.cozystack.io/total": 8}
    assert quota_twin.hard(declared, {L40S}) == {}
    assert read_back({}).units == {}
