"""The checker on budgets: what counts, for whom, and what a new bind may not exceed."""

from dataclasses import replace

import pytest

from gpu.model.violations import Rule
from tests.builders import H100, a_claim, a_pod, a_quota, a_release, a_vmi, budget
from tests.model.plans import a_cluster, broken, on, order, placing


@pytest.mark.parametrize(("hard", "rules"), [(5, []), (4, [Rule.OVER_BUDGET])])
@pytest.mark.parametrize("who", ["tenant-a", "tenant-root"])
@pytest.mark.parametrize("key", ["h100", "total", H100])
def test_a_new_bind_fits_its_own_budget_and_every_one_above(hard, rules, who, key):
    quotas = {H100: hard} if key == H100 else budget(**{key: hard})
    held = a_claim("old", on="n2", count=3)
    assert placing(held, new=order(count=2), releases=[a_release(who, quotas)]) == rules


@pytest.mark.parametrize(
    ("other", "rules"),
    [
        (a_claim("o", on="n2", count=2), [Rule.OVER_BUDGET]),
        (a_claim("o", lost="n2", count=2), [Rule.OVER_BUDGET]),
        (a_claim("o", on="n2", count=2, deleting=True), [Rule.OVER_BUDGET]),
        (a_claim("o", count=2, deleting=True), [Rule.OVER_BUDGET]),
        (a_claim("o", count=2), []),
        (a_claim("o", on="n2", count=1), []),
        (a_claim("o", on="n2", count=2, tenant="tenant-b"), []),
        (a_claim("o", on="n2", count=2, tenant="tenant-a-x"), [Rule.OVER_BUDGET]),
        (a_claim("o", on="n2", count=2, tenant="tenant-a-x-y"), [Rule.OVER_BUDGET]),
    ],
    ids=["bound", "lost", "going", "going order", "order", "less", "b", "child", "grandchild"],
)
def test_what_counts_against_a_budget(other, rules):
    assert placing(other, releases=[a_release("tenant-a", budget(total=2))]) == rules


@pytest.mark.parametrize(("promised", "rules"), [(4, []), (5, [Rule.OVER_BUDGET])])
def test_what_a_child_declares_is_kept_free_above_it(promised, rules):
    releases = [
        a_release("tenant-a", budget(h100=5)),
        a_release("tenant-a-x", budget(h100=promised)),
    ]
    used = a_claim("old", on="n2", count=2, tenant="tenant-a-x")
    assert placing(used, releases=releases) == rules
    mine = order(tenant="tenant-a-x", count=2)
    assert placing(used, new=mine, releases=releases) == []


@pytest.mark.parametrize(("units", "rules"), [(1, []), (2, [Rule.OVER_BUDGET])])
@pytest.mark.parametrize("key", [H100, "gpu.cozystack.io/total"])
def test_raw_pods_count_under_their_name_and_under_total(units, rules, key):
    releases = [a_release("tenant-a", {key: 2})]
    assert placing(pods=[a_pod(on="n2", units=units)], releases=releases) == rules


@pytest.mark.parametrize("where", [{"on": "n2"}, {"lost": "n2"}, {}])
def test_pods_that_a_vms_claims_account_for_are_not_counted_again(where):
    held = a_claim("old", count=2, vm="vm", **where)
    settled = 2 if where else 0
    more = {"pods": [a_pod(uid="p", on="n2", units=2)], "vmis": [a_vmi(active={"p": "n2"})]}
    for hard, rules in ((settled + 1, []), (settled, [Rule.OVER_BUDGET])):
        releases = [a_release("tenant-a", budget(total=hard))]
        assert placing(held, releases=releases, **more) == rules


def test_moving_and_coming_back_ask_no_budget():
    held, gone = a_claim("a", on="n1", count=3), a_claim("b", lost="n1", count=3)
    cluster = a_cluster(held, gone, releases=[a_release("tenant-a", budget(h100=1))])
    assert broken(cluster, on(held, "n2"), on(gone, "n2")) == []


def test_the_resource_quota_speaks_only_where_no_release_does():
    quota = a_quota(**{"requests." + H100: "0"})
    assert placing(quotas=[quota]) == [Rule.OVER_BUDGET]
    assert placing(quotas=[quota], releases=[a_release("tenant-a", {H100: 1})]) == []
    assert placing(quotas=[a_quota(name="other", **{"requests." + H100: "0"})]) == []


def test_the_release_in_the_parents_namespace_speaks_first():
    mine = a_release("tenant-a-x", budget(h100=1))
    stray = replace(
        a_release("tenant-a-x", budget(h100=0)),
        meta=replace(mine.meta, namespace="a-first", name="x"),
    )
    new = order(tenant="tenant-a-x")
    assert placing(new=new, releases=[stray, mine]) == []
    assert placing(new=new, releases=[stray]) == [Rule.OVER_BUDGET]
