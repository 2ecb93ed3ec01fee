"""JSON bodies of the leader's writes; with `writer.py` the only place of the binder that has any.

A list in a merge patch replaces the stored one, so conditions are always the whole list.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from gpu import keys, settings
from gpu.binder import changes, conditions, results
from gpu.binder.answer_changes import Answer, ForgetRequest, OwnClaim
from gpu.binder.rejection_changes import Reject
from gpu.objects import claims, meta
from gpu.objects.binders import GPUBinder
from gpu.objects.claims import Displaced
from gpu.objects.kinds import (
    CONFIG_MAPS,
    GPU_BINDERS,
    GPU_CLAIMS,
    GPU_NODES,
    WORKLOAD_MONITORS,
    WORKLOADS,
)
from gpu.objects.meta import Condition, OwnerRef

Body = dict[str, Any]


def finalizers(change: changes.Finalizer, version: str) -> Body:
    """Return the merge patch that makes the finalizers what the change says."""
    return {"metadata": {"finalizers": list(change.finalizers), "resourceVersion": version}}


def claim_status(change: changes.ClaimStatus, version: str, term: int) -> Body:
    """Return the merge patch of a claim's status. A phase is placement: the term goes with it.

    So it does with an answer: an old leader promises no node any more.
    """
    after = results.after(change)
    status: Body = {
        "reasons": list(after.reasons) or None,
        "conditions": list_of(after.conditions),
        "spent": claims.format_spent(after.spent),
    }
    if isinstance(change, changes.Placement):
        status |= {
            "phase": after.phase.value,
            "nodeName": after.node,
            "boundAt": time(after.bound_at) if after.bound_at else None,
            "term": term,
        }
        if after.displaced is not None:
            status["displaced"] = _displaced(after.displaced)
    elif isinstance(change, Answer) or not change.claim.has_status:
        status |= {"phase": after.phase.value, "term": term}
    if isinstance(change, changes.Attach | changes.Detach) or (
        isinstance(change, changes.Place) and change.attachment is not None
    ):
        status["attachedTo"] = claims.format_attachment(after.attached_to)
    if _is_about_request(change):
        status["bindRequest"] = claims.format_request(after.bind_request)
    if isinstance(change, Reject):
        status["rejectedNodes"] = claims.format_rejected(after.rejected_nodes)
    return {"metadata": {"resourceVersion": version}, "status": status}


def _is_about_request(change: changes.ClaimStatus) -> bool:
    if isinstance(change, changes.Detach):
        return change.claim.bind_request is not None
    if isinstance(change, changes.Place):
        return change.answer is not None
    return isinstance(change, Answer | ForgetRequest)


def owned(change: OwnClaim, version: str) -> Body:
    """Return the merge patch that gives a template claim the VMI that came as its owner."""
    others = [one for one in change.claim.meta.owners if not one.controller]
    owners = [*map(_owner, others), _owner(change.owner)]
    return {"metadata": {"ownerReferences": owners, "resourceVersion": version}}


def _owner(found: OwnerRef) -> Body:
    # Never blockOwnerDeletion: where OwnerReferencesPermissionEnforcement is on it takes the right to
    # update the finalizers of VMIs, and nothing here waits for a foreground deletion.
    return {
        "apiVersion": found.api_version,
        "kind": found.kind,
        "name": found.name,
        "uid": found.uid,
        "controller": found.controller,
    }


def record(change: changes.WriteRecord) -> Body:
    """Return a usage record: a Workload has no status subresource, so one write makes it whole."""
    claim, wanted = change.claim.meta, change.record
    owner = {
        "apiVersion": GPU_CLAIMS.api_version,
        "kind": GPU_CLAIMS.kind,
        "name": claim.name,
        "uid": claim.uid,
        "controller": False,
    }
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": wanted.name,
            "namespace": claim.namespace,
            "labels": dict(wanted.labels),
            "ownerReferences": [owner],
        },
        "status": {
            "kind": wanted.kind,
            "type": wanted.type,
            "operational": wanted.operational,
            "resources": {name: str(units) for name, units in wanted.resources},
        },
    }


def monitor(change: changes.WriteMonitor) -> Body:
    """Return the monitor of a namespace's usage records. Its selector matches no pod, never all."""
    return {
        "apiVersion": WORKLOAD_MONITORS.api_version,
        "kind": WORKLOAD_MONITORS.kind,
        "metadata": {"name": keys.USAGE_MONITOR_NAME, "namespace": change.namespace},
        "spec": {"kind": "gpu", "type": "gpuclaim", "selector": dict(change.selector)},
    }


