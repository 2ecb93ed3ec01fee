"""Which ConfigMap the policies read: through moves, changes of leader, and what is left over."""

from dataclasses import replace
from typing import Any

import pytest

from gpu import keys
from gpu.cluster import errors
from gpu.config import Config, PolicyMode
from gpu.objects import kinds
from policies import revisions
from policies.revisions import Revisions
from tests.fakes.cluster import FakeCluster, Fault

NAME = keys.SETTINGS_NAME
NAMESPACE = keys.SETTINGS_NAMESPACE
DENIED = {"resourceNames": "nvidia.com/x", "rawResourceNames": "denied"}
Json = dict[str, Any]


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    found.put(kinds.GPU_BINDERS, {"metadata": {"name": keys.BINDER_NAME}})
    put_settings(found, DENIED)
    return found


def put_settings(cluster: FakeCluster, data: Json, name: str = NAME) -> None:
    cluster.put(
        kinds.CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data}
    )


def bind(cluster: FakeCluster, name: str) -> None:
    spec = {"paramRef": {"name": name, "namespace": NAMESPACE}}
    cluster.put(
        kinds.POLICY_BINDINGS, {"metadata": {"name": "cozystack-gpu-keeper-policy"}, "spec": spec}
    )


def of(cluster: FakeCluster, **changes: Any) -> Revisions:
    leading = changes.pop("leading", lambda: True)
    return Revisions(cluster, replace(Config(), **changes), leading=leading)


async def binder(cluster: FakeCluster) -> Json:
    return await cluster.get(kinds.GPU_BINDERS, keys.BINDER_NAME)


async def current(cluster: FakeCluster, **changes: Any) -> str:
    return await of(cluster, **changes).current(await binder(cluster))


async def data(cluster: FakeCluster, name: str) -> Json | None:
    try:
        return (await cluster.get(kinds.CONFIG_MAPS, name, NAMESPACE)).get("data")
    except errors.NotFound:
        return None


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (NAME, 0),
        (f"{NAME}-1", 1),
        (f"{NAME}-27", 27),
        (f"{NAME}-999999999", 999_999_999),
        (f"{NAME}-9999999999", 0),
        (f"{NAME}-01", 0),
        (f"{NAME}-x", 0),
        (f"{NAME}-", 0),
        ("other-1", 0),
        ("", 0),
    ],
)
def test_a_name_has_a_number(name: str, number: int):
    assert revisions.number_of(name) == number
    if number:
        assert revisions.name_of(number) == name


async def test_policies_read_the_settings_themselves_to_begin_with(cluster: FakeCluster):
    assert await current(cluster) == NAME
    bind(cluster, NAME)
    assert await current(cluster) == NAME
    assert cluster.writes == []


async def test_a_move_writes_the_copy_then_the_note(cluster: FakeCluster):
    assert await of(cluster).move(NAME) == f"{NAME}-1"
    assert [(write.verb, write.key.name) for write in cluster.writes] == [
        ("apply", f"{NAME}-1"),
        ("patch", keys.BINDER_NAME),
    ]
    assert await data(cluster, f"{NAME}-1") == DENIED
    assert await current(cluster) == f"{NAME}-1"


@pytest.mark.parametrize(("at", "executed"), [(1, False), (1, True), (2, False), (2, True)])
async def test_a_leader_that_ends_in_the_middle_of_a_move_leaves_the_next_one_a_way(
    cluster: FakeCluster, at: int, *, executed: bool
):
    bind(cluster, NAME)
    cluster.fail(Fault(at=at, executed=executed))
    with pytest.raises(errors.Unreachable):
        await of(cluster).move(NAME)
    name = await current(cluster)
    assert name in {NAME, f"{NAME}-1"}
    assert name == f"{NAME}-1" or await of(cluster).move(name) == f"{NAME}-1"
    assert await data(cluster, f"{NAME}-1") == DENIED
    assert await current(cluster) == f"{NAME}-1"


async def test_the_next_move_goes_one_further(cluster: FakeCluster):
    moving = of(cluster)
    await moving.move(NAME)
    assert await moving.move(f"{NAME}-1") == f"{NAME}-2"


