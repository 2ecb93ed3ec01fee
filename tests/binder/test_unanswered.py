"""Writes that stay without an answer: one set's delay nobody else, an API server's put nobody in quarantine."""

import pytest

from gpu.binder.quarantine import Quarantine
from gpu.cluster import errors
from gpu.objects import kinds
from tests.binder import raws
from tests.binder.rig import Rig
from tests.fakes.cluster import Write

LOST = errors.Unreachable("no answer within 5 s", sent=True)
BUSY = errors.from_status({"code": 503, "reason": "ServiceUnavailable", "message": "busy"})
ROOT = raws.a_tenant("tenant-root")


def placement_of(*tenants: str):
    def which(write: Write) -> bool:
        return write.key.namespace in tenants and "nodeName" in write.body.get("status", {})

    return which


def a_rig(tenants="ab", *, units=8, **more) -> Rig:
    """One order of each tenant, that of the first letter the oldest."""
    rig = Rig(**more)
    names = [f"tenant-{letter}" for letter in tenants]
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node(units=units)],
        namespaces=[ROOT, *map(raws.a_tenant, names)],
        claims=[raws.a_claim(tenant=name, at=at) for at, name in enumerate(names)],
    )
    return rig


def told(rig):
    (binder,) = rig.cluster._objects[kinds.GPU_BINDERS].values()
    found = {it["type"]: it for it in binder["status"].get("conditions", [])}
    return found["WritesAnswered"]


@pytest.mark.parametrize("error", [LOST, BUSY], ids=["timeout", "5xx"])
async def test_a_set_whose_writes_stay_unanswered_is_left_alone_and_the_others_are_served(error):
    rig = a_rig()
    rig.cluster.refuse(placement_of("tenant-a"), error)
    rig.store(claims=[raws.a_claim("late", tenant="tenant-b", at=9)])
    reports = [await rig.once() for _ in range(3)]
    assert [it.aborted for it in reports] == [True] * 3
    assert [it.unanswered for it in reports] == [0, 0, 1]
    report = await rig.once()
    assert not report.aborted
    assert rig.placed() == {"tenant-b/x": "n1", "tenant-b/late": "n1"}
    condition = told(rig)
    assert (condition["status"], condition["reason"]) == ("False", "NoAnswer")
    assert "tenant-a/x" in condition["message"]
    assert report.quarantine_ends == pytest.approx(rig.clock.monotonic() + 5)


async def test_it_is_asked_again_ever_more_seldom_and_costs_one_pass_each_time():
    rig = a_rig()
    asked: list[float] = []
    which = placement_of("tenant-a")

    def noted(write):
        if which(write):
            asked.append(rig.clock.monotonic())
            return True
        return False

    rig.cluster.refuse(noted, LOST)
    for _ in range(80):
        await rig.once()
        rig.clock.advance(1)
    assert asked == [0, 1, 2, 7, 17, 37, 77]


async def test_once_it_is_answered_it_is_as_any_other():
    rig = a_rig()
    mend = rig.cluster.refuse(placement_of("tenant-a"), LOST)
    for _ in range(4):
        await rig.once()
    mend()
    rig.clock.advance(5)
    reports = [await rig.once(), *await rig.until_echo()]
    assert rig.placed()["tenant-a/x"] == "n1"
    assert (reports[-1].quarantined, reports[-1].unanswered) == (0, 0)
    assert told(rig)["status"] == "True"
    rig.store(claims=[raws.a_claim("next", tenant="tenant-a", at=20)])
    rig.cluster.refuse(placement_of("tenant-a"), LOST)
    assert [(await rig.once()).unanswered for _ in range(2)] == [0, 0]


async def test_an_api_server_that_answers_nobody_puts_nobody_in_quarantine():
    rig = a_rig("abcde")
    mend = rig.cluster.refuse(placement_of(*(f"tenant-{it}" for it in "abcde")), LOST)
    for _ in range(6):
        report = await rig.once()
        assert (report.aborted, report.quarantined) == (True, 0)
    mend()
    await rig.once()
    assert len(rig.placed()) == 5


