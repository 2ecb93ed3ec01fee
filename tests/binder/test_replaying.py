"""Saved passes: what goes into a file comes out of it, and is decided alike, byte for byte."""

import asyncio
import io
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.replay import replay
from gpu.binder import phases, replaying
from gpu.binder.course import Course
from gpu.binder.phase import Scene
from gpu.binder.replaying import ReplayError, Saves
from gpu.cluster import errors
from gpu.config import Config
from gpu.model.draft import Draft
from gpu.model.sightings import Sightings
from gpu.world import World
from tests import sampling, starting, strategies
from tests.binder import asking, raws
from tests.binder.rig import Rig
from tests.binder.slow import Slow
from tests.builders import START, a_claim, a_class, a_node, a_pod, a_vm, a_world, an_inventory
from tests.fakes.cluster import Fault

OURS = {"finalizers": ["gpu.cozystack.io/claim"]}
CONFLICT = errors.from_status({"code": 409, "reason": "Conflict", "message": "modified"})
REFUSED = errors.from_status({"code": 422, "reason": "Invalid", "message": "no"})


def a_scene(world, **more):
    good = {"draft": Draft.of(world.snapshot), "config": Config(), "now": START}
    return Scene(world=world, **{**good, **more})


def run(scene):
    """The whole table with every write stored; what is saved of it."""
    course = Course(scene=scene)
    for phase in phases.PASS:
        if course.wants(phase):
            course.settle(course.plan(phase))
    return replaying.of(scene, course.legs, term=7, table=phases.PASS)


@sampling.examples(40)
@given(
    strategies.clusters(),
    st.lists(
        st.sampled_from(
            [a_vm("vm3", claims=["c0", "c1"]), a_vm("vm4", tenant="tenant-b", claims=["c1", "c2"])]
        ),
        unique_by=lambda vm: vm.meta.key,
    ),
    st.sets(st.sampled_from([f"tenant-a/c{index}" for index in range(4)])),
    st.integers(0, 3600),
)
def test_any_pass_comes_out_of_its_file_as_it_went_in_and_is_decided_alike(
    objects, vms, skip, seconds
):
    fields = {
        name: tuple(sorted(items, key=lambda item: item.meta.key))
        for name, items in (dict(objects) | {"vms": vms}).items()
        if name != "settings"
    }
    world = World(**fields, settings=objects["settings"])
    seen = Sightings(absent={"p3": START}, unplaced=frozenset({"p2"}))
    now = START + timedelta(seconds=seconds, microseconds=7)
    saved = run(a_scene(world, now=now, skip=frozenset(skip), sightings=seen))
    data = replaying.encode(saved)
    loaded = replaying.decode(data)
    assert loaded == saved
    assert loaded.world == world
    assert replaying.encode(loaded) == data
    assert replaying.decide(loaded) == saved.decisions
    assert not any(" refused " in line for line in saved.decisions), "the checker found something"


def test_what_is_not_compared_is_saved_too():
    world = a_world(claims=[a_claim()], inventory=[an_inventory()])
    loaded = replaying.decode(replaying.encode(run(a_scene(world)))).world
    assert loaded.claims[0].meta.resource_version == "1"
    assert loaded.inventory[0].observed_at == START


def test_a_start_comes_out_of_its_file_as_it_went_in():
    world = a_world(
        nodes=[starting.a_machine(labels={"zone": "a"}, amounts={"cpu": "1500m"})],
        pods=[
            starting.a_launcher(
                selector={"zone": "a"},
                node_terms=[starting.node_term("gen", "3", operator="Gt")],
                near=[starting.pod_term(app="db")],
                apart=[{"topologyKey": "zone", "namespaceSelector": {}}],
                tolerations=[{"key": "gpu", "operator": "Exists"}],
                volume_claims=["root"],
                term=7,
                unscheduled="SchedulingGated",
            )
        ],
        vmis=[starting.a_starting_vmi(gpus=["x"], held={"c": "id"}, template={"h100": 2})],
        volume_claims=[starting.a_volume_claim("root", volume="pv")],
        volumes=[starting.a_volume(node_terms=[starting.node_term("zone", "a")])],
        storage_classes=[starting.a_storage_class()],
        csi_nodes=[starting.a_csi_node(disks_example_com=4)],
    )
    saved = run(a_scene(world))
    assert replaying.decode(replaying.encode(saved)).world == world


