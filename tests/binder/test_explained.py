"""What explanations tell, done: the change is made to what is stored, a new leader makes its passes, it is let in.

Also that they say of a start what the leader says of it.
"""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import keys
from gpu.binder import conditions
from gpu.binder.phases import gates
from gpu.model import explain, explain_starts, fit_facts, gate_reasons, waiters
from gpu.model.ways import Way
from gpu.objects import kinds
from gpu.objects.claims import Phase
from gpu.objects.meta import ObjectKey
from tests import sampling
from tests.binder import gated, raws
from tests.binder.rig import Rig
from tests.binder.scenes import scene_of

TENANTS = ("tenant-a", "tenant-b")
CLASSES = {
    "h100": "nvidia.com/H100",
    "b200": "nvidia.com/B200",
    "old": "nvidia.com/H100",
    "slice": "nvidia.com/B200",
}


@st.composite
def queues(draw):
    """Nodes, some of them cordoned; what waits: orders, Lost claims, starts; budgets."""
    nodes = draw(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=4))
    sizes = st.integers(1, 5)
    names = st.sampled_from(["h100", "h100", "h100", "b200", "old", "slice"])
    made = draw(st.lists(st.tuples(st.sampled_from(TENANTS), names, sizes), max_size=6))
    lost = draw(st.lists(sizes, max_size=2 if draw(st.integers(0, 2)) == 0 else 0))
    starts = draw(st.lists(sizes, max_size=2 if draw(st.integers(0, 2)) == 0 else 0))
    budgets = {
        one: draw(st.integers(0, 8)) for one in ("tenant-root", *TENANTS) if draw(st.booleans())
    }
    named = draw(st.sets(st.integers(0, 5), max_size=3)) if draw(st.integers(0, 3)) == 0 else set()
    return nodes, made, lost, starts, budgets, named


def objects_of(queue):
    nodes, made, lost, starts, budgets, named = queue
    found: dict[str, list[Any]] = {
        "classes": [
            raws.a_class(
                name,
                resource=resource,
                retired=name == "old",
                **({"mode": "vgpu", "maxCount": 4} if name == "slice" else {}),
            )
            for name, resource in CLASSES.items()
        ],
        "nodes": [],
        "namespaces": [raws.a_tenant(one) for one in ("tenant-root", *TENANTS)],
        "releases": [raws.a_release(one, total=units) for one, units in budgets.items()],
        "claims": [],
        "vmis": [],
        "pods": [],
    }
    for n, (units, cordoned) in enumerate(nodes):
        node = raws.a_node(f"n{n}", units=units, **({"unschedulable": True} if cordoned else {}))
        node["status"]["allocatable"] |= {CLASSES["b200"]: str(6 - units), "memory": "64Gi"}
        found["nodes"].append(node)
    for n, (tenant, name, count) in enumerate(made):
        found["claims"].append(
            raws.a_claim(f"x{n}", tenant=tenant, class_name=name, count=count, at=2 * n)
        )
    for n, count in enumerate(lost):
        status = {"phase": "Lost", "nodeName": "gone"}
        found["claims"].append(raws.a_claim(f"lost{n}", count=count, at=n, status=status))
    if named:
        found["vms"] = [raws.a_vm("off", claims=[f"x{n}" for n in sorted(named)])]
    for n, units in enumerate(starts):
        start = gated.a_start(f"vm{n}", units={"h100": units}, at=5 * n + 1)
        found["vmis"] += start["vmis"]
        found["pods"] += start["pods"]
    return found


async def settled(objects):
    rig = Rig()
    rig.store(**objects)
    await rig.until_still()
    return rig


async def told(rig):
    world = await rig.view.look(rig.in_thread)
    found = []
    for tenant in TENANTS:
        found += explain.explanations(world.snapshot, tenant)
        found += explain_starts.explanations(world.snapshot, tenant, lambda: facts(world))
    return found


