"""Events: one per change of reason, about the right object, and nothing for what is no news."""

from dataclasses import replace

import pytest

from gpu.binder import changes, news, results
from gpu.binder.changes import (
    AddFinalizer,
    Attach,
    Degrade,
    DeleteClaim,
    Detach,
    Detached,
    DropFinalizer,
    DropRecord,
    EndGuest,
    Explain,
    ExplainRefused,
    How,
    Lose,
    Place,
    ReportBinder,
    ReportClass,
    WriteSettings,
)
from gpu.model import lasting
from gpu.model.refusals import NoFreeUnits, NoNodeEligible
from gpu.objects import binders
from gpu.objects.claims import Attachment, Cause, Displaced, Phase
from gpu.objects.kinds import GPU_CLAIMS, GPU_CLASSES
from gpu.objects.meta import Condition, ObjectKey
from gpu.settings import Settings
from tests.binder import raws
from tests.binder.rig import Rig
from tests.builders import START, a_claim, a_class
from tests.fakes.recorder import HeardRecorder

PENDING = a_claim("x", count=2)
BOUND = a_claim("x", count=2, on="n1")
LOST = a_claim("x", count=2, lost="n1")
SHORT = NoFreeUnits("h100", 2, 0)
NOWHERE = NoNodeEligible("h100")
LEFT = Displaced(at=START, node="n1", cause=Cause.NODE_CORDONED)
AT = {"at": START, "set_id": "tenant-a/x"}


def told(change):
    """`Kind key Reason: note` of each Event; `!` marks a warning."""
    recorder = HeardRecorder()
    for item in news.of(change):
        item.send(recorder)
    return [f"{head}: {note}" for head, note in zip(recorder.heard, recorder.notes, strict=True)]


def after(change):
    """The claim as it stands once the change is stored."""
    return results.after(change)


def waiting(claim=PENDING, why=SHORT):
    return after(Explain(claim=claim, refusals=(why,), **AT))


def degraded(cause=Cause.NODE_CORDONED, words="its node is cordoned"):
    return Degrade(claim=BOUND, cause=cause, words=words, **AT)


ON = "GPUClaim tenant-a/x"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (Place(claim=PENDING, node="n1", **AT), f"{ON} Placed: 2 units of h100 held on node n1"),
        (
            Place(claim=BOUND, node="n2", how=How.MOVED, displaced=LEFT, **AT),
            f"{ON} Moved: 2 units of h100 held on node n2, no longer on n1: its node is cordoned",
        ),
        (
            Place(claim=LOST, node="n2", how=How.REBOUND, **AT),
            f"{ON} Rebound: 2 units of h100 held on node n2",
        ),
        (
            Place(claim=BOUND, node="n2", how=How.GATHERED, **AT),
            f"{ON} Gathered: 2 units of h100 held on node n2",
        ),
        (
            Lose(claim=BOUND, displaced=LEFT, refusals=(NOWHERE,), **AT),
            f"{ON} Lost!: its units are lost: its node is cordoned",
        ),
        (degraded(), f"{ON} NodeCordoned!: its node is cordoned"),
        (
            Explain(claim=PENDING, refusals=(SHORT,), **AT),
            f"{ON} NoFreeUnits!: {lasting.words(SHORT)}",
        ),
        (
            Explain(claim=waiting(), refusals=(NOWHERE, SHORT), **AT),
            f"{ON} NoNodeEligible!: {lasting.words(NOWHERE)}; {lasting.words(SHORT)}",
        ),
        (
            ExplainRefused(claim=PENDING, words="a policy says no", **AT),
            (
                f"{ON} WriteRefused!: the API server refuses to store the placement, which is tried "
                "again: a policy says no"
            ),
        ),
        (
            ExplainRefused(claim=BOUND, words="no", **AT),
            (
                f"{ON} WriteRefused!: the API server refuses to store the placement, which is tried "
                "again: no"
            ),
        ),
        (
            Degrade(claim=after(degraded()), cause=None, words="", **AT),
            f"{ON} Recovered: its node keeps it again: no more NodeCordoned",
        ),
        (
            Detach(claim=BOUND, why=Detached.ENDED, evidence=("pod p has ended",), **AT),
            f"{ON} Detached: its VM is over (GuestEnded): pod p has ended",
        ),
        (
            Detach(claim=BOUND, why=Detached.EXPIRED, **AT),
            f"{ON} Detached: its VM is over (NeverStarted): no pod used it",
        ),
        (
            DeleteClaim(claim=PENDING, set_id="tenant-a/x"),
            f"{ON} TemplateClaimDeleted: it was made for a VM that never came or is over",
        ),
        (
            EndGuest(
                vmi=ObjectKey("tenant-a", "vm"),
                uid="u",
                version="1",
                node="n1",
                cause=Cause.UNITS_MISSING,
                set_id="tenant-a/x",
            ),
            (
                "VirtualMachineInstance tenant-a/vm GuestEnded!: deleted, so that its GPUs are held "
                "elsewhere: its node serves fewer units than are held there"
            ),
        ),
        (
            DropRecord(key=ObjectKey("tenant-a", "gpuclaim-x"), uid="u"),
            "Workload tenant-a/gpuclaim-x UsageRecordDropped: the claim it was kept for is gone",
        ),
    ],
)
def test_a_stored_change_is_told_once_with_its_words(change, line):
    assert told(change) == [line]