def test_a_file_holds_no_object_as_stored_and_no_annotation_of_others():
    claim = a_claim()
    marks = {"gpu.cozystack.io/acknowledge-lost": "abc", "tenant/password": "hunter2"}
    claim = replace(claim, meta=replace(claim.meta, annotations=marks))
    claim = replace(claim, raw={"spec": {"password": "hunter2"}})
    data = replaying.encode(run(a_scene(a_world(claims=[claim]))))
    assert b"hunter2" not in data
    (loaded,) = replaying.decode(data).world.claims
    assert loaded.meta.annotations == {"gpu.cozystack.io/acknowledge-lost": "abc"}
    assert loaded.raw == {}


def test_decisions_are_lines_of_what_where_and_why():
    world = a_world(classes=[a_class()], nodes=[a_node()], claims=[a_claim(count=2)])
    at = START.isoformat()
    assert run(a_scene(world)).decisions[0] == (
        f'orders Place GPUClaim tenant-a/c {{"node":"n1","at":"{at}","set_id":"tenant-a/c",'
        '"how":"Placed","displaced":null,"attachment":null,"answer":null,"confirm":[]}'
    )
    full = a_world(classes=[a_class()], nodes=[a_node()], claims=[a_claim(count=9)])
    assert run(a_scene(full)).decisions[0] == (
        'orders Explain GPUClaim tenant-a/c {"refusals":[{"is":"NoFreeUnits","class_name":"h100",'
        f'"wanted":9,"free":8}}],"at":"{at}","set_id":"tenant-a/c"}}'
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a saved pass"),
        (b"[]", "not a saved pass"),
        (b"{}", "format None"),
        (b'{"format": 2}', "format 2 is not the 1 that this version reads"),
        (b'{"format": 1}', "not a saved pass: Object missing required field `now`"),
        (b'{"format": 1, "now": "yesterday"}', "not a saved pass"),
        (b"\xff\xfe", "not a saved pass"),
    ],
)
def test_another_file_is_refused_with_a_reason(data, words):
    with pytest.raises(ReplayError, match=words):
        replaying.decode(data)


def test_negative_units_are_refused_with_a_reason():
    saved = json.loads(replaying.encode(run(a_scene(a_world(claims=[a_claim()])))))
    saved["world"]["claims"][0]["count"] = -1
    with pytest.raises(ReplayError, match="cannot be negative"):
        replaying.decode(json.dumps(saved).encode())


def test_fields_that_a_later_version_adds_to_the_same_format_are_passed_over():
    data = replaying.encode(run(a_scene(a_world(claims=[a_claim()]))))
    more = json.loads(data) | {"news": 1}
    assert replaying.decode(msgspec.json.encode(more)) == replaying.decode(data)


# A pass that met failures.