def class_status(change: changes.ReportClass) -> Body:
    """Return the merge patch of a class's status, the whole of it."""
    return {
        "status": {
            "observedGeneration": change.offer.meta.generation,
            "capacity": change.capacity,
            "allocatable": change.allocatable,
            "held": change.held,
            "free": change.free,
            "nodes": list(change.nodes),
            "nodeCount": change.node_count,
            "conditions": list_of(change.conditions),
        }
    }


def node_units(change: changes.ReportNode) -> Body:
    """Return what is applied to a GPUNode's status: the leader's fields and no other."""
    status = {
        "resources": [
            {"name": units.name, "held": units.held, "free": units.free}
            for units in change.resources
        ],
        "held": sum(units.held for units in change.resources),
        "free": sum(units.free for units in change.resources),
    }
    return {
        "apiVersion": GPU_NODES.api_version,
        "kind": GPU_NODES.kind,
        "metadata": {"name": change.node.meta.name},
        "status": status,
    }


def settings_map(change: changes.WriteSettings) -> Body:
    """Return the settings ConfigMap, for its creation."""
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": changes.SETTINGS_KEY.name,
            "namespace": changes.SETTINGS_KEY.namespace,
        },
        "data": settings.format_data(change.settings),
    }


def settings_data(change: changes.WriteSettings) -> Body:
    """Return the merge patch that heals the settings ConfigMap; keys of others stay."""
    return {"data": settings.format_data(change.settings)}


def binder_status(change: changes.ReportBinder) -> Body:
    """Return what the leader applies to GPUBinder's status; conditions of others are not in it."""
    return {
        "apiVersion": GPU_BINDERS.api_version,
        "kind": GPU_BINDERS.kind,
        "metadata": {"name": change.binder.meta.name},
        "status": {
            "settings": {
                "resourceNames": list(change.settings.resource_names),
                "rawResourceNames": change.settings.raw_names.value,
                "configMap": str(changes.SETTINGS_KEY),
            },
            "conditions": list_of(change.conditions),
        },
    }


def new_binder() -> Body:
    """Return the singleton, for its creation."""
    return {
        "apiVersion": GPU_BINDERS.api_version,
        "kind": GPU_BINDERS.kind,
        "metadata": {"name": keys.BINDER_NAME},
    }


def raised_term(stored: GPUBinder, term: int, identity: str, now: datetime) -> Body:
    """Return the merge patch that makes this replica the leader of a term."""
    leads = Condition(
        type=conditions.LEADING,
        status="True",
        reason="Elected",
        message=f"{identity} leads with term {term}",
    )
    return {
        "metadata": {"resourceVersion": stored.meta.resource_version},
        "status": {
            "term": term,
            "holder": identity,
            "holderSince": time(now),
            "conditions": list_of(conditions.put(stored.conditions, leads, now)),
        },
    }


def list_of(items: Iterable[Condition]) -> list[Body]:
    """Return conditions as JSON."""
    return [
        {
            "type": item.type,
            "status": item.status,
            "reason": item.reason,
            "message": item.message,
            **({"lastTransitionTime": time(item.since)} if item.since else {}),
            **(
                {"observedGeneration": item.observed_generation} if item.observed_generation else {}
            ),
        }
        for item in items
    ]


def time(at: datetime) -> str:
    """Return an instant as the API writes it, in whole seconds."""
    return meta.format_time(at)


def _displaced(found: Displaced) -> Body:
    return {"at": time(found.at), "node": found.node, "cause": found.cause.value}
