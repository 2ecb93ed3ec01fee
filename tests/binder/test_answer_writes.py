"""What is written for a start that asks: result and placement in one patch, under the leader's term."""

import pytest

from gpu.binder.fence import Deposed
from gpu.objects import kinds
from tests.binder import asking, raws
from tests.binder.asking import claim
from tests.binder.rig import Rig
from tests.binder.test_fence import with_policy

SINCE = "2026-01-02T03:04:00Z"


def a_rig(*claims, units=8, term=1, **more):
    rig = Rig(config=asking.CONFIG, term=term)
    rig.store(
        classes=[raws.a_class(meta={"finalizers": ["gpu.cozystack.io/class"]})],
        nodes=[raws.a_node(units=units)],
        namespaces=[raws.a_tenant("tenant-root"), raws.a_tenant()],
        claims=list(claims),
        **more,
    )
    return rig


def asks(name, node=None, names=("a",), **more):
    return claim(name, node, asks=names, since=SINCE, **more)


def statuses(rig):
    """The status patches of claims, by name; more than one is an error here."""
    found = [
        write
        for write in rig.cluster.writes
        if write.kind == kinds.GPU_CLAIMS and write.subresource == "status"
    ]
    by_name = {write.key.name: write.body["status"] for write in found}
    assert len(by_name) == len(found)
    return by_name


@pytest.mark.parametrize("launcher", [None, '{"spec":{}}'])
async def test_a_placement_and_its_answer_are_one_patch(launcher):
    told = {"launcher": launcher} if launcher else {}
    rig = a_rig(asking.claim("a", since=SINCE, template=True, answer=told), term=3)
    await rig.passes.answer()
    told = statuses(rig)["a"]
    assert (told["phase"], told["nodeName"], told["term"]) == ("Bound", "n1", 3)
    assert told["bindRequest"] == {
        "id": "r1",
        "vmi": "vm",
        "claims": ["a"],
        "requestedAt": SINCE,
        "launcher": launcher,
        "result": "Succeeded",
        "message": "1 unit held on node n1",
    }


@pytest.mark.parametrize(
    ("units", "node", "result", "phase"),
    [
        (8, "n1", "Succeeded", "Bound"),
        (0, "n1", "Refused", "Bound"),
        (0, None, "Refused", "Pending"),
    ],
)
async def test_an_answer_alone_carries_the_term_and_places_nothing(units, node, result, phase):
    rig = a_rig(asks("a", node), units=units, term=3)
    await rig.passes.answer()
    told = statuses(rig)["a"]
    assert (told["bindRequest"]["result"], told["phase"], told["term"]) == (result, phase, 3)
    assert "nodeName" not in told


@pytest.mark.parametrize("node", ["n1", None])
async def test_a_leader_of_a_lower_term_answers_nothing(node):
    rig = a_rig(asks("a", node), term=3)
    with_policy(rig.cluster)
    rig.next_leader()  # and the watch has not shown its term yet
    with pytest.raises(Deposed):
        await rig.passes.answer()
    assert "result" not in rig.claim("a")["status"]["bindRequest"]


async def test_what_ends_an_attachment_ends_its_request():
    rig = a_rig(asks("a", "n1"), asks("b", "n1", names=("b", "gone")))
    await rig.until_still()
    rig.clock.advance(60)
    await rig.until_still()
    for name in ("a", "b"):
        status = rig.claim(name)["status"]
        assert (status.get("attachedTo"), status.get("bindRequest")) == (None, None)
        assert status["phase"] == "Bound"


@pytest.mark.parametrize(
    "status",
    [{"attachedTo": None}, raws.attached("other", uid="u", pods={"p": "n1"})],
    ids=["attached to nothing", "attached to another"],
)
async def test_a_request_that_nobody_waits_for_goes_after_the_grace(status):
    other = raws.a_vmi("other", uid="u", node="n1", pods={"p": "n1"})
    rig = a_rig(asks("a", "n1", status=status), vmis=[other], pods=[raws.a_pod("p")])
    await rig.until_still()
    assert rig.claim("a")["status"]["bindRequest"]
    rig.clock.advance(56)
    await rig.until_still()
    assert rig.claim("a")["status"].get("bindRequest") is None


async def test_a_template_claim_that_is_taken_up_meanwhile_is_not_deleted():
    rig = a_rig(asks("a", template=True))
    await rig.until_still()
    rig.clock.advance(60)
    rig.window.show()
    rig.lag = True
    again = asks("a", "n1", id_="r2", template=True)
    rig.cluster.put(kinds.GPU_CLAIMS, again)  # stored, and not shown yet
    report = await rig.once()
    assert [item.change for item in report.failed] == ["DeleteClaim"]
    assert rig.claim("a")["metadata"].get("deletionTimestamp") is None


async def test_the_vmi_that_comes_owns_its_template_claim_once():
    granted = {"result": "Succeeded", "message": "m"}
    vmi = raws.a_vmi("vm", uid="vmi-vm", phase="Scheduling", admissions={"a": "r1"})
    rig = a_rig(asks("a", "n1", answer=granted, template=True), vmis=[vmi])
    await rig.until_still()
    (owner,) = rig.claim("a")["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "vm",
        "uid": "vmi-vm",
        "controller": True,
    }
    before = len(rig.cluster.writes)
    rig.clock.advance(60)
    await rig.until_still()
    assert len(rig.cluster.writes) == before
