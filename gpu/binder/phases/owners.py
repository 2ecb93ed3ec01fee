"""Owners: a template claim that was made before its VMI was is given that VMI as owner, and goes with it.

Nobody waits for it: where the VMI is gone before, phase `attachments` deletes the claim.
"""

from collections.abc import Iterator

from gpu.binder.answer_changes import OwnClaim
from gpu.binder.changes import Change
from gpu.binder.phase import Scene
from gpu.model import evidence, template_claims
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey


def changes_of(scene: Scene) -> Iterator[Change]:
    """Yield the owner of each template claim that has none and whose VMI came."""
    draft = scene.draft
    come: dict[ObjectKey, VMI] = {}
    for claim in draft.unowned:
        vmi = evidence.vmi_of(draft.snapshot, claim)
        if vmi is not None and not vmi.ended:
            come[claim.key] = vmi
    if not come:
        return
    for item in draft.sets:
        for claim in item.claims:
            if claim.key in come and not scene.leaves_alone(item.id):
                owner = template_claims.owner(come[claim.key])
                yield OwnClaim(claim=claim, owner=owner, set_id=item.id)
