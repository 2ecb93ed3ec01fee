"""What counts as a deviation, the patch that undoes it, and who writes in between."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.cluster import errors
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from policies import bundle, stored
from tests.fakes import merging
from tests.fakes.cluster import FakeCluster

POLICY = next(one for one in bundle.policies(Config()) if one.topic == "vmi-raw-names")
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


Meddle = Callable[[Json], None]


class Meddled(FakeCluster):
    """An API server on which somebody else writes the object just before each patch of ours."""

    def __init__(self, *meddles: Meddle) -> None:
        super().__init__()
        self.meddles = list(meddles)

    async def patch(self, kind: Kind, name: str, *rest: Any, **how: Any) -> Json:
        if self.meddles:
            live = await self.get(kind, name)
            self.meddles.pop(0)(live)
            self.put(kind, live)
        return await super().patch(kind, name, *rest, **how)


def judged(live: Json) -> None:
    """As kube-controller-manager does after each change of a policy."""
    live["status"] = {"observedGeneration": live["metadata"]["generation"]}


def judged_again(live: Json) -> None:
    live["status"] = {"typeChecking": {}}


def excluded(live: Json) -> None:
    live["spec"]["auditAnnotations"] = [{"key": "b"}]


def unlabelled(live: Json) -> None:
    live["metadata"].pop("labels")


EDITED = changed(auditAnnotations=[{"key": "a"}])
"""What apply does not heal: somebody else's field beside ours."""


@pytest.mark.parametrize(
    "meddles",
    [
        pytest.param([judged], id="its status"),
        pytest.param([judged, judged_again], id="its status twice"),
        pytest.param([excluded], id="its spec, once more"),
        pytest.param([unlabelled], id="what apply heals"),
    ],
)
async def test_one_who_writes_in_between_holds_nothing_up(meddles: list[Meddle]):
    cluster = Meddled(*meddles)
    cluster.put(kinds.POLICIES, EDITED)
    assert await stored.bring(cluster, kinds.POLICIES, wanted())
    live = await cluster.get(kinds.POLICIES, POLICY.name)
    assert not stored.differs(live, wanted())
    assert "auditAnnotations" not in live["spec"]


async def test_no_patch_is_sent_without_the_version_it_was_made_from():
    cluster = Meddled(judged, judged_again)
    cluster.put(kinds.POLICIES, EDITED)
    await stored.bring(cluster, kinds.POLICIES, wanted())
    versions = [
        write.body["metadata"]["resourceVersion"]
        for write in cluster.writes
        if write.verb == "patch"
    ]
    assert len(set(versions)) == len(versions) == 3


async def test_one_who_writes_all_the_time_is_left_to_the_next_round():
    writers = itertools.cycle((judged, judged_again))
    cluster = Meddled(*itertools.islice(writers, 50))
    cluster.put(kinds.POLICIES, EDITED)
    with pytest.raises(errors.Conflict):
        await stored.bring(cluster, kinds.POLICIES, wanted())
    assert len(cluster.writes) == 2 * stored.TRIES


async def test_who_lost_the_lead_in_between_writes_no_more():
    """The one who wrote may be the new leader, of another version."""
    cluster = Meddled(judged)
    cluster.put(kinds.POLICIES, EDITED)
    await stored.bring(cluster, kinds.POLICIES, wanted(), leading=lambda: bool(cluster.meddles))
    assert [write.verb for write in cluster.writes] == ["apply", "patch"]
    live = await cluster.get(kinds.POLICIES, POLICY.name)
    assert live["spec"] == EDITED["spec"]