async def test_a_note_counts_more_than_an_edited_binding(cluster: FakeCluster):
    await of(cluster).move(NAME)
    bind(cluster, f"{NAME}-77")
    assert await current(cluster) == f"{NAME}-1"


async def test_a_lost_note_is_made_anew_from_the_binding(cluster: FakeCluster):
    bind(cluster, f"{NAME}-3")
    assert await current(cluster) == f"{NAME}-3"
    assert (await binder(cluster))["status"]["settings"] == {"configMap": f"{NAME}-3"}


async def test_bindings_that_others_keep_name_the_settings_themselves(cluster: FakeCluster):
    await of(cluster).move(NAME)
    assert await current(cluster, policies=PolicyMode.RENDERED) == NAME
    assert await current(cluster) == f"{NAME}-1"


async def test_a_copy_follows_the_settings(cluster: FakeCluster):
    moving = of(cluster)
    await moving.move(NAME)
    cluster.writes.clear()
    await moving.follow(f"{NAME}-1")
    assert cluster.writes == []
    allowed = DENIED | {"rawResourceNames": "allowed"}
    put_settings(cluster, allowed)
    followed = await moving.follow(f"{NAME}-1")
    assert followed is not None
    assert (followed["data"], await data(cluster, f"{NAME}-1")) == (allowed, allowed)


async def test_a_copy_that_was_edited_or_deleted_is_healed(cluster: FakeCluster):
    moving = of(cluster)
    await moving.move(NAME)
    put_settings(cluster, DENIED | {"resourceNames": ""}, f"{NAME}-1")
    await moving.follow(f"{NAME}-1")
    assert await data(cluster, f"{NAME}-1") == DENIED
    await cluster.delete(kinds.CONFIG_MAPS, f"{NAME}-1", NAMESPACE)
    await moving.follow(f"{NAME}-1")
    assert await data(cluster, f"{NAME}-1") == DENIED


async def test_while_the_settings_are_gone_the_copy_stays_and_nothing_moves(cluster: FakeCluster):
    moving = of(cluster)
    await moving.move(NAME)
    await cluster.delete(kinds.CONFIG_MAPS, NAME, NAMESPACE)
    assert await moving.follow(f"{NAME}-1") is None
    assert await data(cluster, f"{NAME}-1") == DENIED
    assert await moving.move(f"{NAME}-1") is None
    assert await data(cluster, f"{NAME}-2") is None


async def test_copies_that_are_over_are_removed_once(cluster: FakeCluster):
    for number in (1, 3):
        put_settings(cluster, DENIED, f"{NAME}-{number}")
    put_settings(cluster, DENIED, f"{NAME}-2")
    tidying = of(cluster)
    await tidying.tidy(f"{NAME}-2")
    left = [await data(cluster, f"{NAME}-{number}") for number in (1, 2, 3)]
    assert left == [None, DENIED, None]
    assert await data(cluster, NAME) == DENIED
    put_settings(cluster, DENIED, f"{NAME}-3")
    await tidying.tidy(f"{NAME}-2")
    assert await data(cluster, f"{NAME}-3") == DENIED


async def test_the_settings_themselves_are_never_removed(cluster: FakeCluster):
    await of(cluster).move(NAME)
    await of(cluster).tidy(f"{NAME}-1")
    assert await data(cluster, NAME) == DENIED


async def test_who_does_not_lead_writes_nothing(cluster: FakeCluster):
    put_settings(cluster, DENIED, f"{NAME}-2")
    idle = of(cluster, leading=lambda: False)
    assert await idle.move(NAME) is None
    await idle.follow(f"{NAME}-1")
    await idle.tidy(f"{NAME}-1")
    assert cluster.writes == []


async def test_leadership_lost_after_the_copy_leaves_no_note(cluster: FakeCluster):
    left = iter((True, False))
    assert await of(cluster, leading=lambda: next(left)).move(NAME) is None
    assert "status" not in await binder(cluster)
