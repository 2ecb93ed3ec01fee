"""The quota gate's webhook: which writes it judges, as what, and in which words it refuses."""

import pytest

from gpu import keys
from gpu.admission import review, tenants
from gpu.admission.review import Allowed, Cause, Denied
from gpu.model.grants import BadKey, BadValue, BelowHeld, Change, Ruling, TooMuch
from gpu.model.quota_keys import Unknown

KEY = "gpu.cozystack.io/h100"
LABELS = {keys.APPLICATION_KIND_LABEL: "Tenant"}


def a_tenant(quotas=None, **meta):
    return {"metadata": meta, "spec": {"resourceQuotas": quotas} if quotas is not None else {}}


def a_release(quotas=None, labels=LABELS, **meta):
    values = {"resourceQuotas": quotas} if quotas is not None else {}
    return {"metadata": {"labels": labels, **meta}, "spec": {"values": values}}


def asked(new, old=None, *, name="b", namespace="tenant-a", release=False, **more):
    kind = ("helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases")
    group, kind, plural = kind if release else ("apps.cozystack.io", "Tenant", "tenants")
    request = {
        "uid": "u",
        "operation": "CREATE" if old is None else "UPDATE",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": plural},
        "namespace": namespace,
        "name": name,
        "object": new,
        "oldObject": old,
        **more,
    }
    return review.decode(request)


@pytest.mark.parametrize(
    ("namespace", "name", "tenant"),
    [
        ("tenant-a", "b", "tenant-a-b"),
        ("tenant-root", "a", "tenant-a"),
        ("tenant-root", "root", "tenant-root"),
        ("tenant-a-b", "c", "tenant-a-b-c"),
    ],
)
def test_a_tenant_and_its_release_are_one_child(namespace, name, tenant):
    quotas = {KEY: 4}
    wanted = Change(tenant=tenant, new=quotas)
    at = {"namespace": namespace}
    assert tenants.change(asked(a_tenant(quotas), name=name, **at)) == wanted
    found = asked(a_release(quotas), name=f"tenant-{name}", release=True, **at)
    assert tenants.change(found) == wanted
    key = tenants.release_of(tenant)
    assert (key.namespace, key.name) == (namespace, f"tenant-{name}")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(asked(a_tenant({KEY: 4}), a_tenant({KEY: 4})), id="the same quotas"),
        pytest.param(asked(a_tenant(), a_tenant()), id="no quotas"),
        pytest.param(asked(a_tenant()), id="created without"),
        pytest.param(asked({"spec": None}), id="no spec"),
        pytest.param(asked({"spec": "odd"}), id="an odd spec"),
        pytest.param(asked(a_tenant({KEY: 4}), namespace="default"), id="in no tenant"),
        pytest.param(asked(a_tenant({KEY: 4}), name=""), id="without a name"),
        pytest.param(asked(a_tenant({KEY: 4}), operation="DELETE"), id="deleted"),
        pytest.param(asked(a_tenant({KEY: 4}), subResource="status"), id="a subresource"),
        pytest.param(asked(a_release({KEY: 4}, labels={}), release=True), id="no tenant's release"),
        pytest.param(asked(a_release({KEY: 4}, labels=None), release=True), id="null labels"),
        pytest.param(
            asked(a_release({KEY: 9}, labels={}), a_release({KEY: 4}), release=True),
            id="a tenant's no more",
        ),
        pytest.param(
            asked(
                a_tenant({KEY: 4}),
                kind={"group": "x", "kind": "Tenant"},
                resource={"group": "x", "resource": "tenants"},
            ),
            id="another group's tenant",
        ),
    ],
)
def test_what_changes_no_tenants_quotas_is_let_pass(given):
    assert tenants.change(given) is None


def test_a_release_that_becomes_a_tenants_is_judged_whole():
    found = tenants.change(
        asked(a_release({KEY: 4}), a_release({KEY: 4}, labels={}), release=True, name="tenant-b")
    )
    assert found == Change(tenant="tenant-a-b", new={KEY: 4})


def test_removed_quotas_are_a_change_to_none():
    found = tenants.change(asked(a_tenant(), a_tenant({KEY: 4})))
    assert found == Change(tenant="tenant-a-b", old={KEY: 4}, new={})