def facts(world):
    return fit_facts.of(
        nodes=world.snapshot.nodes,
        pods=world.pods,
        namespaces=world.namespaces,
        elsewhere=world.snapshot.resources,
    )


def again(rig):
    """A cluster with all that is stored, and a leader that remembers nothing."""
    made = Rig()
    for kind, items in rig.cluster._objects.items():
        for raw in items.values():
            if kind is not kinds.GPU_BINDERS:
                made.cluster.put(kind, copy.deepcopy(raw))
    return made


def changed(rig, found, remedy):
    """Yield each cluster that a remedy may stand for."""
    items = rig.cluster._objects
    cordoned = [key for key, raw in items[kinds.NODES].items() if raw["spec"].get("unschedulable")]
    more = {Way.UNCORDON: len(cordoned), Way.BUDGET_ABOVE: 20}.get(remedy.way, 1)
    for number in range(more):
        made = again(rig)
        items = made.cluster._objects
        match remedy.way:
            case Way.ORDER_LESS | Way.ORDER_OTHER:
                del items[kinds.GPU_CLAIMS][found.key]
                name = remedy.key or next(iter(found.wants))
                new = raws.a_claim(
                    found.key.name,
                    tenant=found.key.namespace,
                    class_name=name,
                    count=remedy.units,
                    at=3000,
                )
                made.cluster.put(kinds.GPU_CLAIMS, new)
            case Way.ROOM_ON_A_NODE:
                node = raws.a_node("zz", units=remedy.units, resource=remedy.key)
                node["status"]["allocatable"]["memory"] = "64Gi"
                made.cluster.put(kinds.NODES, node)
            case Way.UNCORDON:
                items[kinds.NODES][cordoned[number]]["spec"].pop("unschedulable")
            case Way.MORE_BUDGET | Way.BUDGET_ABOVE:
                release = next(
                    raw
                    for raw in items[kinds.HELM_RELEASES].values()
                    if raw["metadata"]["name"] == remedy.tenant
                )
                quotas = release["spec"]["values"]["resourceQuotas"]
                quotas[remedy.key] = str(int(quotas[remedy.key]) + (remedy.units or number + 1))
            case Way.UNRETIRE:
                items[kinds.GPU_CLASSES][ObjectKey("", remedy.key)]["spec"]["retired"] = False
            case Way.ENTITLE:
                labels = items[kinds.NAMESPACES][ObjectKey("", remedy.tenant)]["metadata"]["labels"]
                labels[keys.VGPU_ENTITLED_LABEL] = "true"
            case Way.NAME_ALONE:
                del items[kinds.VMS][ObjectKey(found.key.namespace, "off")]
            case _:
                raise AssertionError(f"{remedy.way} is not tried here")
        yield made


async def is_let_in(rig, found):
    await rig.until_still()
    items = rig.cluster._objects
    if found.is_vm:
        pod = items[kinds.PODS][ObjectKey(found.key.namespace, f"pod-{found.key.name}")]
        return not pod["spec"].get("schedulingGates")
    return str(found.key) in rig.placed()


async def each_remedy_lets_it_in(objects):
    """Returns the ways that were told, and how often nothing was."""
    rig = await settled(objects)
    ways = []
    for found in await told(rig):
        assert found.reasons, found
        assert bool(found.stands) is not bool(found.remedies)
        for remedy in found.remedies:
            tries = [await is_let_in(one, found) for one in changed(rig, found, remedy)]
            assert any(tries), (found, remedy)
            ways.append(remedy.way)
    return ways


@sampling.examples(15)
@given(queues())
async def test_a_change_that_is_told_is_made_and_lets_it_in(queue):
    await each_remedy_lets_it_in(objects_of(queue))


