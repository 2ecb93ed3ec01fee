"""The condition PoliciesCurrent, and the Events of its changes."""

import pytest

from gpu import keys
from gpu.objects import kinds
from policies import standing
from policies.standing import Reason, Standing
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.fakes.recorder import HeardRecorder

BINDER = f"GPUBinder {keys.BINDER_NAME}"


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    found.put(kinds.GPU_BINDERS, {"metadata": {"name": keys.BINDER_NAME}})
    return found


async def told(cluster: FakeCluster, *reasons: Reason) -> list[str]:
    recorder = HeardRecorder()
    for number, reason in enumerate(reasons):
        # A new reporter each time: what is shown decides, not what this process remembers.
        tell = standing.on_binder(cluster, FakeClock(), recorder)
        await tell(Standing(reason=reason, message=f"{reason.value} {number}"))
    return recorder.heard


@pytest.mark.parametrize("reason", list(Reason))
async def test_the_condition_says_how_it_stands(cluster: FakeCluster, reason: Reason):
    await told(cluster, reason)
    status = (await cluster.get(kinds.GPU_BINDERS, keys.BINDER_NAME))["status"]
    good = {Reason.CURRENT, Reason.RENDERED}
    expected = "True" if reason in good else "False"
    if reason is Reason.NOT_PROVED:
        expected = "Unknown"
    assert [(item["status"], item["reason"]) for item in status["conditions"]] == [
        (expected, reason.value)
    ]


async def test_a_change_of_reason_is_an_event(cluster: FakeCluster):
    assert await told(
        cluster,
        Reason.CURRENT,
        Reason.SETTINGS_STALE,
        Reason.SETTINGS_STALE,
        Reason.CURRENT,
        Reason.NOT_PROVED,
    ) == [f"{BINDER} SettingsStale!", f"{BINDER} Current", f"{BINDER} NotProved!"]


async def test_the_first_thing_told_is_news_only_when_it_is_bad(cluster: FakeCluster):
    assert await told(cluster, Reason.WRITE_FAILED) == [f"{BINDER} WriteFailed!"]


async def test_other_words_for_the_same_reason_are_shown_and_no_news(cluster: FakeCluster):
    assert await told(cluster, Reason.CURRENT, Reason.CURRENT) == []
    status = (await cluster.get(kinds.GPU_BINDERS, keys.BINDER_NAME))["status"]
    assert status["conditions"][0]["message"] == "Current 1"


async def test_the_name_of_a_copy_stays_beside_the_condition(cluster: FakeCluster):
    note = {"status": {"settings": {"configMap": "cozystack-gpu-settings-2"}}}
    await cluster.patch(kinds.GPU_BINDERS, keys.BINDER_NAME, note, subresource="status")
    await told(cluster, Reason.CURRENT, Reason.SETTINGS_STALE)
    status = (await cluster.get(kinds.GPU_BINDERS, keys.BINDER_NAME))["status"]
    assert status["settings"] == {"configMap": "cozystack-gpu-settings-2"}
