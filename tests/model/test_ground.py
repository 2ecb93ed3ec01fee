"""What the checker carries from pass to pass is what it would make of nothing."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.model import naive
from gpu.model.ground import Ground, changes
from gpu.model.naive import Cluster
from gpu.model.naive_usage import Usage
from tests import sampling
from tests.builders import a_claim, a_class, a_pod, a_vm, a_vmi, attachment

pytestmark = pytest.mark.long  # properties over sequences of changes

TENANTS, NODES, NAMES = ("tenant-a", "tenant-b"), ("n1", "n2"), ("a", "b", "c", "d")
STANDS = st.one_of(
    st.just({}),
    st.builds(lambda node: {"on": node}, st.sampled_from(NODES)),
    st.builds(
        lambda node, vm: {"on": node, "attached": attachment(vm, pods={f"p-{vm}": node})},
        st.sampled_from(NODES),
        st.sampled_from(["v", "w"]),
    ),
)
CLAIMS = st.dictionaries(
    st.tuples(st.sampled_from(TENANTS), st.sampled_from(NAMES)),
    st.tuples(st.integers(1, 3), STANDS, st.booleans()),
)
PODS = st.dictionaries(
    st.tuples(st.sampled_from(TENANTS), st.sampled_from(["p-v", "p-w", "x"])),
    st.tuples(st.sampled_from([*NODES, ""]), st.integers(1, 3), st.booleans()),
)
VMS = st.dictionaries(
    st.tuples(st.sampled_from(TENANTS), st.sampled_from(["v", "w"])),
    st.sets(st.sampled_from(["p-v", "p-w", "x"])),
)
PLACES = {(node, a_class().resource) for node in NODES}


def a_world(made, claims, pods, vms):
    """Objects as a store gives them: those that are as before are the same objects."""

    def one(kind, key, given, build):
        if (kind, key, repr(given)) not in made:
            made[kind, key, repr(given)] = build()
        return made[kind, key, repr(given)]

    return {
        "claims": tuple(
            one(
                "claim",
                key,
                claims[key],
                lambda key=key: a_claim(
                    key[1],
                    tenant=key[0],
                    count=claims[key][0],
                    deleting=claims[key][2],
                    **claims[key][1],
                ),
            )
            for key in sorted(claims)
        ),
        "pods": tuple(
            one(
                "pod",
                key,
                pods[key],
                lambda key=key: a_pod(
                    key[1],
                    uid=key[1],
                    tenant=key[0],
                    on=pods[key][0],
                    units=pods[key][1],
                    phase="Succeeded" if pods[key][2] else "Running",
                ),
            )
            for key in sorted(pods)
        ),
        "vmis": tuple(
            one(
                "vmi",
                key,
                sorted(vms[key]),
                lambda key=key: a_vmi(
                    key[1], tenant=key[0], active=dict.fromkeys(sorted(vms[key]), "n1")
                ),
            )
            for key in sorted(vms)
        ),
        "vms": tuple(
            one(
                "vm",
                key,
                sorted(vms[key]),
                lambda key=key: a_vm(key[1], tenant=key[0], claims=NAMES[: len(vms[key])]),
            )
            for key in sorted(vms)
        ),
    }


def drawers(ground):
    return {
        item.name: getattr(ground, item.name)
        for item in fields(ground)
        if not item.name.startswith("_")
    }


def sums(ground, world):
    """Everything the checker adds up; it fills the drawers that are filled when asked for."""
    stood = {claim.key: claim for claim in world["claims"]}
    cluster = Cluster(
        stood=stood,
        claims=stood,
        classes=(a_class(),),
        pods=world["pods"],
        vmis=world["vmis"],
        vms=world["vms"],
        ground=ground,
    )
    usage = Usage(cluster, {})
    keys = sorted(cluster.quota_keys(a_class().name))
    return (
        naive.held(cluster, {}, PLACES),
        naive.asked(cluster, PLACES),
        [usage.of(tenant, key) for tenant in ("tenant-root", *TENANTS) for key in keys],
        cluster.named,
    )


@sampling.examples(120)
@given(st.lists(st.tuples(CLAIMS, PODS, VMS), min_size=1, max_size=6))
def test_what_followed_changes_is_what_is_made_of_nothing(steps):
    made, followed = {}, Ground()
    for step in steps:
        world = a_world(made, *step)
        fresh = Ground().follow(**world)
        assert sums(followed.follow(**world), world) == sums(fresh, world) == sums(None, world)
        assert drawers(followed) == drawers(fresh)


@sampling.examples(60)
@given(CLAIMS, CLAIMS, PODS, VMS)
def test_a_plan_over_what_stands_adds_up_as_if_it_stood(before, after, pods, vms):
    made = {}
    was = a_world(made, before, pods, vms)
    planned = {
        claim.key: claim
        for claim in a_world(made, after, pods, vms)["claims"]
        if tuple(claim.key) in before
    }
    stood = {claim.key: claim for claim in was["claims"]}
    ground = Ground().follow(**was)
    told = {"classes": (a_class(),), "pods": was["pods"], "vmis": was["vmis"]}
    now = Cluster(stood=stood, claims=stood, ground=ground, **told)
    then = Cluster(stood=stood, claims={**stood, **planned}, **told)
    written = Cluster(
        stood=stood, claims={**stood, **planned}, ground=ground, changed=planned, **told
    )
    expected = naive.held(then, {}, PLACES)
    assert naive.held(now, planned, PLACES) == naive.held(written, {}, PLACES) == expected
    keys = sorted(now.quota_keys(a_class().name))
    used = [
        [usage.of(tenant, key) for tenant in ("tenant-root", *TENANTS) for key in keys]
        for usage in (Usage(now, planned), Usage(written, {}), Usage(then, {}))
    ]
    assert used[0] == used[1] == used[2]


def test_it_is_made_anew_after_an_error_and_every_so_often():
    claim = a_claim(on="n1")
    ground = Ground().follow(claims=(claim,))
    with pytest.raises(AttributeError):
        ground.follow(claims=(claim, None))
    assert drawers(ground.follow(claims=(claim,))) == drawers(Ground().follow(claims=(claim,)))
    ground.on_node.clear()
    for _ in range(300):
        ground.follow(claims=(claim,))
    assert drawers(ground) == drawers(Ground().follow(claims=(claim,)))


def test_what_each_of_two_tuples_has_alone_is_told_by_identity():
    a, b, c, d, twin = [1], [2], [3], [4], [2]
    assert changes((a, b, c, d), (a, twin, c, d)) == ([b], [twin])
    assert changes((a, b, c), (a, b, c, d)) == ([], [d])
    assert changes((a, b, c), (c, a)) == ([b], [])
    assert changes((), (a,)) == ([], [a])
    assert changes((a, b), (a, b)) == ([], [])
