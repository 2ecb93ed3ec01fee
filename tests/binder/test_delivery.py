"""Delivery: how many sets are in flight, in which order, and what a failure stops."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from gpu.binder import changes, delivery
from gpu.binder.changes import AddFinalizer, Change, Explain, Place
from gpu.binder.delivery import Delivered
from gpu.binder.fence import Deposed
from gpu.binder.writer import Failure
from gpu.objects import claims
from gpu.objects.kinds import GPU_CLASSES
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome
from gpu.units import NodeName

pytestmark = pytest.mark.looptime

AT = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = Failure(Outcome.REFUSED, "no")
UNKNOWN = Failure(Outcome.UNKNOWN, "?")
CONFLICT = Failure(Outcome.CONFLICT, "409")
GONE = Failure(Outcome.GONE, "404")


@dataclass
class Writer:
    """Takes a second for a write, half of one to fail; answers as told by `set:claim`."""

    answers: dict[str, Failure | Exception] = field(default_factory=dict)
    log: list[tuple[float, str]] = field(default_factory=list)
    now: int = 0
    most: int = 0

    async def perform(self, change: Change) -> Failure | None:
        name = name_of(change)
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        self.log.append((asyncio.get_running_loop().time(), name))
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.5 if answer else 1)
        self.now -= 1
        return answer

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.log]


def name_of(change: Change) -> str:
    return f"{changes.set_of(change)}:{changes.target_of(change).key.name}"


def a_place(name: str, set_id: str = "") -> Place:
    claim = claims.decode(
        {
            "metadata": {"name": name, "namespace": "a", "uid": f"uid-{name}"},
            "spec": {"className": "h100", "count": 1},
        }
    )
    return Place(claim=claim, node=NodeName("n1"), at=AT, set_id=set_id or name)


def a_finalizer(name: str) -> AddFinalizer:
    return AddFinalizer(
        kind=GPU_CLASSES, key=ObjectKey("", name), uid=f"uid-{name}", version="1", finalizers=()
    )


async def deliver(wanted: Iterable[Change], writer: Writer, in_flight: int = 8) -> Delivered:
    return await delivery.deliver(wanted, writer, in_flight)  # type: ignore[arg-type]  # a fake


async def test_eight_sets_are_in_flight_and_no_more():
    writer = Writer()
    done = await deliver([a_place(f"x{n:02d}") for n in range(20)], writer)
    assert writer.most == 8
    assert asyncio.get_running_loop().time() == 3.0
    assert done.written == {"Place": 20}
    assert sorted(done.complete) == [f"x{n:02d}" for n in range(20)]


async def test_sets_start_in_the_order_given_and_one_set_is_written_in_order():
    writer = Writer()
    wanted = [a_place("b", "s2"), a_place("a", "s1"), a_place("c", "s2")]
    await deliver(wanted, writer, in_flight=1)
    assert writer.names == ["s2:b", "s2:c", "s1:a"]


async def test_no_changes_cost_nothing():
    writer = Writer()
    assert await deliver([], writer) == Delivered()
    assert asyncio.get_running_loop().time() == 0.0


@pytest.mark.parametrize("failure", [UNKNOWN, CONFLICT], ids=["unknown", "conflict"])
async def test_an_unclear_placement_lets_none_more_start_and_awaits_those_in_flight(failure):
    writer = Writer(answers={"x1:x1": failure})
    done = await deliver([a_place(f"x{n}") for n in range(9)], writer, in_flight=3)
    assert writer.names == ["x0:x0", "x1:x1", "x2:x2"]
    assert done.aborted
    assert done.written == {"Place": 2}
    assert [item.set_id for item in done.failed] == ["x1"]


@pytest.mark.parametrize("failure", [UNKNOWN, CONFLICT, REFUSED], ids=["?", "conflict", "refused"])
async def test_any_other_write_that_fails_stops_nothing_but_its_own_object(failure):
    writer = Writer(answers={"GPUClass c1:c1": failure})
    done = await deliver([a_finalizer(f"c{n}") for n in range(4)], writer, in_flight=1)
    assert len(writer.names) == 4
    assert not done.aborted
    assert [item.failed.object for item in done.failed] == ["GPUClass c1"]


async def test_a_refusal_ends_its_own_set_alone_and_tells_what_is_left_of_it():
    writer = Writer(answers={"s1:b": REFUSED})
    wanted = [a_place("a", "s1"), a_place("b", "s1"), a_place("c", "s1"), a_place("d", "s2")]
    done = await deliver(wanted, writer, in_flight=1)
    assert writer.names == ["s1:a", "s1:b", "s2:d"]
    assert not done.aborted
    assert done.complete == ["s2"]
    (failed,) = done.failed
    assert failed.left == (wanted[1], wanted[2])
    assert (failed.is_refused, failed.is_gone) == (True, False)


async def test_a_claim_that_is_gone_is_neither_refused_nor_contended():
    writer = Writer(answers={"x:x": GONE})
    done = await deliver([a_place("x"), a_place("y")], writer, in_flight=1)
    assert not done.aborted
    (failed,) = done.failed
    assert (failed.is_refused, failed.is_gone) == (False, True)


async def test_what_cannot_be_created_for_lack_of_its_namespace_counts_as_refused():
    change = changes.WriteSettings(settings=None, exists=False, problem="")  # type: ignore[arg-type]  # unread
    writer = Writer(answers={name_of(change): GONE})
    (failed,) = (await deliver([change], writer)).failed
    assert failed.is_refused


async def test_a_lease_that_ran_out_stops_everything_after_what_is_in_flight():
    writer = Writer(answers={"x2:x2": Deposed("over")})
    with pytest.raises(Deposed):
        await deliver([a_place(f"x{n}") for n in range(9)], writer, in_flight=3)
    assert writer.names == ["x0:x0", "x1:x1"]
    assert asyncio.get_running_loop().time() == 1.0


async def test_an_explanation_that_is_contended_aborts_as_a_placement_does():
    claim = a_place("x").claim
    explain = Explain(claim=claim, refusals=(), at=AT, set_id="x")
    done = await deliver([explain, a_place("y")], Writer(answers={"x:x": CONFLICT}), in_flight=1)
    assert done.aborted
    assert done.written == {}
