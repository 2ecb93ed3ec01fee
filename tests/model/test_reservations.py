"""What is reserved: parsed, formatted, merged, over in time, and never more than so much."""

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.model import reservations
from gpu.model.reservations import KEPT, LIFE, MOST, Book, Entry
from tests.builders import START, budget

CHILD = "tenant-a-b"


def entry(at=0.0, after=10, **units):
    return Entry(until=START + timedelta(seconds=at) + LIFE, after=after, units=budget(**units))


def later(seconds):
    return START + timedelta(seconds=seconds)


def book(**entries):
    return Book({f"tenant-a-{name}": one for name, one in entries.items()})


amounts = st.dictionaries(
    st.sampled_from(["gpu.cozystack.io/h100", "gpu.cozystack.io/total", "nvidia.com/X"]),
    st.integers(0, 2**63 - 1),
)


@given(amounts, st.integers(0, 2**63), st.integers(0, 60))
def test_what_is_written_is_read(units, after, seconds):
    one = Entry(until=later(seconds), after=after, units=units)
    assert reservations.parse({CHILD: reservations.text(one)}, START) == Book({CHILD: one})


BROKEN = {
    "no text": 5,
    "no JSON": "{",
    "deep": "[" * 100_000,
    "no table": "[]",
    "no end": '{"after":1,"units":{}}',
    "odd end": '{"until":"soon","after":1,"units":{}}',
    "end without zone": '{"until":"2026-01-01T00:00:30","after":1,"units":{}}',
    "no version": '{"until":"2026-01-01T00:00:30+00:00","units":{}}',
    "negative": '{"until":"2026-01-01T00:00:30+00:00","after":1,"units":{"a/b":-1}}',
    "fraction": '{"until":"2026-01-01T00:00:30+00:00","after":1,"units":{"a/b":1.5}}',
    "truth": '{"until":"2026-01-01T00:00:30+00:00","after":true,"units":{}}',
    "units no table": '{"until":"2026-01-01T00:00:30+00:00","after":1,"units":[]}',
}


@pytest.mark.parametrize("stored", BROKEN.values(), ids=BROKEN)
def test_a_broken_entry_is_left_out_and_gone_with_the_next_write(stored):
    found = reservations.parse({"tenant-a-x": stored, CHILD: reservations.text(entry())}, START)
    assert found == Book({CHILD: entry()}, frozenset({"tenant-a-x"}))
    assert reservations.changes(found, CHILD, entry(), START)["tenant-a-x"] is None


@pytest.mark.parametrize("data", [None, [], "text", 3], ids=str)
def test_data_that_is_no_table_holds_nothing(data):
    assert reservations.parse(data, START) == Book()


def test_an_end_far_ahead_is_drawn_near():
    far = Entry(until=later(10**6), after=1, units={})
    (found,) = reservations.parse({CHILD: reservations.text(far)}, START).entries.values()
    assert found.until == START + 2 * LIFE


@pytest.mark.parametrize(
    ("now", "seen", "counts"),
    [
        (0, 0, True),
        (29.9, 10, True),
        (30, 0, False),
        (0, 11, False),
    ],
    ids=["new", "an older version seen", "over", "a later version seen"],
)
def test_an_entry_counts_until_it_is_over_or_the_child_was_seen_later(now, seen, counts):
    found = book(b=entry(h100=2)).in_force(later(now), {CHILD: seen})
    assert found == ({CHILD: budget(h100=2)} if counts else {})


def test_a_second_write_of_a_child_keeps_the_larger_amounts_of_what_still_counts():
    held = book(b=entry(h100=5, gold=1))
    one = reservations.entered(
        held, CHILD, budget(h100=3, total=4), after=20, now=later(5), seen={}
    )
    assert one == entry(5, after=20, h100=5, gold=1, total=4)
    done = reservations.entered(
        held, CHILD, budget(h100=3), after=20, now=later(5), seen={CHILD: 11}
    )
    assert done.units == budget(h100=3)


def test_what_is_over_is_kept_a_while_for_slow_clocks_then_dropped():
    held = book(b=entry(), c=entry())
    kept = later(LIFE.total_seconds() + KEPT.total_seconds())
    assert set(reservations.changes(held, CHILD, entry(), kept)) == {CHILD}
    after = kept + timedelta(seconds=1)
    assert reservations.changes(held, CHILD, entry(), after)["tenant-a-c"] is None


def test_so_many_children_at_once_and_no_more():
    full = Book({f"tenant-a-{number}": entry(h100=1) for number in range(MOST)})
    assert reservations.is_full(full, "tenant-a", CHILD, entry(), START)
    assert not reservations.is_full(full, "tenant-a", "tenant-a-1", entry(), START)
    assert not reservations.is_full(full, "tenant-a", CHILD, entry(), later(LIFE.total_seconds()))


def test_one_who_changes_many_below_keeps_nobody_else_from_being_changed():
    many = Book({f"tenant-a-x-{number}": entry(h100=1) for number in range(MOST)})
    for tenant in ("tenant-root", "tenant-a"):
        assert reservations.is_full(many, tenant, "tenant-a-x-new", entry(), START)
        assert not reservations.is_full(many, tenant, "tenant-b-new", entry(), START)
    assert not reservations.is_full(many, "tenant-a", "tenant-a-new", entry(), START)
    assert not reservations.is_full(many, "tenant-root", "tenant-c", entry(), START)


def test_no_configmap_grows_past_what_kubernetes_stores():
    wide = Entry(until=START + LIFE, after=1, units={f"a.io/{n:0250}": 1 for n in range(100)})
    stored = {f"tenant-a-{n}": wide for n in range(30)}
    assert reservations.is_full(Book(stored), "tenant-a", CHILD, entry(), START)


def test_one_tenant_below_fills_a_share_of_it_alone():
    wide = Entry(until=START + LIFE, after=1, units={f"a.io/{n:0250}": 1 for n in range(100)})
    stored = {f"tenant-a-{n}": wide for n in range(3)}
    assert reservations.is_full(Book(stored), "tenant-root", "tenant-a-9", entry(), START)
    assert not reservations.is_full(Book(stored), "tenant-root", "tenant-b-9", entry(), START)


def test_an_entry_is_readable_by_a_person():
    assert json.loads(reservations.text(entry(h100=2))) == {
        "after": 10,
        "units": {"gpu.cozystack.io/h100": 2},
        "until": "2026-01-01T00:00:30+00:00",
    }
