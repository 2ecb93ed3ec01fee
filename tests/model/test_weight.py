"""Rules of a pod that nobody would write in earnest cost the pass nothing."""

import pytest

from gpu.model import fit, fit_facts, misfits, weight
from gpu.model.misfits import Cause, Misfit
from gpu.objects import pod_needs
from gpu.objects.pod_needs import PodTerm, Requirement
from tests.starting import a_launcher, a_machine, node_term, pod_term, raw_launcher

TOO_HEAVY = Misfit(cause=Cause.TOO_HEAVY)
HALF = weight.OF_PODS // 2
MANY = 20_000


def judged(pod, *others, machine=None):
    there = machine or a_machine(units=8)
    return fit.why_not(fit.asked(pod), there, fit_facts.of(nodes={there.name: there}, pods=others))


def near_terms(count, **more):
    return [pod_term(app=f"a{number}") | more for number in range(count)]


def values(count):
    return [f"v{number}" for number in range(count)]


def expression(count, operator="NotIn"):
    found = {"key": "app", "operator": operator, "values": values(count)}
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [found]}}


@pytest.mark.parametrize(
    "asks",
    [
        {"apart": near_terms(MANY, namespaceSelector={})},
        {"near": near_terms(MANY)},
        {"apart": near_terms(HALF), "near": near_terms(HALF)},
        {"apart": [expression(MANY)]},
        {"apart": [pod_term(app="x") | {"namespaces": values(MANY)}]},
        {"apart": [pod_term(**{f"k{number}": "v" for number in range(MANY)})]},
        {"node_terms": [node_term(f"k{number}", "v") for number in range(MANY)]},
        {"node_terms": [node_term("k", *values(MANY), operator="NotIn")]},
        {"tolerations": [{"key": f"k{number}", "operator": "Exists"} for number in range(MANY)]},
    ],
    ids=[
        "pods to be apart from, everywhere",
        "pods to be beside",
        "some of both",
        "values of one expression",
        "namespaces of one term",
        "labels of one term",
        "terms of nodes",
        "values of nodes",
        "tolerations",
    ],
)
def test_a_pod_with_too_many_rules_is_not_looked_at(asks):
    pod = a_launcher(**asks)
    assert judged(pod) == TOO_HEAVY
    assert fit.asked(pod).tolerations == ()


def test_rules_as_many_as_anybody_needs_are_looked_at():
    # A term is three parts: itself, its expression, and the value.
    terms = near_terms(weight.OF_PODS // 3)
    assert judged(a_launcher(apart=terms)) is None
    assert judged(a_launcher(apart=[*terms, pod_term(app="x")])) == TOO_HEAVY
    nodes = [node_term("kubernetes.io/hostname", "n1", *values(weight.OF_NODES - 3))]
    assert judged(a_launcher(node_terms=nodes)) is None
    nodes[0]["matchExpressions"][0]["values"].append("one-more")
    assert judged(a_launcher(node_terms=nodes)) == TOO_HEAVY


def test_of_a_running_pod_that_keeps_others_out_the_first_rules_are_looked_at():
    terms = [pod_term(app="mine"), *near_terms(MANY)]
    heavy = a_launcher("heavy", gates=(), on="n1", apart=terms)
    assert 0 < len(weight.light(heavy.needs.anti_affinity)) <= HALF
    mine = a_launcher("mine", labels={"app": "mine"})
    assert judged(mine, heavy) == Misfit(cause=Cause.KEPT_APART)
    assert judged(a_launcher("last", labels={"app": f"a{MANY - 1}"}), heavy) is None


def test_one_rule_that_is_too_heavy_by_itself_keeps_nobody_out():
    assert weight.light((PodTerm(topology="t", selector=_selector(MANY)),)) == ()
    light = (PodTerm(topology="t", selector=_selector(1)),)
    assert weight.light(light) == light


def _selector(count):
    return (Requirement(key="app", operator="In", values=tuple(values(count))),)


def test_the_tenant_is_told_what_is_too_much():
    assert misfits.told([TOO_HEAVY, TOO_HEAVY]) == (
        "of 2 nodes: 2 are not looked at: its pod affinities have more than 128 parts, or its node "
        "affinity and tolerations more than 1024"
    )


def test_long_needs_do_not_stay_in_memory_when_their_pods_are_gone():
    """4,096 of a megabyte each would be the end of the process."""
    before = pod_needs._read.cache_info().currsize
    for number in range(3):
        raw = raw_launcher(near=near_terms(100, namespaces=[f"n{number}"]))
        assert len(pod_needs.needs(raw).affinity) == 100
    assert pod_needs._read.cache_info().currsize == before
