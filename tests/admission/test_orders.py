"""The order webhook: what passes, what is refused, and in which words."""

import pytest

from gpu import keys
from gpu.admission import orders, review
from gpu.admission.review import About, Allowed, Cause, Denied
from gpu.binder import conditions
from gpu.config import Config
from gpu.model import premises, refusals
from gpu.model.refusals import NoFreeUnits, OverMaxCount
from tests import builders
from tests.builders import L40, a_claim, a_class, a_node, a_world, raw_claim

CONFIG = Config()
CONTROLLER = CONFIG.controller_user
CLASSES = [a_class(), a_class("l40", resource=L40)]
NODES = [a_node(units=4, also={L40: 8})]


def asked(name="big", *, user="alice", count=6, tenant="tenant-a", template=False, **more):
    """A review of a claim's CREATE; `more` are members of the request."""
    raw = raw_claim(name, tenant=tenant, count=count, template=template)
    return review.decode(
        {
            "uid": "u",
            "operation": "CREATE",
            "kind": {"group": keys.GROUP, "kind": "GPUClaim"},
            "resource": {"group": keys.GROUP, "resource": "gpuclaims"},
            "name": name,
            "namespace": tenant,
            "userInfo": {"username": user},
            "object": raw,
            **more,
        }
    )


def answer(question, **objects):
    world = a_world(**{"classes": CLASSES, "nodes": NODES, **objects})
    return orders.answer(question, world, CONFIG)


def test_an_order_that_can_be_met_passes_without_a_word():
    assert answer(asked(count=4)) == Allowed()


@pytest.mark.parametrize(
    "filled",
    [
        {"labels": {f"l{number}": "v" for number in range(10_000)}},
        {"annotations": {"a": "v" * 70_000}},
        {"finalizers": [f"example.com/f{number}" for number in range(10_000)]},
        {"ownerReferences": [{"uid": "u" * 70_000}]},
        {"managedFields": [{"manager": "m" * 70_000}]},
    ],
    ids=lambda filled: next(iter(filled)),
)
def test_an_order_whose_metadata_leaves_no_room_for_a_status_is_refused(filled):
    question = asked(count=4)
    question.object["metadata"].update(filled)
    found = answer(question)
    assert (found.code, found.reason) == (422, "Invalid")
    assert found.message.startswith("order big: metadata: ")
    assert f"at most {orders.MOST_METADATA} are accepted" in found.message


def test_an_order_that_cannot_be_met_is_refused_with_what_would_be_accepted():
    why = NoFreeUnits("h100", 6, 4)
    assert answer(asked()) == Denied(
        code=403,
        reason="Forbidden",
        message=(
            f"order big: {refusals.words(why)}; at most 4 would be accepted now; "
            "class l40 would take all 6"
        ),
        causes=(Cause("spec.count", "NoFreeUnits", refusals.words(why)),),
        about=About(group="gpu.cozystack.io", kind="gpuclaims", name="big"),
        rests_on=premises.NODES,
    )


def test_every_reason_is_a_cause():
    found = answer(asked(), classes=[a_class(maxCount=2, retired=True)])
    assert isinstance(found, Denied)
    assert [(cause.field, cause.reason) for cause in found.causes] == [
        ("spec.className", "ClassRetired"),
        ("spec.count", "OverMaxCount"),
        ("spec.count", "NoFreeUnits"),
    ]


def test_the_reasons_are_those_that_a_claim_says_that_waits():
    claim = a_claim("big", count=6)
    why = (OverMaxCount("h100", 6, 2), NoFreeUnits("h100", 6, 4))
    found = answer(asked(), classes=[a_class(maxCount=2)])
    assert isinstance(found, Denied)
    assert tuple(cause.reason for cause in found.causes) == (
        conditions.waiting(claim, why, builders.START).reasons
    )


@pytest.mark.parametrize(
    ("user", "template", "passes"),
    [
        pytest.param(CONTROLLER, True, True, id="of-the-controller"),
        pytest.param("alice", True, False, id="of-a-tenant-who-sets-the-mark"),
        pytest.param(CONTROLLER, False, False, id="of-the-controller-without-the-mark"),
        pytest.param(
            "system:serviceaccount:tenant-a:cozystack-gpu", True, False, id="of-a-namesake"
        ),
    ],
)
def test_only_the_controllers_template_claims_are_not_judged(user, template, passes):
    found = answer(asked(user=user, template=template))
    assert isinstance(found, Allowed) == passes


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"operation": "UPDATE"}, id="update"),
        pytest.param({"operation": "DELETE", "object": None}, id="delete"),
        pytest.param({"subResource": "status"}, id="status"),
        pytest.param({"resource": {"group": "x.io", "resource": "gpuclaims"}}, id="another-group"),
    ],
)
def test_what_is_no_new_order_passes(more):
    assert answer(asked(**more)) == Allowed()


def test_a_dry_run_is_judged_as_any_other():
    assert answer(asked(dryRun=True)) == answer(asked())


def test_of_a_name_that_is_taken_the_api_server_speaks():
    assert answer(asked(), claims=[a_claim("big", on="n1")]) == Allowed()


def test_an_order_without_a_name_yet_is_called_by_its_prefix():
    raw = {"metadata": {"generateName": "big-"}, "spec": {"className": "h100", "count": 6}}
    found = answer(asked(name="", object=raw))
    assert isinstance(found, Denied)
    assert found.message.startswith("order big-*: 6 units of class h100 asked, 4 free to order")
    assert found.about.name == ""


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(None, "order big: spec.className: is missing", id="no-spec"),
        pytest.param(
            {"className": 3, "count": 1}, "order big: spec.className: is not a string", id="class"
        ),
        pytest.param(
            {"className": "h100", "count": "1"},
            "order big: spec.count: is not an integer",
            id="text",
        ),
        pytest.param(
            {"className": "h100", "count": -1},
            "order big: spec.count: -1 units: an amount cannot be negative",
            id="negative",
        ),
        pytest.param([], "order big: spec: is list, not an object", id="list"),
    ],
)
def test_what_is_no_order_is_refused_and_says_where(spec, message):
    found = answer(asked(object={"metadata": {"name": "big"}, "spec": spec}))
    assert isinstance(found, Denied)
    assert (found.code, found.reason, found.message) == (422, "Invalid", message)


def test_labels_that_are_none_are_refused():
    raw = {"metadata": {"labels": {"a": 1}}, "spec": {"className": "h100", "count": 1}}
    found = answer(asked(object=raw))
    assert isinstance(found, Denied)
    assert found.code == review.INVALID


def test_a_count_of_none_is_refused():
    found = answer(asked(count=0))
    assert isinstance(found, Denied)
    assert [cause.reason for cause in found.causes] == ["BadCount"]


@pytest.mark.parametrize(
    ("tenant", "refusal", "field"),
    [
        pytest.param("default", "NoTenant", "metadata.namespace", id="no-tenant"),
        pytest.param("tenant-a", "NoSuchClass", "spec.className", id="no-class"),
    ],
)
def test_a_cause_names_the_field_it_is_about(tenant, refusal, field):
    found = answer(asked(tenant=tenant), classes=[])
    assert isinstance(found, Denied)
    assert {(cause.reason, cause.field) for cause in found.causes} >= {(refusal, field)}


def test_an_order_of_too_many_for_one_claim_is_told_so():
    why = OverMaxCount("h100", 3, 2)
    found = answer(asked(count=3), classes=[a_class(maxCount=2)])
    assert isinstance(found, Denied)
    assert found.message == f"order big: {refusals.words(why)}; at most 2 would be accepted now"
