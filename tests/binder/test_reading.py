"""FreshView: never older than the binder's own last write; overlay and Live beside it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpu import echoes, world
from gpu.echoes import Own
from gpu.objects import claims, config_maps
from gpu.objects.claims import GPUClaim
from gpu.objects.config_maps import ConfigMap
from gpu.objects.kinds import CONFIG_MAPS, GPU_CLAIMS, Kind
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome
from gpu.reading import FreshView, Live
from gpu.settings import RawNames, Settings
from gpu.units import ResourceName


def raw_claim(name: str, version: int, *, uid: str = "", **status: object) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "tenant-a",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": {"className": "h100", "count": 1},
        "status": status,
    }


def claim(name: str, version: int, **more: Any) -> GPUClaim:
    return claims.decode(raw_claim(name, version, **more))


def key(name: str) -> ObjectKey:
    return ObjectKey("tenant-a", name)


class ApiError(Exception):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


@dataclass
class Listing:
    items: list[dict[str, Any]]
    resource_version: str


@dataclass
class Cluster:
    """What is stored, and what the watch has shown of it; each is set by the test."""

    stored: dict[ObjectKey, dict[str, Any]] = field(default_factory=dict)
    at: int = 0
    shown: tuple[GPUClaim, ...] = ()
    proved: int = 0
    maps: tuple[ConfigMap, ...] = ()
    broken: dict[ObjectKey, str] = field(default_factory=dict)
    reads: list[ObjectKey] = field(default_factory=list)
    fails: list[Outcome] = field(default_factory=list)
    changed: Callable[[], None] = lambda: None

    def items(self, view: type) -> tuple[Any, ...]:
        if view is ConfigMap:
            return self.maps
        return self.shown if view is GPUClaim else ()

    def malformed(self, view: type) -> Mapping[ObjectKey, str]:
        return self.broken if view is GPUClaim else {}

    def served(self, _view: type) -> bool:
        return True

    def version(self, _view: type) -> int:
        return self.proved

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self.changed = changed
        return lambda: None

    async def get(self, _kind: Kind, name: str, namespace: str | None = None) -> dict[str, Any]:
        self.reads.append(ObjectKey(namespace or "", name))
        if self.fails:
            raise ApiError(self.fails.pop(0))
        try:
            return self.stored[ObjectKey(namespace or "", name)]
        except KeyError:
            raise ApiError(Outcome.GONE) from None

    async def list_all(self, _kind: Kind) -> Listing:
        return Listing(list(self.stored.values()), str(self.at))

    def outcome(self, error: Exception) -> Outcome | None:
        return error.outcome if isinstance(error, ApiError) else None


def a_view(cluster: Cluster) -> FreshView:
    return FreshView(cluster, cluster)  # type: ignore[arg-type]  # only what the view calls


async def claims_of(view: FreshView) -> tuple[GPUClaim, ...]:
    return (await view.world()).claims


OVERLAY = {
    "nothing known: the watch is the truth": (
        (claim("a", 5),), {}, 5, (claim("a", 5),), set(),
    ),
    "our answer is newer than what is shown": (
        (claim("a", 5),),
        {key("a"): Own("uid-a", 7, claim("a", 7, phase="Pending"))},
        6,
        (claim("a", 7, phase="Pending"),),
        {key("a")},
    ),
    "the watch shows our very version": (
        (claim("a", 7, phase="Pending"),),
        {key("a"): Own("uid-a", 7, claim("a", 7, phase="Pending"))},
        7,
        (claim("a", 7, phase="Pending"),),
        set(),
    ),
    "the watch shows a later version": (
        (claim("a", 9),),
        {key("a"): Own("uid-a", 7, claim("a", 7, phase="Pending"))},
        9,
        (claim("a", 9),),
        set(),
    ),
    "we wrote an object the watch has not shown yet; it goes in key order": (
        (claim("a", 5), claim("c", 5)),
        {key("b"): Own("uid-b", 8, claim("b", 8))},
        6,
        (claim("a", 5), claim("b", 8), claim("c", 5)),
        {key("b")},
    ),
    "the watch is past our version and does not show it: it was deleted since": (
        (claim("a", 5),), {key("b"): Own("uid-b", 8, claim("b", 8))}, 8, (claim("a", 5),), set(),
    ),
    "deleted by us, still shown": (
        (claim("a", 5),), {key("a"): Own("uid-a")}, 6, (), {key("a")},
    ),
    "deleted by us, and no longer shown": ((), {key("a"): Own("uid-a")}, 6, (), set()),
    "deleted by us, and made anew by somebody": (
        (claim("a", 9, uid="other"),),
        {key("a"): Own("uid-a")},
        9,
        (claim("a", 9, uid="other"),),
        set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "own", "proved", "expected", "needed"), OVERLAY.values(), ids=OVERLAY
)
def test_overlay(shown, own, proved, expected, needed):
    items, still = echoes.overlay(shown, own, proved)
    assert items == expected
    versions = [item.meta.resource_version for item in items]
    assert versions == [item.meta.resource_version for item in expected]
    assert still.keys() == needed


async def test_an_own_write_is_seen_before_the_watch_delivers_it():
    cluster = Cluster(shown=(claim("a", 5),), proved=5)
    view = a_view(cluster)
    view.wrote(GPU_CLAIMS, raw_claim("a", 7, phase="Bound", nodeName="n1", term=1))
    assert (await claims_of(view))[0].node == "n1"
    assert (await claims_of(view))[0].meta.resource_version == "7"


async def test_an_older_event_of_the_same_object_does_not_bring_back_the_past():
    cluster = Cluster(shown=(claim("a", 5),), proved=5)
    view = a_view(cluster)
    view.wrote(GPU_CLAIMS, raw_claim("a", 7, phase="Bound", nodeName="n1", term=1))
    cluster.shown, cluster.proved = (claim("a", 6, phase="Pending"),), 6
    assert (await claims_of(view))[0].node == "n1"


async def test_once_the_watch_is_past_the_write_only_the_watch_counts():
    cluster = Cluster(shown=(claim("a", 5),), proved=5)
    view = a_view(cluster)
    view.wrote(GPU_CLAIMS, raw_claim("a", 7, phase="Bound", nodeName="n1", term=1))
    cluster.shown, cluster.proved = (claim("a", 8, phase="Lost", nodeName="n1", term=2),), 8
    await view.world()
    cluster.shown, cluster.proved = (), 9
    assert await claims_of(view) == ()


async def test_the_answer_that_took_the_last_finalizer_off_means_gone():
    cluster = Cluster(shown=(claim("a", 5),), proved=5)
    view = a_view(cluster)
    raw = raw_claim("a", 7)
    raw["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    view.wrote(GPU_CLAIMS, raw)
    assert await claims_of(view) == ()


async def test_a_finalizer_of_somebody_else_keeps_the_object():
    cluster = Cluster(shown=(claim("a", 5),), proved=5)
    view = a_view(cluster)
    raw = raw_claim("a", 7)
    raw["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["other/one"]}
    view.wrote(GPU_CLAIMS, raw)
    assert [item.meta.finalizers for item in await claims_of(view)] == [("other/one",)]


async def test_after_a_lost_reply_the_object_is_read_once_before_the_next_pass():
    cluster = Cluster(shown=(claim("a", 5),), proved=5)
    cluster.stored[key("a")] = raw_claim("a", 7, phase="Bound", nodeName="n1", term=1)
    view = a_view(cluster)
    view.doubt(GPU_CLAIMS, key("a"))
    assert (await claims_of(view))[0].node == "n1"
    await view.world()
    assert cluster.reads == [key("a")]


async def test_a_doubted_object_that_turns_out_deleted_is_hidden():
    cluster = Cluster(shown=(claim("a", 5), claim("b", 5)), proved=5)
    view = a_view(cluster)
    view.doubt(GPU_CLAIMS, key("a"))
    assert [item.meta.name for item in await claims_of(view)] == ["b"]
    cluster.shown, cluster.proved = (claim("a", 9, uid="new"), claim("b", 5)), 9
    assert [item.meta.name for item in await claims_of(view)] == ["a", "b"]


async def test_no_world_is_given_out_while_an_object_in_doubt_cannot_be_read():
    cluster = Cluster(shown=(claim("a", 5),), proved=5, fails=[Outcome.UNKNOWN])
    cluster.stored[key("a")] = raw_claim("a", 7, phase="Bound", nodeName="n1", term=1)
    view = a_view(cluster)
    view.doubt(GPU_CLAIMS, key("a"))
    with pytest.raises(ApiError):
        await view.world()
    assert (await claims_of(view))[0].node == "n1"


async def test_a_create_whose_reply_was_lost_and_that_was_not_done_leaves_nothing():
    view = a_view(Cluster())
    view.doubt(CONFIG_MAPS, ObjectKey("cozy-system", "cozystack-gpu-settings"))
    assert (await view.world()).config_maps == ()


async def test_taking_over_lists_what_an_earlier_leader_wrote_and_the_watch_did_not_show():
    cluster = Cluster(shown=(claim("a", 5), claim("dead", 4)), proved=5, at=9)
    cluster.stored = {
        key("a"): raw_claim("a", 8, phase="Bound", nodeName="n1", term=3),
        key("b"): raw_claim("b", 9, phase="Bound", nodeName="n2", term=2),
    }
    view = a_view(cluster)
    assert await view.begin() == 3
    found = await claims_of(view)
    assert [(item.meta.name, item.node) for item in found] == [("a", "n1"), ("b", "n2")]


async def test_taking_over_keeps_what_the_watch_shows_beyond_the_list():
    cluster = Cluster(shown=(claim("a", 8), claim("new", 12)), proved=12, at=9)
    cluster.stored = {key("a"): raw_claim("a", 8)}
    view = a_view(cluster)
    assert await view.begin() == 0
    assert [item.meta.name for item in await claims_of(view)] == ["a", "new"]


async def test_a_watch_that_went_back_in_time_is_not_trusted_until_a_list_says_what_is_true():
    cluster = Cluster(shown=(claim("a", 8, phase="Bound", nodeName="n1", term=1),), proved=8, at=8)
    cluster.stored = {key("a"): raw_claim("a", 8, phase="Bound", nodeName="n1", term=1)}
    view = a_view(cluster)
    await view.begin()
    await view.world()
    cluster.shown, cluster.proved = (claim("a", 5),), 5
    assert (await claims_of(view))[0].node == "n1"


async def test_a_claim_that_cannot_be_read_is_named_until_the_watch_has_caught_up():
    cluster = Cluster(at=9, proved=5)
    broken = raw_claim("x", 8)
    broken["spec"]["count"] = "many"
    cluster.stored = {key("x"): broken}
    view = a_view(cluster)
    await view.begin()
    assert (await view.world()).unreadable_claims == {key("x")}
    cluster.proved = 9
    assert (await view.world()).unreadable_claims == frozenset()
    cluster.broken = {key("x"): "spec.count: is not an integer"}
    assert (await view.world()).unreadable_claims == {key("x")}


def settings_map(names: str, version: int) -> ConfigMap:
    return config_maps.decode(
        {
            "metadata": {
                "name": "cozystack-gpu-settings",
                "namespace": "cozy-system",
                "resourceVersion": str(version),
            },
            "data": {"resourceNames": names, "rawResourceNames": "allowed"},
        }
    )


def test_malformed_settings_leave_the_last_good_ones_in_force_and_live_follows_changes():
    cluster = Cluster(maps=(settings_map("nvidia.com/A", 1),))
    live = Live(cluster)  # type: ignore[arg-type]  # only what Live calls
    good = Settings((ResourceName("nvidia.com/A"),), RawNames.ALLOWED)
    assert live.world().settings == good
    first = live.world()
    assert live.world() is first
    cluster.maps = (settings_map("no slash", 2),)
    assert live.world() is first
    cluster.changed()
    assert live.world() is not first
    assert live.world().settings == good


def test_a_change_while_a_snapshot_is_being_made_does_not_have_the_next_made_of_nothing(
    monkeypatch,
):
    cluster = Cluster()
    live = Live(cluster)  # type: ignore[arg-type]  # only what Live calls
    oldest = live.world().snapshot
    cluster.changed()
    made_of: list[Any] = []

    def advance(before: Any, *given: Any) -> Any:
        cluster.changed()  # on the event loop, while the thread is at work
        made_of.append(live.world().newest())
        return before

    monkeypatch.setattr(world.advance, "advance", advance)
    assert live.world().snapshot is oldest
    assert made_of == [oldest]


async def test_worlds_are_made_beside_the_event_loop():
    seen: list[bool] = []

    async def in_thread(work: Callable[[], Any]) -> Any:
        seen.append(True)
        return await asyncio.to_thread(work)

    await a_view(Cluster()).world(in_thread)
    assert seen == [True]


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


async def test_what_is_written_while_a_world_is_made_is_in_the_next():
    """Another pass writes beside: its answer must neither be lost nor break what is being made."""
    view = a_view(Cluster())
    view.wrote(GPU_CLAIMS, raw_claim("before", 5))

    async def meanwhile(work: Callable[[], Any]) -> Any:
        view.wrote(GPU_CLAIMS, raw_claim("new", 7))
        view.wrote(GPU_CLAIMS, raw_claim("before", 8))
        return work()

    assert [item.meta.version for item in (await view.world(meanwhile)).claims] == [5]
    found = (await view.world(at_once)).claims
    assert [(item.meta.name, item.meta.version) for item in found] == [("before", 8), ("new", 7)]


async def test_a_look_beside_leaves_what_the_full_pass_expects():
    cluster = Cluster()
    view = a_view(cluster)
    before = await view.world(at_once)
    cluster.shown, cluster.proved = (claim("other", 5),), 5
    assert (await view.look(at_once)).claims == cluster.shown == view.claims()
    assert await view.expected(at_once) == before


async def test_doubt_that_comes_up_while_an_object_is_read_stays():
    cluster = Cluster({key("x"): raw_claim("x", 5)})
    view = a_view(cluster)
    view.doubt(GPU_CLAIMS, key("x"))
    get = cluster.get

    async def read(*args: Any) -> dict[str, Any]:
        if not cluster.reads:
            view.doubt(GPU_CLAIMS, key("x"))
        return await get(*args)

    cluster.get = read  # type: ignore[method-assign]
    for _ in range(3):
        await view.settle()
    assert cluster.reads == [key("x"), key("x")]
