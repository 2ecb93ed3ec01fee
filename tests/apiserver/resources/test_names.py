"""Names of quota gates: valid, stable, one for each key."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.resources import base, quotas
from tests import sampling

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        pytest.param("gpu.cozystack.io/h100", "h100", id="class"),
        pytest.param("gpu.cozystack.io/total", "total", id="total"),
        pytest.param("nvidia.com/gpu", "nvidia.com.gpu", id="raw-plain"),
        pytest.param("nvidia.com/GH100_H100", "nvidia.com.gh100-h100-e0c0f261", id="raw-marked"),
        pytest.param("gpu.cozystack.io/H100", "gpu.cozystack.io.h100-d19ae046", id="no-class-name"),
    ],
)
def test_a_gate_is_named_after_its_key(key, name):
    assert quotas.name_of(key) == name


KEYS = st.from_regex(
    r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?",
    fullmatch=True,
    alphabet=sampling.ASCII,
)


@sampling.examples(50)
@given(KEYS)
def test_every_key_gives_a_valid_name(key):
    assert SUBDOMAIN.fullmatch(quotas.name_of(key))


@sampling.examples(50)
@given(KEYS, KEYS)
def test_different_keys_give_different_names(one, other):
    assert one == other or quotas.name_of(one) != quotas.name_of(other)


def test_uids_are_made_from_what_names_the_object_and_differ_by_each_part():
    made = {
        base.uid(*parts)
        for parts in (("a", "b", "c"), ("x", "b", "c"), ("a", "x", "c"), ("a", "b", "x"))
    }
    assert len(made) == 4
    assert base.uid("a", "b", "c") == base.uid("a", "b", "c")
