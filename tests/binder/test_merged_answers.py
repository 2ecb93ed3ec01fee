"""What somebody else writes to an object just before a write of ours that names no version is no echo of it."""

import copy

import pytest

from gpu import keys
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.binder import raws
from tests.binder import test_reading as reading
from tests.binder.test_pass import CLAIM, CONFLICT, a_rig


def deletes(raw):
    raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"


def sees_none_healthy(raw):
    raw["status"]["devices"] = [{"id": "gpu-0", "resourceName": raws.RESOURCE, "healthy": False}]


def acknowledges(raw):
    raw["metadata"]["annotations"] = {keys.ACKNOWLEDGE_LOST_ANNOTATION: "0123abcd"}


@pytest.mark.parametrize(
    ("kind", "name", "edit"),
    [
        pytest.param(kinds.GPU_CLASSES, "h100", deletes, id="a class is deleted"),
        pytest.param(kinds.GPU_NODES, "n1", sees_none_healthy, id="an agent sees a card ail"),
        pytest.param(kinds.GPU_BINDERS, keys.BINDER_NAME, acknowledges, id="losses acknowledged"),
    ],
)
async def test_an_answer_that_shows_what_another_wrote_is_followed_by_a_whole_pass(
    kind, name, edit
):
    rig = a_rig(raws.a_claim("x", meta=CLAIM))
    rig.store(inventory=[raws.an_inventory("n1", status=raws.seen_devices(at=NOW))])
    met = []

    def meanwhile(write):
        if write.kind == kind and write.subresource == "status" and not met:
            met.append(write)
            stored = copy.deepcopy(rig.cluster._objects[kind][ObjectKey("", name)])
            edit(stored)
            rig.cluster.put(kind, stored)
        return False

    rig.cluster.refuse(meanwhile, CONFLICT)
    await rig.passes.once(forced=False)
    rig.window.show()
    assert met
    assert not (await rig.passes.once(forced=False)).skipped


NOW = "2026-01-02T03:04:00Z"


async def test_after_a_list_that_a_look_beside_needed_nothing_is_taken_for_an_echo():
    """The watch went back in time; the list that says what is true shows what others wrote as well."""
    cluster = reading.Cluster(proved=8, at=8)
    view = reading.a_view(cluster)
    await view.world(reading.at_once)
    new = reading.raw_claim("new", 9)
    cluster.stored, cluster.at, cluster.proved = {reading.key("new"): new}, 9, 5
    await view.look(reading.at_once)
    assert await view.expected(reading.at_once) is None