def let_go(kind, evidence=()):
    return DropFinalizer(
        kind=kind,
        key=ObjectKey("tenant-a", "x"),
        uid="u",
        version="1",
        finalizers=(),
        evidence=evidence,
    )


@pytest.mark.parametrize(
    ("kind", "evidence", "note"),
    [
        (GPU_CLAIMS, (), "its units are given back: no pod used it"),
        (GPU_CLAIMS, ("pod a", "pod b"), "its units are given back: pod a; pod b"),
        (
            GPU_CLAIMS,
            tuple("abcdefghij"),
            "its units are given back: a; b; c; d; e; f; g; h; and 2 more pods",
        ),
        (GPU_CLASSES, (), "no claim names it any more"),
    ],
)
def test_a_release_says_by_what_evidence(kind, evidence, note):
    (found,) = news.of(let_go(kind, evidence))
    assert (found.regarding, found.reason, found.note) == (kind, "Released", note)


@pytest.mark.parametrize(
    "change",
    [
        Explain(claim=waiting(), refusals=(replace(SHORT, wanted=3),), **AT),
        Explain(claim=waiting(), refusals=(SHORT, NOWHERE), **AT),
        replace(degraded(words="in other words"), claim=after(degraded())),
        Degrade(claim=BOUND, cause=None, words="", **AT),
        ExplainRefused(
            claim=after(ExplainRefused(claim=PENDING, words="no", **AT)), words="still no", **AT
        ),
        Attach(claim=BOUND, attachment=Attachment(vmi="vm"), **AT),
        AddFinalizer(
            kind=GPU_CLAIMS, key=ObjectKey("a", "x"), uid="u", version="1", finalizers=("f",)
        ),
        WriteSettings(settings=Settings(), exists=True, problem="edited"),
    ],
)
def test_what_changes_no_reason_is_no_news(change):
    assert news.of(change) == ()


def test_a_claim_that_waited_is_told_when_it_waits_for_something_else_and_back_again():
    first = waiting()
    second = Explain(claim=first, refusals=(NOWHERE,), **AT)
    third = Explain(claim=after(second), refusals=(SHORT,), **AT)
    assert [item.reason for change in (second, third) for item in news.of(change)] == [
        "NoNodeEligible",
        "NoFreeUnits",
    ]


def test_a_lost_claim_is_told_what_it_waits_for_only_when_that_changes():
    lost = after(Lose(claim=BOUND, displaced=LEFT, refusals=(NOWHERE,), **AT))
    assert lost.phase is Phase.LOST
    assert news.of(Explain(claim=lost, refusals=(NOWHERE, SHORT), **AT)) == ()
    (found,) = news.of(Explain(claim=lost, refusals=(SHORT,), **AT))
    assert found.reason == "NoFreeUnits"


# Classes and GPUBinder.


def a_report(stored, ready):
    offer = a_class()
    offer = replace(offer, status=replace(offer.status, conditions=stored))
    return ReportClass(
        offer=offer,
        capacity=0,
        allocatable=0,
        held=0,
        free=0,
        nodes=(),
        node_count=0,
        conditions=ready,
    )


def ready(status, reason, message="words"):
    return Condition(type="Ready", status=status, reason=reason, message=message)