@sampling.examples(10)
@given(queues())
async def test_what_is_told_of_a_claim_is_what_the_leader_stored_and_of_a_start_what_it_found(
    queue,
):
    """Words and all; but that a claim may go on to say that no node has so many units free."""
    rig = await settled(objects_of(queue))
    world = await rig.view.look(rig.in_thread)
    scene = scene_of(world)
    tuple(gates.changes_of(scene))
    waiting = scene.findings.waiting
    found = await told(rig)
    for one in found:
        if one.is_vm:
            assert one.reasons == waiting[one.uid].reasons
        else:
            claim = world.snapshot.claims[one.key]
            steady = conditions.steady(claim, one.reasons)
            assert conditions.is_told(claim, steady)
    waiters_there = {claim.key for claim in world.claims if claim.phase is not Phase.BOUND} | {
        item.vmi for item in waiting.values()
    }
    assert {one.key for one in found} == waiters_there


async def test_an_order_that_could_be_had_alone_is_bound_once_no_vm_names_it_with_others():
    objects = {
        "classes": [raws.a_class()],
        "nodes": [raws.a_node("n1", units=4), raws.a_node("n2", units=2)],
        "namespaces": [raws.a_tenant(one) for one in ("tenant-root", "tenant-a")],
        "claims": [raws.a_claim("held", count=4), raws.a_claim("late", count=2, at=9)],
        "vms": [raws.a_vm("off", claims=["held", "late"])],
    }
    assert await each_remedy_lets_it_in(objects) == [Way.NAME_ALONE, Way.ROOM_ON_A_NODE]


async def test_a_vm_that_holds_its_claims_and_waits_is_told_too_with_nothing_that_would_help():
    claim = gated.held("own", vm="vm")
    start = gated.a_start(held=("own",), asks=1)
    start["pods"][0]["spec"]["nodeSelector"] = {"no": "node"}
    rig = await settled(
        {
            "classes": [raws.a_class()],
            "nodes": [raws.a_node()],
            "namespaces": [raws.a_tenant(one) for one in ("tenant-root", "tenant-a")],
            "claims": [claim],
            **start,
        }
    )
    (found,) = await told(rig)
    assert (found.is_vm, dict(found.wants), found.remedies) == (True, {"h100": 1}, ())
    assert [gate_reasons.code(one) for one in found.reasons] == ["PodFitsNowhere"]


def test_the_model_knows_what_the_leader_calls_its_conditions():
    names = (waiters.WAITING, explain.LOST, waiters.DEGRADED, waiters.WRITE_REFUSED)
    assert names == (
        conditions.WAITING,
        conditions.LOST,
        conditions.DEGRADED,
        conditions.WRITE_REFUSED,
    )


REFUSED = {"reason": "WriteRefused", "status": "True", "message": "no: a policy"}


@pytest.mark.parametrize(
    ("status", "kind", "place"),
    [
        ({"phase": "Pending"}, "Waiting", "first"),
        (raws.bound("gone"), "Degraded", None),
    ],
)
def test_a_claim_that_cannot_be_stored_tells_the_words_of_who_refuses(status, kind, place):
    claim = raws.a_claim(status=status | {"conditions": [REFUSED | {"type": kind}]})
    world = raws.a_world(classes=[raws.a_class()], nodes=[raws.a_node()], claims=[claim])
    (found,) = explain.explanations(world.snapshot, "tenant-a")
    assert (found.write_refused, found.reasons, found.queued) == ("no: a policy", (), place)


def test_while_a_claim_cannot_be_read_that_is_why_everything_waits():
    start = gated.a_start(units={"h100": 1})
    world = raws.a_world(
        classes=[raws.a_class()], nodes=[raws.a_node()], claims=[raws.a_claim()], **start
    )
    snapshot = world.snapshot
    found = (
        *explain.explanations(snapshot, "tenant-a", unreadable=True),
        *explain_starts.explanations(snapshot, "tenant-a", lambda: facts(world), unreadable=True),
    )
    assert [(one.is_vm, one.stands) for one in found] == [
        (False, ("Cluster",)),
        (True, ("Cluster",)),
    ]
    assert {one.reasons for one in found} == {(gate_reasons.ClaimsUnreadable(),)}
