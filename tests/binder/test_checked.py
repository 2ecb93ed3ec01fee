"""Plans that break a rule: not a write of them, and the pass goes on with what places nothing."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpu.binder import changes, phases, replaying
from gpu.binder.changes import Change, Degrade, Explain, Place
from gpu.binder.phase import Phase, Scene
from gpu.cluster import errors
from gpu.model.refusals import NoNodeEligible
from gpu.objects import kinds
from gpu.objects.claims import Cause, GPUClaim
from gpu.objects.kinds import GPU_CLAIMS
from gpu.objects.meta import ObjectKey
from gpu.units import ClassName, NodeName
from tests.binder import asking, raws
from tests.binder.rig import Rig
from tests.fakes.recorder import HeardRecorder

WHY = (NoNodeEligible(ClassName("h100")),)
OURS = {"finalizers": ["gpu.cozystack.io/claim"]}


def everybody_on_n1(scene: Scene) -> Iterator[Change]:
    """A wrong phase: whoever waits is bound on n1, whether there is room or not."""
    for claim in list(scene.draft.claims()):
        if claim.phase == "Pending" and not claim.meta.deleting:
            yield a_place(scene, claim)


def a_place(scene: Scene, claim: GPUClaim) -> Place:
    set_id = changes.object_set(GPU_CLAIMS, claim.key)
    return scene.plan(Place(claim=claim, node=NodeName("n1"), at=scene.now, set_id=set_id))


def with_wrong_orders(wrong=everybody_on_n1) -> tuple[Phase, ...]:
    return tuple(
        replace(row, changes=wrong) if row.name == "orders" else row for row in phases.PASS
    )


def a_rig(*claims: raws.Raw, units: int = 8, **more) -> Rig:
    rig = Rig(**more)
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node(units=units)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=list(claims),
    )
    rig.passes.recorder = HeardRecorder()
    return rig


def three(**more) -> Rig:
    rows = [raws.a_claim(name, count=3, meta=OURS, at=i) for i, name in enumerate("abc")]
    return a_rig(*rows, raws.a_claim("gone", meta=raws.DELETED), **more)


async def test_nothing_of_a_plan_that_books_a_node_twice_is_written():
    rig = three(table=with_wrong_orders())
    report = await rig.once()
    assert report.plan_problem == (
        f"phase orders: BookedTwice: node n1: 9 units of {raws.RESOURCE} in use, it has 8"
    )
    assert rig.placed() == {}
    assert [kind for _, kind, _ in rig.writes(kinds.GPU_CLAIMS)] == ["GPUClaim tenant-a/gone"]
    assert not report.aborted
    assert report.failed == ()


async def test_what_places_nothing_runs_on_and_tells_of_the_cluster_as_it_is():
    rig = three(table=with_wrong_orders())
    report = await rig.once()
    names = [row.name for row in phases.PASS]
    assert list(report.phases) == [
        *names[: names.index("orders") + 1],
        "release",
        "owners",
        "usage",
        "off",
        "status",
    ]
    assert rig.claim("gone") is None
    shown = rig.cluster._objects[kinds.GPU_CLASSES][ObjectKey("", "h100")]["status"]
    assert (shown["held"], shown["free"]) == (0, 8)


async def test_a_refused_plan_is_told_by_an_event_and_a_condition_of_gpubinder():
    rig = three(table=with_wrong_orders())
    await rig.once()
    assert "GPUBinder binder PlanRefused!" in rig.passes.recorder.heard
    binder = rig.cluster._objects[kinds.GPU_BINDERS][ObjectKey("", "binder")]
    found = {item["type"]: item for item in binder["status"]["conditions"]}
    assert found["PlansChecked"]["status"] == "False"
    assert "BookedTwice: node n1" in found["PlansChecked"]["message"]


async def test_passes_go_on_and_place_again_once_the_plan_is_well():
    rig = three(table=with_wrong_orders())
    for _ in range(3):
        assert (await rig.once()).plan_problem
    await rig.cluster.delete(kinds.GPU_CLAIMS, "b", "tenant-a")
    await rig.once()
    report = await rig.once()
    assert report.plan_problem == ""
    assert rig.placed() == {"tenant-a/a": "n1", "tenant-a/c": "n1"}


async def test_phases_that_come_later_see_the_draft_without_the_refused_plan():
    seen: list[dict[str, str]] = []

    def looking(scene: Scene) -> Iterator[Change]:
        held = {str(claim.key): str(claim.node) for claim in scene.draft.claims() if claim.node}
        seen.append(held)
        return iter(())

    looks = Phase(name="looks", changes=looking, after_refused_plan=True)
    rig = three(table=(*with_wrong_orders(), looks))
    await rig.once()
    assert seen == [{}]


async def test_a_phase_is_judged_beside_what_earlier_ones_have_stored():
    def first_two(scene: Scene) -> Iterator[Change]:
        for claim in list(scene.draft.claims())[:2]:
            yield a_place(scene, claim)

    early = Phase(name="early", changes=first_two)
    rig = three(table=(early, *with_wrong_orders()))
    report = await rig.once()
    assert report.plan_problem.startswith("phase orders: BookedTwice")
    assert rig.placed() == {"tenant-a/a": "n1", "tenant-a/b": "n1"}


async def test_a_phase_is_not_judged_by_what_an_earlier_one_could_not_store():
    def first(scene: Scene) -> Iterator[Change]:
        yield a_place(scene, next(iter(scene.draft.claims())))

    rig = a_rig(
        raws.a_claim("a", count=6, meta=OURS),
        raws.a_claim("b", count=6, meta=OURS, at=1),
        table=(Phase(name="early", changes=first), *phases.PASS),
    )
    no = errors.from_status({"code": 422, "reason": "Invalid", "message": "no"})
    rig.cluster.refuse(lambda write: write.key.name == "a" and bool(write.subresource), no)
    report = await rig.once()
    assert report.plan_problem == ""
    assert rig.placed() == {"tenant-a/b": "n1"}


async def test_a_refused_plan_is_saved_once_while_its_words_stay_the_same(tmp_path):
    rig = three(table=with_wrong_orders(), in_thread=asyncio.to_thread)
    rig.passes.saves.directory = tmp_path / "replays"
    report = await rig.once()
    (path,) = (tmp_path / "replays").iterdir()
    assert (report.saved, report.not_saved) == (str(path), "")
    for _ in range(3):
        rig.clock.advance(60)
        assert (await rig.once()).saved == ""
    saved = replaying.decode(path.read_bytes())
    assert replaying.decide(saved, with_wrong_orders()) == saved.decisions
    assert "orders refused BookedTwice" in "\n".join(saved.decisions)


async def test_a_phase_that_crashes_leaves_its_pass_in_a_file(tmp_path):
    def crashing(_: Scene) -> Iterator[Change]:
        raise ArithmeticError("no")

    rig = three(table=with_wrong_orders(crashing), in_thread=asyncio.to_thread)
    rig.passes.saves.directory = tmp_path
    with pytest.raises(ArithmeticError):
        await rig.once()
    (path,) = tmp_path.iterdir()
    assert len(replaying.decode(path.read_bytes()).world.claims) == 4


async def test_a_directory_that_cannot_be_written_ends_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    rig = three(in_thread=asyncio.to_thread)
    rig.passes.saves.directory = tmp_path / "file" / "replays"
    rig.passes.saves.ask()
    report = await rig.once()
    assert "Not a directory" in report.not_saved
    assert rig.placed() == {"tenant-a/a": "n1", "tenant-a/b": "n1"}


# Refusals of other changes of placement.


async def test_a_claim_whose_loss_is_refused_stays_bound_and_says_so():
    def losing(scene: Scene) -> Iterator[Change]:
        for claim in list(scene.draft.claims()):
            if claim.phase == "Bound" and not scene.leaves_alone(str(claim.key)):
                left = changes.Displaced(at=scene.now, node=claim.node, cause=Cause.NODE_GONE)
                yield scene.plan(
                    changes.Lose(
                        claim=claim,
                        displaced=left,
                        at=scene.now,
                        set_id=str(claim.key),
                        refusals=WHY,
                    )
                )

    rig = a_rig(
        raws.a_claim("a", meta=OURS, status=raws.bound()),
        table=(Phase(name="losing", changes=losing),),
    )
    no = errors.from_status({"code": 422, "reason": "Invalid", "message": "no"})
    rig.cluster.refuse(lambda write: write.body["status"].get("phase") == "Lost", no)
    report = await rig.once()
    assert (report.quarantined, report.plan_problem) == (1, "")
    assert report.written == {"ExplainRefused": 1}
    status = rig.claim("a")["status"]
    found = {item["type"]: item["reason"] for item in status["conditions"]}
    assert (status["phase"], found) == ("Bound", {"Degraded": "WriteRefused"})
    assert (await rig.once()).written == {}


@pytest.mark.parametrize("change", [Explain, Degrade])
async def test_only_placements_are_explained_when_they_are_refused(change):
    def telling(scene: Scene) -> Iterator[Change]:
        (claim,) = scene.draft.claims()
        how = {"refusals": WHY} if change is Explain else {"cause": Cause.NODE_GONE, "words": "x"}
        yield change(claim=claim, at=scene.now, set_id=str(claim.key), **how)

    status = raws.bound() if change is Degrade else None
    rig = a_rig(
        raws.a_claim("a", meta=OURS, status=status), table=(Phase(name="tell", changes=telling),)
    )
    no = errors.from_status({"code": 422, "reason": "Invalid", "message": "no"})
    rig.cluster.refuse(lambda write: bool(write.subresource), no)
    report = await rig.once()
    assert [item.change for item in report.failed] == [change.__name__]


@pytest.mark.parametrize("noted", [["src", "tgt"], ["src"]], ids=["noted", "only listed"])
async def test_a_migration_is_followed_to_a_pod_that_is_not_seen(noted):
    """On a node that its units overdraw: they are in use there already.

    Somebody forced the target's object away, or the watch of pods is behind that of VMIs.
    """
    pods = {"src": "n1", "tgt": "n2"}
    used = raws.attached(
        "vm", uid="vmi-1", admission="a", pods={name: pods[name] for name in noted}, ended=["src"]
    )
    rig = a_rig(
        raws.a_claim("held", count=2, meta=OURS, status=raws.bound("n2")),
        raws.a_claim("x", meta=OURS, status=raws.bound() | used),
    )
    rig.store(
        nodes=[raws.a_node("n2", units=2)],
        vmis=[
            raws.a_vmi(
                node="n2",
                pods=pods,
                admissions={"x": "a"},
                migration={"targetNode": "n2", "completed": True},
            )
        ],
        pods=[raws.a_pod("src", phase="Succeeded")],
    )
    report = await rig.passes.once()
    assert report.plan_problem == ""
    assert rig.placed()["tenant-a/x"] == "n2"


async def test_a_template_claim_is_given_its_owner_also_when_a_plan_is_refused():
    rig = three(table=with_wrong_orders())
    granted = {"result": "Succeeded", "message": "m"}
    made = asking.claim("t", "n2", vm="v", answer=granted, template=True)
    vmi = raws.a_vmi("v", uid="vmi-v", phase="Scheduling", admissions={"t": "r1"})
    rig.store(nodes=[raws.a_node("n2")], claims=[made], vmis=[vmi])
    report = await rig.once()
    assert report.plan_problem
    assert report.written["OwnClaim"] == 1
