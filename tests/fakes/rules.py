"""Rules of a Kubernetes API that FakeCluster follows, as functions of objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu import keys
from gpu.cluster import errors, wire
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey

CORE_WITH_STATUS = {"pods", "nodes", "namespaces", "resourcequotas"}
STATUS_GROUPS = {keys.GROUP, "kubevirt.io", "helm.toolkit.fluxcd.io"}

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Happened:
    """One change: the object before it, after it, and as it last was when it went."""

    version: int
    kind: Kind
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    gone: dict[str, Any] | None = None


def key_of(body: Json) -> ObjectKey:
    meta = body["metadata"]
    return ObjectKey(meta.get("namespace") or "", meta["name"])


def has_status(kind: Kind) -> bool:
    """Whether the kind has the status subresource. A Workload and a VMI have a status and no such thing."""
    if kind == kinds.VMIS:
        return False
    return kind.group in STATUS_GROUPS or (not kind.group and kind.plural in CORE_WITH_STATUS)


def part(body: Json, name: str) -> dict[str, Any]:
    return {name: body[name]} if name in body else {}


def spec_of(body: Json) -> dict[str, Any]:
    """What `metadata.generation` counts the changes of."""
    return {name: value for name, value in body.items() if name not in {"metadata", "status"}}


def pod_update(live: Json, wanted: Json) -> str:
    """What the API server says to an update of a pod's gates or affinity; empty when it passes.

    Gates are only taken off. While one is on, the required node affinity may be narrowed: terms stay as
    many, each with more requirements; where there is none it is made. Without one nothing may change.
    """
    old, new = live.get("spec") or {}, wanted.get("spec") or {}
    gates = [{gate["name"] for gate in spec.get("schedulingGates") or []} for spec in (old, new)]
    if gates[1] - gates[0]:
        return f"spec.schedulingGates: only deletion is allowed, but found {min(gates[1])}"
    before, after = (_terms_of(spec) for spec in (old, new))
    if before == after:
        return ""
    if not gates[0]:
        return "spec: Forbidden: pod updates may not change fields other than image"
    if not before:
        return ""
    is_narrower = len(before) == len(after) and all(
        now.get(part, [])[: len(was.get(part, []))] == was.get(part, [])
        for was, now in zip(before, after, strict=True)
        for part in ("matchExpressions", "matchFields")
    )
    return "" if is_narrower else "nodeSelectorTerms: Invalid value: only additions are allowed"


def _terms_of(spec: Json) -> list[dict[str, Any]]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    found: list[dict[str, Any]] = required.get("nodeSelectorTerms") or []
    return found


def error(code: int, reason: str, message: str, kind: Kind, meta: Json) -> errors.ApiError:
    details = {"name": meta.get("name", ""), "group": kind.group, "kind": kind.plural}
    return errors.from_status(
        {"code": code, "reason": reason, "message": message, "details": details}
    )


def selected(body: Json, namespace: str | None, which: Mapping[str, Any]) -> bool:
    """Whether a list or watch shows the object: `a=b`, `a!=b`, `a` and commas, for labels and fields."""
    meta = body["metadata"]
    if namespace and meta.get("namespace") != namespace:
        return False
    labels = meta.get("labels") or {}
    return all(_holds(term, labels.get) for term in _terms(which.get("label_selector"))) and all(
        _holds(term, lambda path: _field(body, path))
        for term in _terms(which.get("field_selector"))
    )


def event(one: Happened, namespace: str | None, which: Mapping[str, Any]) -> wire.WatchEvent | None:
    """What a watch says of a change: an object that leaves its selection is DELETED there."""
    was = one.before is not None and selected(one.before, namespace, which)
    now = one.after is not None and selected(one.after, namespace, which)
    if now:
        assert one.after is not None
        return wire.WatchEvent("MODIFIED" if was else "ADDED", one.after)
    if was:
        shown = one.gone or one.before
        assert shown is not None
        meta = {**shown["metadata"], "resourceVersion": str(one.version)}
        return wire.WatchEvent("DELETED", {**shown, "metadata": meta})
    return None


def _terms(selector: str | None) -> list[str]:
    return [term for term in (selector or "").split(",") if term]


def _holds(term: str, value_of: Any) -> bool:
    if "!=" in term:
        name, _, wanted = term.partition("!=")
        return value_of(name) != wanted
    if "=" in term:
        name, _, wanted = term.replace("==", "=").partition("=")
        return value_of(name) == wanted
    return value_of(term) is not None


def _field(body: Any, path: str) -> str:
    for name in path.lstrip(".").split("."):
        body = body.get(name) if isinstance(body, dict) else None
    return "" if body is None else str(body)
