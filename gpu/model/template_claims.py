"""Template claims: how they are named, before their VMI is and after, and which VMI one belongs to."""

import hashlib
from typing import Final

from gpu.objects.claims import GPUClaim
from gpu.objects.kinds import VMIS
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import OwnerRef
from gpu.units import ClaimName, ClassName

_HASH: Final = 20
"""Digits of a name that tell it from others."""


def name_of(vmi_uid: str, name: ClassName) -> ClaimName:
    """Return the name of a VMI's template claim of a class: nobody can know it before the VMI is."""
    digest = hashlib.sha256(f"{vmi_uid}/{name}/0".encode()).hexdigest()
    return ClaimName(f"tpl-{digest[:_HASH]}")


def requested_name(namespace: str, vmi: str, class_name: ClassName, index: int = 0) -> ClaimName:
    """Return the name of a template claim that is made before its VMI is (`binding: request`).

    Whoever asks again for a VMI of that name finds what an interrupted start left. One claim has all
    units of a class, so `index` is 0. No name made by `name_of` can be one of these: a uid
    has no slash in it.
    """
    digest = hashlib.sha256(f"{namespace}/{vmi}/{class_name}/{index}".encode()).hexdigest()
    return ClaimName(f"tpl-{digest[:_HASH]}")


def is_unowned(claim: GPUClaim) -> bool:
    """Say whether a template claim was made before its VMI, and does not go with it yet."""
    return claim.is_template and not any(owner.controller for owner in claim.meta.owners)


def owner(vmi: VMI) -> OwnerRef:
    """Return what makes a template claim go with its VMI."""
    return OwnerRef(
        api_version=VMIS.api_version,
        kind=VMIS.kind,
        name=vmi.meta.name,
        uid=vmi.meta.uid,
        controller=True,
    )


def is_of(claim: GPUClaim, vmi: VMI) -> bool:
    """Say whether a claim was made by the leader for a start of the VMI."""
    return claim.is_template and any(
        owner.controller and owner.uid == vmi.meta.uid for owner in claim.meta.owners
    )