def a_rig(tmp_path, **more):
    rig = Rig(in_thread=asyncio.to_thread, **more)
    rig.store(
        classes=[raws.a_class()],
        nodes=[raws.a_node(units=4)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=[raws.a_claim(name, count=2, meta=OURS, at=i) for i, name in enumerate("abc")],
    )
    rig.passes.saves.directory = tmp_path
    rig.passes.saves.ask()
    return rig


async def replayed(report):
    saved = await asyncio.to_thread(lambda: replaying.decode(Path(report.saved).read_bytes()))
    return saved, replaying.decide(saved)


@pytest.mark.parametrize("fault", ["none", "conflict", "refused", "gone"])
async def test_a_pass_that_met_failures_is_decided_as_it_was(tmp_path, fault):
    rig = a_rig(tmp_path)
    if fault == "conflict":
        rig.cluster.fail(Fault(at=1, executed=False, error=CONFLICT))
    if fault == "refused":
        rig.cluster.refuse(lambda write: write.key.name == "a", REFUSED)
    if fault == "gone":
        rig.cluster._objects[raws.kind_of("claims")].clear()
    report = await rig.passes.once()
    saved, decided = await replayed(report)
    assert decided == saved.decisions
    assert (saved.aborted == "orders") == (fault == "conflict")
    assert sum(line.startswith("orders ") for line in decided) == 3
    recorded = any(line.startswith("usage WriteRecord") for line in decided)
    assert recorded == (fault in {"none", "refused"})


async def test_only_the_pass_that_was_asked_for_is_saved(tmp_path):
    rig = a_rig(tmp_path)
    assert (await rig.once()).saved
    assert (await rig.once()).saved == ""
    assert rig.passes.saves.ask()
    assert (await rig.passes.once(forced=False)).saved, "asked for: an echo is a pass too"


async def test_asking_wakes_a_leader_and_is_in_vain_when_nothing_is_ever_saved(tmp_path):
    woken = []
    saves = Saves(directory=tmp_path, wake=lambda: woken.append(1))
    assert saves.ask()
    assert woken == [1]
    assert not Saves(wake=lambda: woken.append(2)).ask()
    assert woken == [1]


def test_a_problem_that_lasts_is_saved_once_and_one_that_changes_twice_a_minute(tmp_path):
    saves = Saves(directory=tmp_path)
    assert [saves.wants(words, at) for at, words in [(0, "x"), (1, "x"), (2, "y"), (31, "z")]] == [
        True,
        False,
        False,
        True,
    ]
    assert not saves.wants("", 40)
    assert saves.wants("z", 70), "it was well in between"


def test_the_newest_twenty_stay_and_nobody_else_reads_them(tmp_path):
    saves = Saves(directory=tmp_path / "replays")
    saved = run(a_scene(a_world(pods=[a_pod()])))
    paths = [saves.write(replace(saved, now=START + timedelta(days=n))) for n in range(23)]
    left = sorted((tmp_path / "replays").iterdir())
    assert left == paths[3:]
    assert paths[0].name == "20260101T000000.000000Z-term7.json"
    assert oct(paths[-1].stat().st_mode & 0o777) == "0o600"
    assert oct(paths[-1].parent.stat().st_mode & 0o777) == "0o700"


def test_files_that_are_large_make_room_for_the_newest(tmp_path, monkeypatch):
    saved = run(a_scene(a_world()))
    size = len(replaying.encode(saved))
    for most, left in ((3 * size, 3), (3 * size - 1, 2), (0, 1)):
        monkeypatch.setattr(replaying, "MOST", most)
        saves = Saves(directory=tmp_path / str(most))
        paths = [saves.write(replace(saved, now=START + timedelta(days=n))) for n in range(5)]
        assert sorted((tmp_path / str(most)).iterdir()) == paths[-left:]


# The command.


def command(path):
    out, err = io.StringIO(), io.StringIO()
    return replay(path, out=out, err=err), out.getvalue(), err.getvalue()


def test_the_command_prints_the_decisions_and_says_that_they_are_the_same(tmp_path):
    saved = run(a_scene(a_world(claims=[a_claim()])))
    path = tmp_path / "x.json"
    path.write_bytes(replaying.encode(saved))
    code, out, err = command(path)
    assert (code, out) == (0, "".join(f"{line}\n" for line in saved.decisions))
    assert err.startswith("pass of term 7 at 2026-01-01T00:00:00+00:00: 1 claims, 1 nodes, 0 pods")


def test_the_command_tells_how_other_decisions_differ(tmp_path):
    saved = run(a_scene(a_world(claims=[a_claim()])))
    path = tmp_path / "x.json"
    path.write_bytes(replaying.encode(replace(saved, decisions=("orders nothing",))))
    code, out, err = command(path)
    assert (code, out) == (1, "".join(f"{line}\n" for line in saved.decisions))
    assert "\n-orders nothing\n+orders Place GPUClaim tenant-a/c" in err


def test_the_command_refuses_what_is_no_saved_pass(tmp_path):
    missing = tmp_path / "missing.json"
    assert command(missing)[:2] == (2, "")
    (tmp_path / "y.json").write_text('{"format": 9}')
    assert command(tmp_path / "y.json") == (
        2,
        "",
        f"{tmp_path / 'y.json'}: format 9 is not the 1 that this version reads\n",
    )


async def test_a_pass_beside_another_is_decided_as_it_was(tmp_path):
    """What the other had planned is in the file: without it other units would be free."""
    rig = a_rig(tmp_path, config=asking.CONFIG)
    line = Slow(rig.cluster)
    rig.writer.api = line
    line.stuck = lambda name: name == "a"
    full = asyncio.ensure_future(rig.passes.once())
    await line.is_stuck("a")
    asked = asking.claim("t", asks=["t"], since="2026-01-02T03:04:00Z", template=True)
    rig.store(claims=[asked], nodes=[raws.a_node("n2", units=1)])
    await rig.passes.answer()
    line.go.set()
    saved, again = await replayed(await full)
    assert [met.claims[0].meta.name for found in saved.beside.values() for met in found] == ["t"]
    assert saved.decisions == again
    assert replaying.decide(replace(saved, beside={})) != again
