"""Changes whose evidence did not hold: nothing is sent, nothing else is hindered, nobody hurries."""

from collections.abc import Iterator

from gpu.binder import delivery
from gpu.binder.changes import Change, Place
from gpu.binder.confirms import VMIEnded
from gpu.binder.delivery import Delivered
from gpu.binder.phase import Phase, Scene
from gpu.binder.writer import Failure
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from gpu.ports import Outcome
from gpu.units import NodeName
from tests.binder import raws
from tests.binder.rig import Rig
from tests.binder.test_delivery import Writer, a_place

OURS = {"finalizers": ["gpu.cozystack.io/claim"]}
STALE = Failure(Outcome.STALE, "pod lives")


async def test_a_stale_change_ends_its_own_set_and_lets_the_others_start():
    writer = Writer(answers={"s1:a": STALE})
    wanted = [a_place("a", "s1"), a_place("b", "s1"), a_place("c", "s2")]
    done = await delivery.deliver(wanted, writer, 1)
    assert writer.names == ["s1:a", "s2:c"]
    (failed,) = done.failed
    assert failed.left == (wanted[0], wanted[1])
    assert (failed.is_stale, failed.is_refused, failed.is_gone) == (True, False, False)
    assert (done.aborted, done.complete) == (False, ["s2"])
    assert isinstance(done, Delivered)


async def test_what_was_stored_is_told_one_by_one_and_what_was_not_is_not():
    writer = Writer(answers={"s1:b": STALE})
    wanted = [a_place("a", "s1"), a_place("b", "s1"), a_place("c", "s2")]
    told: list[Change] = []
    await delivery.deliver(wanted, writer, 1, told.append)
    assert told == [wanted[0], wanted[2]]


def everybody_on_n1(scene: Scene) -> Iterator[Change]:
    """Claim `a` relies on a VMI that is over; it is not."""
    ended = VMIEnded(key=ObjectKey("tenant-a", "vm"), uid="vmi")
    for claim in list(scene.draft.claims()):
        set_id = str(claim.key)
        if claim.phase == "Pending" and not scene.leaves_alone(set_id):
            confirm = (ended,) if claim.meta.name == "a" else ()
            yield scene.plan(
                Place(
                    claim=claim,
                    node=NodeName("n1"),
                    at=scene.now,
                    set_id=set_id,
                    confirm=confirm,
                )
            )


def a_rig() -> Rig:
    seen: list[str] = []

    def looks(scene: Scene) -> Iterator[Change]:
        seen[:] = [str(claim.key) for claim in scene.draft.claims() if claim.phase == "Bound"]
        return iter(())

    rig = Rig(table=(Phase(name="orders", changes=everybody_on_n1), Phase(name="l", changes=looks)))
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node()],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=[raws.a_claim("a", meta=OURS), raws.a_claim("b", meta=OURS, at=1)],
        vmis=[{"metadata": {"name": "vm", "namespace": "tenant-a", "uid": "vmi"}}],
    )
    rig.seen = seen
    return rig


async def test_a_stale_placement_is_put_back_and_later_phases_still_run():
    rig = a_rig()
    report = await rig.once()
    assert [(item.object, item.outcome) for item in report.failed] == [
        ("GPUClaim tenant-a/a", Outcome.STALE)
    ]
    assert (report.aborted, report.again, report.quarantined) == (False, False, 0)
    assert report.retryable == ()
    assert rig.seen == ["tenant-a/b"]
    assert rig.placed() == {"tenant-a/b": "n1"}
    assert [key for _, key, _ in rig.writes()] == ["GPUClaim tenant-a/b"]


async def test_a_stale_placement_is_tried_again_by_the_next_event_or_resync_and_not_by_an_echo():
    rig = a_rig()
    await rig.passes.once(forced=False)
    rig.window.show()
    assert (await rig.passes.once(forced=False)).skipped
    assert not (await rig.passes.once(forced=True)).skipped
    rig.cluster.put(
        kinds.VMIS,
        {
            "metadata": {"name": "vm", "namespace": "tenant-a", "uid": "vmi"},
            "status": {"phase": "Succeeded"},
        },
    )
    rig.window.show()
    assert not (await rig.passes.once(forced=False)).skipped
    assert rig.placed() == {"tenant-a/a": "n1", "tenant-a/b": "n1"}
