"""Each change and the very write it becomes; what a failed write leaves in the view."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from gpu.binder import changes
from gpu.binder.fence import Deposed
from gpu.binder.writer import Failure
from gpu.cluster import errors
from gpu.objects import claims, classes, kinds
from gpu.objects.meta import Condition, ObjectKey
from gpu.objects.nodes import GPUNode, NodeUnits
from gpu.ports import Outcome
from gpu.settings import RawNames, Settings
from gpu.units import NodeName, ResourceName
from tests.binder import raws
from tests.binder.rig import Rig
from tests.fakes.cluster import Fault, Write

AT = datetime(2026, 1, 1, 12, 0, 0, 999_000, tzinfo=UTC)
SINCE = datetime(2026, 1, 1, 10, 0, 0, tzinfo=UTC)


def a_rig(**objects: list[raws.Raw]) -> Rig:
    rig = Rig(term=7)
    rig.store(**(objects or {"claims": [raws.a_claim(count=2)]}))
    return rig


def the_claim(rig: Rig) -> claims.GPUClaim:
    return rig.window.items(claims.GPUClaim)[0]


def a_place(rig: Rig) -> changes.Place:
    return changes.Place(claim=the_claim(rig), node=NodeName("n1"), at=AT, set_id="tenant-a/x")


def an_add(claim: claims.GPUClaim) -> changes.AddFinalizer:
    return changes.AddFinalizer(
        kind=kinds.GPU_CLAIMS,
        key=claim.key,
        uid=claim.meta.uid,
        version=claim.meta.resource_version,
        finalizers=("other/one", "gpu.cozystack.io/claim"),
    )


def body_of(rig: Rig) -> Any:
    (write,) = rig.cluster.writes
    return write.body


SPENT = {
    "at": "2026-01-01T12:00:00Z",
    "waitingSeconds": 43200,
    "heldSeconds": 0,
    "inUseSeconds": 0,
    "lostSeconds": 0,
    "degradedSeconds": 0,
}


async def test_a_placement_carries_term_and_version_and_drops_what_told_of_waiting():
    waiting = {
        "phase": "Pending",
        "term": 6,
        "reasons": ["NoFreeUnits"],
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": "NoFreeUnits",
                "message": "none free",
                "lastTransitionTime": "2026-01-01T10:00:00Z",
            }
            for kind, status in (("Bound", "False"), ("Waiting", "True"))
        ],
        "spent": SPENT,
    }
    rig = a_rig(claims=[raws.a_claim(count=2, status=waiting)])
    version = the_claim(rig).meta.resource_version
    assert await rig.writer.perform(a_place(rig)) is None
    assert rig.cluster.writes == [
        Write(
            "patch",
            kinds.GPU_CLAIMS,
            ObjectKey("tenant-a", "x"),
            "status",
            {
                "metadata": {"resourceVersion": version},
                "status": {
                    "phase": "Bound",
                    "nodeName": "n1",
                    "boundAt": "2026-01-01T12:00:00Z",
                    "term": 7,
                    "reasons": None,
                    "conditions": [
                        {
                            "type": "Bound",
                            "status": "True",
                            "reason": "Placed",
                            "message": "2 units of h100 held on node n1",
                            "lastTransitionTime": "2026-01-01T12:00:00Z",
                        }
                    ],
                    "spent": SPENT,
                },
            },
        )
    ]


async def test_the_finalizers_answer_feeds_the_placement_of_the_same_claim():
    rig = a_rig()
    claim = the_claim(rig)
    assert await rig.writer.perform(an_add(claim)) is None
    assert await rig.writer.perform(a_place(rig)) is None
    first, second = rig.cluster.writes
    assert first.body["metadata"] == {
        "finalizers": ["other/one", "gpu.cozystack.io/claim"],
        "resourceVersion": claim.meta.resource_version,
    }
    assert int(second.body["metadata"]["resourceVersion"]) > claim.meta.version
    assert rig.placed() == {"tenant-a/x": "n1"}


async def test_a_refused_placement_is_told_with_the_first_phase_and_the_term():
    rig = a_rig()
    change = changes.ExplainRefused(
        claim=the_claim(rig), words="denied by policy", at=AT, set_id="tenant-a/x"
    )
    assert await rig.writer.perform(change) is None
    message = (
        "the API server refuses to store the placement, which is tried again: denied by policy"
    )
    assert body_of(rig)["status"] == {
        "phase": "Pending",
        "term": 7,
        "reasons": ["WriteRefused"],
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": "WriteRefused",
                "message": message,
                "lastTransitionTime": "2026-01-01T12:00:00Z",
            }
            for kind, status in (("Bound", "False"), ("Waiting", "True"))
        ],
        "spent": SPENT,
    }


async def test_a_class_status_is_written_whole():
    rig = a_rig(classes=[raws.a_class(meta={"generation": 3})])
    ready = Condition(
        type="Ready", status="True", reason="Served", message="by 1 node", since=SINCE
    )
    change = changes.ReportClass(
        offer=rig.window.items(classes.GPUClass)[0],
        capacity=16,
        allocatable=8,
        held=3,
        free=5,
        nodes=(NodeName("n1"),),
        node_count=1,
        conditions=(ready,),
    )
    assert await rig.writer.perform(change) is None
    assert rig.cluster.writes == [
        Write(
            "patch",
            kinds.GPU_CLASSES,
            ObjectKey("", "h100"),
            "status",
            {
                "status": {
                    "observedGeneration": 3,
                    "capacity": 16,
                    "allocatable": 8,
                    "held": 3,
                    "free": 5,
                    "nodes": ["n1"],
                    "nodeCount": 1,
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "reason": "Served",
                            "message": "by 1 node",
                            "lastTransitionTime": "2026-01-01T10:00:00Z",
                        }
                    ],
                }
            },
        )
    ]


async def test_units_of_a_node_are_applied_and_leave_the_agents_fields_alone():
    rig = a_rig(inventory=[raws.an_inventory(status={"devices": [{"id": "gpu-0"}]})])
    (node,) = rig.window.items(GPUNode)
    units = (
        NodeUnits(name=ResourceName("nvidia.com/A"), held=1, free=2),
        NodeUnits(name=ResourceName("nvidia.com/B"), held=4, free=0),
    )
    assert await rig.writer.perform(changes.ReportNode(node=node, resources=units)) is None
    (write,) = rig.cluster.writes
    assert (write.verb, write.subresource) == ("apply", "status")
    assert write.body["status"] == {
        "resources": [
            {"name": "nvidia.com/A", "held": 1, "free": 2},
            {"name": "nvidia.com/B", "held": 4, "free": 0},
        ],
        "held": 5,
        "free": 2,
    }
    stored = rig.cluster._objects[kinds.GPU_NODES][ObjectKey("", "n1")]
    assert stored["status"]["devices"] == [{"id": "gpu-0"}]


SETTINGS = Settings((ResourceName("nvidia.com/A"), ResourceName("nvidia.com/B")), RawNames.DENIED)
DATA = {"resourceNames": "nvidia.com/A,nvidia.com/B", "rawResourceNames": "denied"}


async def test_missing_settings_are_created():
    rig = a_rig()
    change = changes.WriteSettings(settings=SETTINGS, exists=False, problem="missing")
    assert await rig.writer.perform(change) is None
    stored = rig.cluster._objects[kinds.CONFIG_MAPS][changes.SETTINGS_KEY]
    assert stored["data"] == DATA
    assert changes.SETTINGS_KEY == ("cozy-system", "cozystack-gpu-settings")


async def test_settings_are_healed_and_keys_of_others_stay():
    rig = a_rig()
    rig.cluster.put(
        kinds.CONFIG_MAPS,
        {
            "metadata": {"name": "cozystack-gpu-settings", "namespace": "cozy-system"},
            "data": {"resourceNames": "oh no", "note": "keep me"},
        },
    )
    change = changes.WriteSettings(settings=SETTINGS, exists=True, problem="malformed")
    assert await rig.writer.perform(change) is None
    stored = rig.cluster._objects[kinds.CONFIG_MAPS][changes.SETTINGS_KEY]
    assert stored["data"] == DATA | {"note": "keep me"}


CONFLICT = errors.from_status({"code": 409, "reason": "Conflict", "message": "modified"})
REFUSED = errors.from_status({"code": 403, "reason": "Forbidden", "message": "denied by policy"})


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (CONFLICT, Outcome.CONFLICT),
        (errors.from_status({"code": 500, "reason": "InternalError"}), Outcome.UNKNOWN),
        (errors.from_status({"code": 429, "reason": "TooManyRequests"}), Outcome.UNKNOWN),
        (errors.Unreachable("the line was cut", sent=True), Outcome.UNKNOWN),
    ],
    ids=["conflict", "500", "429", "cut"],
)
async def test_a_contended_or_unclear_write_is_read_directly_before_the_next_world(error, outcome):
    rig = a_rig()
    place = a_place(rig)
    rig.cluster.fail(Fault(at=1, executed=outcome is Outcome.UNKNOWN, error=error))
    failure = await rig.writer.perform(place)
    assert failure == Failure(outcome, str(error))
    found = (await rig.view.world(rig.in_thread)).claims[0]
    assert found.node == ("n1" if outcome is Outcome.UNKNOWN else None)


async def test_a_refused_write_says_the_apis_words():
    rig = a_rig()
    rig.cluster.refuse(lambda _: True, REFUSED)
    assert await rig.writer.perform(a_place(rig)) == Failure(Outcome.REFUSED, str(REFUSED))


async def test_a_claim_that_is_gone_is_not_seen_again_even_while_the_watch_shows_it():
    rig = a_rig()
    place = a_place(rig)
    await rig.cluster.delete(kinds.GPU_CLAIMS, "x", "tenant-a")
    failure = await rig.writer.perform(place)
    assert failure is not None
    assert failure.outcome is Outcome.GONE
    assert (await rig.view.world(rig.in_thread)).claims == ()


async def test_nothing_is_sent_once_the_lease_has_run_out():
    rig = a_rig()
    rig.hold.remaining = 0.0
    with pytest.raises(Deposed):
        await rig.writer.perform(a_place(rig))
    assert rig.cluster.writes == []


class Slow:
    """A cluster that executes a write and never answers."""

    def __init__(self, rig: Rig) -> None:
        self._cluster = rig.cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def patch(self, *args: Any, **how: Any) -> Any:
        await self._cluster.patch(*args, **how)
        await asyncio.sleep(3600)


@pytest.mark.looptime
@pytest.mark.parametrize(("left", "ends"), [(15.0, 5.0), (1.5, 1.5)], ids=["usual", "lease ends"])
async def test_a_write_without_answer_is_unknown_and_ends_before_the_lease_does(left, ends):
    rig = a_rig()
    rig.hold.remaining = left
    rig.writer.api = Slow(rig)  # type: ignore[assignment]  # a Writer by __getattr__
    failure = await rig.writer.perform(a_place(rig))
    assert failure == Failure(Outcome.UNKNOWN, f"no answer within {ends} s")
    assert asyncio.get_running_loop().time() == ends
    assert (await rig.view.world(rig.in_thread)).claims[0].node == "n1"


@pytest.mark.looptime
async def test_a_cancelled_write_is_in_doubt():
    rig = a_rig()
    rig.writer.api = Slow(rig)  # type: ignore[assignment]  # a Writer by __getattr__
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await rig.writer.perform(a_place(rig))
    assert (await rig.view.world(rig.in_thread)).claims[0].node == "n1"
