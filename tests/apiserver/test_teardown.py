"""Teardown over an API server in memory: order, conflicts, silence, and when a mark still holds."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from apiserver import teardown
from gpu import keys
from gpu.cluster import errors
from gpu.config import Config
from gpu.objects import binders, kinds
from gpu.objects.binders import GPUBinder
from gpu.objects.kinds import Kind
from tests.fakes.cluster import FakeCluster, Fault, Write

pytestmark = pytest.mark.looptime

CONFIG = Config()
NO = errors.Forbidden(403, "Forbidden", "no")


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    put(found, kinds.GPU_BINDERS, keys.BINDER_NAME)
    put(found, kinds.CLUSTER_ROLES, CONFIG.owner_cluster_role, uid="this-release")
    put(found, kinds.API_SERVICES, teardown.API_SERVICE)
    for kind in (kinds.MUTATING_WEBHOOKS, kinds.VALIDATING_WEBHOOKS):
        put(found, kind, teardown.WEBHOOKS)
        put(found, kind, "of-others")
    for kind in (kinds.MUTATING_POLICIES, kinds.MUTATING_POLICY_BINDINGS):
        put(found, kind, teardown.FINALIZING)
        put(found, kind, "of-others")
    put(
        found,
        kinds.GPU_CLAIMS,
        "c1",
        namespace="tenant-a",
        finalizers=["x/y", keys.CLAIM_FINALIZER],
    )
    put(found, kinds.GPU_CLASSES, "h100", finalizers=[keys.CLASS_FINALIZER])
    put(found, kinds.GPU_CLASSES, "mine", finalizers=["x/y"])
    return found


def put(cluster: FakeCluster, kind: Kind, name: str, **meta: Any) -> None:
    cluster.put(kind, {"metadata": {"name": name, **meta}})


def of_claim(write: Write) -> bool:
    return write.kind is kinds.GPU_CLAIMS


async def run(cluster: FakeCluster) -> tuple[teardown.Result, list[str]]:
    lines: list[str] = []
    return await teardown.teardown(cluster, CONFIG, report=lines.append), lines


async def finalizers(cluster: FakeCluster) -> list[str]:
    claim = await cluster.get(kinds.GPU_CLAIMS, "c1", "tenant-a")
    found: list[str] = claim["metadata"].get("finalizers", [])
    return found


async def test_the_leader_is_told_first_and_the_api_goes_before_the_webhooks(cluster: FakeCluster):
    result, lines = await run(cluster)
    done = [(write.verb, write.kind.kind, write.key.name) for write in cluster.writes]
    first = list(dict.fromkeys(done))
    assert first == [
        ("patch", "GPUBinder", "binder"),
        ("delete", "APIService", teardown.API_SERVICE),
        ("delete", "MutatingWebhookConfiguration", "cozystack-gpu"),
        ("delete", "ValidatingWebhookConfiguration", "cozystack-gpu"),
        ("delete", "MutatingAdmissionPolicyBinding", teardown.FINALIZING),
        ("delete", "MutatingAdmissionPolicy", teardown.FINALIZING),
        ("patch", "GPUClaim", "c1"),
        ("patch", "GPUClass", "h100"),
    ]
    assert result == teardown.Result(
        removed=(
            f"APIService {teardown.API_SERVICE}",
            "MutatingWebhookConfiguration cozystack-gpu",
            "ValidatingWebhookConfiguration cozystack-gpu",
            f"MutatingAdmissionPolicyBinding {teardown.FINALIZING}",
            f"MutatingAdmissionPolicy {teardown.FINALIZING}",
        ),
        released=("GPUClaim tenant-a/c1", "GPUClass h100"),
    )
    assert await finalizers(cluster) == ["x/y"]
    assert lines == [
        "marked GPUBinder: the leader puts nothing back",
        f"removed APIService {teardown.API_SERVICE}",
        "removed MutatingWebhookConfiguration cozystack-gpu",
        "removed ValidatingWebhookConfiguration cozystack-gpu",
        f"removed MutatingAdmissionPolicyBinding {teardown.FINALIZING}",
        f"removed MutatingAdmissionPolicy {teardown.FINALIZING}",
        "took our finalizer off 2 claims and classes",
        "kept: GPUClaims, GPUClasses, GPUNodes and their CRDs, the settings, the keeper policy",
        "torn down: any namespace can be deleted now, and a later install finds the holds",
    ]


async def test_a_second_run_finds_nothing_to_do(cluster: FakeCluster):
    await run(cluster)
    assert (await run(cluster))[0] == teardown.Result()


async def test_a_claim_made_while_the_policy_was_still_in_force_is_released(cluster: FakeCluster):
    """What an API server enforces follows what was deleted by a good second."""

    def order() -> None:
        meta = {"name": "late", "namespace": "tenant-a", "finalizers": [keys.CLAIM_FINALIZER]}
        cluster.put(kinds.GPU_CLAIMS, {"metadata": meta})

    asyncio.get_running_loop().call_later(1.5 * teardown.QUIET, order)
    result, _ = await run(cluster)
    assert "GPUClaim tenant-a/late" in result.released


async def test_a_cluster_without_the_product_is_left_as_it_is():
    cluster = FakeCluster()
    for kind in (
        kinds.GPU_BINDERS,
        kinds.GPU_CLAIMS,
        kinds.GPU_CLASSES,
        kinds.API_SERVICES,
        kinds.MUTATING_POLICIES,  # served from Kubernetes 1.36 on
        kinds.MUTATING_POLICY_BINDINGS,
    ):
        cluster.unserve(kind)
    result, _ = await run(cluster)
    assert result == teardown.Result()


async def test_a_singleton_that_is_not_there_is_made_with_the_mark(cluster: FakeCluster):
    await cluster.delete(kinds.GPU_BINDERS, keys.BINDER_NAME)
    await run(cluster)
    binder = await cluster.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
    assert binder["metadata"]["annotations"] == {keys.TEARDOWN_ANNOTATION: "this-release"}


def faults(at: int) -> list[Any]:
    conflict = errors.Conflict(409, "Conflict", "modified")
    cut = errors.Unreachable("cut", sent=True)
    return [
        pytest.param(Fault(at=at, executed=False, error=conflict), id=f"conflict at {at}"),
        pytest.param(Fault(at=at, executed=True, error=cut), id=f"reply lost at {at}"),
        pytest.param(Fault(at=at, executed=False, error=cut), id=f"request lost at {at}"),
    ]


@pytest.mark.parametrize("fault", [fault for at in range(1, 9) for fault in faults(at)])
async def test_every_write_may_fail_once(cluster: FakeCluster, fault: Fault):
    cluster.fail(fault)
    result, _ = await run(cluster)
    assert result.failures == ()
    assert await finalizers(cluster) == ["x/y"]
    for kind in (
        kinds.API_SERVICES,
        kinds.MUTATING_WEBHOOKS,
        kinds.VALIDATING_WEBHOOKS,
        kinds.MUTATING_POLICIES,
        kinds.MUTATING_POLICY_BINDINGS,
    ):
        names = [item["metadata"]["name"] for item in (await cluster.list_all(kind)).items]
        assert names == ([] if kind is kinds.API_SERVICES else ["of-others"])


async def test_a_refused_step_is_told_and_the_others_are_done(cluster: FakeCluster):
    cluster.refuse(of_claim, NO)
    result, lines = await run(cluster)
    words = "could not take the finalizer off GPUClaim tenant-a/c1: 403 Forbidden: no"
    assert (result.failures, lines[-1]) == ((words,), words)
    assert result.released == ("GPUClass h100",)
    assert asyncio.get_running_loop().time() < 5 * teardown.QUIET


async def test_a_refusal_that_ends_is_no_failure(cluster: FakeCluster):
    """A policy of ours that guards finalizers is in force for a good second after it was deleted."""
    end = cluster.refuse(of_claim, NO)
    asyncio.get_running_loop().call_later(1.1 * teardown.QUIET, end)
    assert (await run(cluster))[0].clean


async def test_a_silent_cluster_is_given_up_after_a_while(cluster: FakeCluster):
    cluster.down = True
    result, _ = await run(cluster)
    assert not result.clean
    assert f"not done after {teardown.PATIENCE:.0f} s" in result.failures
    assert asyncio.get_running_loop().time() == pytest.approx(teardown.PATIENCE, abs=1)


async def test_a_bug_is_not_taken_for_an_answer(cluster: FakeCluster):
    def broken(_write: Write) -> bool:
        raise ZeroDivisionError

    cluster.refuse(broken, NO)
    with pytest.raises(ZeroDivisionError):
        await run(cluster)


@pytest.mark.parametrize(
    ("mark", "release", "held", "kept"),
    [
        pytest.param(None, "now", False, False, id="no mark"),
        pytest.param("now", "now", True, True, id="this release"),
        pytest.param("before", "now", False, False, id="an earlier release"),
        pytest.param("before", None, False, False, id="no release at all"),
        pytest.param(teardown.NO_RELEASE, None, False, False, id="marked without a release"),
        pytest.param(teardown.NO_RELEASE, "now", False, False, id="installed since"),
    ],
)
async def test_a_mark_holds_for_the_release_it_names(
    mark: str | None, release: str | None, *, held: bool, kept: bool
):
    cluster = FakeCluster()
    annotations = {} if mark is None else {keys.TEARDOWN_ANNOTATION: mark}
    put(cluster, kinds.GPU_BINDERS, keys.BINDER_NAME, annotations=annotations)
    if release:
        put(cluster, kinds.CLUSTER_ROLES, CONFIG.owner_cluster_role, uid=release)
    assert await teardown.still_torn_down(cluster, CONFIG) is held
    binder = await cluster.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
    assert bool(binder["metadata"].get("annotations")) is kept


async def test_without_a_singleton_nothing_is_torn_down():
    assert not await teardown.still_torn_down(FakeCluster(), CONFIG)


class OneBinder:
    """A Reader of the singleton."""

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}
        self.changed: Callable[[], None] | None = None

    def items(self, _view: type[GPUBinder]) -> tuple[GPUBinder, ...]:
        raw = {"metadata": {"name": keys.BINDER_NAME, "annotations": self.annotations}}
        return (binders.decode(raw),)

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self.changed = changed

        def end() -> None:
            self.changed = None

        return end


async def test_a_leader_learns_of_the_mark_when_its_store_does():
    reader = OneBinder()
    waiting = asyncio.ensure_future(teardown.until_marked(reader))  # type: ignore[arg-type]  # a fake
    await asyncio.sleep(1)
    assert not waiting.done()
    reader.annotations[keys.TEARDOWN_ANNOTATION] = "r"
    assert reader.changed is not None
    reader.changed()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert waiting.done()
    assert reader.changed is None
