"""The end of every grace is acted upon by a pass in that second, and not by the next resync."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from gpu.config import Config
from gpu.model import dues
from gpu.model.draft import Draft
from gpu.model.sightings import Sightings
from gpu.objects import kinds
from gpu.objects.meta import ObjectKey
from tests.binder import asking, gated, raws
from tests.binder.rig import Rig
from tests.fakes.clock import EPOCH

OURS = gated.OURS
GRACE = Config().grace
L4 = "nvidia.com/L4"


def instant(seconds=0.0):
    return (EPOCH + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def a_rig(config=None, **objects):
    rig = Rig(config=config or Config())
    usual = {
        "classes": [raws.a_class()],
        "nodes": [raws.a_node("n1"), raws.a_node("n2")],
        "namespaces": [raws.a_tenant("tenant-root"), raws.a_tenant()],
    }
    rig.store(**(usual | objects))
    return rig


def renew(rig):
    """As kubelet does: what proves that a node looked is read past the cache."""
    meta = {"name": "n1", "namespace": "kube-node-lease"}
    rig.cluster.put(
        kinds.LEASES, {"metadata": meta, "spec": {"renewTime": instant(rig.clock.monotonic())}}
    )


def used(name="x", *, pods=None, uid="vmi-1", since=None, deleted=False, node="n1", **status):
    """A claim that a VMI uses, which is not there."""
    meta = OURS | ({"deletionTimestamp": instant(-1)} if deleted else {})
    attached = raws.attached("vm", uid=uid, pods=pods, since=since or instant())
    return raws.a_claim(name, meta=meta, status=raws.bound(node) | attached | status)


def came():
    """A claim whose VMI has come just now."""
    return held(**raws.attached("vm", admission="adm-x", since=instant()))


def held(name="x", node="n1", **status):
    return raws.a_claim(name, meta=OURS, status=raws.bound(node) | status)


def stands(rig, name="x"):
    raw = rig.claim(name)
    status = (raw or {}).get("status") or {}
    told = {it["type"]: it["reason"] for it in status.get("conditions", [])}
    return raw and (
        status.get("phase"),
        status.get("nodeName"),
        "attachedTo" in status and bool(status["attachedTo"]),
        told.get("Waiting", ""),
    )


@dataclass(frozen=True)
class Case:
    objects: dict[str, Any]
    ends: float
    """Seconds after the first pass."""
    before: Any
    """What is so until then."""
    after: Any
    seen: Any = stands
    config: Config = field(default_factory=Config)


LOST = raws.bound("n1") | {"phase": "Lost"}
UNTIL = {"rejectedNodes": [{"node": "n1", "until": instant(40), "fingerprint": ""}]}
TEMPLATE = {"labels": {"gpu.cozystack.io/template-claim": "true"}}
PRESSED = raws.a_node(taints=[{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}])
OTHER = raws.a_node("n2")
STAYS = ("Bound", "n1", False, "")
PROMISED = asking.request(["x"], at=instant(-5), result="Succeeded", message="yes")
MOVED = ("Bound", "n2", False, "")


def request_of(rig):
    return bool(rig.claim("x")["status"].get("bindRequest"))


CASES = {
    "releaseSettle, of a claim that is deleted": Case(
        {"claims": [used(pods={"p": "n1"}, deleted=True)]}, 180, ("Bound", "n1", True, ""), None
    ),
    "releaseSettle, of a launcher that nobody saw": Case(
        {"claims": [used(**PROMISED)]}, 180, ("Bound", "n1", True, ""), STAYS
    ),
    "releaseSettle, of a launcher that nobody saw, of a claim that is deleted": Case(
        {"claims": [used(deleted=True, **PROMISED)]}, 180, ("Bound", "n1", True, ""), None
    ),
    "releaseSettle, of a launcher that is noted after it is gone": Case(
        {
            "claims": [used()],
            "vmis": [raws.a_vmi(phase="Failed", pods={"p": "n1"})],
        },
        180,
        ("Bound", "n1", True, ""),
        STAYS,
    ),
    "releaseSettle, of a claim whose VM is gone": Case(
        {"claims": [used(pods={"p": "n1"})]}, 180, ("Bound", "n1", True, ""), STAYS
    ),
    "releaseSettle, of a node that came back a while ago": Case(
        {
            "claims": [used(pods={"p": "n1"})],
            "nodes": [raws.a_node(since=instant(-20))],
        },
        180,
        ("Bound", "n1", True, ""),
        STAYS,
    ),
    "releaseSettle, with the feature off": Case(
        {"claims": [used(pods={"p": "n1"}, deleted=True)]},
        180,
        ("Bound", "n1", True, ""),
        None,
        config=Config(enabled=False),
    ),
    "attachmentGrace": Case(
        {"claims": [used(uid="", since=instant(-5))]}, 55, ("Bound", "n1", True, ""), STAYS
    ),
    "attachmentGrace, of a template claim that no start took up": Case(
        {
            "claims": [
                raws.a_claim(
                    meta=OURS | TEMPLATE | {"creationTimestamp": instant(-10)},
                    status={"phase": "Pending", "term": 1},
                )
            ]
        },
        50,
        before=True,
        after=False,
        seen=lambda rig: rig.claim("x") is not None,
    ),
    "attachmentGrace, of a request that nobody is attached for": Case(
        {"claims": [held(**asking.request(["x"], at=instant(-5), result="Refused", message="no"))]},
        55,
        before=True,
        after=False,
        seen=request_of,
    ),
    "notReadyGrace": Case(
        {"claims": [held()], "nodes": [raws.a_node(ready="Unknown", since=instant(-100)), OTHER]},
        200,
        STAYS,
        MOVED,
    ),
    "degradedGrace, of units that are missing": Case(
        {"claims": [held()], "nodes": [raws.a_node(units=0), OTHER]}, 300, STAYS, MOVED
    ),
    "degradedGrace, of a taint that passes": Case(
        {"claims": [held()], "nodes": [PRESSED, OTHER]}, 300, STAYS, MOVED
    ),
    "inventoryStale, of one that shows fewer units than are waited for": Case(
        {
            "claims": [raws.a_claim(count=2, meta=OURS)],
            "nodes": [raws.a_node()],
            "inventory": [raws.an_inventory(status=raws.seen_devices(units=1, at=instant(-10.5)))],
        },
        169.5,
        ("Pending", None, False, "NoFreeUnits"),
        STAYS,
    ),
    "a rejection that another leader noted": Case(
        {
            "claims": [raws.a_claim("x", meta=OURS, status=LOST | UNTIL)],
            "nodes": [raws.a_node()],
        },
        40,
        ("Lost", "n1", False, "NoNodeAccepts"),
        STAYS,
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_pass_comes_at_its_end_and_acts_upon_it(name):
    case = CASES[name]
    rig = a_rig(case.config, **case.objects)
    report = (await rig.until_echo())[-1]
    assert case.seen(rig) == case.before
    assert report.due is not None
    assert 0 <= report.due - case.ends < 1, "in that second, and never early"
    rig.clock.advance(case.ends - 0.5)
    assert not (await rig.once()).written
    renew(rig)
    rig.clock.advance(report.due - rig.clock.monotonic())
    reports = await rig.until_still()
    assert case.seen(rig) == case.after
    assert reports[-1].due is None, "nothing else ends"


@pytest.mark.parametrize(
    "objects",
    [
        {"claims": [held()]},
        {
            "claims": [held()],
            "nodes": [raws.a_node(), raws.a_node("n2", ready="False", since=instant(-10))],
        },
        {
            "claims": [used(pods={"p": "n1"})],
            "vmis": [raws.a_vmi(pods={"p": "n1"})],
            "pods": [raws.a_pod("p")],
        },
        {
            "claims": [used(pods={"p": "n1"})],
            "nodes": [raws.a_node(ready="False", since=instant(-900))],
        },
    ],
    ids=["held", "a node without claims is not Ready", "running", "nobody knows of the pod"],
)
async def test_where_nothing_ends_nothing_is_due(objects):
    rig = a_rig(**objects)
    assert (await rig.until_still())[-1].due is None


async def test_ends_of_one_second_cost_one_pass():
    pods = [raws.a_pod("p0"), raws.a_pod("p1")]
    rig = a_rig(claims=[used(f"x{at}", pods={f"p{at}": "n1"}) for at in range(2)], pods=pods)
    await rig.until_still()
    for name in ("p0", "p1"):
        rig.clock.advance(0.3)
        rig.cluster._objects[kinds.PODS].pop(ObjectKey("tenant-a", name))
        report = (await rig.until_still())[-1]
        assert report.due == pytest.approx(181)
    rig.clock.advance(report.due - rig.clock.monotonic())
    renew(rig)
    await rig.once()
    assert [stands(rig, name) for name in ("x0", "x1")] == [STAYS, STAYS]


async def test_a_vmi_that_came_is_noted_after_a_moment_though_no_launcher_does():
    rig = a_rig(claims=[came()], vmis=[gated.a_vmi(pod=None, held=("x",), units={})])
    assert (await rig.until_echo())[-1].due == 1
    rig.clock.advance(1)  # records and numbers wait no longer
    report = (await rig.until_still())[-1]
    assert (vmi_noted(rig), report.due) == ("", 2)
    rig.clock.advance(1)
    await rig.once()
    assert vmi_noted(rig) == "vmi-vm"


def test_that_moment_is_due_by_itself():
    vmi = gated.a_vmi(pod=None, held=("x",), units={})
    world = raws.a_world(claims=[came()], vmis=[vmi], classes=[raws.a_class()])
    draft = Draft.of(world.snapshot)
    assert dues.first_end(draft, Sightings(), GRACE, EPOCH) == EPOCH + timedelta(seconds=2)
    assert dues.first_end(draft, Sightings(), GRACE, EPOCH + timedelta(seconds=2)) is None


def vmi_noted(rig):
    return rig.claim("x")["status"]["attachedTo"].get("uid", "")


async def test_with_the_feature_off_nothing_but_releases_is_waited_for():
    rig = a_rig(replace(Config(), enabled=False), claims=[used(uid="")])
    assert (await rig.until_still())[-1].due is None
