"""Tenant create and update: the GPU part of its quotas against what the tenants above have left; pure.

Two kinds say the same: the host's Tenant, and the HelmRelease that stores it. Both are judged, since a
HelmRelease can be written without its Tenant, and only where a tenant's quotas change.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpu import keys
from gpu.admission import review
from gpu.admission.review import About, Allowed, Answer, Cause, Denied, Review
from gpu.model import grant_words, tenancy
from gpu.model.grants import BadValue, Change, Objection, Ruling
from gpu.objects import tenants
from gpu.objects.kinds import HELM_RELEASES
from gpu.objects.meta import ObjectKey
from gpu.units import TenantName

APPS_GROUP: Final = "apps.cozystack.io"
TENANTS: Final = "tenants"
TENANT_KIND: Final = "Tenant"
_MOST_CAUSES: Final = 32
"""Causes of one denial; more are counted."""
_TENANT_PATH: Final = ("spec", "resourceQuotas")
_RELEASE_PATH: Final = ("spec", "values", "resourceQuotas")

Json = Mapping[str, Any]


def change(asked: Review) -> Change | Denied | None:
    """Return what is to be judged; None when a review changes no tenant's quotas.

    Quotas that are no table of keys are denied at once: nobody could tell what they grant.
    """
    if asked.operation not in {review.CREATE, review.UPDATE} or asked.subresource:
        return None
    tenant = _tenant(asked)
    if tenant is None:
        return None
    new = _quotas(asked, asked.object)
    old = _quotas(asked, asked.old)
    if new == old and type(new) is type(old):
        return None
    if new is not None and not isinstance(new, dict):
        why = f"Invalid value: {type(new).__name__}: a table of keys and amounts is needed"
        return _denied(asked, (Cause(_field(asked), "FieldValueInvalid", why),))
    return Change(tenant=tenant, old=old if isinstance(old, dict) else {}, new=new or {})


def answer(asked: Review, ruling: Ruling) -> Answer:
    """Return a ruling as an answer, in the host's shape: one cause a key, sorted by key."""
    if not ruling.objections:
        return Allowed(warnings=tuple(grant_words.warning(one) for one in ruling.below))
    causes = [_cause(asked, one) for one in ruling.objections[:_MOST_CAUSES]]
    more = len(ruling.objections) - _MOST_CAUSES
    if more > 0:
        causes.append(
            Cause(_field(asked), "FieldValueForbidden", f"Forbidden: {more} more keys likewise")
        )
    return _denied(asked, tuple(causes))


def version(asked: Review) -> int:
    """Return the version that the write is based on; 0 for a new object."""
    found = _meta(asked.old).get("resourceVersion")
    return int(found) if isinstance(found, str) and found.isdecimal() else 0


def release_of(tenant: TenantName) -> ObjectKey:
    """Return where the HelmRelease of a tenant lies."""
    above = tenancy.parent(tenant)
    if above is None:
        return ObjectKey(keys.TENANT_ROOT, keys.TENANT_ROOT)
    short = tenant.rpartition("-")[2]
    return ObjectKey(above, f"{keys.TENANT_NAMESPACE_PREFIX}{short}")


def cause(field: str, objection: Objection) -> Cause:
    """Return an objection as a cause; `field` is the table's path."""
    said = grant_words.words(objection)
    if isinstance(objection, BadValue):
        reason, said = "FieldValueInvalid", f"Invalid value: {said}"
    else:
        reason, said = "FieldValueForbidden", f"Forbidden: {said}"
    return Cause(f"{field}[{grant_words.shown(objection.key)}]", reason, said)


def _cause(asked: Review, objection: Objection) -> Cause:
    return cause(_field(asked), objection)


def _denied(asked: Review, causes: tuple[Cause, ...]) -> Denied:
    """Word it as Kubernetes words a list of field errors."""
    told = ", ".join(f"{one.field}: {one.message}" for one in causes)
    listed = told if len(causes) == 1 else f"[{told}]"
    return Denied(
        code=review.INVALID,
        reason="Invalid",
        message=f'{asked.kind}.{asked.group} "{asked.title}" is invalid: {listed}',
        causes=causes,
        about=About(group=asked.group, kind=asked.kind, name=asked.name),
    )


def _tenant(asked: Review) -> TenantName | None:
    """Return the tenant that a review is about; what lies in no tenant's namespace makes none."""
    if not tenancy.is_tenant(asked.namespace) or not asked.name:
        return None
    if (asked.group, asked.plural) == (APPS_GROUP, TENANTS):
        release = f"{keys.TENANT_NAMESPACE_PREFIX}{asked.name}"
        return tenants.tenant_of_release(asked.namespace, release)
    if _is_release(asked) and _makes_a_tenant(asked.object):
        return tenants.tenant_of_release(asked.namespace, asked.name)
    return None


def _is_release(asked: Review) -> bool:
    return (asked.group, asked.plural) == (HELM_RELEASES.group, HELM_RELEASES.plural)


def _makes_a_tenant(body: Json | None) -> bool:
    labels = _meta(body).get("labels")
    return isinstance(labels, dict) and labels.get(keys.APPLICATION_KIND_LABEL) == TENANT_KIND


def _quotas(asked: Review, body: Json | None) -> object:
    """Return `resourceQuotas` as it is; of a HelmRelease that makes no tenant there are none."""
    if _is_release(asked) and not _makes_a_tenant(body):
        return None
    found: object = body
    for name in _path(asked):
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def _path(asked: Review) -> tuple[str, ...]:
    return _RELEASE_PATH if _is_release(asked) else _TENANT_PATH


def _field(asked: Review) -> str:
    return ".".join(_path(asked))


def _meta(body: Json | None) -> Json:
    found = body.get("metadata") if body is not None else None
    return found if isinstance(found, dict) else {}
