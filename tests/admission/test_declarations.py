"""A grant rests on what the tenants above declare now, however far a replica's watch lags."""

import asyncio
from dataclasses import replace

import pytest

from gpu.admission import declarations
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.tenants import TenantQuota, TenantRelease
from gpu.world import World
from tests.admission.gates import A, Replica, allowed, keep, seen, stored
from tests.builders import a_quota, a_release, budget
from tests.fakes.cluster import FakeCluster

ROOT = a_release("tenant-root", budget(h100=9))
RICH = seen("tenant-a", 8, version=5)
POOR = seen("tenant-a", 4, version=9)
QUOTA = a_quota("tenant-a", of={"gpu.cozystack.io/h100": "4"})


@pytest.fixture
def cluster():
    found = Cluster()
    keep(found, ROOT)
    return found


class Cluster(FakeCluster):
    """It notes which declarations are read, and refuses to have them read if told so."""

    def __init__(self):
        super().__init__()
        self.reads = []
        self.refusal = None

    async def get(self, kind, name, namespace=None, **how):
        if kind in {kinds.HELM_RELEASES, kinds.RESOURCE_QUOTAS}:
            self.reads.append((kind.plural, namespace, name))
            if self.refusal is not None:
                raise self.refusal
        return await super().get(kind, name, namespace, **how)


async def later(replica, *releases, seconds=0.3):
    await asyncio.sleep(seconds)
    replica.see(*releases)


async def race(*replicas, units=4):
    answers = await asyncio.gather(
        *(replicas[at % len(replicas)].create(f"c{at}", units) for at in range(8))
    )
    return sum(allowed(answers))


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param([ROOT], [ROOT, POOR], id="declared a moment ago"),
        pytest.param([ROOT, RICH], [ROOT, POOR], id="lowered a moment ago"),
        pytest.param([], [seen("tenant-root", 4, version=9)], id="declared far above"),
    ],
)
@pytest.mark.parametrize("late", [1, 2], ids=["one replica", "both"])
async def test_of_eight_at_once_one_passes_while_a_watch_withholds_a_budget(
    cluster, before, now, late
):
    replicas = [Replica(cluster, *now) for _ in range(2)]
    for replica in replicas[:late]:
        replica.see(*before)
    _, found = await asyncio.gather(
        asyncio.gather(*(later(replica, *now) for replica in replicas)), race(*replicas)
    )
    assert found == 1


@pytest.mark.looptime
@pytest.mark.parametrize("before", [[ROOT], [ROOT, RICH]], ids=["new", "lowered"])
async def test_a_watch_that_withholds_a_budget_for_good_grants_nothing(cluster, before):
    replica = Replica(cluster, ROOT, POOR)
    replica.see(*before)
    found = await replica.create("b", 1)
    assert found["status"]["code"] == 503
    assert (
        "HelmRelease tenant-root/tenant-a was changed a moment ago and is not seen here yet: try again"
        in found["status"]["message"]
    )
    assert stored(cluster) == {}


@pytest.mark.looptime
async def test_a_budget_that_is_gone_is_waited_for_like_one_that_came(cluster):
    replica = Replica(cluster, ROOT)
    replica.see(ROOT, POOR)
    _, found = await asyncio.gather(later(replica, ROOT), replica.create("b", 3))
    assert allowed([found]) == [True]
    assert stored(cluster, "tenant-root") == {"tenant-a-b": {"gpu.cozystack.io/h100": 3}}


@pytest.mark.looptime
async def test_where_no_release_is_the_resource_quota_counts_as_stored(cluster):
    keep(cluster, QUOTA)
    knows, late = Replica(cluster, ROOT), Replica(cluster, ROOT)
    knows.quotas = (QUOTA,)

    async def arrives():
        await asyncio.sleep(0.3)
        late.quotas = (QUOTA,)

    _, found = await asyncio.gather(arrives(), race(knows, late))
    assert found == 1


@pytest.mark.looptime
async def test_a_new_version_that_changes_nothing_is_not_waited_for(cluster, looptime):
    replica = Replica(cluster, ROOT, POOR)
    keep(cluster, seen("tenant-a", 4, version=77))
    assert allowed([await replica.create("b", 4)]) == [True]
    assert looptime == 0


@pytest.mark.looptime
async def test_a_release_of_another_kind_is_none(cluster):
    keep(cluster, _of_kind(POOR, "VMInstance"))
    assert allowed([await Replica(cluster, ROOT).create("b", 9)]) == [True]


@pytest.mark.looptime
async def test_each_tenant_above_is_read_once_and_the_question_put_once(cluster):
    replica = Replica(cluster, ROOT, A)
    assert allowed([await replica.create("b", 4)]) == [True]
    assert sorted(cluster.reads) == [
        ("helmreleases", "tenant-root", "tenant-a"),
        ("helmreleases", "tenant-root", "tenant-root"),
    ]
    assert replica.asked == 2  # with the reservations for the second time


@pytest.mark.looptime
async def test_nothing_is_read_where_nothing_is_raised(cluster):
    replica = Replica(cluster, ROOT, A, seen("tenant-a-b", 4))
    answers = [
        await replica.create("b", 2, old=(4, 1)),
        await replica.create("b", 4, old=(4, 1)),
        await replica.create("b", None, old=(4, 1)),
        await replica.create("c", "x"),
    ]
    assert allowed(answers) == [True, True, True, False]
    assert cluster.reads == []


@pytest.mark.looptime
async def test_what_may_not_be_read_grants_nothing(cluster):
    replica = Replica(cluster, ROOT, A)
    cluster.refusal = errors.from_status({"code": 403, "reason": "Forbidden", "message": "no"})
    found = await replica.create("b", 1)
    assert found["status"]["code"] == 503
    assert "cannot read HelmRelease tenant-root/tenant-" in found["status"]["message"]
    assert "ask the hoster" in found["status"]["message"]
    assert stored(cluster) == {}


@pytest.mark.looptime
async def test_a_read_that_nobody_answers_grants_nothing(cluster):
    replica = Replica(cluster, ROOT, A)
    cluster.refusal = errors.Unreachable("the line was cut", sent=True)
    found = await replica.create("b", 1)
    assert (found["status"]["code"], stored(cluster)) == (503, {})


def test_whatever_may_declare_is_read_while_no_release_is_shown():
    found = declarations.lacking(World(), "tenant-a-b-c", {})
    assert {(one.view, *one.key) for one in found} == {
        (TenantRelease, "tenant-root", "tenant-root"),
        (TenantQuota, "tenant-root", "tenant-quota"),
        (TenantRelease, "tenant-root", "tenant-a"),
        (TenantQuota, "tenant-a", "tenant-quota"),
        (TenantRelease, "tenant-a", "tenant-b"),
        (TenantRelease, "tenant-root", "tenant-a-b"),
        (TenantQuota, "tenant-a-b", "tenant-quota"),
    }


def _of_kind(release, kind):
    raw = {**release.raw, "metadata": {**release.raw["metadata"], "labels": {}}}
    raw["metadata"]["labels"] = {"apps.cozystack.io/application.kind": kind}
    return replace(release, raw=raw)
