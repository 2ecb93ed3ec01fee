"""JSON bodies of a start: the template claim that is made, and the pin of the launcher; see `bodies`."""

from typing import Any

from gpu import keys
from gpu.binder.start_changes import CreateClaim, Pin
from gpu.model import pins
from gpu.objects.kinds import GPU_CLAIMS

Body = dict[str, Any]


def template_claim(change: CreateClaim) -> Body:
    """Return a template claim, for its creation; our finalizer is on it before it holds anything."""
    claim = change.claim
    return {
        "apiVersion": GPU_CLAIMS.api_version,
        "kind": GPU_CLAIMS.kind,
        "metadata": {
            "name": claim.meta.name,
            "namespace": claim.meta.namespace,
            "labels": dict(claim.meta.labels),
            "finalizers": list(claim.meta.finalizers),
            "ownerReferences": [
                {
                    "apiVersion": owner.api_version,
                    "kind": owner.kind,
                    "name": owner.name,
                    "uid": owner.uid,
                    "controller": True,
                }
                for owner in claim.meta.owners
            ],
        },
        "spec": {"className": claim.class_name, "count": int(claim.count)},
    }


def pin(change: Pin, term: int) -> Body:
    """Return the strategic merge patch that takes our gate off a pod and, if it names one, pins it to a node.

    Both are one update, with the version of the pod that was decided on. Each term of its node affinity
    is narrowed: one more would widen it, and is refused. Terms are a list that is replaced whole, gates
    one that is merged by name.
    """
    pod = change.pod
    body: Body = {
        "metadata": {"uid": pod.meta.uid, "resourceVersion": pod.meta.resource_version},
        "spec": {"schedulingGates": [{"$patch": "delete", "name": keys.PLACEMENT_GATE}]},
    }
    body["metadata"]["annotations"] = {keys.TERM_ANNOTATION: str(term)}
    if change.node is not None:
        terms = pins.narrowed(pins.terms(pod.raw), change.node)
        required = {pins.REQUIRED: {"nodeSelectorTerms": terms}}
        body["spec"]["affinity"] = {"nodeAffinity": required}
    return body
