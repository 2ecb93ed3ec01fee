"""The checker about answers to bind requests: each way in which a plan may get one wrong."""

from dataclasses import replace

import pytest

from gpu.model import invariants
from gpu.model.naive import Cluster
from gpu.model.violations import Rule
from gpu.objects.claims import BindRequest, BindResult, Phase
from tests.builders import START, a_claim, a_class, a_namespace, a_node, attachment

ASKED = BindRequest(id="r1", vmi="vm", claims=("a", "b"), requested_at=START)
GRANTED = replace(ASKED, result=BindResult.SUCCEEDED, message="held on node n1")
REFUSED = replace(ASKED, result=BindResult.REFUSED, message="no room")


def stored(name, **how):
    claim = a_claim(name, attached=attachment("vm", since=0), **how)
    return replace(claim, bind_request=ASKED)


A, B = stored("a"), stored("b", on="n1")


def broken(*planned, known=(A, B)):
    claims = {claim.key: claim for claim in known}
    cluster = Cluster(
        stood=claims,
        claims=claims,
        classes=(a_class(),),
        nodes=(a_node("n1"), a_node("n2")),
        namespaces=(a_namespace(),),
    )
    return {item.rule for item in invariants.judge(cluster, planned)}


def on(claim, node="n1", told=GRANTED, **more):
    return replace(claim, phase=Phase.BOUND, node=node, bind_request=told, **more)


def stays(claim, told):
    return replace(claim, bind_request=told)


def test_a_start_that_is_granted_on_one_node_is_well():
    assert broken(on(A), stays(B, GRANTED)) == set()


def test_a_start_that_is_refused_where_it_stands_is_well():
    assert broken(stays(A, REFUSED), stays(B, REFUSED)) == set()


WRONG = {
    "granted in part": (on(A),),
    "granted on two nodes": (on(A, "n2"), stays(B, GRANTED)),
    "granted without being held": (stays(A, GRANTED), stays(B, GRANTED)),
    "granted and refused": (on(A), stays(B, REFUSED)),
    "told different things": (
        stays(A, REFUSED),
        stays(B, replace(REFUSED, message="no budget")),
    ),
    "refused and placed": (on(A, told=REFUSED), stays(B, REFUSED)),
    "granted to another VM": (
        on(A, attached_to=replace(A.attached_to, vmi="other")),
        stays(B, GRANTED),
    ),
    "granted to a VMI that has come": (
        on(A, attached_to=replace(A.attached_to, uid="u")),
        stays(B, GRANTED),
    ),
    "granted attached to nothing": (on(A, attached_to=None), stays(B, GRANTED)),
}


@pytest.mark.parametrize("planned", WRONG.values(), ids=WRONG)
def test_an_answer_that_is_wrong_is_found(planned):
    assert Rule.ANSWER_ASTRAY in broken(*planned)


def test_a_claim_that_is_not_there_or_going_is_not_granted():
    assert Rule.ANSWER_ASTRAY in broken(on(A), known=(A,))
    going = stored("b", on="n1", deleting=True)
    assert Rule.ANSWER_ASTRAY in broken(on(A), stays(going, GRANTED), known=(A, going))


def test_what_was_answered_before_is_judged_no_more():
    before = stays(B, GRANTED)
    assert broken(replace(before, reasons=("x",)), known=(A, before)) == set()
