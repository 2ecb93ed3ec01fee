"""What quotareviews say of quotas is what the quota gate does with them: one decision, one wording."""

import pytest

from apiserver.identity import NOBODY
from apiserver.resources.quotareviews import QUOTA_REVIEWS
from gpu.admission import tenants
from gpu.admission.review import Denied
from gpu.model import grants
from tests.admission.test_tenants import a_tenant, asked
from tests.builders import H100, a_claim, a_class, a_release, a_settings, a_world, budget

GPU = "gpu.cozystack.io"
KEY = f"{GPU}/h100"
WORLD = a_world(
    classes=[a_class(), a_class("gold", resource="nvidia.com/GOLD")],
    claims=[a_claim(count=1, on="n1")],
    releases=[
        a_release("tenant-a", budget(h100=6, total=9)),
        a_release("tenant-a-b", budget(h100=4)),
        a_release("tenant-a-b-x", budget(h100=3)),
    ],
    settings=a_settings(H100),
)


@pytest.mark.parametrize(
    ("name", "quotas"),
    [
        pytest.param("new", {KEY: 1}, id="fits"),
        pytest.param("new", {KEY: 2, f"{GPU}/total": 99}, id="too much twice"),
        pytest.param("new", {KEY: "1.5", f"{GPU}/h1": 1, H100: 2}, id="values and keys"),
        pytest.param("b", {KEY: 5}, id="raised"),
        pytest.param("b", {KEY: 6}, id="raised too far"),
        pytest.param("b", {KEY: 2}, id="lowered below its children"),
        pytest.param("b", {}, id="removed"),
    ],
)
def test_a_review_says_what_the_gate_would_do(name, quotas):
    declared = WORLD.snapshot.tree.declared(f"tenant-a-{name}")
    old = a_tenant(dict(declared)) if declared else None
    given = asked(a_tenant(quotas), old, name=name)
    done = tenants.answer(given, grants.judge(WORLD.snapshot, tenants.change(given)))

    assert QUOTA_REVIEWS.answer is not None
    body = {"spec": {"childName": name, "resourceQuotas": quotas}}
    said = QUOTA_REVIEWS.answer(WORLD, "tenant-a", body, NOBODY).members["status"]

    assert said["allowed"] is not isinstance(done, Denied)
    if isinstance(done, Denied):
        told = [{key: one[key] for key in ("field", "reason", "message")} for one in said["causes"]]
        assert told == [cause.document() for cause in done.causes]
    else:
        assert said["warnings"] == list(done.warnings)
