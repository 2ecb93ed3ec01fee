"""Quarantine's delays; what it does to a pass is told in test_quarantine.py."""

from gpu.binder.quarantine import Quarantine


def a_quarantine() -> Quarantine:
    return Quarantine(first=5.0, most=18.0)


def test_each_further_refusal_doubles_the_delay_up_to_the_most():
    quarantine = a_quarantine()
    delays = [quarantine.refuse("tenant-a/x", now=100.0 * n) for n in range(4)]
    assert delays == [5.0, 10.0, 18.0, 18.0]


def test_a_refusal_that_judged_nothing_does_not_lengthen_the_delay():
    quarantine = a_quarantine()
    delays = [quarantine.refuse("tenant-a/x", now=100.0 * n, judged=n == 3) for n in range(4)]
    assert delays == [5.0, 5.0, 5.0, 10.0]


def test_a_set_is_held_until_its_delay_ends_and_no_longer():
    quarantine = a_quarantine()
    quarantine.refuse("tenant-a/x", now=100.0)
    assert quarantine.held(104.9) == {"tenant-a/x"}
    assert quarantine.held(105.0) == frozenset()


def test_one_set_does_not_lengthen_the_delay_of_another():
    quarantine = a_quarantine()
    quarantine.refuse("tenant-a/x", now=0.0)
    quarantine.refuse("tenant-a/x", now=5.0)
    assert quarantine.refuse("tenant-b/y", now=6.0) == 5.0
    assert quarantine.held(6.0) == {"tenant-a/x", "tenant-b/y"}


def test_an_accepted_set_begins_anew():
    quarantine = a_quarantine()
    quarantine.refuse("tenant-a/x", now=0.0)
    quarantine.accept("tenant-a/x")
    assert quarantine.held(0.0) == frozenset()
    assert quarantine.refuse("tenant-a/x", now=1.0) == 5.0


def test_the_next_end_is_the_earliest_and_none_when_nothing_is_held():
    quarantine = a_quarantine()
    assert quarantine.next_end(0.0) is None
    quarantine.refuse("tenant-a/x", now=0.0)
    quarantine.refuse("tenant-b/y", now=2.0)
    assert quarantine.next_end(1.0) == 5.0
    assert quarantine.next_end(5.0) == 7.0
    assert quarantine.next_end(7.0) is None


def test_a_set_that_came_out_and_is_not_refused_again_is_forgotten():
    quarantine = a_quarantine()
    quarantine.refuse("tenant-a/x", now=0.0)
    quarantine.refuse("tenant-a/x", now=0.0)
    assert quarantine.held(10.0) == frozenset()
    assert quarantine.held(11.0) == frozenset()
    assert quarantine.refuse("tenant-a/x", now=30.0) == 5.0


def test_a_set_that_comes_out_and_is_refused_again_stays_in_longer():
    quarantine = a_quarantine()
    quarantine.refuse("tenant-a/x", now=0.0)
    assert quarantine.held(5.0) == frozenset()
    assert quarantine.refuse("tenant-a/x", now=5.0) == 10.0
    assert quarantine.held(14.9) == {"tenant-a/x"}


def test_with_one_set_of_a_namespace_all_of_it_are_asked_and_none_of_another():
    quarantine = a_quarantine()
    quarantine.refuse("tenant-a/old", now=0.0)
    quarantine.refuse("tenant-a/old", now=0.0)
    quarantine.refuse("tenant-a/young", now=1.0)
    quarantine.refuse("tenant-b/y", now=2.0)
    assert quarantine.held(6.0) == {"tenant-b/y"}
    quarantine.accept("tenant-a/young")
    assert quarantine.held(6.5) == {"tenant-a/old", "tenant-b/y"}


def test_objects_that_are_no_claims_are_asked_each_by_itself():
    quarantine = a_quarantine()
    quarantine.refuse("GPUNode n1", now=0.0)
    quarantine.refuse("GPUNode n2", now=1.0)
    assert quarantine.held(5.0) == {"GPUNode n2"}


def test_the_count_is_of_those_that_are_in():
    quarantine = a_quarantine()
    quarantine.refuse("tenant-a/x", now=0.0)
    quarantine.refuse("tenant-a/y", now=1.0)
    assert [quarantine.count(now) for now in (4.9, 5.0, 6.0)] == [2, 1, 0]
