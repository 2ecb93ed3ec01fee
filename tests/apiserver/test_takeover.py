"""The host's APIService over an API server in memory: taken, kept, put back, and left to others."""

import asyncio
import json
from typing import Any

import pytest

from apiserver import takeover, teardown
from gpu import keys
from gpu.cluster import errors
from gpu.config import Config
from gpu.objects import kinds
from tests.fakes.cluster import FakeCluster, Fault

pytestmark = pytest.mark.looptime

INJECT = "cert-manager.io/inject-ca-from"
OURS = {"name": "cozystack-gpu", "namespace": "cozy-system", "port": 443}
HOSTS = {"name": "cozystack-api", "namespace": "cozy-system", "port": 443}
BEFORE = {
    "metadata": {"name": takeover.HOST_API, "annotations": {INJECT: "cozy-system/cozystack-api"}},
    "spec": {"group": "core.cozystack.io", "version": "v1alpha1", "service": HOSTS,
             "caBundle": "SE9TVA==", "groupPriorityMinimum": 1000, "versionPriority": 15},
}  # fmt: skip
OWN = {
    "metadata": {"name": takeover.OUR_API, "annotations": {INJECT: "cozy-system/cozystack-gpu"}},
    "spec": {"group": keys.CATALOG_GROUP, "version": "v1alpha1", "service": OURS,
             "caBundle": "T1VSUw=="},
}  # fmt: skip


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    found.put(kinds.API_SERVICES, BEFORE)
    found.put(kinds.API_SERVICES, OWN)
    return found


async def host(cluster: FakeCluster) -> dict[str, Any]:
    return await cluster.get(kinds.API_SERVICES, takeover.HOST_API)


async def settled(cluster: FakeCluster) -> dict[str, Any]:
    """Spec and annotations of the host's APIService; empty annotations are none."""
    found = await host(cluster)
    return {"spec": found["spec"], "annotations": found["metadata"].get("annotations") or {}}


async def test_it_names_us_and_is_put_back_as_it_was(cluster):
    before = await settled(cluster)
    assert await takeover.take(cluster)
    taken = await settled(cluster)
    assert (taken["spec"]["service"], taken["spec"]["caBundle"]) == (OURS, "T1VSUw==")
    assert taken["annotations"][INJECT] == "cozy-system/cozystack-gpu"
    assert taken["spec"]["groupPriorityMinimum"] == 1000
    assert not await takeover.take(cluster), "nothing is written twice"
    assert await takeover.give_back(cluster)
    assert await settled(cluster) == before
    assert not await takeover.give_back(cluster)


async def test_a_ca_and_an_annotation_that_were_not_there_are_not_there_after(cluster):
    plain = {"metadata": {"name": takeover.HOST_API}, "spec": {**BEFORE["spec"], "caBundle": None}}
    plain["spec"].pop("caBundle")
    cluster.put(
        kinds.API_SERVICES, {**plain, "spec": {**plain["spec"], "insecureSkipTLSVerify": True}}
    )
    before = await settled(cluster)
    await takeover.take(cluster)
    assert "insecureSkipTLSVerify" not in (await settled(cluster))["spec"]
    await takeover.give_back(cluster)
    assert await settled(cluster) == before


async def test_our_renewed_ca_reaches_it_and_what_was_before_stays_known(cluster):
    await takeover.take(cluster)
    cluster.put(kinds.API_SERVICES, {**OWN, "spec": {**OWN["spec"], "caBundle": "TkVX"}})
    assert await takeover.take(cluster)
    found = await settled(cluster)
    mark = json.loads(found["annotations"][keys.HOST_API_ANNOTATION])
    assert (found["spec"]["caBundle"], mark["was"]["caBundle"]) == ("TkVX", "SE9TVA==")


