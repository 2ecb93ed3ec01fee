"""The soak at CI's size, and that its judge is not blind: a sabotaged binder is found out."""

import sys

import pytest

from gpu.admission import requested
from gpu.binder.phases import gates, release
from soak import campaign, failures, loops, shrink, site, steps
from soak.failures import Failure
from soak.run import Run
from soak.steps import Step

STEPS = 20_000
FULL = 60_000
FEW = 900


def found_in(seed, most):
    """The first failure among clusters of a seed, shrunk."""
    for number in range(most):
        totals = campaign.one_cluster(f"{seed}-{number}", campaign.STEPS_OF_A_CLUSTER, 5.0)
        if totals.failures:
            return totals.failures[0]
    pytest.fail("the judge saw nothing")


@pytest.mark.long
@pytest.mark.timeout(240)
def test_nothing_goes_wrong_under_faults(seed, full, tmp_path, capsys):
    count = FULL if full else STEPS
    plan = campaign.Plan(steps=count, seed=f"t{seed}", jobs=2, seconds=180 if full else 80)
    totals = campaign.run(plan, lambda _: None)
    with capsys.disabled():
        sys.stdout.write(f"\nsoak: seed {plan.seed}, {totals.steps} of {count} steps\n")
    saved = [f"{failures.save(it, tmp_path)}: {it.wrong}" for it in totals.failures]
    assert saved == []
    assert totals.steps > 0


@pytest.mark.timeout(60)  # a failure is shrunk for half of it
def test_nothing_goes_wrong_in_a_few_steps(seed, tmp_path):
    totals = campaign.run(campaign.Plan(steps=FEW, seed=f"f{seed}"), lambda _: None)
    saved = [f"{failures.save(it, tmp_path)}: {it.wrong}" for it in totals.failures]
    assert (saved, totals.steps) == ([], FEW)


@pytest.mark.parametrize("is_asked", [True, False], ids=["starts ask", "starts wait"])
def test_a_seed_gives_the_same_run_each_time(is_asked):
    seed = next(seed for seed in map(str, range(99)) if site.asks(seed) is is_asked)

    def end(seed):
        run = Run(seed)
        done = loops.run(run.all(steps.drawn(seed, 120)))
        return done.passes, done.writes, done.tally, run.site.claims()

    assert end(seed) == end(seed)


@pytest.mark.long
@pytest.mark.timeout(60)
def test_a_binder_that_releases_without_evidence_is_found_out_and_shrunk(monkeypatch):
    monkeypatch.setattr(release, "_of", lambda _scene, _looking, claim, _: [release._let_go(claim)])
    failure = found_in("early", 20)
    assert shrink.sort_of(failure.wrong) == "released too early"
    assert len(failure.steps) < failure.before
    assert tuple(shrink.replay(failure.seed, failure.steps).wrong) == failure.wrong
    monkeypatch.undo()
    assert shrink.replay(failure.seed, failure.steps).wrong == []


@pytest.mark.long
@pytest.mark.timeout(60)
def test_a_binder_that_lets_nobody_through_is_found_out(monkeypatch):
    monkeypatch.setattr(gates, "_in_turn", lambda _scene, _found: ())
    failure = found_in("shut", 20)
    assert shrink.sort_of(failure.wrong) == "left at the gate"
    monkeypatch.undo()
    assert shrink.replay(failure.seed, failure.steps).wrong == []


@pytest.mark.long
@pytest.mark.timeout(60)
def test_a_webhook_that_lets_in_what_nobody_granted_is_found_out(monkeypatch):
    held = lambda found, _request: next((it.node for _, it in found if it and it.node), None)  # noqa: E731
    monkeypatch.setattr(requested, "answer", held)
    failure = found_in("open", 30)
    assert shrink.sort_of(failure.wrong) == "admitted in part"
    monkeypatch.undo()
    assert shrink.replay(failure.seed, failure.steps).wrong == []


def test_what_a_frozen_leader_wrote_is_no_deed_of_the_pass_after_it():
    """An order is bound by one that froze before its budget was lowered, and woke after."""
    found = [("make VM", 130), ("make VM", 154), ("order", 297), ("passes at once", 298)]
    steps_ = [Step(name, f"r330-58/{dice}") for name, dice in [*found, ("change budget", 299)]]
    done = shrink.replay("r330-58", steps_)
    assert (done.wrong, done.tally["frozen leaders woke"]) == ([], 1)


def test_a_failure_can_be_saved_and_read_again(tmp_path):
    failure = Failure("x/1-2", ("booked twice: a",), (Step("pass", "x/0"),), 7)
    assert failures.load(failures.save(failure, tmp_path)) == failure
