"""The keeper over an API server in memory: order, what holds it back, what goes wrong."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpu import keys
from gpu.cluster import errors
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from policies import bundle, keeper, shapes
from policies.standing import Reason, Standing
from tests.fakes.cluster import FakeCluster, Fault, Write

CONFIG = Config()
OURS = (kinds.GPU_CLAIMS, kinds.GPU_CLASSES, kinds.GPU_BINDERS)
FENCE = "cozystack-gpu-term-policy"
SETTINGS = "cozystack-gpu-settings-policy"
RAW_NAMES = "cozystack-gpu-raw-names-policy"
CANARY = "cozystack-gpu-canary-policy"


def serve(cluster: FakeCluster, *served: Kind) -> None:
    for kind in served:
        established = {"type": "Established", "status": "True"}
        body = {"metadata": {"name": kind.resource}, "status": {"conditions": [established]}}
        cluster.put(kinds.CRDS, body)


def put_binder(cluster: FakeCluster, **annotations: str) -> None:
    meta = {"name": keys.BINDER_NAME, "annotations": annotations}
    cluster.put(kinds.GPU_BINDERS, {"metadata": meta})


def put_settings(cluster: FakeCluster) -> None:
    meta = {"name": keys.SETTINGS_NAME, "namespace": keys.SETTINGS_NAMESPACE}
    cluster.put(kinds.CONFIG_MAPS, {"metadata": meta, "data": {}})


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    serve(found, *OURS)
    put_binder(found)
    put_settings(found)
    found.put(kinds.CLUSTER_ROLES, {"metadata": {"name": CONFIG.owner_cluster_role, "uid": "r"}})
    return found


class Said(list[Standing]):
    async def __call__(self, found: Standing) -> None:
        self.append(found)


def keeping(cluster: FakeCluster, said: Said | None = None, **changes: Any) -> keeper.Keeper:
    leading = changes.pop("leading", lambda: True)
    report = said if said is not None else Said()
    return keeper.Keeper(cluster, replace(CONFIG, **changes), report=report, leading=leading)


def written(cluster: FakeCluster) -> list[tuple[Kind, str]]:
    return [(write.kind, write.key.name) for write in cluster.writes]


async def stored(cluster: FakeCluster, kind: Kind) -> list[str]:
    return [item["metadata"]["name"] for item in (await cluster.list_all(kind)).items]


async def test_policies_are_written_before_bindings_and_the_keeper_before_what_may_go(
    cluster: FakeCluster,
):
    said = Said()
    assert await keeping(cluster, said).once() == keeper.SETTLE
    policies = [policy for policy in bundle.policies(CONFIG) if not policy.optional]
    assert [policy.topic for policy in policies][:2] == ["settings", "keeper"]
    assert written(cluster) == [
        *((kinds.POLICIES, policy.name) for policy in policies),
        *(
            (kinds.POLICY_BINDINGS, policy.binding_name(binding))
            for policy in policies
            for binding in policy.bindings
        ),
    ]
    assert said == [
        Standing(reason=Reason.CURRENT, message="every policy is stored as this version means it")
    ]


async def test_a_quiet_round_writes_nothing_and_waits_long(cluster: FakeCluster):
    kept = keeping(cluster)
    await kept.once()
    cluster.writes.clear()
    assert await kept.once() == keeper.CHECK
    assert cluster.writes == []


async def test_kubevirt_may_come_later(cluster: FakeCluster):
    kept = keeping(cluster)
    await kept.once()
    serve(cluster, kinds.VMIS)
    cluster.writes.clear()
    await kept.once()
    name = "cozystack-gpu-vmi-raw-names-policy"
    assert written(cluster) == [
        (kinds.POLICIES, name),
        (kinds.POLICY_BINDINGS, name),
        (kinds.POLICY_BINDINGS, f"{name}-root"),
    ]


async def test_kinds_of_ours_that_are_not_served_hold_back_their_policies(cluster: FakeCluster):
    cluster.unserve(kinds.CRDS)
    said = Said()
    await keeping(cluster, said).once()
    assert said == [
        Standing(
            reason=Reason.KIND_NOT_SERVED,
            message="not served: gpubinders.gpu.cozystack.io, gpuclaims.gpu.cozystack.io, "
            "gpuclasses.gpu.cozystack.io; install the chart's CRDs",
        )
    ]
    assert await stored(cluster, kinds.POLICIES) == [
        CANARY,
        "cozystack-gpu-gate-policy",
        RAW_NAMES,
        SETTINGS,
    ]


async def test_a_binding_waits_for_its_parameter_and_the_policy_does_not(cluster: FakeCluster):
    await cluster.delete(kinds.GPU_BINDERS, keys.BINDER_NAME)
    await cluster.delete(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, keys.SETTINGS_NAMESPACE)
    said = Said()
    kept = keeping(cluster, said)
    await kept.once()
    assert said[-1] == Standing(
        reason=Reason.PARAMETER_MISSING,
        message="not there: ConfigMap cozy-system/cozystack-gpu-settings, GPUBinder binder; the "
        "leader writes it in its next pass",
    )
    assert FENCE in await stored(cluster, kinds.POLICIES)
    assert set(await stored(cluster, kinds.POLICY_BINDINGS)) == {
        policy.binding_name(binding)
        for policy in bundle.policies(CONFIG)
        if policy.param_kind is None and not policy.optional
        for binding in policy.bindings
    }
    put_binder(cluster)
    put_settings(cluster)
    await kept.once()
    assert said[-1].reason is Reason.CURRENT
    assert FENCE in await stored(cluster, kinds.POLICY_BINDINGS)


async def test_a_bound_policy_stays_bound_when_its_parameter_goes(cluster: FakeCluster):
    kept = keeping(cluster)
    await kept.once()
    before = await stored(cluster, kinds.POLICY_BINDINGS)
    await cluster.delete(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, keys.SETTINGS_NAMESPACE)
    await kept.once()
    assert await stored(cluster, kinds.POLICY_BINDINGS) == before


async def test_a_policy_that_is_refused_stops_no_other(cluster: FakeCluster):
    no = errors.Forbidden(403, "Forbidden", "no")
    end = cluster.refuse(lambda write: write.key.name == FENCE, no)
    said = Said()
    kept = keeping(cluster, said)
    assert await kept.once() == keeper.RETRY
    assert said[-1] == Standing(
        reason=Reason.WRITE_FAILED, message=f"refused by the API server: {FENCE}"
    )
    assert RAW_NAMES in await stored(cluster, kinds.POLICY_BINDINGS)
    assert (kinds.POLICY_BINDINGS, FENCE) not in written(cluster)
    end()
    await kept.once()
    assert said[-1].reason is Reason.CURRENT


async def test_nothing_old_goes_while_something_new_is_refused(cluster: FakeCluster):
    old = {"metadata": {"name": "cozystack-gpu-old-policy", "labels": shapes.LABELS}, "spec": {}}
    cluster.put(kinds.POLICIES, old)
    end = cluster.refuse(
        lambda write: write.key.name == FENCE, errors.Forbidden(403, "Forbidden", "no")
    )
    kept = keeping(cluster)
    for _ in range(3):
        await kept.once()
    assert "cozystack-gpu-old-policy" in await stored(cluster, kinds.POLICIES)
    end()
    for _ in range(2):
        await kept.once()
    assert "cozystack-gpu-old-policy" not in await stored(cluster, kinds.POLICIES)


async def test_an_api_server_that_does_not_answer_ends_the_round_and_is_asked_ever_more_slowly(
    cluster: FakeCluster,
):
    cluster.down = True
    said = Said()
    kept = keeping(cluster, said)
    waits = [await kept.once() for _ in range(8)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert said[-1].reason is Reason.WRITE_FAILED
    cluster.down = False
    await kept.once()
    assert said[-1].reason is Reason.CURRENT


async def test_a_write_of_unknown_outcome_is_looked_at_again(cluster: FakeCluster):
    cluster.fail(Fault(at=3, executed=True))
    kept = keeping(cluster)
    await kept.once()
    assert len(cluster.writes) == 3
    await kept.once()
    assert len(written(cluster)) == len(set(written(cluster)))


async def test_a_replica_that_no_longer_leads_writes_and_says_nothing(cluster: FakeCluster):
    said = Said()
    await keeping(cluster, said, leading=lambda: False).once()
    assert (cluster.writes, said) == ([], [])


async def test_it_stops_writing_the_moment_it_no_longer_leads(cluster: FakeCluster):
    left = iter((True, True, False))
    await keeping(cluster, leading=lambda: next(left, False)).once()
    assert len(cluster.writes) == 2


async def test_a_marked_binder_means_that_nothing_is_kept(cluster: FakeCluster):
    put_binder(cluster, **{keys.TEARDOWN_ANNOTATION: "r"})
    said = Said()
    await keeping(cluster, said).once()
    assert (cluster.writes, said[-1].reason) == ([], Reason.TEARING_DOWN)


async def test_a_bug_is_not_taken_for_an_answer(cluster: FakeCluster):
    def broken(_write: Write) -> bool:
        raise ZeroDivisionError

    cluster.refuse(broken, errors.Forbidden(403, "Forbidden", "never"))
    with pytest.raises(ZeroDivisionError):
        await keeping(cluster).once()


async def test_a_report_that_fails_stops_nothing(cluster: FakeCluster):
    async def report(_found: Standing) -> None:
        raise errors.Forbidden(403, "Forbidden", "no")

    kept = keeper.Keeper(cluster, CONFIG, report=report)
    assert await kept.once() == keeper.SETTLE
    assert await stored(cluster, kinds.POLICIES) == sorted(
        policy.name for policy in bundle.policies(CONFIG) if not policy.optional
    )


@pytest.mark.looptime
async def test_it_looks_again_by_itself_and_at_once_when_woken(cluster: FakeCluster):
    kept = keeping(cluster)
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(kept.run())
        await asyncio.sleep(keeper.SETTLE + 1)
        await cluster.delete(kinds.POLICIES, RAW_NAMES)
        began = loop.time()
        kept.wake()
        await asyncio.sleep(0.01)
        assert RAW_NAMES in await stored(cluster, kinds.POLICIES)
        await asyncio.sleep(keeper.SETTLE + 1)
        await cluster.delete(kinds.POLICIES, RAW_NAMES)
        await asyncio.sleep(keeper.CHECK)
        assert RAW_NAMES in await stored(cluster, kinds.POLICIES)
        assert loop.time() - began < keeper.CHECK + keeper.SETTLE + 2
        running.cancel()