async def test_an_upgrade_of_the_host_is_taken_again_and_remembered(cluster):
    await takeover.take(cluster)
    newer = {**HOSTS, "port": 8443}
    patch = {"spec": {"service": newer, "caBundle": "TkVXRVI="}}
    await cluster.patch(kinds.API_SERVICES, takeover.HOST_API, patch)
    assert await takeover.take(cluster)
    assert (await host(cluster))["spec"]["service"] == OURS
    await takeover.give_back(cluster)
    found = await host(cluster)
    assert (found["spec"]["service"], found["spec"]["caBundle"]) == (newer, "TkVXRVI=")


async def test_one_that_names_somebody_else_by_now_is_left_alone(cluster):
    await takeover.take(cluster)
    other = {**HOSTS, "name": "other"}
    await cluster.patch(kinds.API_SERVICES, takeover.HOST_API, {"spec": {"service": other}})
    assert await takeover.give_back(cluster)
    found = await settled(cluster)
    assert (found["spec"]["service"], keys.HOST_API_ANNOTATION in found["annotations"]) == (
        other,
        False,
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"was": 1, "is": 2}', "nonsense"])
async def test_a_mark_that_cannot_be_read_changes_nothing(cluster, text):
    marked = {"metadata": {"annotations": {keys.HOST_API_ANNOTATION: text}}}
    await cluster.patch(kinds.API_SERVICES, takeover.HOST_API, marked)
    assert not await takeover.give_back(cluster)
    assert (await host(cluster))["spec"]["service"] == HOSTS


@pytest.mark.parametrize("gone", [takeover.HOST_API, takeover.OUR_API])
async def test_without_either_nothing_is_done(cluster, gone):
    await cluster.delete(kinds.API_SERVICES, gone)
    assert not await takeover.take(cluster)


async def test_it_is_taken_once_the_host_was_reached_and_kept(cluster):
    reached = False
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(
            takeover.keep(cluster, wanted=True, ready=lambda: reached, leading=lambda: True)
        )
        await asyncio.sleep(30)
        assert (await host(cluster))["spec"]["service"] == HOSTS
        reached = True
        await asyncio.sleep(2)
        assert (await host(cluster))["spec"]["service"] == OURS
        cluster.put(kinds.API_SERVICES, BEFORE)
        await asyncio.sleep(takeover.EVERY + 1)
        assert (await host(cluster))["spec"]["service"] == OURS
        keeping.cancel()


async def test_who_does_not_lead_writes_nothing(cluster):
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(
            takeover.keep(cluster, wanted=True, ready=lambda: True, leading=lambda: False)
        )
        await asyncio.sleep(30)
        keeping.cancel()
    assert (await host(cluster))["spec"]["service"] == HOSTS


async def test_a_refused_write_is_borne_and_tried_again(cluster):
    cluster.fail(Fault(1, executed=False, error=errors.Forbidden(403, "Forbidden", "no")))
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(
            takeover.keep(cluster, wanted=True, ready=lambda: True, leading=lambda: True)
        )
        await asyncio.sleep(1)
        assert (await host(cluster))["spec"]["service"] == HOSTS
        await asyncio.sleep(takeover.EVERY)
        assert (await host(cluster))["spec"]["service"] == OURS
        keeping.cancel()


async def test_with_the_facade_off_it_is_put_back(cluster):
    before = await settled(cluster)
    await takeover.take(cluster)
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(
            takeover.keep(cluster, wanted=False, ready=lambda: True, leading=lambda: True)
        )
        await asyncio.sleep(1)
        keeping.cancel()
    assert await settled(cluster) == before


async def test_teardown_puts_it_back_before_ours_goes(cluster):
    before = await settled(cluster)
    await takeover.take(cluster)
    lines: list[str] = []
    await teardown.teardown(cluster, Config(), report=lines.append)
    assert await settled(cluster) == before
    told = [line for line in lines if "APIService" in line]
    assert told[0] == "gave APIService v1alpha1.core.cozystack.io back to the host"
