"""Pods and nodes, and what keeps each pod from node `n1`: one table for the model and the real scheduler.

`@` stands for what makes a row's names its own, so that all rows can stand on one cluster.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpu.model.misfits import Cause
from tests.builders import H100, Raw, a_taint, raw_namespace
from tests.starting import (
    node_term,
    pod_term,
    raw_launcher,
    raw_machine,
    raw_volume,
    raw_volume_claim,
)

OWN, OTHER = "fit-@", "other-@"
HOST = "kubernetes.io/hostname"
VOLUMES = ("claims", "volumes", "classes", "csi_nodes")
NIC = "example.com/nic"


@dataclass(frozen=True, kw_only=True)
class Row:
    """`asked` may run on the first of the nodes, or is kept from it by `cause`."""

    id: str
    asked: Raw
    nodes: tuple[Raw, ...]
    pods: tuple[Raw, ...] = ()
    claims: tuple[Raw, ...] = ()
    volumes: tuple[Raw, ...] = ()
    classes: tuple[Raw, ...] = ()
    csi_nodes: tuple[Raw, ...] = ()
    namespaces: tuple[Raw, ...] = field(
        default_factory=lambda: (raw_namespace(OWN), raw_namespace(OTHER))
    )
    cause: Cause | None = None

    def objects(self, name: str) -> dict[str, Any]:
        """Return its objects under names of their own."""
        parts = ("asked", "nodes", "pods", "namespaces", *VOLUMES)
        text = json.dumps({part: getattr(self, part) for part in parts})
        found: dict[str, Any] = json.loads(text.replace("@", name))
        return found


def pod(name: str = "asked", *, tenant: str = OWN, nic: int = 0, **more: Any) -> Raw:
    made = raw_launcher(name, tenant=tenant, gates=[], **more)
    container = made["spec"]["containers"][0]
    asked = {k: v for k, v in container["resources"]["requests"].items() if k != H100}
    limits = {NIC: str(nic)} if nic else {}
    limits |= {key: value for key, value in asked.items() if key.startswith("hugepages-")}
    container["resources"] = {"requests": asked | limits, "limits": limits}
    return made


def on(node: str, name: str = "there", **more: Any) -> Raw:
    return pod(name, on=f"{node}@", **{"phase": "Running", **more})


def node(name: str = "n1", *, zone: str = "", **more: Any) -> Raw:
    labels = more.pop("labels", {}) | ({"zone": f"{zone}@"} if zone else {})
    return raw_machine(f"{name}@", units=None, labels=labels, **more)


def row(
    id: str,  # noqa: A002 -- as pytest calls it
    asked: Raw | None = None,
    *nodes: Raw,
    cause: Cause | None = None,
    pods: Iterable[Raw] = (),
    **more: Any,
) -> Row:
    return Row(
        id=id,
        asked=asked or pod(),
        nodes=nodes or (node(),),
        pods=tuple(pods),
        cause=cause,
        **more,
    )


def disk(**volume: Any) -> dict[str, Any]:
    return {
        "claims": (raw_volume_claim("disk", tenant=OWN, volume="pv-@"),),
        "volumes": (raw_volume("pv-@", **volume),),
    }


def sidecars() -> Raw:
    made = pod(requests={"cpu": "1"})
    made["spec"]["initContainers"] = [
        {
            "name": "side",
            "image": "x",
            "restartPolicy": "Always",
            "resources": {"requests": {"cpu": "1"}},
        },
        {"name": "init", "image": "x", "resources": {"requests": {"cpu": "2"}}},
    ]
    return made


def port(number: int = 8443, **more: str) -> Raw:
    return {"ports": [{"containerPort": number, "hostPort": number, **more}]}


def in_init(ports: Raw, **more: str) -> Raw:
    made = on("n1")
    made["spec"]["initContainers"] = [{"name": "init", "image": "x", **ports, **more}]
    return made


def whole(cpu: str) -> Raw:
    made = pod(requests={"cpu": "100m"})
    made["spec"]["resources"] = {"requests": {"cpu": cpu}}
    return made


KEYLESS = [{"operator": "Exists"}]
NO_EXECUTE = a_taint("gone", "", "NoExecute")
APART_X = pod_term(HOST, app="x")
X = {"app": "x"}
ANYWHERE = {**APART_X, "namespaceSelector": {}}
small = {"amounts": {"cpu": "3"}}

ROWS = (
    row("nothing-asked"),
    row("tainted", None, node(taints=[a_taint()]), cause=Cause.TAINTED),
    row("no-execute", None, node(taints=[NO_EXECUTE]), cause=Cause.TAINTED),
    row("preferred", None, node(taints=[a_taint(effect="PreferNoSchedule")])),
    row(
        "tolerated",
        pod(tolerations=[{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]),
        node(taints=[a_taint()]),
    ),
    row(
        "other-value-tolerated",
        pod(tolerations=[{"key": "dedicated", "value": "cpu"}]),
        node(taints=[a_taint()]),
        cause=Cause.TAINTED,
    ),
    row("all-tolerated", pod(tolerations=KEYLESS), node(taints=[a_taint(), NO_EXECUTE])),
    row("cordoned", None, node(cordoned=True), cause=Cause.CORDONED),
    row("cordon-tolerated", pod(tolerations=KEYLESS), node(cordoned=True)),
    row("selected", pod(selector={"gen": "3"}), node(labels={"gen": "3"})),
    row(
        "not-selected",
        pod(selector={"gen": "3"}),
        node(labels={"gen": "4"}),
        cause=Cause.SELECTOR,
    ),
    row("greater", pod(node_terms=[node_term("gen", "2", operator="Gt")]), node(labels={"gen": "3"})),
    row(
        "not-less",
        pod(node_terms=[node_term("gen", "3", operator="Lt")]),
        node(labels={"gen": "3"}),
        cause=Cause.NODE_AFFINITY,
    ),
    row("absent-is-not-in", pod(node_terms=[node_term("gen", "3", operator="NotIn")])),
    row("second-term", pod(node_terms=[node_term("a", "b"), node_term("a", operator="DoesNotExist")])),
    row(
        "must-be-absent",
        pod(node_terms=[node_term("gen", operator="DoesNotExist")]),
        node(labels={"gen": ""}),
        cause=Cause.NODE_AFFINITY,
    ),
    row("just-enough", pod(requests={"cpu": "2500m"}), node(**small), pods=[on("n1", requests={"cpu": "500m"})]),
    row(
        "too-little",
        pod(requests={"cpu": "2501m"}),
        node(**small),
        pods=[on("n1", requests={"cpu": "500m"})],
        cause=Cause.AMOUNT,
    ),
    row(
        "ended-takes-nothing",
        pod(requests={"cpu": "3"}),
        node(**small),
        pods=[on("n1", requests={"cpu": "2"}, phase="Failed")],
    ),
    row("init-peak", sidecars(), node(**small)),
    row("init-peak-over", sidecars(), node(amounts={"cpu": "2999m"}), cause=Cause.AMOUNT),
    row("of-the-pod", whole("3"), node(**small)),
    row("of-the-pod-over", whole("3001m"), node(**small), cause=Cause.AMOUNT),
    row("nothing-of-nothing", None, node(amounts={"cpu": "0"})),
    row("no-such-resource", pod(nic=1), cause=Cause.AMOUNT),
    row("taken", pod(nic=1), node(amounts={NIC: "1"}), pods=[on("n1", nic=1)], cause=Cause.AMOUNT),
    row("one-left", pod(nic=1), node(amounts={NIC: "2"}), pods=[on("n1", nic=1)]),
    row(
        "hugepages",
        pod(requests={"hugepages-2Mi": "4Mi", "memory": "1Gi"}),
        node(amounts={"hugepages-2Mi": "2Mi"}),
        cause=Cause.AMOUNT,
    ),
    row("full-of-pods", None, node(amounts={"pods": "1"}), pods=[on("n1")], cause=Cause.AMOUNT),
    row("port-taken", pod(**port()), pods=[on("n1", **port())], cause=Cause.PORT),
    row("port-taken-elsewhere", pod(**port()), node(), node("n2"), pods=[on("n2", **port())]),
    row("another-port-taken", pod(**port()), pods=[on("n1", **port(8444))]),
    row("port-of-another-protocol", pod(**port()), pods=[on("n1", **port(protocol="UDP"))]),
    row(
        "port-on-another-address",
        pod(**port(hostIP="10.0.0.1")),
        pods=[on("n1", **port(hostIP="10.0.0.2"))],
    ),
    row(
        "port-on-the-same-address",
        pod(**port(hostIP="10.0.0.1")),
        pods=[on("n1", **port(hostIP="10.0.0.1"))],
        cause=Cause.PORT,
    ),
    row(
        "port-on-every-address",
        pod(**port(hostIP="10.0.0.1")),
        pods=[on("n1", **port())],
        cause=Cause.PORT,
    ),
    row(
        "port-wanted-on-every-address",
        pod(**port()),
        pods=[on("n1", **port(hostIP="10.0.0.1"))],
        cause=Cause.PORT,
    ),
    row("port-of-one-that-ended", pod(**port()), pods=[on("n1", phase="Failed", **port())]),
    row("port-of-the-pod-alone", pod(ports=[{"containerPort": 8443}]), pods=[on("n1", **port())]),
    row("port-of-an-init-container", pod(**port()), pods=[in_init(port())]),
    row(
        "port-of-a-sidecar",
        pod(**port()),
        pods=[in_init(port(), restartPolicy="Always")],
        cause=Cause.PORT,
    ),
    row(
        "apart-here",
        pod(apart=[APART_X]),
        pods=[on("n1", labels=X)],
        cause=Cause.POD_ANTI_AFFINITY,
    ),
    row("apart-of-another-namespace", pod(apart=[APART_X]), pods=[on("n1", tenant=OTHER, labels=X)]),
    row(
        "apart-of-any-namespace",
        pod(apart=[ANYWHERE]),
        pods=[on("n1", tenant=OTHER, labels=X)],
        cause=Cause.POD_ANTI_AFFINITY,
    ),
    row(
        "apart-by-zone",
        pod(apart=[pod_term("zone", app="x")]),
        node(zone="a"),
        node("n2", zone="a"),
        pods=[on("n2", labels=X)],
        cause=Cause.POD_ANTI_AFFINITY,
    ),
    row(
        "apart-in-another-zone",
        pod(apart=[pod_term("zone", app="x")]),
        node(zone="a"),
        node("n2", zone="b"),
        pods=[on("n2", labels=X)],
    ),
    row("apart-without-a-zone", pod(apart=[pod_term("zone", app="x")]), pods=[on("n1", labels=X)]),
    row(
        "kept-out",
        pod(labels=X),
        pods=[on("n1", apart=[APART_X])],
        cause=Cause.KEPT_APART,
    ),
    row("kept-out-of-another-namespace", pod(labels=X), pods=[on("n1", tenant=OTHER, apart=[APART_X])]),
    row(
        "kept-out-of-any-namespace",
        pod(labels=X),
        pods=[on("n1", tenant=OTHER, apart=[ANYWHERE])],
        cause=Cause.KEPT_APART,
    ),
    row("first-of-its-kind", pod(labels=X, near=[APART_X])),
    row("first-without-kin", pod(near=[APART_X]), cause=Cause.POD_AFFINITY),
    row(
        "first-without-a-zone",
        pod(labels=X, near=[pod_term("zone", app="x")]),
        cause=Cause.POD_AFFINITY,
    ),
    row(
        "beside",
        pod(near=[pod_term("zone", app="x")]),
        node(zone="a"),
        node("n2", zone="a"),
        pods=[on("n2", labels=X)],
    ),
    row(
        "beside-elsewhere",
        pod(labels=X, near=[pod_term("zone", app="x")]),
        node(zone="a"),
        node("n2", zone="b"),
        pods=[on("n2", labels=X)],
        cause=Cause.POD_AFFINITY,
    ),
    row(
        "no-one-pod-meets-both",
        pod(near=[pod_term(HOST, app="x"), pod_term(HOST, tier="y")]),
        pods=[on("n1", labels=X), on("n1", "too", labels={"tier": "y"})],
        cause=Cause.POD_AFFINITY,
    ),
    row(
        "one-pod-meets-both",
        pod(near=[pod_term(HOST, app="x"), pod_term(HOST, tier="y")]),
        pods=[on("n1", labels=X | {"tier": "y"})],
    ),
    row("reached", pod(volume_claims=["disk"]), node(zone="a"), **disk(node_terms=[node_term("zone", "a@")])),
    row(
        "not-reached",
        pod(volume_claims=["disk"]),
        node(zone="b"),
        cause=Cause.VOLUME_ELSEWHERE,
        **disk(node_terms=[node_term("zone", "a@")]),
    ),
    row(
        "in-another-zone",
        pod(volume_claims=["disk"]),
        node(labels={"topology.kubernetes.io/zone": "a"}),
        cause=Cause.VOLUME_ELSEWHERE,
        **disk(labels={"topology.kubernetes.io/zone": "b__c"}),
    ),
    row(
        "in-one-of-its-zones",
        pod(volume_claims=["disk"]),
        node(labels={"topology.kubernetes.io/zone": "b"}),
        **disk(labels={"topology.kubernetes.io/zone": "b__c"}),
    ),
    row("no-volume-claim", pod(volume_claims=["disk"]), cause=Cause.VOLUME_MISSING),
)  # fmt: skip
