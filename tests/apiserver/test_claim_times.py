"""Times of claims as metrics: what is summed, in which unit, and that what is gone is not shown."""

from datetime import timedelta

from prometheus_client import CollectorRegistry

from apiserver.claim_times import ClaimTimes
from tests.builders import START, a_claim, instant


def shown(times: ClaimTimes, name: str) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(times)
    return {
        tuple(sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def counted(at: float, *claims) -> ClaimTimes:
    times = ClaimTimes()
    times.count(claims, START + timedelta(seconds=at))
    return times


def sums(at: float = 0, **seconds: int):
    names = ("waiting", "held", "inUse", "lost", "degraded")
    stored = {f"{name}Seconds": seconds.get(name, 0) for name in names}
    return {"spent": {"at": instant(at), **stored}}


def test_seconds_are_summed_times_units_by_tenant_and_class_up_to_now():
    one = a_claim("one", count=4, on="n1", status=sums(100, waiting=40, held=60, inUse=20))
    other = a_claim("other", count=2, lost="n1", status=sums(100, held=90, lost=10))
    theirs = a_claim("theirs", tenant="tenant-b", class_name="l40", at=70)
    found = shown(counted(110, one, other, theirs), "cozystack_gpu_unit_seconds")
    assert {labels: value for labels, value in found.items() if value} == {
        ("tenant-a", "h100", "waiting"): 4 * 40,
        ("tenant-a", "h100", "held"): 4 * 70 + 2 * 90,
        ("tenant-a", "h100", "in_use"): 4 * 20,
        ("tenant-a", "h100", "lost"): 2 * 20,
        ("tenant-b", "l40", "waiting"): 40,
    }
    assert len(found) == 10


def test_the_oldest_that_waits_is_shown_by_class_lost_ones_among_them():
    times = counted(
        110,
        a_claim("young", at=70),
        a_claim("lost", at=30, lost="n1"),
        a_claim("bound", at=0, on="n1"),
    )
    assert shown(times, "cozystack_gpu_oldest_waiting_seconds") == {("h100",): 80}


def test_claims_that_are_gone_are_shown_no_longer():
    times = counted(110, a_claim())
    assert shown(times, "cozystack_gpu_unit_seconds") != {}
    times.count([], START)
    assert shown(times, "cozystack_gpu_unit_seconds") == {}
    assert shown(times, "cozystack_gpu_oldest_waiting_seconds") == {}


def test_before_the_first_count_the_names_are_known():
    registry = CollectorRegistry()
    registry.register(ClaimTimes())
    assert [family.name for family in registry.collect()] == [
        "cozystack_gpu_unit_seconds",
        "cozystack_gpu_oldest_waiting_seconds",
    ]
