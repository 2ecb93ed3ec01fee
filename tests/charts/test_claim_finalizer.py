"""The policy by which an API server stores new claims with our finalizer."""

import pytest

from apiserver import teardown
from gpu import keys
from tests.charts.rendering import OUTSIDE, Chart

pytestmark = pytest.mark.real

POLICY = "MutatingAdmissionPolicy"
SERVED = f"admissionregistration.k8s.io/v1/{POLICY}"


@pytest.mark.parametrize(
    "values", [(), OUTSIDE, ("enabled=false",)], ids=["pods", "outside", "off"]
)
def test_it_is_there_feature_on_or_off_under_the_name_that_teardown_removes(
    chart: Chart, values: tuple[str, ...]
):
    policy = chart.one(POLICY, teardown.FINALIZING, *values, served=SERVED)
    binding = chart.one(f"{POLICY}Binding", teardown.FINALIZING, *values, served=SERVED)
    assert binding["spec"] == {"policyName": policy["metadata"]["name"]}


def test_a_hoster_can_do_without_it(chart: Chart):
    off = "claimFinalizerPolicy.enabled=false"
    found = {one["kind"] for one in chart.render(off, served=SERVED)}
    assert found.isdisjoint({POLICY, f"{POLICY}Binding"})


def test_it_adds_the_finalizer_to_new_claims_alone_and_is_never_in_the_way(chart: Chart):
    spec = chart.one(POLICY, teardown.FINALIZING, served=SERVED)["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["apiGroups"], rule["resources"]) == ([keys.GROUP], ["gpuclaims"])
    assert rule["operations"] == ["CREATE"]
    assert spec["failurePolicy"] == "Ignore"
    (mutation,) = spec["mutations"]
    assert f"'{keys.CLAIM_FINALIZER}'" in mutation["jsonPatch"]["expression"]
    (condition,) = spec["matchConditions"]
    assert f"'{keys.CLAIM_FINALIZER}' in" in condition["expression"]
