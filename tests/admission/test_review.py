"""AdmissionReviews are read as kube-apiserver writes them, and answered in its words."""

import base64
import json
from typing import Any

import pytest

from gpu.admission import review
from gpu.admission.review import About, Allowed, Cause, Denied, Review
from gpu.errors import DecodeError

CLAIM = {"metadata": {"name": "a", "namespace": "tenant-a"}, "spec": {"count": 1}}
REQUEST: dict[str, Any] = {
    "uid": "u-1",
    "kind": {"group": "gpu.cozystack.io", "version": "v1alpha1", "kind": "GPUClaim"},
    "resource": {"group": "gpu.cozystack.io", "version": "v1alpha1", "resource": "gpuclaims"},
    "requestKind": {"group": "gpu.cozystack.io", "version": "v1alpha1", "kind": "GPUClaim"},
    "name": "a",
    "namespace": "tenant-a",
    "operation": "CREATE",
    "userInfo": {"username": "alice", "groups": ["tenant-a", "system:authenticated"]},
    "object": CLAIM,
    "oldObject": None,
    "dryRun": False,
    "options": {"kind": "CreateOptions"},
}
REVIEW = Review(
    uid="u-1",
    operation="CREATE",
    group="gpu.cozystack.io",
    kind="GPUClaim",
    plural="gpuclaims",
    namespace="tenant-a",
    name="a",
    user="alice",
    groups=("tenant-a", "system:authenticated"),
    object=CLAIM,
)


def test_a_request_is_read_whole() -> None:
    assert review.decode(REQUEST) == REVIEW


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        pytest.param({"dryRun": True}, {"dry_run": True}, id="dry-run"),
        pytest.param({"subResource": "status"}, {"subresource": "status"}, id="subresource"),
        pytest.param(
            {"operation": "DELETE", "object": None, "oldObject": CLAIM},
            {"operation": "DELETE", "object": None, "old": CLAIM},
            id="delete",
        ),
        pytest.param(
            {"name": "", "object": {"metadata": {"generateName": "a-"}}},
            {"name": "", "generate_name": "a-", "object": {"metadata": {"generateName": "a-"}}},
            id="generate-name-without-a-name-yet",
        ),
        pytest.param({"name": ""}, {"name": "a"}, id="the-object-alone-has-the-name"),
        pytest.param({"userInfo": {}}, {"user": "", "groups": ()}, id="nobody"),
    ],
)
def test_each_member_is_read(change: dict[str, Any], wanted: dict[str, Any]) -> None:
    read = review.decode({**REQUEST, **change})

    assert {name: getattr(read, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"uid": None}, "uid", id="no-uid"),
        pytest.param({"operation": ""}, "operation", id="no-operation"),
        pytest.param({"object": [1]}, "object", id="object-is-a-list"),
        pytest.param({"object": {"metadata": {"name": 1}}}, "object.metadata.name", id="name"),
        pytest.param({"userInfo": "alice"}, "userInfo", id="user-is-text"),
        pytest.param({"userInfo": {"groups": [1]}}, "userInfo.groups[0]", id="group"),
        pytest.param({"dryRun": "yes"}, "dryRun", id="dry-run-is-text"),
    ],
)
def test_what_is_misshaped_is_named(change: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        review.decode({**REQUEST, "name": "", **change})

    assert caught.value.path == path


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        pytest.param(Allowed(), {"allowed": True}, id="allowed"),
        pytest.param(
            Allowed(warnings=("mind the gap",)),
            {"allowed": True, "warnings": ["mind the gap"]},
            id="allowed-with-a-warning",
        ),
        pytest.param(
            Denied(
                code=403,
                reason="Forbidden",
                message="no",
                causes=(Cause("spec.count", "NoFreeUnits", "none free"), Cause("", "Other", "so")),
                about=About(group="g", kind="k", name="a"),
            ),
            {
                "allowed": False,
                "status": {
                    "status": "Failure",
                    "code": 403,
                    "reason": "Forbidden",
                    "message": "no",
                    "details": {
                        "name": "a",
                        "group": "g",
                        "kind": "k",
                        "causes": [
                            {
                                "reason": "NoFreeUnits",
                                "message": "none free",
                                "field": "spec.count",
                            },
                            {"reason": "Other", "message": "so"},
                        ],
                    },
                },
            },
            id="denied-with-causes",
        ),
        pytest.param(
            review.unavailable("starting"),
            {
                "allowed": False,
                "status": {
                    "status": "Failure",
                    "code": 503,
                    "reason": "ServiceUnavailable",
                    "message": "starting",
                    "details": {"retryAfterSeconds": 1},
                },
            },
            id="not-now",
        ),
    ],
)
def test_answers_are_written_as_responses(answer: review.Answer, wanted: dict[str, Any]) -> None:
    assert review.document(answer) == wanted


def test_an_object_without_a_name_is_called_by_its_prefix() -> None:
    nameless = Review(uid="u", operation="CREATE", generate_name="a-")

    assert (nameless.title, REVIEW.title) == ("a-*", "a")


def test_a_patch_goes_as_json_patch_in_base64():
    operations = ({"op": "remove", "path": "/a~1b"}, {"op": "add", "path": "/c", "value": "ä"})
    found = review.document(review.Allowed(patch=operations))
    assert found.keys() == {"allowed", "patchType", "patch"}
    assert found["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(found["patch"])) == list(operations)
    assert review.document(review.Allowed()) == {"allowed": True}
