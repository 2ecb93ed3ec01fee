"""Who may do what to claims and classes: order, mark, finalizers, placement, deletion."""

from typing import Final

from gpu import keys
from gpu.objects import kinds
from tests.real.policy_rows import (
    ADMINS,
    CONTROLLER,
    PEOPLE,
    TENANT,
    TERM,
    Row,
    claim,
    create,
    delete,
    meta,
    patch,
)

MARK: Final = keys.TEMPLATE_CLAIM_LABEL
OURS: Final = keys.CLAIM_FINALIZER
OTHERS: Final = "other.example.com/kept"
ORDERERS: Final = ("admin", "super-admin", "ancestor", "tenant's account", "ancestor's account")
BROAD: Final = (*ADMINS, "kubevirt", "virt-handler", "other account of ours")
"""Who may write anything as far as RBAC goes; KubeVirt's own role is smaller."""
PARTS: Final = (
    *("scheduler", "node", "namespaces", "pod collector", "replica sets", "host", "hoster"),
)
"""Parts of the cluster whose roles know nothing of our kinds' writing."""


def _marked(name: str) -> str:
    return (
        f"gpuclaim {TENANT}/{name}: label {MARK} is set by the GPU controller ({CONTROLLER}) alone, "
        "on the claims that it makes for a VM's start; leave the label out"
    )


_KEEPS = (
    f"gpuclaim {TENANT}/held: finalizer {OURS} is taken off by the GPU controller ({CONTROLLER}) "
    "alone, once its units are free; delete the gpuclaim and wait, or take the product out with "
    "cozystack-gpu teardown"
)
_CLASS_KEEPS = (
    f"gpuclass h100: finalizer {keys.CLASS_FINALIZER} is taken off by the GPU controller "
    f"({CONTROLLER}) alone, once no claim names the class; delete the gpuclass and wait, or take "
    "the product out with cozystack-gpu teardown"
)
_PLACED = (
    f"gpuclaim {TENANT}/held: status.phase, status.nodeName, status.boundAt, status.term are "
    f"written by the GPU controller ({CONTROLLER}) alone; delete the claim to give its units back, "
    "order another to get more"
)
_VM = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "vm", "uid": "u"}
_LOST = {"phase": "Lost", "nodeName": None, "boundAt": None}
_CONDITION = {"type": "Waiting", "status": "True", "reason": "R", "message": ""}


def _finalizers(*names: str):
    return patch(kinds.GPU_CLAIMS, "held", meta(finalizers=list(names) or None))


CREATED: Final = (
    Row(
        what="a claim is ordered",
        ask=claim(),
        passes=(*ORDERERS, *BROAD),
        rbac=("view", "use", "sibling", *PARTS),
    ),
    Row(
        what="a claim with the template mark",
        ask=claim(labels={MARK: "true"}),
        passes=("controller, any right",),
        rbac=("view", "use", "sibling"),
        policy=(*ORDERERS, *BROAD),
        topic="claim-marks",
        words=_marked("new"),
    ),
    Row(
        what="a claim with the mark's key and another value",
        ask=claim(labels={MARK: ""}),
        policy=("admin", "masters"),
        topic="claim-marks",
        words=_marked("new"),
    ),
    Row(
        what="a claim with labels, annotations, an owner and finalizers of its own",
        ask=claim(
            labels={"team": "red", f"{MARK}s": "true"},
            annotations={MARK: "true"},
            finalizers=[OTHERS],
            ownerReferences=[_VM],
        ),
        passes=ORDERERS,
    ),
    Row(
        what="a claim that has our finalizer already",
        ask=claim(finalizers=[OURS]),
        passes=ORDERERS,
    ),
)

