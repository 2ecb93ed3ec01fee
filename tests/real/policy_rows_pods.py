"""Who may do what to pods: gate, pin and its term, raw names; and all that has nothing to do with us."""

from typing import Any, Final

from devcluster import guests
from gpu import keys
from gpu.cluster.client import Client
from gpu.objects import kinds
from tests.real.policy_rows import (
    ADMINS,
    CONTROLLER,
    PEOPLE,
    TENANT,
    TERM,
    Ask,
    Row,
    create,
    delete,
    meta,
    patch,
)
from tests.real.policy_site import RAW

GATE: Final = keys.PLACEMENT_GATE
ANNOTATION: Final = keys.TERM_ANNOTATION
OTHER_GATE: Final = "other.example.com/gate"
PLAIN: Final = {"containers": [{"name": "main", "image": "i"}]}
GATED: Final = {**PLAIN, "schedulingGates": [{"name": GATE}, {"name": OTHER_GATE}]}
BROAD: Final = (*ADMINS, "virt-handler", "other account of ours")
MAKERS: Final = ("replica sets", "node", *BROAD)
"""Who may create pods; a node only mirror pods, where NodeRestriction is on."""
NO_WRITERS: Final = (*PEOPLE, "scheduler", "node", "pod collector", "namespaces", "host", "hoster")
"""Whose roles do not let them change a pod."""


def _made(name: str = "new") -> str:
    return (
        f"pod {TENANT}/{name}: scheduling gate {GATE} is put on launcher pods of KubeVirt "
        f"({guests.KUBEVIRT}) alone; leave it out, and name a GPUClaim in a VM"
    )


def _waits(name: str = "gated") -> str:
    return (
        f"pod {TENANT}/{name}: waits at gate {GATE}; the GPU controller ({CONTROLLER}) alone takes "
        "it off and says on which node the pod runs, once its units are bound there (kubectl get "
        f"explanations -n {TENANT}); to give up, stop the VM"
    )


def _dated(name: str) -> str:
    return (
        f"pod {TENANT}/{name}: annotation {ANNOTATION} is written by the GPU controller "
        f"({CONTROLLER}) alone, when it pins the pod; leave it as it is, and out of the VM's "
        "template"
    )


def _late(term: int) -> str:
    return (
        f"pod {TENANT}/gated: its place was decided in term {term}, but the leader of term {TERM} "
        "places now; nothing was written, that leader decides anew"
    )


