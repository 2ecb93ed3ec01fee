"""A write that got no answer may arrive long after it was given up; then it must find itself too late."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from gpu import keys
from gpu.binder.changes import EndGuest
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.claims import Cause
from gpu.objects.kubevirt import VMI
from gpu.ports import Outcome
from gpu.units import NodeName
from tests.binder import raws
from tests.binder.rig import Rig
from tests.fakes.cluster import FakeCluster

DELETED = (kinds.VMIS, "vm", "tenant-a")
OURS = {"finalizers": [keys.CLAIM_FINALIZER]}


@dataclass
class Slow(FakeCluster):
    """The next placement gets no answer and is on its way still: `arrive` has it land."""

    is_slow: bool = False
    under_way: list[tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    async def patch(self, *place: Any, **how: Any) -> dict[str, Any]:
        if self.is_slow and place[2].get("status", {}).get("nodeName"):
            self.is_slow = False
            self.under_way.append((place, how))
            raise errors.Unreachable("no answer", sent=True)
        return await super().patch(*place, **how)

    async def delete(self, *place: Any, **how: Any) -> None:
        if self.is_slow:
            self.is_slow = False
            self.under_way.append((place, how))
            raise errors.Unreachable("no answer", sent=True)
        await super().delete(*place, **how)

    async def arrive(self) -> None:
        place, how = self.under_way.pop()
        if len(place) == len(DELETED):
            await super().delete(*place, **how)
        else:
            await super().patch(*place, **how)


def a_rig() -> Rig:
    rig = Rig(cluster=Slow())
    rig.store(
        classes=[raws.a_class(meta={"finalizers": [keys.CLASS_FINALIZER]})],
        nodes=[raws.a_node("n1", units=1)],
        namespaces=[raws.a_tenant(name) for name in ("tenant-root", "tenant-a")],
        claims=[raws.a_claim("a", at=1, meta=OURS)],
    )
    return rig


async def test_it_lands_before_it_is_asked_about_and_is_believed():
    rig = a_rig()
    rig.cluster.is_slow = True
    await rig.once()
    await rig.cluster.arrive()
    await rig.until_still()
    assert rig.placed() == {"tenant-a/a": "n1"}


async def test_once_its_unit_was_given_to_another_it_is_refused():
    """The claim says already why it waits, so no other write of it comes in between."""
    rig = a_rig()
    rig.store(claims=[raws.a_claim("h", at=0, meta=OURS)])
    await rig.until_still()
    assert rig.placed() == {"tenant-a/h": "n1"}
    await rig.cluster.delete(kinds.GPU_CLAIMS, "h", "tenant-a")
    rig.cluster.is_slow = True
    while rig.cluster.is_slow:
        await rig.once()
    rig.store(claims=[raws.a_claim("older", at=0, meta=OURS)])
    await rig.until_still()
    assert rig.placed() == {"tenant-a/older": "n1"}
    with pytest.raises(errors.Conflict):
        await rig.cluster.arrive()
    assert rig.placed() == {"tenant-a/older": "n1"}


async def test_an_answered_no_or_a_conflict_costs_no_write_more():
    rig = a_rig()
    rig.cluster.refuse(
        lambda write: write.subresource == "status" and write.kind == kinds.GPU_CLAIMS,
        errors.from_status({"code": 409, "reason": "Conflict", "message": "changed"}),
    )
    await rig.once()
    before = len(rig.writes(kinds.GPU_CLAIMS))
    await rig.view.world()
    assert len(rig.writes(kinds.GPU_CLAIMS)) == before


async def test_a_claim_that_takes_no_write_at_all_delays_nobody():
    rig = a_rig()
    rig.cluster.is_slow = True
    await rig.once()
    rig.cluster.refuse(
        lambda write: write.key.name == "a",
        errors.from_status({"code": 403, "reason": "Forbidden", "message": "no"}),
    )
    rig.store(nodes=[raws.a_node("n2", units=1)], claims=[raws.a_claim("b", at=2, meta=OURS)])
    await rig.until_still()
    assert "tenant-a/b" in rig.placed()


def an_end(rig: Rig) -> EndGuest:
    (vmi,) = rig.window.items(VMI)
    return EndGuest(
        vmi=vmi.meta.key,
        uid=vmi.meta.uid,
        version=vmi.meta.resource_version,
        node=NodeName("n1"),
        cause=Cause.NODE_NOT_READY,
        set_id="tenant-a/a",
    )


@pytest.mark.parametrize("uid", ["vmi-1", "vmi-2"], ids=["that guest", "the next of its name"])
async def test_a_guest_that_has_changed_since_is_not_ended_by_a_deletion_that_comes_late(uid):
    """Its node is back meanwhile, and KubeVirt has said so of the VMI; or it was started anew."""
    rig = a_rig()
    rig.store(vmis=[raws.a_vmi("vm", uid="vmi-1")])
    rig.cluster.is_slow = True
    failure = await rig.writer.perform(an_end(rig))
    assert failure is not None
    assert failure.outcome is Outcome.UNKNOWN
    rig.store(vmis=[raws.a_vmi("vm", uid=uid, phase="Running")])
    with pytest.raises(errors.Conflict):
        await rig.cluster.arrive()
    assert [vmi.meta.uid for vmi in rig.window.items(VMI)] == [uid]


async def test_a_guest_is_ended_as_its_node_was_judged_by():
    rig = a_rig()
    rig.store(vmis=[raws.a_vmi("vm")])
    assert await rig.writer.perform(an_end(rig)) is None
    rig.window.show()
    assert rig.window.items(VMI) == ()
