"""Starts on a site as they would stand: a VM with its VMI, its launcher at the gate, and its claims."""

from gpu import keys
from gpu.objects import kinds, kubevirt
from tests.binder import raws

TENANT, VM = "tenant-a", "vm0"


def a_start(site, *, held=(), units=None, asks=1):
    """A VM that is started, its launcher at the gate; returns VMI and pod."""
    names = [f"{keys.CLAIM_DEVICE_PREFIX}{name}" for name in held]
    gpus = [{"name": "x", "deviceName": name} for name in names]
    spec = {"template": {"spec": {"domain": {"devices": {"gpus": gpus}}}}}
    site.api.put(kinds.VMS, {"metadata": {"name": VM, "namespace": TENANT}, "spec": spec})
    text = kubevirt.format_resolved({name: f"adm-{name}" for name in held}, units)
    annotations = {keys.RESOLVED_CLAIMS_ANNOTATION: text}
    meta = {"name": VM, "namespace": TENANT, "annotations": annotations}
    vmi = site.api.put(kinds.VMIS, {"metadata": meta, "status": {"phase": "Scheduling"}})
    owner = {"name": VM, "uid": vmi["metadata"]["uid"]}
    pod = site.api.put(
        kinds.PODS,
        {
            "metadata": meta | {"name": "launcher", "ownerReferences": [owner]},
            "spec": {
                "schedulingGates": [{"name": keys.PLACEMENT_GATE}],
                "containers": [{"resources": {"limits": {site.resources[0]: str(asks)}}}],
            },
            "status": {"phase": "Pending"},
        },
    )
    listed = {pod["metadata"]["uid"]: ""}
    vmi = site.api.edit(kinds.VMIS, vmi, lambda it: it["status"].update(activePods=listed))
    return vmi, pod


def pin(site, pod, *nodes, term="1"):
    """Let a launcher through as a leader does, or without a term as the webhook does."""
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        for node in nodes
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}

    def change(it):
        it["spec"].pop("schedulingGates", None)
        it["spec"]["affinity"] = {"nodeAffinity": required}
        if term:
            it["metadata"].setdefault("annotations", {})[keys.TERM_ANNOTATION] = term

    return site.api.edit(kinds.PODS, pod, change)


def noted(pod, node="n0", **more):
    attached = raws.attached(VM, uid="u", pods={pod["metadata"]["uid"]: node}, **more)
    return raws.bound(node) | attached


def a_held(site, status, name="x", units=1):
    raw = raws.a_claim(name, class_name="c0", count=units, status=status)
    return site.api.put(kinds.GPU_CLAIMS, raw)


def a_template(site, vmi, status=None, units=1):
    owner = {"kind": "VirtualMachineInstance", "name": VM, "uid": vmi["metadata"]["uid"]}
    meta = {"labels": {keys.TEMPLATE_CLAIM_LABEL: "true"}, "ownerReferences": [owner]}
    raw = raws.a_claim("tpl", class_name="c0", count=units, meta=meta, status=status)
    return site.api.put(kinds.GPU_CLAIMS, raw)
