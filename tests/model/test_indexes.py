"""Drafts answer by index what a walk over all claims answers."""

from hypothesis import given
from hypothesis import strategies as st

from gpu.model import coverage, indexes, sets
from gpu.model.draft import Draft
from gpu.objects.claims import Phase
from tests import sampling, strategies
from tests.builders import a_claim, a_snapshot, a_vm

WALKS = {
    "unfinalized": indexes.is_unfinalized,
    "deleting": indexes.is_held_back,
    "lost": indexes.is_lost,
    "attached": indexes.is_attached,
    "unowned": indexes.is_unowned,
    "degraded": indexes.is_degraded,
    "strays": indexes.is_stray,
    "holders": indexes.is_holder,
}


def walked(draft):
    claims = tuple(draft.claims())
    marks = {name: tuple(filter(is_one, claims)) for name, is_one in WALKS.items()}
    nodes = {
        node: tuple(claim for claim in claims if coverage.node_held(claim) == node)
        for node in (*strategies.NODES, "gone")
    }
    held = {
        name: sum(
            claim.count
            for claim in claims
            if claim.class_name == name and claim.phase is Phase.BOUND
        )
        for name in strategies.CLASSES
    }
    return marks, nodes, held, sets.group(claims, draft.snapshot.named)


def asked(view):
    marks = {name: getattr(view, name) for name in WALKS}
    nodes = {node: view.on_node(node) for node in (*strategies.NODES, "gone")}
    held = {name: view.held_of(name) for name in strategies.CLASSES}
    return marks, nodes, held, view.sets


@sampling.examples(20)
@given(strategies.clusters(), st.data())
def test_an_index_answers_as_a_walk_does_whatever_was_put_kept_or_undone(objects, data):
    snapshot = a_snapshot(**objects)
    before = asked(snapshot) if data.draw(st.booleans()) else None
    draft = Draft.of(snapshot)
    assert asked(draft) == walked(draft)
    for _ in range(data.draw(st.integers(0, 4)) if snapshot.claims else 0):
        with draft.savepoint() as point:
            for claim in data.draw(st.lists(st.sampled_from(sorted(snapshot.claims)), max_size=3)):
                step(draft, draft.claim(claim), data.draw(st.integers(0, 2)))
                if data.draw(st.booleans()):
                    assert asked(draft) == walked(draft)
            if data.draw(st.booleans()):
                point.keep()
        assert asked(draft) == walked(draft)
    assert before is None or asked(snapshot) == before


def step(draft, claim, what):
    match what:
        case 0:
            draft.bind(claim, "n1")
        case 1:
            draft.lift(claim)
        case _:
            draft.unbind(claim)


def test_a_claim_that_a_vm_names_is_in_the_set_of_that_vm():
    one, two = a_claim("one", at=1), a_claim("two", vm="vm", at=2)
    snapshot = a_snapshot(claims=[one, two], vms=[a_vm(claims=["one"])])
    assert [item.claims for item in snapshot.sets] == [(one, two)]


def test_units_held_are_those_of_bound_claims():
    snapshot = a_snapshot(claims=[a_claim("a", on="n1", count=2), a_claim("b", lost="n1")])
    assert (snapshot.held_of("h100"), snapshot.held_of("nobody's")) == (2, 0)
