"""Would these quotas be accepted for a child of this tenant, and if not, why? Nothing is stored or reserved."""

from collections.abc import Mapping
from typing import Final

from apiserver.identity import User
from apiserver.resources import base
from apiserver.resources.base import Said
from apiserver.wire.table import Column
from apiserver.wire.values import Json, JsonObject
from gpu import keys
from gpu.admission import tenants
from gpu.admission.review import Cause
from gpu.model import grant_words, grants, premises, tenancy
from gpu.model.grants import Change, Objection, Ruling, TooMuch
from gpu.objects.decode import Fields
from gpu.objects.tenants import tenant_of_release
from gpu.units import TenantName
from gpu.world import World

QUOTAS: Final = "spec.resourceQuotas"
_NEW: Final = "NEW"
"""The child where none is named: no tenant has upper case in its name."""


def answer(world: World, namespace: str, body: JsonObject, user: User) -> Said:
    """Return the quotas as asked and what the quota gate would say of them, whoever asks."""
    del user
    spec = Fields(body["spec"], "spec")
    name = spec.text_or("childName")
    quotas = spec.child("resourceQuotas").raw
    asked: JsonObject = {
        "spec": {**({"childName": name} if name else {}), "resourceQuotas": dict(quotas)}
    }
    if not tenancy.is_tenant(namespace):
        why = f"Forbidden: namespace {namespace} belongs to no tenant, which could have children"
        none = Cause("metadata.namespace", "FieldValueForbidden", why)
        refused: JsonObject = {"allowed": False, "causes": [none.document()], "warnings": []}
        return Said({**asked, "status": refused}, cells=(False, none.message))
    child = tenant_of_release(namespace, f"{keys.TENANT_NAMESPACE_PREFIX}{name or _NEW}")
    ruling = _judged(world, child, quotas)
    said = _status(ruling)
    why = "; ".join(tenants.cause(QUOTAS, one).message for one in ruling.objections)
    rests_on = premises.of_grant(ruling.objections)
    return Said({**asked, "status": said}, rests_on, (not ruling.objections, why))


def _judged(world: World, child: TenantName, quotas: Mapping[str, object]) -> Ruling:
    declared = world.snapshot.tree.declared(child)
    old = {str(key): units for key, units in declared.items()}
    return grants.judge(world.snapshot, Change(tenant=child, old=old, new=quotas))


def _status(ruling: Ruling) -> Mapping[str, Json]:
    return {
        "allowed": not ruling.objections,
        "causes": [_cause(one) for one in ruling.objections],
        "warnings": [grant_words.warning(one) for one in ruling.below],
    }


def _cause(objection: Objection) -> Mapping[str, Json]:
    most = {"mostAccepted": max(0, objection.left)} if isinstance(objection, TooMuch) else {}
    return {"key": objection.key, **tenants.cause(QUOTAS, objection).document(), **most}


QUOTA_REVIEWS: Final = base.Resource(
    plural="quotareviews",
    singular="quotareview",
    kind="QuotaReview",
    description="Questions whether a child tenant would be granted these GPU quotas.",
    verbs=base.ASK,
    columns=(
        Column(name="Allowed", type="boolean", description="Whether all would be granted."),
        Column(name="Why", description="What speaks against it, of each key."),
    ),
    answer=answer,
)
