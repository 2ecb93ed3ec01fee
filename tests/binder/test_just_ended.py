"""A start that asks for claims whose last launcher vanished: they are granted where they are.

Nobody notes the end before the VMI is there, so the launcher's units are the claims' own until then.
The same at the gate, where it is noted: test_gates.
"""

from typing import Any

import pytest

from gpu.binder import bodies
from gpu.objects import kinds
from tests.binder import asking, raws
from tests.binder.interrupting import lease
from tests.binder.rig import Rig


async def a_rig() -> Rig:
    """One claim on n1, all of whose units it holds; its last launcher vanished there long ago, unseen."""
    rig = Rig(config=asking.CONFIG)
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node("n1", units=2), raws.a_node("n2", units=4)],
        namespaces=[raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
        claims=[a_claim(rig, asks=None)],
        pods=[raws.a_pod("old", node="n1", units=2)],
    )
    await rig.until_still()
    await rig.cluster.delete(kinds.PODS, "old", "tenant-a")
    await rig.until_still()
    rig.clock.advance(rig.config.grace.release_settle + 30)
    rig.cluster.put(kinds.LEASES, lease("n1"))
    return rig


def a_claim(rig: Rig, **more: Any) -> raws.Raw:
    since = bodies.time(rig.clock.now())
    made = asking.claim("a", "n1", count=2, since=since, **more)
    made["status"]["attachedTo"]["pods"] = [{"uid": "old", "node": "n1"}]
    return made


@pytest.mark.parametrize("elsewhere", [4, 0], ids=["another node has room", "none has"])
async def test_a_start_that_asks_is_granted_where_its_claims_are(elsewhere: int):
    rig = await a_rig()
    rig.store(nodes=[raws.a_node("n2", units=elsewhere)], claims=[a_claim(rig, asks=["a"])])
    await rig.until_still()
    stored = rig.claim("a")
    assert stored is not None
    status = stored["status"]
    assert (status["nodeName"], status["bindRequest"]["result"]) == ("n1", "Succeeded")
