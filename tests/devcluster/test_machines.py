"""Machines: who gets which units, and in which words a pod is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devcluster.machines import Machine, Pace, Refusal, Units

R = "nvidia.com/GH100_H100"


@pytest.mark.parametrize(
    ("held", "wants", "allocatable", "wanted"),
    [
        pytest.param(0, {R: 4}, {R: 4}, None, id="fits-exactly"),
        pytest.param(0, {}, {R: 0}, None, id="asks-for-nothing"),
        pytest.param(0, {"other.com/x": 1}, {R: 1}, None, id="not-reported-is-passed-over"),
        pytest.param(
            4,
            {R: 2},
            {R: 4},
            Refusal(
                f"OutOf{R}",
                f"Node didn't have enough resource: {R}, requested: 2, used: 4, capacity: 4",
            ),
            id="as-it-was-recorded",
        ),
    ],
)
def test_a_pod_is_refused_for_what_the_node_reports(held, wants, allocatable, wanted):
    machine = Machine(name="n")
    machine.units.give("other", {R: held})
    assert machine.refuses(wants, allocatable) == wanted


@pytest.mark.parametrize(
    ("allocatable", "words"),
    [
        pytest.param(
            4,
            f"requested number of devices unavailable for {R}. Requested: 2, Available: 1",
            id="too-few",
        ),
        pytest.param(
            0, f"no healthy devices present; cannot allocate unhealthy devices {R}", id="none"
        ),
    ],
)
def test_a_plugin_refuses_in_its_own_words(allocatable, words):
    machine = Machine(name="n", plugin_judges=True)
    machine.units.give("other", {R: 3})
    assert machine.refuses({R: 2}, {R: allocatable}) == Refusal(
        "UnexpectedAdmissionError", f"Allocate failed due to {words}, which is unexpected"
    )


def test_a_refusal_on_command_is_for_one_pod_that_asks_for_devices():
    no = Refusal("Evil", "for a test")
    machine = Machine(name="n", refusals=[no])
    assert machine.refuses({}, {}) is None
    assert [machine.refuses({R: 1}, {R: 8}) for _ in range(2)] == [no, None]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("give"), st.sampled_from("abcdef"), st.integers(1, 4)),
            st.tuples(st.just("end"), st.sampled_from("abcdef"), st.just(0)),
        )
    )
)
def test_no_unit_is_ever_with_two_pods(steps):
    units, held = Units(), {}
    for what, uid, count in steps:
        if what == "end":
            units.take_back(uid)
            held.pop(uid, None)
        elif uid not in held:
            units.give(uid, {R: count})
            held[uid] = count
    given_out = [unit for uid in units.holders for unit in units.of(uid)[R]]
    assert len(given_out) == len(set(given_out)) == units.used(R) == sum(held.values())


def test_a_machine_that_is_slow_is_so_at_every_step():
    machine = Machine(name="n", pace=Pace(start=1, guest=2))
    machine.slow(10)
    assert (machine.pace.start, machine.pace.guest) == (10, 20)
