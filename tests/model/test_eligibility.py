import pytest

from gpu.model import eligibility
from gpu.model.eligibility import Ineligible
from gpu.objects.classes import Toleration
from gpu.objects.nodes import Taint
from tests.builders import L40, a_class, a_node, a_snapshot, a_taint


@pytest.mark.parametrize(
    ("node", "why"),
    [
        pytest.param(a_node(), None, id="eligible"),
        pytest.param(a_node("other"), Ineligible.GONE, id="does not exist"),
        pytest.param(a_node(deleting=True), Ineligible.GONE, id="being deleted"),
        pytest.param(a_node(ready=False), Ineligible.NOT_READY, id="not Ready"),
        pytest.param(a_node(cordoned=True), Ineligible.CORDONED, id="cordoned"),
        pytest.param(a_node(taints=[a_taint()]), Ineligible.TAINTED, id="NoSchedule"),
        pytest.param(
            a_node(taints=[a_taint(effect="NoExecute")]), Ineligible.TAINTED, id="NoExecute"
        ),
        pytest.param(
            a_node(taints=[a_taint(effect="PreferNoSchedule")]), None, id="PreferNoSchedule"
        ),
        pytest.param(a_node(resource=L40), Ineligible.NOT_SERVED, id="another resource"),
        pytest.param(a_node(units=0), Ineligible.NOT_SERVED, id="none allocatable"),
    ],
)
def test_a_node_takes_sets_of_a_class_or_says_why_not(node, why):
    snapshot = a_snapshot(nodes=[node])
    assert eligibility.why_not(snapshot, snapshot.classes["h100"], "n1") == why
    assert ("n1" in eligibility.nodes(snapshot, "h100")) is (why is None)


def test_every_taint_must_be_tolerated():
    tolerant = a_class(tolerations=[{"key": "dedicated", "operator": "Exists"}])
    nodes = [
        a_node("both", taints=[a_taint(), a_taint("other")]),
        a_node("one", taints=[a_taint()]),
    ]
    snapshot = a_snapshot(classes=[tolerant], nodes=nodes)
    assert eligibility.nodes(snapshot, "h100") == {"one"}


def test_an_unknown_class_has_no_eligible_node():
    assert eligibility.nodes(a_snapshot(), "nope") == frozenset()


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param(Toleration(operator="Exists"), True, id="everything"),
        pytest.param(Toleration(key="k", operator="Exists"), True, id="key"),
        pytest.param(Toleration(key="other", operator="Exists"), False, id="another key"),
        pytest.param(Toleration(key="k", value="v"), True, id="key and value"),
        pytest.param(Toleration(key="k", value="w"), False, id="another value"),
        pytest.param(Toleration(key="k"), False, id="value left out is the empty one"),
        pytest.param(Toleration(value="v"), False, id="Equal without a key"),
        pytest.param(Toleration(key="k", value="v", effect="NoExecute"), True, id="effect"),
        pytest.param(Toleration(key="k", value="v", effect="NoSchedule"), False, id="other effect"),
        pytest.param(
            Toleration(key="k", operator="Exists", effect="NoExecute", seconds=60),
            True,
            id="for a while only",
        ),
    ],
)
def test_a_toleration_matches_a_taint_as_in_kube_scheduler(toleration, expected):
    taint = Taint(key="k", value="v", effect="NoExecute")
    assert eligibility.tolerates(toleration, taint) is expected
