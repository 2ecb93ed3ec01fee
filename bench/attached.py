"""Attached: every claim that is held is used by a running VM with one pod, as a busy cluster has it."""

from dataclasses import replace

from bench import house
from gpu.objects import kubevirt, pods
from gpu.objects.claims import AttachedPod, Attachment, GPUClaim
from gpu.objects.kubevirt import VMI
from gpu.objects.pods import Pod
from gpu.units import ClaimName, NodeName


def full(held: int, node_count: int) -> house.House:
    """Return a full house in which each claim has its VMI and pod, and nothing is left to write."""
    made = house.full(held, node_count)
    found = [(_attached(claim), _vmi(claim), _pod(claim)) for claim in made.world.claims]
    claims, vmis, launchers = zip(*found, strict=True)
    made.world = replace(made.world, claims=claims, vmis=vmis, pods=launchers)
    made.before = None
    wanted = made.work(keep=False).wanted
    if wanted:
        raise RuntimeError(f"running VMs make passes write: {wanted[0]}")
    return made


def _vm_of(claim: GPUClaim) -> str:
    return f"vm-{claim.meta.name}"


def _uid_of(claim: GPUClaim) -> str:
    return f"pod-{claim.meta.uid}"


def _attached(claim: GPUClaim) -> GPUClaim:
    launcher = AttachedPod(uid=_uid_of(claim), node=claim.node or NodeName(""))
    attachment = Attachment(
        vmi=_vm_of(claim),
        admission=f"admission-{claim.meta.uid}",
        uid=f"vmi-{claim.meta.uid}",
        since=house.START,
        pods=(launcher,),
    )
    return replace(claim, attached_to=attachment)


def _vmi(claim: GPUClaim) -> VMI:
    found = kubevirt.decode_vmi(
        {
            "metadata": {
                "name": _vm_of(claim),
                "namespace": claim.meta.namespace,
                "uid": f"vmi-{claim.meta.uid}",
            },
            "status": {
                "phase": "Running",
                "nodeName": claim.node,
                "activePods": {_uid_of(claim): claim.node},
            },
        }
    )
    admission = f"admission-{claim.meta.uid}"
    return replace(found, admissions={ClaimName(claim.meta.name): admission})


def _pod(claim: GPUClaim) -> Pod:
    amount = {house.resource_of(claim.class_name): str(claim.count)}
    return pods.decode(
        {
            "metadata": {
                "name": f"launcher-{claim.meta.name}",
                "namespace": claim.meta.namespace,
                "uid": _uid_of(claim),
            },
            "spec": {
                "nodeName": claim.node,
                "containers": [{"name": "compute", "resources": {"requests": amount}}],
            },
            "status": {"phase": "Running"},
        }
    )
