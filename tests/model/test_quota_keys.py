"""Which keys are GPU keys, which may be granted, and what a typo meant."""

import pytest

from gpu.model import quota_keys
from gpu.model.quota_keys import RawDenied, Unknown
from tests.builders import H100, L40, a_class, a_settings, a_snapshot

GPU = "gpu.cozystack.io"
FREE = "nvidia.com/T4"


def known(*, raw=True):
    classes = [
        a_class("h100"),
        a_class("gold", resource=H100),
        a_class("old", resource=L40, retired=True),
    ]
    return quota_keys.known(
        a_snapshot(classes=classes, settings=a_settings(H100, L40, FREE, raw=raw))
    )


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(f"{GPU}/total", id="total"),
        pytest.param(f"{GPU}/h100", id="class"),
        pytest.param(f"{GPU}/old", id="retired class"),
        pytest.param(H100, id="raw name"),
    ],
)
def test_a_known_key_may_be_granted(key):
    assert quota_keys.fault(known(), key) is None
    assert quota_keys.is_ours(known(), key)


@pytest.mark.parametrize(
    "key",
    [
        "cpu",
        "storage",
        "h100",
        "services.loadbalancers",
        "limits.cpu",
        "count/pods",
        "count/gpuclaims.gpu.cozystack.io",
        "rdma/hca_shared",
        "nvidia.com/mlnxnics",
        "amd.com/gpu",
        "hugepages-2Mi",
        "example.com/total",
        f"nvidia.com/{'x' * 400}",
        "/",
    ],
)
def test_any_other_key_is_the_hosts_business(key):
    assert quota_keys.fault(known(), key) is None
    assert not quota_keys.is_ours(known(), key)


@pytest.mark.parametrize(
    ("key", "near"),
    [
        (f"{GPU}/h10", f"{GPU}/h100"),
        (f"{GPU}/H100", f"{GPU}/h100"),
        (f"{GPU}/Total", f"{GPU}/total"),
        (f"{GPU}/something", None),
        (f"{GPU}/", None),
        (f"claim.{GPU}/h100", f"{GPU}/h100"),
        (f"requests.{GPU}/h100", f"{GPU}/h100"),
        ("gpu.cozystak.io/h100", f"{GPU}/h100"),
        (f"requests.{H100}", H100),
        (f"limits.{L40}", L40),
        (L40.lower(), L40),
        ("nvidia.com/GH100_H10", H100),
        ("nvidia.con/GH100_H100", H100),
    ],
)
def test_a_key_that_must_be_meant_for_a_gpu_is_refused_and_the_near_one_named(key, near):
    assert quota_keys.fault(known(), key) == Unknown(near)


def test_a_raw_name_is_refused_while_denied_and_its_classes_are_named():
    denied = known(raw=False)
    assert quota_keys.fault(denied, H100) == RawDenied((f"{GPU}/gold", f"{GPU}/h100"))
    assert quota_keys.fault(denied, L40) == RawDenied((f"{GPU}/old",))
    assert quota_keys.fault(denied, FREE) == RawDenied(())
    assert quota_keys.is_ours(denied, FREE)


def test_valid_keys_are_total_then_by_name_and_raw_names_only_while_allowed():
    own = (f"{GPU}/total", f"{GPU}/gold", f"{GPU}/h100", f"{GPU}/old")
    assert known(raw=False).valid == own
    assert known(raw=True).valid == (*own, L40, H100, FREE)
