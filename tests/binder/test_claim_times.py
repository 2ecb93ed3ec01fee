"""A claim's times add up: over any sequence of changes, stored and read again after each.

The oracle keeps what the claim was between changes and sums durations; it shares no code with `spent`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gpu.binder import bodies, changes, results
from gpu.binder.changes import ClaimStatus, Detached
from gpu.model import spent
from gpu.model.refusals import NoFreeUnits
from gpu.objects import claims
from gpu.objects.claims import AttachedPod, Attachment, Cause, Displaced, GPUClaim, Phase, Spent
from gpu.units import ClassName, NodeName, Units
from tests.builders import START, a_claim, raw_claim
from tests.fakes import merging

N1 = NodeName("n1")
NO_ROOM = NoFreeUnits(ClassName("h100"), Units(1), Units(0))
STEPS = ("place", "lose", "attach", "end", "detach", "degrade", "recover", "explain", "refused")


def change_of(step: str, claim: GPUClaim, at: datetime) -> ClaimStatus | None:  # noqa: PLR0911 -- a table
    """The change of a step, or None where it makes no sense."""
    is_bound = claim.phase is Phase.BOUND
    match step:
        case "place":
            return changes.Place(claim=claim, node=N1, at=at, set_id="s")
        case "lose" if is_bound:
            left = Displaced(at=at, node=N1, cause=Cause.NODE_GONE)
            return changes.Lose(claim=claim, displaced=left, at=at, set_id="s", refusals=(NO_ROOM,))
        case "attach" | "end":
            pod = AttachedPod(uid="p", node=N1, ended=step == "end")
            return changes.Attach(
                claim=claim, attachment=Attachment(vmi="vm", pods=(pod,)), at=at, set_id="s"
            )
        case "detach" if claim.attached_to:
            return changes.Detach(claim=claim, why=Detached.ENDED, at=at, set_id="s")
        case "degrade" | "recover" if is_bound:
            cause = Cause.NODE_CORDONED if step == "degrade" else None
            return changes.Degrade(claim=claim, cause=cause, words="w", at=at, set_id="s")
        case "explain" if not is_bound:
            return changes.Explain(claim=claim, refusals=(NO_ROOM,), at=at, set_id="s")
        case "refused" if not is_bound:
            return changes.ExplainRefused(claim=claim, words="w", at=at, set_id="s")
        case _:
            return None


@dataclass
class Oracle:
    """What the claim is, and how long it has been what, in seconds."""

    at: float = 0.0
    phase: str = "Pending"
    used: bool = False
    degraded: bool = False
    sums: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("waiting", "held", "in_use", "lost", "degraded"), 0)
    )

    def pass_to(self, at: float) -> None:
        seconds, self.at = at - self.at, at
        self.sums[{"Pending": "waiting", "Bound": "held", "Lost": "lost"}[self.phase]] += seconds
        if self.phase == "Bound":
            self.sums["in_use"] += seconds * self.used
            self.sums["degraded"] += seconds * self.degraded

    def do(self, step: str) -> None:
        match step:
            case "place":
                self.phase, self.degraded = "Bound", False
            case "lose":
                self.phase, self.degraded = "Lost", False
            case "attach":
                self.used = True
            case "end" | "detach":
                self.used = False
            case "degrade" | "recover":
                self.degraded = step == "degrade"


def played(
    steps: list[tuple[str, float]],
) -> Iterator[tuple[GPUClaim, Oracle, float, int]]:
    """Play steps; yields the claim as stored, the oracle, the instant and the changes so far."""
    raw = raw_claim()
    oracle, now, count = Oracle(), 0.0, 0
    for step, wait in steps:
        now += wait
        claim = claims.decode(raw)
        change = change_of(step, claim, START + timedelta(seconds=now))
        if change is None:
            continue
        count += 1
        oracle.pass_to(now)
        oracle.do(step)
        patch = bodies.claim_status(change, "1", term=1)
        raw = merging.merge(raw, {"status": patch["status"]})
        stored = claims.decode(raw)
        assert stored.spent == results.after(change).spent
        yield stored, oracle, now, count


# In 64ths of a second: their sums are exact, as floats and as the microseconds of a datetime.
SECONDS = st.integers(0, 5000 * 64).map(lambda parts: parts / 64)
SEQUENCES = st.lists(
    st.tuples(
        st.sampled_from(STEPS), st.one_of(st.sampled_from([0.0, 0.5, 1.0, 59 + 63 / 64]), SECONDS)
    ),
    max_size=15,
)


@given(SEQUENCES)
def test_waiting_held_and_lost_add_up_to_the_age_at_every_change(steps):
    for stored, _, now, _ in played(steps):
        sums = stored.spent
        assert sums is not None
        assert sums.waiting + sums.held + sums.lost == int(now)
        assert sums.at == START + timedelta(seconds=int(now))
        assert 0 <= sums.in_use <= sums.held
        assert 0 <= sums.degraded <= sums.held


@given(SEQUENCES, SECONDS)
def test_each_time_is_what_passed_in_it_within_a_second_a_change(steps, more):
    for stored, oracle, now, count in played(steps):
        seen = spent.up_to(stored, START + timedelta(seconds=now + more))
        until = replace(oracle, sums=dict(oracle.sums))
        until.pass_to(now + more)
        shown = {name: getattr(seen, name) for name in until.sums}
        for name, seconds in until.sums.items():
            assert abs(shown[name] - seconds) <= count + 1, (name, shown, until.sums)


@given(SEQUENCES, SECONDS)
def test_a_clock_that_goes_back_takes_no_time_away_and_counts_none_twice(steps, back):
    for stored, _, now, _ in played(steps):
        assert stored.spent is not None
        early = START + timedelta(seconds=max(0.0, now - back))
        assert spent.up_to(stored, early) == stored.spent
        told = replace(stored, spent=spent.up_to(stored, early))
        later = START + timedelta(seconds=now + 100)
        assert spent.up_to(told, later) == spent.up_to(stored, later)


def test_before_the_first_write_a_claim_has_waited_since_it_was_made():
    assert spent.up_to(a_claim(), START + timedelta(seconds=90.9)) == Spent(
        at=START + timedelta(seconds=90), waiting=90
    )


def test_a_claim_in_use_and_degraded_at_once_counts_as_both_and_as_held_once():
    steps = [("place", 10.0), ("attach", 0.0), ("degrade", 0.0), ("lose", 60.0), ("place", 30.0)]
    *_, (stored, *_) = played(steps)
    assert stored.spent == Spent(
        at=START + timedelta(seconds=100), waiting=10, held=60, in_use=60, lost=30, degraded=60
    )
