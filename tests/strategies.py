"""Hypothesis: small clusters in which everything that can meet meets."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests.builders import (
    H100,
    L40,
    a_claim,
    a_class,
    a_namespace,
    a_node,
    a_pod,
    a_release,
    a_settings,
    a_taint,
    a_vmi,
    an_inventory,
)

CLASSES = ("h100", "h100-b", "l40", "vgpu")
RESOURCES = {"h100": H100, "h100-b": H100, "l40": L40, "vgpu": "nvidia.com/GRID"}
TENANTS = ("tenant-root", "tenant-a", "tenant-b", "tenant-a-x", "tenant-a-x-y")
NODES = ("n1", "n2", "n3")
KEYS = ("gpu.cozystack.io/h100", "gpu.cozystack.io/l40", "gpu.cozystack.io/total", H100)
VMS = ("vm1", "vm2")

Objects = Mapping[str, list[Any]]


@st.composite
def classes(draw: st.DrawFn) -> list[Any]:
    """One to four classes, two of which share a resource."""
    return [
        a_class(
            name,
            resource=RESOURCES[name],
            mode="vgpu" if name == "vgpu" else "passthrough",
            retired=draw(st.integers(0, 9)) == 0,
            **draw(st.sampled_from([{}, {}, {"maxCount": 3}])),
            tolerations=draw(st.sampled_from([[], [{"operator": "Exists"}]])),
        )
        for name in CLASSES
        if draw(st.integers(0, 4))
    ]


@st.composite
def nodes(draw: st.DrawFn) -> list[Any]:
    """Up to three nodes: small, some cordoned, tainted, or not Ready."""
    return [
        a_node(
            name,
            units=draw(st.integers(0, 6)),
            also={L40: draw(st.integers(0, 4)), "nvidia.com/GRID": draw(st.integers(0, 4))},
            ready=draw(st.integers(0, 9)) > 0,
            cordoned=draw(st.integers(0, 9)) == 0,
            taints=draw(st.sampled_from([[], [], [], [a_taint()]])),
        )
        for name in draw(st.sets(st.sampled_from(NODES), min_size=1))
    ]


@st.composite
def claims(draw: st.DrawFn, most: int = 8) -> list[Any]:
    """Claims of every phase; some held on a node that is gone, some over what their node serves."""
    found = []
    for index in range(draw(st.integers(0, most))):
        phase = draw(st.sampled_from(["pending", "pending", "bound", "bound", "lost"]))
        place = {"bound": "on", "lost": "lost"}.get(phase)
        vm = draw(st.sampled_from([None, None, *VMS]))
        found.append(
            a_claim(
                f"c{index}",
                tenant=draw(st.sampled_from(TENANTS[1:])),
                class_name=draw(st.sampled_from(CLASSES)),
                count=draw(st.integers(1, 4)),
                at=draw(st.integers(0, 3)),
                deleting=draw(st.integers(0, 9)) == 0,
                vm=vm,
                pod_uids=draw(st.sampled_from([(), ("p0",), ("p3",), ("p0", "gone")]))
                if vm
                else (),
                **({place: draw(st.sampled_from((*NODES, "gone")))} if place else {}),
            )
        )
    return found


@st.composite
def pods(draw: st.DrawFn) -> list[Any]:
    """Up to four pods p0 to p3, in tenants' namespaces, on a node or not yet, live or ended."""
    return [
        a_pod(
            f"p{index}",
            uid=f"p{index}",
            tenant=draw(st.sampled_from(TENANTS[1:3])),
            on=draw(st.sampled_from([None, *NODES])),
            units=draw(st.integers(0, 3)),
            resource=draw(st.sampled_from([H100, L40, "example.com/nic"])),
            phase=draw(st.sampled_from(["Pending", "Running", "Running", "Failed"])),
        )
        for index in range(draw(st.integers(0, 4)))
    ]


@st.composite
def vmis(draw: st.DrawFn) -> list[Any]:
    """VMs vm1 and vm2 of two tenants, each listing some of the pods."""
    return [
        a_vmi(
            name,
            tenant=tenant,
            active=dict.fromkeys(draw(st.sets(st.sampled_from(["p0", "p1", "p2"]))), "n1"),
        )
        for name, tenant in zip(VMS, TENANTS[1:3], strict=True)
        if draw(st.booleans())
    ]


@st.composite
def releases(draw: st.DrawFn) -> list[Any]:
    """Declarations of some tenants for some keys, often less than is used or promised."""
    return [
        a_release(
            tenant, draw(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9), max_size=3))
        )
        for tenant in TENANTS
        if draw(st.booleans())
    ]


@st.composite
def clusters(draw: st.DrawFn) -> Objects:
    """Objects by the arguments of `a_snapshot`."""
    return {
        "classes": draw(classes()),
        "nodes": draw(nodes()),
        "claims": draw(claims()),
        "pods": draw(pods()),
        "vmis": draw(vmis()),
        "releases": draw(releases()),
        "namespaces": [
            a_namespace(tenant, entitled=draw(st.integers(0, 3)) == 0) for tenant in TENANTS
        ],
        "inventory": [
            an_inventory(name, healthy=draw(st.integers(0, 5)), sick=draw(st.integers(0, 2)))
            for name in NODES
            if draw(st.booleans())
        ],
        "settings": draw(st.sampled_from([a_settings(), a_settings(H100, L40, raw=True)])),
    }
