"""Usage records: what each says, whose it is, and what is remembered of those that vanish."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import keys
from gpu.config import UsageRecordMonitor
from gpu.model import usage
from gpu.model.records import Records
from gpu.model.usage import Deletion, Memory, Record
from gpu.objects import workloads
from gpu.objects.claims import GPUClaim
from gpu.objects.meta import Condition
from gpu.objects.workloads import Workload
from gpu.units import ClaimName
from tests.builders import START, a_claim

DEGRADED = (Condition(type="Degraded", status="True", reason="NodeCordoned"),)
LONGEST = 253


def a_workload(
    name: str = "gpuclaim-c",
    *,
    owner: str = "claim-tenant-a-c",
    owner_kind: str = "GPUClaim",
    api: str = "gpu.cozystack.io/v1alpha1",
) -> Workload:
    owners = [{"apiVersion": api, "kind": owner_kind, "name": "c", "uid": owner}]
    return workloads.decode(
        {
            "metadata": {
                "name": name,
                "namespace": "tenant-a",
                "uid": f"uid-{name}",
                "labels": {"gpu.cozystack.io/class": "h100"},
                "ownerReferences": owners,
            },
            "status": {
                "kind": "gpuclaim",
                "type": "h100",
                "operational": True,
                "resources": {"gpu.cozystack.io/h100": "1"},
            },
        }
    )


def test_a_bound_claims_record_has_its_units_under_the_key_of_its_class():
    claim = a_claim(count=4, on="n1")
    assert usage.record_of(claim, anchored=False) == Record(
        name="gpuclaim-c",
        kind="gpuclaim",
        type="h100",
        resources=(("gpu.cozystack.io/h100", 4),),
        operational=True,
        labels=(("gpu.cozystack.io/class", "h100"),),
    )


@pytest.mark.parametrize(
    ("claim", "operational"),
    [
        pytest.param(a_claim(on="n1"), True, id="bound"),
        pytest.param(replace(a_claim(on="n1"), conditions=DEGRADED), False, id="degraded"),
        pytest.param(a_claim(lost="n1"), False, id="lost"),
        pytest.param(a_claim(on="n1", deleting=True), True, id="deleting and bound"),
    ],
)
def test_a_record_is_operational_while_the_claim_is_held_well(claim, operational):
    assert usage.record_of(claim, anchored=False).operational is operational


@pytest.mark.parametrize(
    ("claim", "holds"),
    [(a_claim(), False), (a_claim(on="n1"), True), (a_claim(lost="n1"), True)],
    ids=["pending", "bound", "lost"],
)
def test_what_holds_or_is_lost_has_a_record_and_an_order_has_none(claim, holds):
    assert usage.holds(claim) is holds


def test_labels_of_the_claim_are_copied_but_none_that_the_host_or_we_reserve():
    labels = {
        "team": "vision",
        "workloads.cozystack.io/monitor": "somebody",
        "workloads.cozystack.io/tier": "free",
        "gpu.cozystack.io/class": "cheap",
    }
    claim = a_claim(on="n1")
    claim = replace(claim, meta=replace(claim.meta, labels=labels))
    assert dict(usage.record_of(claim, anchored=False).labels) == {
        "team": "vision",
        "gpu.cozystack.io/class": "h100",
    }
    assert dict(usage.record_of(claim, anchored=True).labels) == {
        "team": "vision",
        "gpu.cozystack.io/class": "h100",
        "workloads.cozystack.io/monitor": keys.USAGE_MONITOR_NAME,
    }


NAMES = st.text("abc.-", min_size=1, max_size=LONGEST).map(lambda text: f"a{text}a"[:LONGEST])


@given(NAMES, NAMES)
def test_two_claims_never_share_a_record(one, other):
    names = {usage.name_of(ClaimName(one)), usage.name_of(ClaimName(other))}
    assert len(names) == len({one, other})
    assert all(len(name) <= LONGEST and name.startswith("gpuclaim-") for name in names)


@pytest.mark.parametrize("end", [".", "-", "a"])
def test_a_name_too_long_is_cut_to_one_that_is_valid_and_that_no_claim_can_have(end):
    cut = 227  # characters of the claim's name that are kept
    name = usage.name_of(ClaimName("b" * (cut - 1) + end + "c" * 20))
    assert len(name) == LONGEST
    assert name[-18:].startswith(f"{end}x")
    copied = ClaimName(name.removeprefix("gpuclaim-"))
    assert usage.name_of(copied) != name


def test_the_longest_name_that_is_kept_is_shorter_than_any_that_is_cut():
    assert len(usage.name_of(ClaimName("b" * 243))) == LONGEST - 1
    assert usage.name_of(ClaimName("b" * 243)) == "gpuclaim-" + "b" * 243
    assert len(usage.name_of(ClaimName("b" * 244))) == LONGEST


@pytest.mark.parametrize(
    ("workload", "owner"),
    [
        pytest.param(a_workload(), "claim-tenant-a-c", id="ours"),
        pytest.param(a_workload("pod-c"), "", id="another name"),
        pytest.param(a_workload(owner_kind="Pod"), "", id="owned by a pod"),
        pytest.param(a_workload(api="gpu.cozystack.io.evil/v1"), "", id="of another group"),
    ],
)
def test_a_record_is_ours_by_name_and_owner(workload, owner):
    assert usage.owner_of(workload) == owner


def differing() -> list[tuple[str, Record]]:
    good = usage.record_of(a_claim(on="n1"), anchored=False)
    return [
        ("kind", replace(good, kind="other")),
        ("type", replace(good, type="other")),
        ("units", replace(good, resources=(("gpu.cozystack.io/h100", 2),))),
        ("key", replace(good, resources=(("gpu.cozystack.io/l40", 1),))),
        ("operational", replace(good, operational=False)),
        ("labels", replace(good, labels=(*good.labels, ("team", "vision")))),
    ]


@pytest.mark.parametrize("record", [pytest.param(r, id=name) for name, r in differing()])
def test_a_record_that_differs_in_anything_does_not_say_it(record):
    assert usage.says(a_workload(), usage.record_of(a_claim(on="n1"), anchored=False))
    assert not usage.says(a_workload(), record)


def test_a_label_somebody_added_is_let_be():
    found = a_workload()
    found = replace(found, meta=replace(found.meta, labels={**found.meta.labels, "x": "y"}))
    assert usage.says(found, usage.record_of(a_claim(on="n1"), anchored=False))


# What is remembered of records that vanish.

UID = "claim-tenant-a-c"
HELD = a_claim(on="n1")


def look(
    old: Memory,
    at: float,
    *,
    there: bool,
    claim: GPUClaim | None = HELD,
    ending: frozenset[str] = frozenset(),
) -> Memory:
    return usage.remember(
        old,
        alive=Records().living((claim,) if claim else (), ending),
        owners=[usage.owner_of(a_workload())] if there else [],
        now=START + timedelta(seconds=at),
    )


def test_a_record_that_vanishes_under_a_living_claim_is_a_deletion_once_a_second_has_passed():
    seen = look(Memory(), 0, there=True)
    assert seen == Memory(stored=frozenset({UID}))
    missed = look(seen, 5, there=False)
    assert missed == Memory(missed={UID: START + timedelta(seconds=5)})
    assert look(missed, 5.5, there=False) == missed
    gone = look(missed, 6, there=False)
    assert gone == Memory(
        deletions={UID: Deletion(times=1, at=START + timedelta(seconds=6))}, seen=1
    )
    assert look(gone, 7, there=False) == gone


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({"claim": None}, id="the claim is gone"),
        pytest.param({"claim": a_claim(on="n1", deleting=True)}, id="the claim is going"),
        pytest.param({"ending": frozenset({"tenant-a"})}, id="the namespace is going"),
    ],
)
def test_a_record_that_goes_with_its_claim_is_no_deletion(after):
    seen = look(Memory(), 0, there=True)
    missed = look(seen, 5, there=False)
    assert look(missed, 10, there=False, **after) == Memory()


def test_a_record_that_never_was_is_not_missed():
    assert look(look(Memory(), 0, there=False), 10, there=False) == Memory()


def test_a_record_missed_by_a_watch_that_lagged_is_no_deletion():
    missed = look(look(Memory(), 0, there=True), 5, there=False)
    assert look(missed, 9, there=True) == Memory(stored=frozenset({UID}))


@pytest.mark.parametrize(
    ("times", "seconds"), [(1, 0), (2, 5), (3, 20), (4, 80), (6, 1280), (7, 3600), (90, 3600)]
)
def test_a_record_deleted_again_and_again_is_made_anew_ever_more_seldom(times, seconds):
    assert Deletion(times=times, at=START).again_at == START + timedelta(seconds=seconds)


def test_a_record_that_stays_for_ten_minutes_is_no_longer_thought_to_be_fought_over():
    fought = Memory(deletions={UID: Deletion(times=7, at=START)}, seen=7)
    hour = 3600
    still = look(fought, hour + 599, there=True)
    assert usage.fought_over(still) == 1
    assert look(fought, hour + 600, there=True) == Memory(stored=frozenset({UID}), seen=7)
    assert usage.fought_over(look(fought, hour + 600, there=False)) == 1


def test_records_are_said_to_be_fought_over_from_the_third_deletion_on():
    def memory(times: int) -> Memory:
        return Memory(deletions={UID: Deletion(times=times, at=START)})

    assert [usage.fought_over(memory(times)) for times in (1, 2, 3)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("mode", "marked", "deleted", "anchored"),
    [
        ("none", True, True, False),
        ("anchor", False, False, True),
        ("auto", False, False, False),
        ("auto", True, False, True),
        ("auto", False, True, True),
    ],
)
def test_records_are_anchored_as_asked_or_once_a_deletion_was_seen(mode, marked, deleted, anchored):
    memory = Memory(deletions={UID: Deletion(times=1, at=START)} if deleted else {})
    found = usage.is_anchored(UsageRecordMonitor(mode), marked=marked, memory=memory)
    assert found is anchored


def test_a_missing_record_is_thought_of_again_when_it_may_be_made():
    later = START + timedelta(seconds=20)
    fought = Memory(deletions={UID: Deletion(times=3, at=START)})
    assert usage.next_look(fought, START) == later
    assert usage.next_look(fought, later) is None
    assert usage.next_look(replace(fought, stored=frozenset({UID})), START) is None
    missed = Memory(missed={UID: START})
    assert usage.next_look(missed, START) == START + timedelta(seconds=1)
    assert usage.next_look(replace(missed, deletions=fought.deletions), START) == START + timedelta(
        seconds=1
    )
