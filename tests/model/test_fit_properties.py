"""Any pod on any node of any small cluster: fit says what a naive oracle over the stored objects says."""

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from gpu import keys
from gpu.model import fit, fit_facts
from gpu.objects import nodes, pods, tenants
from gpu.objects.classes import Toleration
from tests import sampling
from tests.builders import raw_namespace
from tests.model import fit_oracle
from tests.model.fit_rows import VOLUMES
from tests.starting import (
    node_term,
    raw_csi_node,
    raw_launcher,
    raw_machine,
    raw_storage_class,
    raw_volume,
    raw_volume_claim,
    storage_of,
)

NAMES = ("n1", "n2", "n3")
TENANTS = ("tenant-a", "tenant-b")
TOPOLOGIES = ("zone", "kubernetes.io/hostname")
some = st.sampled_from


@st.composite
def label_selectors(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if draw(st.booleans()):
        found["matchLabels"] = {"app": draw(some(["x", "y"]))}
    if draw(st.integers(0, 3)) == 0:
        operator = draw(some(["In", "NotIn", "Exists", "DoesNotExist"]))
        values = [draw(some(["x", "z"]))] if operator in ("In", "NotIn") else []
        found["matchExpressions"] = [
            {"key": draw(some(["app", "tier"])), "operator": operator, "values": values}
        ]
    return found


@st.composite
def pod_terms(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {"topologyKey": draw(some(TOPOLOGIES))}
    if draw(st.integers(0, 5)):
        found["labelSelector"] = draw(label_selectors())
    if draw(st.integers(0, 3)) == 0:
        found["namespaces"] = [draw(some(TENANTS))]
    if draw(st.integers(0, 3)) == 0:
        found["namespaceSelector"] = draw(some([{}, {"matchLabels": {"kind": "b"}}]))
    return found


@st.composite
def node_terms(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return {}
    if kind == 1:
        operator = draw(some(["In", "NotIn"]))
        field = {"key": "metadata.name", "operator": operator, "values": [draw(some(NAMES))]}
        return {"matchFields": [field]}
    operator = draw(some(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    if operator in ("Gt", "Lt"):
        return node_term("gen", draw(some(["-1", "1", "2"])), operator=operator)
    values = [draw(some(["a", "b"]))] if operator in ("In", "NotIn") else []
    return node_term("zone", *values, operator=operator)


def few(items: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.one_of(st.just([]), st.lists(items, min_size=1, max_size=most))


def csi(handle: str) -> dict[str, Any]:
    return {"csi": {"driver": "disks.example.com", "volumeHandle": handle}}


TAINTS = [
    {"key": "gpu", "value": "x", "effect": "NoSchedule"},
    {"key": "gpu", "effect": "NoExecute"},
    {"key": "soft", "effect": "PreferNoSchedule"},
]
TOLERATIONS = [
    {"key": "gpu", "value": "x"},
    {"key": "gpu", "operator": "Exists", "effect": "NoExecute"},
    {"operator": "Exists", "effect": "NoSchedule"},
]


@st.composite
def machines(draw: st.DrawFn, name: str) -> dict[str, Any]:
    labels = {}
    if draw(st.booleans()):
        labels["zone"] = draw(some(["a", "b"]))
    if draw(st.booleans()):
        labels["gen"] = draw(some(["1", "2", "-2", "new"]))
    amounts = {"cpu": draw(some(["1", "2", "4"])), "pods": draw(some(["1", "2", "9"]))}
    if draw(st.booleans()):
        amounts["example.com/nic"] = "1"
    return raw_machine(
        name,
        labels=labels,
        amounts=amounts,
        taints=draw(st.one_of(st.just([]), st.lists(some(TAINTS), max_size=1))),
        cordoned=draw(st.integers(0, 9)) == 0,
    )


PORTS = [
    {"containerPort": 1, "hostPort": 1},
    {"containerPort": 1, "hostPort": 1, "hostIP": "10.0.0.1"},
    {"containerPort": 1, "hostPort": 1, "hostIP": "10.0.0.2", "protocol": "TCP"},
    {"containerPort": 1, "hostPort": 1, "protocol": "UDP"},
    {"containerPort": 1},
]


def disks(names: list[str]) -> list[dict[str, Any]]:
    return [{"name": it, "persistentVolumeClaim": {"claimName": it}} for it in names]


@st.composite
def launchers(draw: st.DrawFn, name: str, *, placed: bool) -> dict[str, Any]:
    where = draw(st.integers(0, 3)) if placed else 0
    node = draw(some(NAMES))
    pinned = {"pinned": node, "term": 1 if draw(st.booleans()) else None}
    requests = {"cpu": draw(some(["0", "500m", "1", "1500m"]))}
    if draw(st.integers(0, 3)) == 0:
        requests["example.com/nic"] = "1"
    made = raw_launcher(
        name,
        tenant=draw(some(TENANTS)),
        gates=[] if where > 1 or (placed and draw(st.integers(0, 3))) else [keys.PLACEMENT_GATE],
        labels={
            key: draw(some(values))
            for key, values in (("app", ["x", "y"]), ("tier", ["x"]))
            if draw(st.booleans())
        },
        requests=requests,
        units=0,
        near=draw(few(pod_terms())) if not placed else [],
        apart=draw(few(pod_terms())),
        phase=draw(some(["Pending", "Running", "Failed"])) if placed else "Pending",
        **({"on": node} if where > 1 else pinned if where == 1 else {}),
    )
    spec = made["spec"]
    if placed:
        spec["volumes"] = disks(draw(st.lists(some(["d1", "d2"]), max_size=2, unique=True)))
    if draw(st.integers(0, 3)) == 0:
        spec["initContainers"] = [
            {
                "resources": {"requests": {"cpu": draw(some(["1", "2"]))}},
                **({"restartPolicy": "Always"} if draw(st.booleans()) else {}),
                "ports": draw(few(some(PORTS), 1)),
            }
            for _ in range(draw(st.integers(1, 2)))
        ]
    if draw(st.integers(0, 2)) == 0:
        spec["containers"][0]["ports"] = draw(few(some(PORTS)))
    if draw(st.integers(0, 5)) == 0:
        spec["overhead"] = {"cpu": "500m"}
    return made


@st.composite
def askers(draw: st.DrawFn) -> dict[str, Any]:
    made = draw(launchers("asker", placed=False))
    spec = made["spec"]
    spec["tolerations"] = draw(few(some(TOLERATIONS)))
    if draw(st.integers(0, 2)) == 0:
        spec["nodeSelector"] = {"zone": draw(some(["a", "b"]))}
    if terms := draw(few(node_terms())):
        spec["affinity"]["nodeAffinity"] = {fit_oracle.REQUIRED: {"nodeSelectorTerms": terms}}
    if draw(st.booleans()):
        names = st.lists(some(["d1", "d2", "d3"]), min_size=1, max_size=2, unique=True)
        spec["volumes"] = disks(draw(names))
    return made


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    namespaces = [raw_namespace(name) for name in TENANTS]
    namespaces[1]["metadata"]["labels"] = {"kind": "b"}
    return {
        "nodes": [draw(machines(name)) for name in NAMES],
        "pods": [draw(launchers(f"p{at}", placed=True)) for at in range(draw(st.integers(0, 4)))],
        "namespaces": namespaces,
        "claims": [
            raw_volume_claim(
                name,
                tenant=tenant,
                volume=draw(some(["", "pv", "more", "gone"])),
                storage_class=draw(some(["late", "late", "at-once", "none"])),
                modes=draw(some([[], ["ReadWriteOncePod"]])),
                deleting=draw(st.integers(0, 9)) == 0,
            )
            for name in ("d1", "d2", "d3")
            for tenant in TENANTS
            if draw(st.integers(0, 3))
        ],
        "volumes": [
            raw_volume(
                "pv", node_terms=draw(few(st.just(node_term("zone", "a")))), source=csi("pv")
            ),
            raw_volume("more", source=csi("more")),
        ],
        "classes": [raw_storage_class(), raw_storage_class("at-once", late=False)],
        "csi_nodes": [
            raw_csi_node(name, disks_example_com=draw(some([1, 2])))
            for name in NAMES
            if draw(st.booleans())
        ],
    }


def facts_of(cluster: dict[str, Any]) -> fit_facts.Facts:
    found = [nodes.decode(raw) for raw in cluster["nodes"]]
    return fit_facts.of(
        nodes={node.name: node for node in found},
        pods=map(pods.decode, cluster["pods"]),
        namespaces=map(tenants.decode_namespace, cluster["namespaces"]),
        storage=storage_of(*(cluster[part] for part in VOLUMES)),
    )


@sampling.examples(150)
@given(clusters(), askers(), few(some(TOLERATIONS)))
def test_a_pod_fits_a_node_exactly_when_the_oracle_says_so(cluster, asker, tolerations):
    about = facts_of(cluster)
    given_too = [
        Toleration(
            key=it.get("key", ""),
            operator=it.get("operator", "Equal"),
            value=it.get("value", ""),
            effect=it.get("effect", ""),
        )
        for it in tolerations
    ]
    needs = fit.asked(pods.decode(asker), given_too)
    refused = fit.nodes_refused(needs, about, [*NAMES, "none"])
    for misfit in refused.values():
        event(misfit.cause.value)
    expected = {
        raw["metadata"]["name"]
        for raw in cluster["nodes"]
        if not fit_oracle.fits(asker, raw, cluster, tolerations)
    }
    assert refused.keys() == expected | {"none"}


@sampling.examples(50)
@given(clusters(), askers(), launchers("next", placed=False), some(NAMES))
def test_a_pin_counts_as_if_it_had_always_been_there_and_undone_as_if_never(
    cluster, asker, fresh, node
):
    about = facts_of(cluster)
    needs = fit.asked(pods.decode(asker))
    before = fit.nodes_refused(needs, about, NAMES)
    about.pin(pods.decode(fresh), node)
    bound = {**fresh, "spec": {**fresh["spec"], "nodeName": node}}
    with_it = facts_of({**cluster, "pods": [*cluster["pods"], bound]})
    assert fit.nodes_refused(needs, about, NAMES) == fit.nodes_refused(needs, with_it, NAMES)
    about.unpin(pods.decode(fresh), node)
    assert fit.nodes_refused(needs, about, NAMES) == before


@sampling.examples(50)
@given(clusters(), askers(), some(NAMES))
def test_the_pod_itself_is_never_in_its_own_way(cluster, asker, node):
    about = facts_of(cluster)
    needs = fit.asked(pods.decode(asker))
    before = fit.nodes_refused(needs, about, NAMES)
    about.pin(pods.decode(asker), node)
    assert fit.nodes_refused(needs, about, NAMES) == before