@pytest.mark.parametrize(
    ("stored", "shown", "lines"),
    [
        ((), (ready("True", "Served"),), ["GPUClass h100 Served: words"]),
        ((), (ready("False", "NoNodeServes"),), ["GPUClass h100 NoNodeServes!: words"]),
        (
            (ready("True", "Served"),),
            (ready("False", "Retired"),),
            ["GPUClass h100 Retired!: words"],
        ),
        ((ready("True", "Served"),), (ready("True", "Served", "others"),), []),
        ((), (Condition(type="Permitted", status="False", reason="NotListed"),), []),
    ],
)
def test_a_class_is_told_when_it_takes_orders_or_stops(stored, shown, lines):
    assert told(a_report(stored, shown)) == lines


def about(kind, status, reason):
    return Condition(type=kind, status=status, reason=reason, message="words")


@pytest.mark.parametrize(
    ("stored", "shown", "lines"),
    [
        ((), about("SettingsCurrent", "True", "Written"), []),
        (
            (),
            about("SettingsCurrent", "False", "WriteRefused"),
            ["GPUBinder binder WriteRefused!: SettingsCurrent: words"],
        ),
        (
            (about("SettingsCurrent", "False", "WriteRefused"),),
            about("SettingsCurrent", "True", "Written"),
            ["GPUBinder binder Written: SettingsCurrent: words"],
        ),
        ((), about("LossesHeldBack", "False", "NoneHeldBack"), []),
        (
            (),
            about("LossesHeldBack", "True", "GuardReached"),
            ["GPUBinder binder GuardReached!: LossesHeldBack: words"],
        ),
        (
            (about("LossesHeldBack", "True", "GuardReached"),),
            about("LossesHeldBack", "True", "GuardReached"),
            [],
        ),
        ((), about("PlansChecked", "False", "PlanRefused"), []),
    ],
)
def test_gpubinder_is_told_what_is_wrong_and_when_it_is_well_again(stored, shown, lines):
    binder = replace(binders.decode({"metadata": {"name": "binder"}}), conditions=stored)
    report = ReportBinder(binder=binder, settings=Settings(), conditions=(shown,))
    assert told(report) == lines


def test_a_refused_plan_is_told_on_gpubinder():
    found = news.plan_refused(ObjectKey("", "binder"), "u", "phase orders: BookedTwice: n1")
    assert (found.regarding.kind, found.reason, found.warning) == ("GPUBinder", "PlanRefused", True)
    assert found.note.endswith("phase orders: BookedTwice: n1")


# Passes.


def a_rig(count):
    rig = Rig()
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node(units=1)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=[raws.a_claim(f"c{index:02d}", at=index) for index in range(count)],
    )
    rig.passes.recorder = HeardRecorder()
    return rig


async def test_waiting_orders_are_told_once_and_one_bind_tells_of_one_claim():
    rig = a_rig(20)
    await rig.until_still()
    heard = rig.passes.recorder.heard
    assert sum(line.endswith("NoFreeUnits!") for line in heard) == 19
    assert [line for line in heard if line.endswith("Placed")] == ["GPUClaim tenant-a/c00 Placed"]
    heard.clear()
    await rig.cluster.delete(raws.kind_of("claims"), "c00", "tenant-a")
    await rig.until_still()
    assert [line for line in heard if "GPUClaim" in line] == [
        "GPUClaim tenant-a/c00 Released",
        "GPUClaim tenant-a/c01 Placed",
    ]
    heard.clear()
    for _ in range(3):
        rig.clock.advance(60)
        await rig.once()
    assert heard == []


async def test_nothing_is_told_that_was_not_stored():
    rig = a_rig(1)
    rig.cluster.down = True
    await rig.passes.once()
    assert rig.passes.recorder.heard == []


def test_every_change_of_a_claims_status_is_considered():
    """A new one must be thought about here, whether it is news or not."""
    considered = {
        Place,
        Lose,
        Attach,
        Detach,
        Degrade,
        Explain,
        changes.ExplainGated,
        changes.ExplainKept,
        ExplainRefused,
        changes.Reject,
        changes.Answer,  # in test_news_requests
        changes.ForgetRequest,
    }
    assert set(changes.ClaimStatus.__args__) == considered
