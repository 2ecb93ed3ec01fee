"""What holds of sets after a whole pass, and after one that was cut off anywhere and a whole one."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.binder import checking, conditions, phases, results
from gpu.binder.changes import ClaimStatus, Place
from gpu.binder.phase import Scene
from gpu.config import Config
from gpu.model import placement, reach, sets, turns
from gpu.model.draft import Draft
from gpu.objects.claims import Phase
from tests import sampling, strategies
from tests.binder.scenes import NOW
from tests.builders import a_vm, a_world

pytestmark = pytest.mark.long  # whole passes over random clusters

quick = sampling.examples(15)


@st.composite
def worlds(draw):
    """Clusters in which VMs that are off name claims too."""
    objects = dict(draw(strategies.clusters()))
    mine = sorted({claim.tenant for claim in objects["claims"]})
    objects["vms"] = [
        a_vm(
            f"off-{tenant}",
            tenant=tenant,
            claims=[c.meta.name for c in objects["claims"] if c.tenant == tenant][
                : draw(st.integers(2, 4))
            ],
        )
        for tenant in mine
        if draw(st.booleans())
    ]
    return a_world(**objects)


def scene_of(world, now=NOW):
    return Scene(world=world, draft=Draft.of(world.snapshot), config=Config(), now=now)


def work(scene, phase):
    """All status writes of a phase, in order; each is stored."""
    changes = list(phase.changes(scene))
    scene.draft.ledger.hand_out()
    return [change for change in changes if isinstance(change, ClaimStatus)]


def one_pass(world, now=NOW):
    """All status writes of a pass, in order."""
    scene = scene_of(world, now)
    return [change for phase in phases.PASS for change in work(scene, phase)]


def with_writes(world, changes):
    """The world once these writes are stored."""
    stored = {claim.key: claim for claim in world.claims}
    stored.update((change.claim.key, results.after(change)) for change in changes)
    return replace(world, claims=tuple(stored.values()))


def split(world):
    """Sets that stand in several places and do not say so."""
    found = []
    for item in sets.group(world.claims, world.snapshot.named):
        told = [conditions.reason_of(claim, conditions.DEGRADED) for claim in item.kept]
        says_so = not item.is_lost and all(told)
        if item.is_torn and not says_so:
            found.append((item.id, [(claim.phase, claim.node) for claim in item.kept]))
    return found


@quick
@given(worlds())
def test_no_set_is_split_or_partly_lost_after_a_whole_pass(world):
    assert split(with_writes(world, one_pass(world))) == []


@quick
@given(worlds(), st.data())
def test_nor_after_one_that_was_cut_off_and_a_whole_one(world, data):
    changes = one_pass(world)
    cut = data.draw(st.integers(0, len(changes)), label="writes stored")
    after = with_writes(world, changes[:cut])
    assert split(with_writes(after, one_pass(after, NOW + timedelta(seconds=1)))) == []


@quick
@given(worlds())
def test_the_independent_checker_finds_nothing_in_any_plan(world):
    scene, checker = scene_of(world), checking.Checker(world=world)
    for phase in phases.PASS:
        changes = list(phase.changes(scene))
        assert checker.judge(changes) == ()
        checker.stored(changes)


@quick
@given(worlds())
def test_passes_come_to_rest(world):
    for second in range(6):
        changes = one_pass(world, NOW + timedelta(seconds=second))
        if not changes:
            return
        world = with_writes(world, changes)
    raise AssertionError(f"still writing: {changes}")


@quick
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_listed_objects_changes_no_write(world, random):
    names = ("classes", "claims", "nodes", "pods", "vmis", "vms", "inventory", "releases")
    lists = {name: getattr(world, name) for name in names}
    shuffled = {name: tuple(random.sample(items, len(items))) for name, items in lists.items()}
    assert one_pass(replace(world, **shuffled)) == one_pass(world)


@quick
@given(worlds())
def test_no_order_gets_what_the_oldest_lost_set_could_have_had(world):
    """What it could have had is what moves left: sets on their way come before it."""
    scene = scene_of(world)
    named = [phase.name for phase in phases.PASS].index("lost")
    for phase in phases.PASS[:named]:
        work(scene, phase)
    draft = scene.draft
    for oldest in turns.lost_sets(draft)[:1]:
        wanted = [claim for claim in oldest.kept if claim.phase is Phase.LOST]
        where = reach.by_evidence(scene.witness())(oldest)
        fits = placement.choose(draft, sets.wants(wanted), where.without)
        for phase in phases.PASS[named : named + 2]:
            work(scene, phase)
        if not where.is_tied:
            bound = {draft.claim(claim.key).phase is Phase.BOUND for claim in wanted}
            assert bound == {fits is not None}


@quick
@given(worlds())
def test_no_order_is_placed_on_a_node_that_is_kept_for_a_lost_set(world):
    scene = scene_of(world)
    done = {phase.name: work(scene, phase) for phase in phases.PASS}
    kept = scene.draft.earmarks
    resources = {offer.name: offer.resource for offer in world.classes}
    for change in done["orders"]:
        if isinstance(change, Place):
            assert change.node != kept.get(resources[change.claim.class_name])
