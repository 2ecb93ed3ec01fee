"""What a refusal rests on: a change of anything else never takes it back.

That a change of each of these can is in `test_premises_needed`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import reading
from gpu.model import counteroffers, grants, premises, refusals
from gpu.model.counteroffers import Judgement
from gpu.model.grants import Change
from gpu.model.premises import Named
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.config_maps import ConfigMap
from gpu.objects.kubevirt import VM, VMI, KubeVirt
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import GPUNode, Node
from gpu.objects.pods import Pod
from gpu.objects.tenants import Namespace, TenantQuota, TenantRelease
from tests import sampling, strategies
from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_kubevirt,
    a_namespace,
    a_node,
    a_quota,
    a_settings,
    a_snapshot,
    a_vm,
    a_vmi,
)

ROOM = {GPUClass, GPUNode, Node, GPUClaim, Pod, VMI}
BUDGET = {GPUClass, GPUClaim, Pod, VMI, TenantRelease, TenantQuota, KubeVirt}
TURNS = {*ROOM, *BUDGET, Namespace, VM}
VIEWS = reading.VIEWS | {"settings": ConfigMap}
H100_CLASS = Named(GPUClass, ObjectKey("", "h100"))
VGPU_CLASS = Named(GPUClass, ObjectKey("", "vgpu"))
LINE = {Named(Namespace, ObjectKey("", name)) for name in ("tenant-a-x", "tenant-a", "tenant-root")}

OVER = refusals.OverBudget("k", 2, 1, 0, "tenant-a", True, 1)  # noqa: FBT003 -- as it is built


@pytest.mark.parametrize(
    ("refusal", "wanted"),
    [
        (refusals.NoTenant("default"), set()),
        (refusals.BadCount(0, 9), set()),
        (refusals.NoSuchClass("h100"), {H100_CLASS}),
        (refusals.ClassRetired("h100"), {H100_CLASS}),
        (refusals.ClassDeleting("h100"), {H100_CLASS}),
        (refusals.OverMaxCount("h100", 2, 1), {H100_CLASS}),
        (refusals.NotPermitted("h100", H100), {H100_CLASS, KubeVirt}),
        (refusals.NotEntitled("vgpu", "tenant-a-x"), {VGPU_CLASS, *LINE}),
        (refusals.NoNodeServes("h100", H100), {GPUClass, GPUNode, Node}),
        (refusals.NoNodeEligible("h100"), {GPUClass, GPUNode, Node}),
        pytest.param(
            refusals.NoFreeUnits("h100", 9, 8), {GPUClass, GPUNode, Node}, id="more than all nodes"
        ),
        (refusals.NoFreeUnits("h100", 8, 7), ROOM),
        (refusals.NoNodeAccepts("h100", 8, 8, 4), ROOM),
        (OVER, BUDGET),
        (refusals.NoNodeForSet(2, (("h100", 9),)), TURNS),
        (refusals.GuestMayRun(), TURNS),
    ],
    ids=lambda value: getattr(value, "reason", ""),
)
def test_each_refusal_rests_on_these(refusal, wanted):
    assert premises.of(refusal, a_snapshot(classes=[a_class()], nodes=[a_node()])) == wanted


@pytest.mark.parametrize(
    ("refusal", "waits", "wanted"),
    [
        (refusals.NoFreeUnits("h100", 3, 2), a_claim(count=1), TURNS),
        (refusals.NoFreeUnits("h100", 3, 1), [a_claim(count=1), a_claim("b", on="n1")], ROOM),
        (refusals.NoFreeUnits("h100", 3, 2), a_claim(count=1, lost="n1"), TURNS),
        (refusals.NoNodeAccepts("h100", 3, 3, 2), a_claim(count=1), TURNS),
        (refusals.NoNodeAccepts("h100", 3, 3, 2), a_claim(count=1, on="n1"), ROOM),
    ],
    ids=["free without it", "too few without it", "a Lost one", "of one node", "nothing waits"],
)
def test_what_waits_matters_where_there_would_be_room_without_it(refusal, waits, wanted):
    snapshot = a_snapshot(
        classes=[a_class()],
        nodes=[a_node(units=3)],
        claims=waits if isinstance(waits, list) else [waits],
    )
    assert premises.of(refusal, snapshot) == wanted


def test_the_refusal_that_rests_on_least_is_enough():
    snapshot = a_snapshot(classes=[a_class()])
    found = [refusals.NoFreeUnits("h100", 9, 8), OVER, refusals.OverMaxCount("h100", 9, 4)]
    assert premises.least(found, snapshot) == {H100_CLASS}


def test_single_objects_are_known_sooner_than_any_kind_and_few_sooner_than_many():
    few, many, kind = {H100_CLASS}, {VGPU_CLASS, *LINE}, {Node}
    found = [frozenset(kind | few), frozenset(kind), frozenset(many), frozenset(few)]
    while found:
        assert premises.lightest(found) == found.pop()
    assert premises.lightest(found) == set()


@st.composite
def worlds(draw: st.DrawFn) -> strategies.Objects:
    """Clusters with what the usual ones lack: VMs that name claims, permitted names, ResourceQuotas."""
    names = st.sets(st.sampled_from(["new", *(f"c{at}" for at in range(4))]))
    tables = [[], [a_kubevirt(H100)], [a_kubevirt(H100, L40, "nvidia.com/GRID", "example.com/nic")]]
    return {
        **draw(strategies.clusters()),
        "vms": [
            a_vm(name, tenant=tenant, claims=sorted(draw(names)))
            for name, tenant in zip(strategies.VMS, strategies.TENANTS[1:3], strict=True)
        ],
        "kubevirts": draw(st.sampled_from(tables)),
        "quotas": [
            a_quota(tenant, of={f"requests.{H100}": draw(st.integers(0, 4))})
            for tenant in strategies.TENANTS[1:3]
            if draw(st.booleans())
        ],
    }


PLENTY = {
    "classes": [
        a_class(name, resource=resource) for name, resource in strategies.RESOURCES.items()
    ],
    "nodes": [a_node("n1", units=99, also={L40: 99, "nvidia.com/GRID": 99})],
    "namespaces": [a_namespace(tenant, entitled=True) for tenant in strategies.TENANTS],
    "settings": a_settings(),
    **dict.fromkeys(
        ("claims", "inventory", "pods", "vmis", "vms", "releases", "quotas", "kubevirts"), ()
    ),
}
"""A world in which nothing is refused but for what somebody asks for."""
USED = [
    a_vmi(name, tenant=tenant, active=dict.fromkeys(["p0", "p1", "p2", "p3"], "n1"))
    for name, tenant in zip(strategies.VMS, strategies.TENANTS[1:3], strict=True)
]
"""Every pod is a VM's, whose claims account for it."""


