"""Fit, row by row: what keeps a pod from a node, and the words for it."""

from dataclasses import replace

import pytest

from gpu.model import fit, fit_facts, misfits, storage
from gpu.model.misfits import Cause, Misfit
from gpu.objects import nodes, pods, tenants
from gpu.objects.classes import Toleration
from tests.builders import H100, a_taint
from tests.model.fit_rows import APART_X, ROWS, VOLUMES, X
from tests.model.fit_rows_volumes import VOLUME_ROWS
from tests.starting import (
    a_launcher,
    a_machine,
    a_storage_class,
    a_volume,
    a_volume_claim,
    storage_of,
)


def facts(*machines, **more):
    return fit_facts.of(nodes={node.name: node for node in machines}, **{"pods": [], **more})


def why_not(pod, *machines, tolerations=(), **more):
    """Ask for the first of the machines."""
    return fit.why_not(fit.asked(pod, tolerations), machines[0], facts(*machines, **more))


@pytest.mark.parametrize("row", ROWS + VOLUME_ROWS, ids=lambda row: row.id)
def test_a_pod_is_kept_from_a_node_by_what_keeps_it(row):
    found = row.objects("row")
    misfit = why_not(
        pods.decode(found["asked"]),
        *map(nodes.decode, found["nodes"]),
        pods=map(pods.decode, found["pods"]),
        namespaces=map(tenants.decode_namespace, found["namespaces"]),
        storage=storage_of(*(found[part] for part in VOLUMES)),
    )
    assert (misfit and misfit.cause) == row.cause


def test_what_is_lacking_is_told_with_numbers():
    pod = a_launcher(requests={"cpu": "3"})
    there = a_launcher("there", on="n1", gates=[], units=0, requests={"cpu": "2500m"})
    assert why_not(pod, a_machine(amounts={"cpu": "5"}), pods=[there]) == Misfit(
        cause=Cause.AMOUNT, what="cpu", wanted=3000, free=2500
    )


def test_units_that_the_ledger_counts_are_not_counted_here():
    pod = a_launcher(units=9)
    assert why_not(pod, a_machine(units=8)) == Misfit(
        cause=Cause.AMOUNT, what=H100, wanted=9, free=8
    )
    assert why_not(pod, a_machine(units=8), elsewhere=[H100]) is None


def test_tolerations_of_a_class_count_as_the_pods_own():
    machine = a_machine(taints=[a_taint()])
    assert why_not(a_launcher(), machine) == Misfit(cause=Cause.TAINTED, what="dedicated")
    for_class = Toleration(key="dedicated", value="gpu")
    assert why_not(a_launcher(), machine, tolerations=[for_class]) is None


@pytest.mark.parametrize(
    ("waiting", "counts"),
    [
        ({"pinned": "n1", "term": 3, "gates": []}, True),
        ({"pinned": "n1", "gates": []}, False),
        ({"pinned": "n1", "term": 3}, False),
        ({"term": 3, "gates": []}, False),
    ],
    ids=["pinned by the leader", "by somebody", "at a gate", "not pinned"],
)
def test_a_pod_without_a_node_counts_where_the_leader_pinned_it(waiting, counts):
    there = a_launcher("there", units=8, **waiting)
    misfit = why_not(a_launcher(), a_machine(units=8), pods=[there])
    assert (misfit is not None) is counts


def test_every_node_that_refuses_is_told_of():
    small, gone = a_machine("small", units=0), "gone"
    about = facts(a_machine("large"), small)
    assert fit.nodes_refused(fit.asked(a_launcher()), about, ["large", "small", gone]) == {
        "small": Misfit(cause=Cause.AMOUNT, what=H100, wanted=1, free=0),
        "gone": Misfit(cause=Cause.GONE),
    }


def test_a_pin_of_this_pass_is_seen_by_the_next_question():
    machine = a_machine(units=1)
    about, needs = facts(machine), fit.asked(a_launcher("second"))
    assert fit.why_not(needs, machine, about) is None
    first = a_launcher("first")
    about.pin(first, machine.name)
    assert fit.why_not(needs, machine, about) is not None
    assert fit.why_not(fit.asked(first), machine, about) is None, "itself"
    about.unpin(first, machine.name)
    assert fit.why_not(needs, machine, about) is None


def test_a_pin_keeps_others_apart_at_once():
    machine = a_machine()
    about = facts(machine)
    alone = a_launcher("alone", labels=X, apart=[APART_X])
    needs = fit.asked(a_launcher("other", labels=X))
    assert fit.why_not(needs, machine, about) is None
    about.pin(alone, machine.name)
    assert fit.why_not(needs, machine, about) == Misfit(cause=Cause.KEPT_APART)
    assert fit.why_not(fit.asked(alone), machine, about) is None, "not from itself"
    about.unpin(alone, machine.name)
    assert fit.why_not(needs, machine, about) is None


def test_a_volume_claim_on_its_way_out_keeps_the_pod_from_every_node():
    pod = a_launcher(volume_claims=["disk"])
    going = a_volume_claim(deleting=True)
    missing = Misfit(cause=Cause.VOLUME_MISSING, what="disk")
    late = a_volume_claim(storage_class="late")
    bound = a_volume_claim(volume="pv")

    def why(claims, volumes=()):
        seen = storage.of(claims, volumes, [a_storage_class()], [])
        return why_not(pod, a_machine(), storage=seen)

    assert why([going]) == missing
    assert why([replace(bound, phase="Lost")], [a_volume()]) == missing
    assert why([late]) is None, "bound where the pod goes"
    assert why([replace(late, chosen="n1")]) is None
    assert why([bound]) == missing
    assert why([bound], [a_volume()]) is None


def test_nodes_are_counted_by_what_keeps_the_pod_from_them():
    cpu, memory = (Misfit(cause=Cause.AMOUNT, what=name, wanted=2) for name in ("cpu", "memory"))
    found = [memory, Misfit(cause=Cause.SELECTOR, what="zone"), memory, cpu]
    assert misfits.counted(found) == (
        ("lack memory", 2),
        ("is left out by its node selector", 1),
        ("lacks CPU", 1),
    )
    assert misfits.told(found) == (
        "of 4 nodes: 2 lack memory, 1 is left out by its node selector, 1 lacks CPU"
    )
    assert misfits.told([cpu]) == "of 1 node: 1 lacks CPU"


@pytest.mark.parametrize("cause", Cause, ids=str)
def test_every_cause_has_words_for_one_node_and_for_many(cause):
    misfit = Misfit(cause=cause, what="disk")
    one, many = misfits.words(misfit), misfits.words(misfit, nodes=3)
    assert one
    assert one != many
    assert "{" not in one + many
