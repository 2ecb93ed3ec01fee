"""What counts as a deviation, and the patch that undoes it."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.config import Config
from policies import bundle, stored
from tests.fakes import merging

POLICY = bundle.policies(Config())[-1]
OWNER = {"apiVersion": "v1", "kind": "ClusterRole", "name": "r", "uid": "u"}
Json = dict[str, Any]

scalars = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b", ""])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)


def no_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: no_nulls(item) for key, item in value.items() if item is not None}
    return value


objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3).map(no_nulls)


@given(objects, objects)
def test_the_difference_makes_one_object_of_the_other(have: Json, want: Json):
    patch = stored.difference(have, want)
    assert merging.merge(copy.deepcopy(have), patch) == want
    assert (patch == {}) == (have == want)


def wanted() -> Json:
    document = POLICY.document()
    document["metadata"]["ownerReferences"] = [OWNER]
    return document


def changed(**spec: Any) -> Json:
    live = wanted()
    live["spec"] |= spec
    return live


def test_what_the_api_server_adds_is_no_deviation():
    live = changed(auditAnnotations=[], extra=None)
    live["metadata"] |= {"uid": "1", "generation": 4, "annotations": {"a": "b"}}
    live["metadata"]["labels"] = {**live["metadata"]["labels"], "theirs": "x"}
    live["metadata"]["ownerReferences"] = [{"kind": "Other", "name": "o", "uid": "2"}, OWNER]
    live["status"] = {"observedGeneration": 4}
    assert not stored.differs(live, wanted())


@pytest.mark.parametrize(
    "live",
    [
        pytest.param(changed(failurePolicy="Ignore"), id="a value"),
        pytest.param(changed(variables=[]), id="a list emptied"),
        pytest.param(changed(auditAnnotations=[{"key": "a"}]), id="something beside our fields"),
        pytest.param({**wanted(), "metadata": POLICY.document()["metadata"]}, id="no owner"),
        pytest.param(
            {**wanted(), "metadata": {"name": POLICY.name, "ownerReferences": [OWNER]}},
            id="no label",
        ),
        pytest.param(
            {
                **wanted(),
                "metadata": {
                    **wanted()["metadata"],
                    "ownerReferences": [{**OWNER, "uid": "of an earlier release"}],
                },
            },
            id="the owner of an earlier release",
        ),
    ],
)
def test_a_deviation_is_seen(live: Json):
    assert stored.differs(live, wanted())