async def test_several_sets_are_told_from_the_server_by_those_that_are_answered():
    rig = a_rig("abcdj")
    rig.cluster.refuse(placement_of("tenant-a", "tenant-b", "tenant-c", "tenant-d"), LOST)
    for at in range(6):
        rig.store(claims=[raws.a_claim(f"next{at}", tenant="tenant-j", at=90 + at)])
        await rig.once()
    assert rig.passes.quarantine.silent() == {f"tenant-{it}/x" for it in "abcd"}
    assert len(rig.placed()) == 7, "all of tenant-j"


async def test_where_what_was_written_cannot_be_known_either_it_is_the_servers():
    rig = a_rig()
    rig.cluster.refuse(placement_of("tenant-a"), LOST)
    for _ in range(2):
        await rig.once()
    mend = rig.cluster.refuse(lambda write: bool(write.body["metadata"].get("labels")), LOST)
    with pytest.raises(errors.ApiError):
        await rig.once()
    mend()
    assert [(await rig.once()).unanswered for _ in range(3)] == [0, 0, 1]


@pytest.mark.parametrize("stored", [1, 2, 3], ids=lambda number: f"stored at attempt {number}")
async def test_no_unit_is_given_twice_whichever_of_the_lost_writes_was_stored(stored):
    """What it holds is read, and its version raised, before anybody else is given anything."""
    rig = a_rig(units=1)
    send, tries = rig.cluster.patch, [0]

    async def patch(kind, name, body, namespace=None, **how):
        if namespace != "tenant-a" or "nodeName" not in body.get("status", {}):
            return await send(kind, name, body, namespace, **how)
        tries[0] += 1
        if tries[0] == stored:
            await send(kind, name, body, namespace, **how)
        raise LOST

    rig.cluster.patch = patch
    for _ in range(8):
        await rig.once()
    assert rig.placed() == {"tenant-a/x": "n1"}


async def test_a_lost_write_that_arrives_when_the_unit_is_anothers_is_refused():
    rig = a_rig(units=1)
    send, late = rig.cluster.patch, []

    async def patch(kind, name, body, namespace=None, **how):
        if namespace != "tenant-a" or "nodeName" not in body.get("status", {}):
            return await send(kind, name, body, namespace, **how)
        late.append(lambda: send(kind, name, body, namespace, **how))
        raise LOST

    rig.cluster.patch = patch
    for _ in range(4):
        await rig.once()
    assert rig.placed() == {"tenant-b/x": "n1"}
    for arrive in late:
        with pytest.raises(errors.Conflict):
            await arrive()
    assert rig.placed() == {"tenant-b/x": "n1"}


async def test_writes_of_other_kinds_in_its_namespace_prove_nothing():
    rig = a_rig()
    rig.cluster.refuse(placement_of("tenant-a"), LOST)
    for at in range(3):
        made = raws.a_claim(f"new{at}", tenant="tenant-a", at=90 + at)  # gets a finalizer first
        rig.store(claims=[made])
        report = await rig.once()
        assert report.written["AddFinalizer"]
    assert report.unanswered > 0


def test_a_stranger_in_between_breaks_the_row():
    quarantine = Quarantine(first=5.0, most=300.0)
    for unknown, stored in ((["t/x"], []), (["t/x"], []), ([], ["t/x"]), (["t/x"], [])):
        assert quarantine.unanswered(unknown, stored, 0.0) == frozenset()
    assert quarantine.unanswered(["t/x"], [], 0.0) == frozenset()
    assert quarantine.unanswered(["t/x"], [], 0.0) == {"t/x"}


def test_what_many_have_in_common_counts_against_none():
    quarantine = Quarantine(first=5.0, most=300.0)
    for _ in range(2):
        quarantine.unanswered(["t/x"], [], 0.0)
    many = [f"{tenant}/x" for tenant in "abcd"]
    assert quarantine.unanswered(many, [], 0.0) == frozenset()
    assert quarantine.unanswered(["t/x"], [], 0.0) == frozenset()