CHANGED: Final = (
    Row(
        what="the mark is put on",
        ask=patch(kinds.GPU_CLAIMS, "held", meta(labels={MARK: "true"})),
        passes=("controller",),
        rbac=(*PEOPLE, *PARTS),
        policy=(*BROAD, "collector"),
        topic="claim-marks",
        words=_marked("held"),
    ),
    Row(
        what="the mark is taken off",
        ask=patch(kinds.GPU_CLAIMS, "template", meta(labels={MARK: None})),
        passes=("controller",),
        rbac=PEOPLE,
        policy=BROAD,
        topic="claim-marks",
        words=_marked("template"),
    ),
    Row(
        what="the mark's value is changed",
        ask=patch(kinds.GPU_CLAIMS, "template", meta(labels={MARK: "false"})),
        policy=ADMINS,
        topic="claim-marks",
        words=_marked("template"),
    ),
    Row(
        what="another label is changed",
        ask=patch(kinds.GPU_CLAIMS, "template", meta(labels={"team": "blue"})),
        passes=(*ADMINS, "controller", "collector"),
        rbac=PEOPLE,
    ),
    Row(
        what="our finalizer is taken off",
        ask=_finalizers(OTHERS),
        passes=("controller",),
        rbac=(*PEOPLE, *PARTS),
        policy=(*BROAD, "collector"),
        topic="claim-marks",
        words=_KEEPS,
    ),
    Row(
        what="every finalizer is taken off",
        ask=_finalizers(),
        passes=("controller",),
        policy=ADMINS,
        topic="claim-marks",
        words=_KEEPS,
    ),
    Row(
        what="somebody else's finalizer is taken off",
        ask=_finalizers(OURS),
        passes=(*ADMINS, "collector"),
    ),
    Row(
        what="finalizers change places, and one comes in",
        ask=_finalizers("new.example.com/one", OURS, OTHERS),
        passes=ADMINS,
    ),
    Row(
        what="a claim loses its owner",
        ask=patch(kinds.GPU_CLAIMS, "template", meta(ownerReferences=None)),
        passes=("collector", "controller"),
        rbac=PEOPLE,
    ),
    Row(
        what="finalizers are sent to the status",
        ask=patch(kinds.GPU_CLAIMS, "held", meta(finalizers=None), subresource="status"),
        # The API server leaves metadata alone there.
        passes=ADMINS,
        rbac=PEOPLE,
    ),
    Row(
        what="a claim is given up",
        ask=delete(kinds.GPU_CLAIMS, "held"),
        passes=(*ORDERERS, *ADMINS, "controller", "namespaces", "collector"),
        rbac=("view", "use", "sibling", "node", "scheduler"),
    ),
)

PLACED: Final = (
    Row(
        what="a placement is changed",
        ask=patch(
            kinds.GPU_CLAIMS,
            "held",
            {"status": {**_LOST, "term": TERM}},
            subresource="status",
        ),
        passes=("controller",),
        rbac=(*PEOPLE, *PARTS),
        policy=(*BROAD, "collector"),
        topic="placement",
        words=_PLACED,
    ),
    Row(
        what="a placement is changed under an old term",
        ask=patch(
            kinds.GPU_CLAIMS,
            "held",
            {"status": {**_LOST, "term": TERM - 1}},
            subresource="status",
        ),
        policy=("controller",),
        topic="term",
        words=f"gpuclaim {TENANT}/held: its placement was decided in term {TERM - 1}, but the "
        f"leader of term {TERM} places now; nothing was written, that leader decides anew",
    ),
    Row(
        what="a condition is written",
        ask=patch(
            kinds.GPU_CLAIMS,
            "held",
            {
                "status": {
                    "conditions": [{**_CONDITION, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
                }
            },
            subresource="status",
        ),
        passes=("controller", *ADMINS),
        rbac=PEOPLE,
    ),
)

CLASSES: Final = (
    Row(
        what="a class's finalizer is taken off",
        ask=patch(kinds.GPU_CLASSES, "h100", meta(finalizers=None), namespace=None),
        passes=("controller",),
        rbac=(*PEOPLE, "node", "host"),
        policy=("hoster", *BROAD, "collector"),
        topic="class-marks",
        words=_CLASS_KEEPS,
    ),
    Row(
        what="a class is changed",
        ask=patch(kinds.GPU_CLASSES, "h100", {"spec": {"description": "d"}}, namespace=None),
        passes=("hoster", *ADMINS),
        rbac=PEOPLE,
    ),
    Row(
        what="a class gets a finalizer of somebody",
        ask=patch(
            kinds.GPU_CLASSES,
            "h100",
            meta(finalizers=[keys.CLASS_FINALIZER, OTHERS]),
            namespace=None,
        ),
        passes=("hoster",),
    ),
    Row(
        what="a class is deleted",
        ask=delete(kinds.GPU_CLASSES, "h100", namespace=None),
        passes=("hoster", *ADMINS),
        rbac=(*PEOPLE, "controller"),
    ),
    Row(
        what="a class is published",
        ask=create(
            kinds.GPU_CLASSES,
            "l40s",
            namespace=None,
            spec={
                "mode": "passthrough",
                "source": {"devicePlugin": {"resourceName": "nvidia.com/L40S"}},
            },
        ),
        passes=("hoster", *ADMINS),
        rbac=PEOPLE,
    ),
)

ROWS: Final = (*CREATED, *CHANGED, *PLACED, *CLASSES)