@st.composite
def elsewhere(draw: st.DrawFn) -> dict[str, object]:
    """All kinds as they are where there is plenty, or some as they are in any other world."""
    if draw(st.booleans()):
        return {**PLENTY, "vmis": draw(st.sampled_from([[], USED]))}
    other = draw(worlds())
    names = draw(st.sets(st.sampled_from(sorted(other)), min_size=1))
    return {name: other[name] for name in names}


def but_for(rests_on, objects, others):
    """The same world, with others in place of all objects that are not rested on."""
    moved = {}
    for name, found in others.items():
        kept = {it.key for it in rests_on if isinstance(it, Named) and it.view is VIEWS[name]}
        if kept:
            own = [it for it in objects[name] if it.meta.key in kept]
            moved[name] = [it for it in found if it.meta.key not in kept] + own
        elif VIEWS[name] not in rests_on:
            moved[name] = found
    return a_snapshot(**{**objects, **moved})


ORDERS = st.builds(
    a_claim,
    st.just("new"),
    tenant=st.sampled_from([*strategies.TENANTS[1:], "default"]),
    class_name=st.sampled_from(strategies.CLASSES),
    count=st.integers(0, 7),
)


def judged(snapshot, claim) -> Judgement:
    return counteroffers.judge(snapshot, counteroffers.of_claim(snapshot, claim))


@sampling.examples(25)
@given(worlds(), elsewhere(), ORDERS)
def test_no_change_of_another_kind_takes_a_refusal_of_an_order_back(objects, others, claim):
    snapshot = a_snapshot(**objects)
    for refusal in judged(snapshot, claim).refusals:
        rests_on = premises.of(refusal, snapshot)
        assert not judged(but_for(rests_on, objects, others), claim).is_accepted, refusal


QUOTAS = st.dictionaries(
    st.sampled_from([*strategies.KEYS, "gpu.cozystack.io/none", "nvidia.com/gh100_h100"]),
    st.sampled_from([0, 1, 3, 9, "x", -1]),
    min_size=1,
    max_size=3,
)


@sampling.examples(25)
@given(worlds(), elsewhere(), QUOTAS, st.sampled_from(["tenant-a-new", "tenant-a-x", "tenant-b"]))
def test_no_change_of_another_kind_takes_a_refusal_of_quotas_back(objects, others, quotas, tenant):
    change = Change(tenant=tenant, new=quotas)
    for objection in grants.judge(a_snapshot(**objects), change).objections:
        rests_on = premises.of_grant([objection])
        assert grants.judge(but_for(rests_on, objects, others), change).objections, objection
