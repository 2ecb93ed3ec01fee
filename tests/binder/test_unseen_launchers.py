"""A launcher that ran where its start was promised a node, and was forced away before any leader noted it.

Its VMI is gone as well, so nothing is left that says it was there: the claim stays until its node has looked.
"""

from typing import Any

from gpu import keys
from gpu.objects import kinds
from tests.binder import asking, interrupting, raws
from tests.binder.asking import claim
from tests.binder.rig import Rig

GRANTED = {"result": "Succeeded", "message": "held on node n1"}
SINCE = "2026-01-02T03:04:00Z"


def of_start(name: str = "a", **status: Any) -> dict[str, Any]:
    """A claim whose VM was granted node n1, and whose VMI was seen and is gone."""
    made = claim(name, "n1", asks=[name], since=SINCE, answer=GRANTED)
    made["status"]["attachedTo"] |= {"uid": "vmi-1"} | status
    return made


def a_rig(*claims: dict[str, Any], **objects: Any) -> Rig:
    rig = Rig(config=asking.CONFIG)
    nodes = [raws.a_node(name, units=4) for name in ("n1", "n2")]
    usual: dict[str, Any] = {"nodes": nodes, "claims": list(claims)}
    usual["classes"] = [raws.a_class(meta={"finalizers": ["gpu.cozystack.io/class"]})]
    usual["namespaces"] = [raws.a_tenant("tenant-root"), raws.a_tenant()]
    for node in nodes:
        rig.cluster.put(kinds.LEASES, interrupting.lease(node["metadata"]["name"]))
    rig.store(**(usual | objects))
    return rig


def status(rig: Rig, name: str = "a") -> dict[str, Any]:
    found = rig.claim(name)
    assert found is not None
    return dict(found["status"])


async def after(rig: Rig, seconds: float) -> None:
    rig.clock.advance(seconds)
    await rig.until_still()


async def test_its_claim_stays_until_the_node_has_looked():
    rig = a_rig(of_start())
    await rig.until_still()
    pods = status(rig)["attachedTo"]["pods"]
    assert [pod["node"] for pod in pods] == ["n1"]
    await after(rig, 179)
    assert status(rig)["attachedTo"]["pods"] == pods
    await after(rig, 1)
    assert status(rig).get("attachedTo") is None
    assert status(rig).get("bindRequest") is None


async def test_a_new_leader_watches_the_node_anew():
    rig = a_rig(of_start())
    await rig.until_still()
    await after(rig, 100)
    heir = rig.next_leader()
    await heir.until_still()
    await after(heir, 179)
    assert status(heir)["attachedTo"]["pods"]
    await after(heir, 1)
    assert status(heir).get("attachedTo") is None


async def test_its_deleted_claim_says_what_it_waits_for():
    gone = {"deletionTimestamp": "2026-01-02T03:04:10Z", "finalizers": [keys.CLAIM_FINALIZER]}
    made = of_start()
    made["metadata"] |= gone
    rig = a_rig(made)
    await rig.until_still()
    words = [one["message"] for one in status(rig)["conditions"] if one["status"] == "True"]
    assert any("a launcher that nobody saw of VM vm is gone" in one for one in words)
    await after(rig, 180)
    assert rig.claim("a") is None


async def test_nothing_of_it_is_given_out_when_its_node_is_not_ready_and_its_claim_is_lost():
    node = raws.a_node("n1", units=1, ready="False")
    rig = a_rig(of_start(), nodes=[node, raws.a_node("n2", units=4)])
    await rig.until_still()
    await after(rig, 900)
    assert status(rig)["attachedTo"]["pods"]
    assert status(rig)["nodeName"] == "n1"  # not bound elsewhere while it may run here


async def test_a_start_whose_launcher_was_noted_is_over_as_soon_as_that_has_ended():
    """The usual case: it waits for nothing."""
    rig = a_rig(of_start(launched=True, pods=[{"uid": "p", "node": "n1", "ended": True}]))
    await rig.until_still()
    assert status(rig).get("attachedTo") is None


async def test_of_a_start_that_runs_the_launcher_is_noted_in_the_write_that_notes_its_pod():
    vmi = raws.a_vmi("vm", uid="vmi-1", phase="Scheduling", pods={"p": "n1"})
    pod = raws.a_pod("p", node="n1")
    rig = a_rig(of_start(), vmis=[vmi], pods=[pod])
    report = await rig.once()
    assert report.written
    assert status(rig)["attachedTo"]["launched"] is True
    writes = len(rig.writes(kinds.GPU_CLAIMS))
    await rig.until_still()
    assert len(rig.writes(kinds.GPU_CLAIMS)) == writes