def node_affinity(node: str = "n1") -> dict[str, Any]:
    """Return the pin to a node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def _pinning(term: str | None, **spec: Any) -> Ask:
    body: dict[str, Any] = {"spec": {"schedulingGates": None, **node_affinity(), **spec}}
    if term is not None:
        body["metadata"] = {"annotations": {ANNOTATION: term}}
    return patch(kinds.PODS, "gated", body)


def _bind(name: str) -> Ask:
    body = {
        "metadata": {"name": name, "namespace": TENANT},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    return lambda them: them.create_subresource(kinds.PODS, name, "binding", body, TENANT)


def _evict(name: str) -> Ask:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": TENANT},
        "deleteOptions": {"dryRun": ["All"]},
    }

    def ask(them: Client):
        return them.create_subresource(kinds.PODS, name, "eviction", body, TENANT)

    return ask


MADE: Final = (
    Row(
        what="a pod with our gate is made",
        ask=create(kinds.PODS, "new", spec=GATED),
        passes=("kubevirt",),
        rbac=(*PEOPLE, "scheduler", "controller", "namespaces", "pod collector", "hoster"),
        policy=MAKERS,
        topic="gate",
        words=_made(),
    ),
    Row(
        what="a pod without a name and with our gate is made",
        ask=lambda them: them.create(
            kinds.PODS,
            {"metadata": {"generateName": "new-", "namespace": TENANT}, "spec": GATED},
            dry_run=True,
        ),
        passes=("kubevirt",),
    ),
    Row(
        what="a pod with the term of a pin is made",
        ask=create(kinds.PODS, "new", meta={"annotations": {ANNOTATION: "9"}}, spec=PLAIN),
        policy=("kubevirt", *MAKERS),
        topic="gate",
        words=_dated("new"),
    ),
    Row(
        what="any other pod is made",
        ask=create(
            kinds.PODS,
            "new",
            meta={"annotations": {f"{ANNOTATION}s": "9"}},
            spec={**PLAIN, "schedulingGates": [{"name": OTHER_GATE}], **node_affinity()},
        ),
        passes=(*MAKERS, "kubevirt"),
        rbac=PEOPLE,
    ),
)

AT_THE_GATE: Final = (
    Row(
        what="the gate is taken off",
        ask=patch(kinds.PODS, "gated", {"spec": {"schedulingGates": [{"name": OTHER_GATE}]}}),
        rbac=NO_WRITERS,
        policy=("kubevirt", *BROAD, "collector"),
        topic="gate",
        words=_waits(),
    ),
    Row(
        what="pin and gate in one",
        ask=_pinning(str(TERM)),
        passes=("controller",),
        rbac=NO_WRITERS,
        policy=("kubevirt", *BROAD),
        topic="gate",
        words=_waits(),
    ),
    Row(
        what="a node affinity is set",
        ask=patch(kinds.PODS, "gated", {"spec": node_affinity()}),
        policy=("kubevirt", *BROAD),
        topic="gate",
        words=_waits(),
    ),
    Row(
        what="a node selector is set",
        ask=patch(kinds.PODS, "gated", {"spec": {"nodeSelector": {"a": "b"}}}),
        policy=("kubevirt", *BROAD),
        topic="gate",
        words=_waits(),
    ),
    Row(
        what="the term of a pin is set",
        ask=patch(kinds.PODS, "gated", meta(annotations={ANNOTATION: "9"})),
        passes=("controller",),
        policy=("kubevirt", *BROAD),
        topic="gate",
        words=_dated("gated"),
    ),
    Row(
        what="another gate is taken off",
        ask=patch(kinds.PODS, "gated", {"spec": {"schedulingGates": [{"name": GATE}]}}),
        passes=(*ADMINS, "kubevirt"),
        rbac=PEOPLE,
    ),
    Row(
        what="labels, annotations and the deadline of a gated pod",
        ask=patch(
            kinds.PODS,
            "gated",
            {
                "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
                "spec": {"activeDeadlineSeconds": 600},
            },
        ),
        passes=(*ADMINS, "kubevirt", "collector"),
        rbac=PEOPLE,
    ),
    Row(
        what="the status of a gated pod",
        ask=patch(
            kinds.PODS,
            "gated",
            {"status": {"reason": "R"}},
            subresource="status",
        ),
        passes=("scheduler", "node", "pod collector", *ADMINS),
        rbac=PEOPLE,
    ),
    Row(
        what="a gated pod is bound",
        ask=_bind("gated"),
        rbac=PEOPLE,
        server=("scheduler", "masters"),
        says="non-empty .spec.schedulingGates",
    ),
    Row(
        what="a gated pod is deleted",
        ask=delete(kinds.PODS, "gated"),
        passes=(
            *("admin", "super-admin", "ancestor", "kubevirt", "namespaces", "collector"),
            *("pod collector", "scheduler", "node", "replica sets", *ADMINS),
        ),
        rbac=("view", "use", "sibling"),
    ),
)

PIN: Final = (
    Row(
        what="a pin of an old term",
        ask=_pinning(str(TERM - 1)),
        policy=("controller",),
        topic="pin-term",
        words=_late(TERM - 1),
    ),
    *(
        Row(
            what=f"a pin whose term is {term!r}",
            ask=_pinning(term),
            policy=("controller",),
            topic="pin-term",
            words=_late(0),
        )
        for term in (None, "", "seven", "-9", "9.5", "9" * 19)
    ),
    Row(
        what="a pin of a later term",
        ask=_pinning("9" * 18),
        passes=("controller",),
    ),
    Row(
        what="the gate alone, under an old term",
        ask=patch(
            kinds.PODS,
            "gated",
            {
                "metadata": {"annotations": {ANNOTATION: str(TERM - 1)}},
                "spec": {"schedulingGates": None},
            },
        ),
        policy=("controller",),
        topic="pin-term",
        words=_late(TERM - 1),
    ),
    Row(
        what="a node affinity without the gate's removal, under no term",
        ask=patch(kinds.PODS, "gated", {"spec": node_affinity()}),
        policy=("controller",),
        topic="pin-term",
        words=_late(0),
    ),
)

PINNED: Final = (
    Row(
        what="a pinned pod is pinned elsewhere",
        ask=patch(kinds.PODS, "pinned", {"spec": node_affinity("n2")}),
        rbac=NO_WRITERS,
        server=("kubevirt", *ADMINS, "controller"),
        says="pod updates may not change fields other than",
    ),
    Row(
        what="a pod is gated late",
        ask=patch(kinds.PODS, "pinned", {"spec": {"schedulingGates": [{"name": GATE}]}}),
        server=(*ADMINS, "controller"),
        says="only deletion is allowed, but found new scheduling gate",
    ),
    Row(
        what="the term of a pinned pod is changed",
        ask=patch(kinds.PODS, "pinned", meta(annotations={ANNOTATION: "8"})),
        passes=("controller",),
        rbac=NO_WRITERS,
        policy=("kubevirt", *BROAD, "collector"),
        topic="gate",
        words=_dated("pinned"),
    ),
    Row(
        what="the term of a pinned pod is taken off",
        ask=patch(kinds.PODS, "pinned", meta(annotations=None)),
        policy=("kubevirt", *BROAD),
        topic="gate",
        words=_dated("pinned"),
    ),
    Row(
        what="labels of a pinned pod",
        ask=patch(kinds.PODS, "pinned", meta(labels={"kubevirt.io/nodeName": "n1"})),
        passes=("kubevirt", "virt-handler", *ADMINS),
    ),
    Row(
        what="the status of a pinned pod",
        ask=patch(kinds.PODS, "pinned", {"status": {"phase": "Running"}}, subresource="status"),
        passes=("node", "scheduler", "pod collector"),
    ),
    Row(
        what="a container to look into a pinned pod",
        ask=patch(
            kinds.PODS,
            "pinned",
            {"spec": {"ephemeralContainers": [{"name": "look", "image": "i"}]}},
            subresource="ephemeralcontainers",
        ),
        passes=ADMINS,
        rbac=PEOPLE,
    ),
    Row(
        what="a pinned pod is evicted",
        ask=_evict("pinned"),
        passes=ADMINS,
        rbac=PEOPLE,
    ),
    Row(
        what="a pinned pod is deleted",
        ask=delete(kinds.PODS, "pinned"),
        passes=("admin", "kubevirt", "node", "namespaces", "collector", "pod collector", *ADMINS),
        rbac=("view", "use", "sibling"),
    ),
)

RAW_NAMES: Final = (
    Row(
        what="a pod asks for a GPU by its raw name",
        ask=create(
            kinds.PODS,
            "new",
            spec={
                "containers": [{"name": "main", "image": "i", "resources": {"limits": {RAW: "1"}}}]
            },
        ),
        passes=("kubevirt",),
        rbac=(*PEOPLE, "scheduler", "controller"),
        policy=MAKERS,
        topic="raw-names",
        words=f"pod {TENANT}/new: names {RAW} directly, and raw GPU resource names are denied here; "
        f"order a class instead (kubectl get gpuoffers -n {TENANT})",
    ),
    Row(
        what="a VMI asks for a GPU by its raw name",
        ask=create(
            kinds.VMIS,
            "new",
            spec={"domain": {"devices": {"gpus": [{"name": "a", "deviceName": RAW}]}}},
        ),
        rbac=(*PEOPLE, "node", "scheduler", "controller", "replica sets"),
        policy=("kubevirt", *BROAD),
        topic="vmi-raw-names",
        words=f"virtualmachineinstance {TENANT}/new: names {RAW} directly, and raw GPU resource "
        "names are denied here; order a class instead (kubectl get gpuoffers -n "
        f"{TENANT})",
    ),
    Row(
        what="a VMI asks for a class",
        ask=create(
            kinds.VMIS,
            "new",
            spec={
                "domain": {
                    "devices": {"gpus": [{"name": "a", "deviceName": "gpu.cozystack.io/h100"}]}
                }
            },
        ),
        passes=("kubevirt", *ADMINS),
    ),
)

ROWS: Final = (*MADE, *AT_THE_GATE, *PIN, *PINNED, *RAW_NAMES)
