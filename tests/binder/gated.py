"""Starts as raw objects: a VMI with what the webhook resolved, and its launcher at the gate."""

from collections.abc import Mapping
from typing import Any

from gpu import keys
from gpu.model import template_claims
from gpu.objects import kubevirt
from gpu.objects.pods import LAUNCHER_LABEL, LAUNCHER_VALUE
from gpu.units import ClaimName, ClassName, Units
from tests.binder import raws

Raw = raws.Raw
OURS = {"finalizers": [keys.CLAIM_FINALIZER]}


def a_vmi(
    name: str = "vm",
    *,
    held: tuple[str, ...] = (),
    units: Mapping[str, int] | None = None,
    pod: str | None = "",
    at: int = 0,
    phase: str = "Scheduling",
    tenant: str = "tenant-a",
    **more: Any,
) -> Raw:
    """A VMI whose launcher is `pod` (`pod-<name>` unless told, None for none yet)."""
    listed = {} if pod is None else {pod or f"pod-{name}": ""}
    made = raws.a_vmi(
        name, uid=f"vmi-{name}", phase=phase, tenant=tenant, pods=more.pop("pods", listed), **more
    )
    admissions = {ClaimName(claim): f"adm-{claim}" for claim in held}
    template = {ClassName(it): Units(count) for it, count in (units or {}).items()}
    made["metadata"]["annotations"] = {
        keys.RESOLVED_CLAIMS_ANNOTATION: kubevirt.format_resolved(admissions, template)
    }
    made["metadata"]["creationTimestamp"] = f"2026-01-01T00:{at // 60:02d}:{at % 60:02d}Z"
    return made


def a_launcher(name: str = "vm", *, units: int = 1, gated: bool = True, **more: Any) -> Raw:
    """The launcher of a VM, by default at the gate."""
    made = raws.a_pod(
        more.pop("uid", f"pod-{name}"),
        units=units,
        gated=gated,
        **({"node": "", "phase": "Pending"} | more),
    )
    made["metadata"]["labels"] = {LAUNCHER_LABEL: LAUNCHER_VALUE}
    return made


def a_start(
    name: str = "vm",
    *,
    held: tuple[str, ...] = (),
    units: Mapping[str, int] | None = None,
    asks: int | None = None,
    at: int = 0,
    tenant: str = "tenant-a",
) -> dict[str, list[Raw]]:
    """VMI and launcher; it asks for as many units as its template, or as it is told."""
    amount = sum((units or {}).values()) if asks is None else asks
    return {
        "vmis": [a_vmi(name, held=held, units=units, at=at, tenant=tenant)],
        "pods": [a_launcher(name, units=amount, tenant=tenant)],
    }


def owner(name: str = "vm", **more: Any) -> Raw:
    """The reference by which KubeVirt's controller makes a launcher its VMI's."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": name,
        "uid": f"vmi-{name}",
        "controller": True,
    } | more


def unlisted(start: dict[str, list[Raw]]) -> dict[str, list[Raw]]:
    """The start a moment earlier: its VMI does not list the launcher yet."""
    (vmi,), (pod,) = start["vmis"], start["pods"]
    vmi["status"]["activePods"] = {}
    pod["metadata"]["ownerReferences"] = [owner(vmi["metadata"]["name"])]
    return start


def held(name: str, node: str = "n1", *, vm: str = "vm", at: int = 0, **more: Any) -> Raw:
    """A claim that is Bound, or as told, and that the webhook attached to the VM's start."""
    of_claim = {key: more.pop(key) for key in ("count", "class_name", "tenant") if key in more}
    meta = OURS | more.pop("meta", {})
    status = raws.bound(node) | raws.attached(vm, admission=f"adm-{name}", since=SINCE) | more
    return raws.a_claim(name, at=at, meta=meta, status=status, **of_claim)


SINCE = "2026-01-02T03:04:00Z"
"""When the webhook attached: so a VMI may come still."""


def template(name: str = "vm", class_name: str = "h100") -> str:
    """The name of a VM's template claim."""
    return template_claims.name_of(f"vmi-{name}", ClassName(class_name))
