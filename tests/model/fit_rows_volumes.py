"""Pods with volumes, and what keeps each from node `n1`: part of the table of `fit_rows`."""

from typing import Any

from gpu.model.misfits import Cause
from tests.builders import Raw
from tests.model.fit_rows import OTHER, OWN, node, on, pod, row
from tests.starting import raw_csi_node, raw_storage_class, raw_volume, raw_volume_claim

ALONE = ("ReadWriteOncePod",)
DRIVER = "disks.example.com"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-@"}}
ZONE = "topology.kubernetes.io/zone"
HERE = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "c"]}]}]}


def claims(*names: str, source: Raw | None = None, modes: tuple[str, ...] = ()) -> dict[str, Any]:
    """Bound claims and their volumes."""
    return {
        "claims": tuple(
            raw_volume_claim(name, tenant=OWN, volume=f"{name}-@", modes=modes) for name in names
        ),
        "volumes": tuple(raw_volume(f"{name}-@", source=source or csi(name)) for name in names),
    }


def csi(name: str) -> Raw:
    return {"csi": {"driver": DRIVER, "volumeHandle": f"{name}-@"}}


def unbound(**more: Any) -> dict[str, Any]:
    return {"claims": (raw_volume_claim(tenant=OWN, **more),)}


def late(**more: Any) -> dict[str, Any]:
    return {"classes": (raw_storage_class("late-@", **more),)}


def limits(**most: int | None) -> dict[str, Any]:
    return {"csi_nodes": (raw_csi_node("n1@", **most),)}


disk, a_b = pod(volume_claims=["disk"]), pod(volume_claims=["a", "b"])
b, with_a = pod(volume_claims=["b"]), on("n1", volume_claims=["a"])
one: dict[str, Any] = limits(disks_example_com=1)

VOLUME_ROWS = (
    row("unbound-without-a-class", disk, cause=Cause.VOLUME_UNBOUND, **unbound()),
    row(
        "unbound-of-no-such-class",
        disk,
        cause=Cause.VOLUME_UNBOUND,
        **unbound(storage_class="none-@"),
    ),
    row(
        "unbound-and-bound-at-once",
        disk,
        cause=Cause.VOLUME_UNBOUND,
        **unbound(storage_class="late-@"),
        **late(late=False),
    ),
    row("unbound-until-it-is-used", disk, **unbound(storage_class="late-@"), **late()),
    row(
        "half-bound",
        disk,
        cause=Cause.VOLUME_UNBOUND,
        volumes=(raw_volume("pv-@", source=csi("pv")),),
        **unbound(storage_class="late-@", volume="pv-@", bound=False),
        **late(),
    ),
    row(
        "made-for-another-node",
        disk,
        cause=Cause.VOLUME_ELSEWHERE,
        **unbound(storage_class="late-@", chosen="n2@"),
        **late(),
    ),
    row(
        "made-in-its-zone",
        disk,
        node(labels={ZONE: "c"}),
        **unbound(storage_class="late-@"),
        **late(**HERE),
    ),
    row(
        "made-in-other-zones",
        disk,
        node(labels={ZONE: "b"}),
        cause=Cause.VOLUME_ELSEWHERE,
        **unbound(storage_class="late-@"),
        **late(**HERE),
    ),
    row("alone", disk, **claims("disk", modes=ALONE)),
    row(
        "alone-and-in-use-elsewhere",
        disk,
        node(),
        node("n2"),
        pods=[on("n2", volume_claims=["disk"])],
        cause=Cause.VOLUME_IN_USE,
        **claims("disk", modes=ALONE),
    ),
    row(
        "alone-and-used-by-one-that-ended",
        disk,
        pods=[on("n1", volume_claims=["disk"], phase="Succeeded")],
        **claims("disk", modes=ALONE),
    ),
    row(
        "alone-and-another-of-its-name-in-use",
        disk,
        pods=[on("n1", tenant=OTHER, volume_claims=["disk"])],
        **claims("disk", modes=ALONE),
    ),
    row(
        "in-use-and-shared",
        disk,
        pods=[on("n1", volume_claims=["disk"])],
        **claims("disk", modes=("ReadWriteOnce",)),
    ),
    row("volumes-full", b, pods=[with_a], cause=Cause.VOLUMES_FULL, **claims("a", "b"), **one),
    row("one-more-volume", b, pods=[with_a], **claims("a", "b"), **limits(disks_example_com=2)),
    row("any-number-of-volumes", b, pods=[with_a], **claims("a", "b"), **limits(disks_example_com=None)),
    row("full-of-other-volumes", b, pods=[with_a], **claims("a", "b"), **limits(nfs_example_com=1)),
    row("one-volume-of-both", pod(volume_claims=["a"]), pods=[with_a], **claims("a"), **one),
    row("two-volumes-at-once", a_b, cause=Cause.VOLUMES_FULL, **claims("a", "b"), **one),
    row(
        "volumes-of-one-that-ended",
        b,
        pods=[on("n1", volume_claims=["a"], phase="Failed")],
        **claims("a", "b"),
        **one,
    ),
    row(
        "full-of-volumes-elsewhere",
        b,
        node(),
        node("n2"),
        pods=[on("n2", volume_claims=["a"])],
        **claims("a", "b"),
        **limits(disks_example_com=1),
    ),
    row(
        "volumes-full-of-the-kind-of-old",
        disk,
        pods=[with_a],
        cause=Cause.VOLUMES_FULL,
        claims=(*claims("disk")["claims"], *claims("a")["claims"]),
        volumes=(
            raw_volume("disk-@", source=EBS),
            raw_volume("a-@", source={"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "a"}}),
        ),
        **limits(ebs_csi_aws_com=1),
    ),
    row(
        "full-for-a-volume-to-be-made",
        disk,
        pods=[with_a],
        cause=Cause.VOLUMES_FULL,
        claims=(*unbound(storage_class="late-@")["claims"], *claims("a")["claims"]),
        volumes=claims("a")["volumes"],
        **late(),
        **one,
    ),
)  # fmt: skip