@pytest.mark.parametrize(
    ("quotas", "type_"), [([], "list"), (["cpu"], "list"), ("cpu=1", "str"), (3, "int"), (True, "bool")],
    ids=repr,
)  # fmt: skip
def test_quotas_that_are_no_table_are_refused(quotas, type_):
    found = tenants.change(asked(a_tenant(quotas)))
    assert isinstance(found, Denied)
    assert found.message == (
        'Tenant.apps.cozystack.io "b" is invalid: spec.resourceQuotas: '
        f"Invalid value: {type_}: a table of keys and amounts is needed"
    )
    assert found.causes[0].reason == "FieldValueInvalid"


def too_much(key=KEY):
    return TooMuch(
        key=key,
        wanted=3,
        left=2,
        tenant="tenant-a",
        own=True,
        hard=4,
        promised=2,
        used=0,
        reserved=False,
    )


SAID = (
    'Forbidden: requested 3 exceeds the parent tenant\'s remaining "gpu.cozystack.io/h100" quota of 2 '
    "(parent allows 4, 2 already allocated to sibling tenants, 0 currently in use by the parent pool); "
    "a child tenant may not be granted more quota than its parent has left"
)


def test_a_refusal_has_the_hosts_shape():
    found = tenants.answer(asked(a_tenant({KEY: 3})), Ruling((too_much(),)))
    field = f"spec.resourceQuotas[{KEY}]"
    assert review.document(found)["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f'Tenant.apps.cozystack.io "b" is invalid: {field}: {SAID}',
        "details": {
            "name": "b",
            "group": "apps.cozystack.io",
            "kind": "Tenant",
            "causes": [{"reason": "FieldValueForbidden", "message": SAID, "field": field}],
        },
    }


def test_a_release_is_told_where_its_own_quotas_are():
    given = asked(a_release({KEY: 3}), release=True, name="tenant-b")
    found = tenants.answer(given, Ruling((too_much(),)))
    assert found.message.startswith(
        'HelmRelease.helm.toolkit.fluxcd.io "tenant-b" is invalid: '
        f"spec.values.resourceQuotas[{KEY}]: Forbidden: requested 3"
    )


def test_several_causes_stand_in_brackets():
    objections = (
        BadKey("gpu.cozystack.io/h1", Unknown(None), (KEY,)),
        BadValue("gpu.cozystack.io/h2", "x", "'x' is not a quantity"),
    )
    found = tenants.answer(asked(a_tenant({})), Ruling(objections))
    assert found.message == (
        'Tenant.apps.cozystack.io "b" is invalid: ['
        "spec.resourceQuotas[gpu.cozystack.io/h1]: Forbidden: gpu.cozystack.io/h1 is no GPU quota "
        f"key; valid keys: {KEY}, "
        "spec.resourceQuotas[gpu.cozystack.io/h2]: Invalid value: 'x' is not a quantity; "
        "write a whole number of units, as 4]"
    )
    assert [one.reason for one in found.causes] == ["FieldValueForbidden", "FieldValueInvalid"]


def test_very_many_causes_are_counted():
    objections = tuple(too_much(f"k/{number}") for number in range(40))
    found = tenants.answer(asked(a_tenant({})), Ruling(objections))
    last = Cause("spec.resourceQuotas", "FieldValueForbidden", "Forbidden: 8 more keys likewise")
    assert (len(found.causes), found.causes[-1]) == (33, last)


def test_what_passes_below_what_is_held_passes_with_a_warning():
    found = tenants.answer(asked(a_tenant({KEY: 1})), Ruling(below=(BelowHeld(KEY, 1, 3),)))
    assert isinstance(found, Allowed)
    (warning,) = found.warnings
    assert warning.startswith(f"{KEY}: 1 granted, 3 in use")
    assert len(warning) < 256  # the API server cuts longer ones


@pytest.mark.parametrize(
    ("old", "version"),
    [
        (None, 0),
        (a_tenant({}, resourceVersion="41"), 41),
        (a_tenant({}), 0),
        (a_tenant({}, resourceVersion="x"), 0),
    ],
    ids=["new", "a version", "none", "odd"],
)
def test_the_version_a_write_is_based_on(old, version):
    assert tenants.version(asked(a_tenant({KEY: 1}), old)) == version
