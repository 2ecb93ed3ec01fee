"""Launchers at the gate beside those that were promised a node and are not there yet (`binding: request`)."""

from typing import Any

import pytest

from gpu.config import Binding, Config
from gpu.model import explain_starts
from gpu.units import TenantName
from tests.binder import gated, raws
from tests.binder.asking import claim
from tests.binder.phases.test_gates import pinned
from tests.binder.phases.test_requests_fit import launcher, node
from tests.binder.rig import Rig
from tests.binder.scenes import a_scene

SINCE = "2026-01-02T03:04:00Z"
REQUEST = Config(binding=Binding.REQUEST)


def promised(vm: str = "first", **how: Any) -> raws.Raw:
    """A claim of a start that was granted n1, where its launcher will ask for 3 CPUs."""
    answer = {"result": "Succeeded", "message": "", "launcher": launcher(cpu="3")}
    return claim("a", "n1", vm=vm, since=SINCE, answer=answer, **how)


def waiting(*claims: raws.Raw, nodes: tuple[str, ...] = ("n1", "n2"), **more: Any) -> raws.Raw:
    """Beside claims a launcher of VM vm that asks for 2 CPUs and a unit, on nodes of 4 CPUs."""
    start = gated.a_start(units={"h100": 1})
    asked = start["pods"][0]["spec"]["containers"][0]["resources"]
    asked["requests"] = {**asked.get("requests", asked.get("limits", {})), "cpu": "2"}
    return (
        {
            "classes": [raws.a_class()],
            "nodes": [node(name, cpu="4") for name in nodes],
            "namespaces": [raws.a_tenant(it) for it in ("tenant-root", "tenant-a")],
            "claims": list(claims),
        }
        | start
        | more
    )


async def let_through(objects: raws.Raw) -> str | None:
    rig = Rig(config=REQUEST)
    rig.store(**objects)
    await rig.once()
    found = pinned(rig)
    assert found is None or isinstance(found, str)
    return found


async def test_a_launcher_is_sent_where_room_is_left_beside_a_promised_one():
    assert await let_through(waiting(promised())) == "n2"


async def test_and_where_nothing_is_promised_to_the_fullest_node():
    held = raws.a_claim("a", status=raws.bound("n1"))
    assert await let_through(waiting(held)) == "n1"


@pytest.mark.parametrize(
    ("claims", "fits"), [([promised()], False), ([], True)], ids=["promised", "nothing is"]
)
def test_why_it_waits_is_told_as_the_gate_has_it(claims, fits):
    scene = a_scene(config=REQUEST, **waiting(*claims, nodes=("n1",)))
    snapshot = scene.draft.snapshot
    (found,) = explain_starts.explanations(
        snapshot, TenantName("tenant-a"), lambda: scene.world.fit_facts(snapshot)
    )
    assert [one.reason for one in found.reasons] == ([] if fits else ["PodFitsNowhere"])


async def test_the_launcher_of_the_promised_start_itself_is_counted_once():
    """A webhook that could not pin it has it wait at the gate."""
    own = promised("vm", status=None)
    vmi = gated.a_vmi(held=("a",))
    marks = vmi["metadata"]["annotations"]
    for name, text in marks.items():
        marks[name] = text.replace("adm-a", "r1")
    pods = [gated.a_launcher()]
    pods[0]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "3", raws.RESOURCE: "1"}
    objects = waiting(own, nodes=("n1",), vmis=[vmi], pods=pods)
    assert await let_through(objects) == "n1"
