"""The served OpenAPI documents: valid, complete, checked in, true of what is served."""

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator

from apiserver.resources import RESOURCES, base
from openapi import document, generate, meta

GENERATED = Path(document.__file__).parent / "generated"
V2 = document.v2()
((V3_PATH, V3),) = document.v3().items()
READ = [kind for kind in document.KINDS if not kind.is_question]
ASKED = [kind for kind in document.KINDS if kind.is_question]


def parts(node: object) -> Iterator[dict]:
    if isinstance(node, dict):
        yield node
    for child in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from parts(child)


def test_both_documents_are_valid():
    OpenAPIV2SpecValidator(V2).validate()
    OpenAPIV30SpecValidator(V3).validate()


def test_what_is_checked_in_is_what_is_generated():
    found = {path.name: path.read_text() for path in GENERATED.glob("*.json")}
    assert found == generate.files()


def test_writing_removes_what_is_no_longer_generated(tmp_path):
    (tmp_path / "stale.json").write_text("{}")
    generate.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(generate.files())


def test_every_served_kind_is_described_and_no_other():
    served = {(one.plural, one.kind) for one in RESOURCES}
    assert {(kind.plural, kind.kind) for kind in document.KINDS} == served
    assert {(one.group, one.version) for one in RESOURCES} == {(document.GROUP, document.VERSION)}


def inside_of(kind):
    where = "/namespaces/{namespace}" if kind.namespaced else ""
    return f"/{V3_PATH}{where}/{kind.plural}"


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.plural)
def test_each_kind_has_its_paths_with_action_and_kind(kind):
    inside = inside_of(kind)
    gvk = {"group": document.GROUP, "version": document.VERSION, "kind": kind.kind}
    actions = {f"/{V3_PATH}/{kind.plural}": "list", inside: "list", f"{inside}/{{name}}": "get"}
    for document_ in (V2, V3):
        for path, action in actions.items():
            found = document_["paths"][path]
            assert set(found) == {"get", "parameters"}
            assert found["get"]["x-kubernetes-action"] == action
            assert found["get"]["x-kubernetes-group-version-kind"] == gvk


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.plural)
def test_each_question_is_posted_and_nothing_else(kind):
    inside = inside_of(kind)
    for document_, body in ((V2, "parameters"), (V3, "requestBody")):
        (path,) = [path for path in document_["paths"] if path.endswith(kind.plural)]
        found = document_["paths"][path]
        assert (path, set(found) - {"patch"}) == (inside, {"post", "parameters"})
        assert found["post"]["x-kubernetes-action"] == "post"
        assert found["post"][body]
        assert set(found["post"]["responses"]) == {"201", "default"}
    assert f"{kind.schema}List" not in V3["components"]["schemas"]


@pytest.mark.parametrize("kind", [*READ, *ASKED], ids=lambda kind: kind.plural)
def test_each_kind_is_in_namespaces_or_not_as_it_is_served(kind):
    (served,) = [one for one in RESOURCES if one.plural == kind.plural]
    assert kind.namespaced is served.namespaced


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.plural)
def test_kubectl_finds_that_a_questions_fields_are_validated_and_that_it_is_not_patched(kind):
    """It looks at PATCH, of the 3.0 document, alone."""
    found = V3["paths"][inside_of(kind)]["patch"]
    assert [parameter["name"] for parameter in found["parameters"]] == ["fieldValidation"]
    assert set(found["responses"]) == {"405"}


def test_what_is_a_question_is_served_as_one():
    served = {one.kind for one in RESOURCES if one.answer is not None}
    assert served == {kind.kind for kind in ASKED}
    assert all(one.verbs == base.ASK for one in RESOURCES if one.answer is not None)


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.plural)
@pytest.mark.parametrize("suffix", ["", "List"])
def test_each_schema_says_its_kind_as_a_list(kind, suffix):
    gvk = {"group": document.GROUP, "version": document.VERSION, "kind": f"{kind.kind}{suffix}"}
    for schemas in (V2["definitions"], V3["components"]["schemas"]):
        assert schemas[f"{kind.schema}{suffix}"]["x-kubernetes-group-version-kind"] == [gvk]


def test_operation_ids_are_unique():
    ids = [part["operationId"] for part in parts(V3["paths"]) if "operationId" in part]
    assert len(ids) == len(set(ids))
    assert len(ids) == sum(2 + kind.namespaced for kind in READ) + 2 * len(ASKED)


@pytest.mark.parametrize("doc", [V2, V3], ids=["v2", "v3"])
def test_nothing_breaks_the_merge_or_its_readers(doc):
    for part in parts(doc):
        assert not isinstance(part.get("additionalProperties"), bool)
        if "$ref" in part:
            assert set(part) == {"$ref"}
    assert "io.k8s" not in json.dumps(doc)


def test_v2_uses_nothing_that_swagger_lacks():
    for part in parts(V2["definitions"]):
        lacking = {"oneOf", "anyOf", "allOf", "not", "nullable"} & set(part)
        assert not lacking or "type" not in part


def test_every_field_is_described_for_a_person():
    for name, schema in V3["components"]["schemas"].items():
        assert schema["description"], name
        for field, described in schema.get("properties", {}).items():
            assert described.get("description"), f"{name}.{field}"


def test_documents_are_small():
    assert max(len(json.dumps(doc)) for doc in (V2, V3)) < 100_000


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        pytest.param("Option", {"spec": {"items": [{"value": "x"}]}}, True, id="option"),
        pytest.param("Option", {"spec": {}}, True, id="option-empty"),
        pytest.param("Option", {"spec": {"items": [{"label": "x"}]}}, False, id="no-value"),
        pytest.param(
            "QuotaGate", {"spec": {"key": "k"}, "status": {"used": 0, "gate": "Open"}}, True, id="gate"
        ),
        pytest.param(
            "QuotaGate", {"spec": {"key": "k"}, "status": {"used": -1, "gate": "Open"}}, False,
            id="negative",
        ),
        pytest.param(
            "QuotaGate", {"spec": {"key": "k"}, "status": {"used": 0, "gate": "Ajar"}}, False,
            id="unknown-gate",
        ),
        pytest.param("OrderReview", {"spec": {"className": "c", "count": 1}}, True, id="order"),
        pytest.param("OrderReview", {}, False, id="order-without-spec"),
        pytest.param("OrderReview", {"spec": {"className": "c", "count": 0}}, False, id="of-none"),
        pytest.param(
            "OrderReview", {"spec": {"className": "c", "count": 2**31}}, False, id="of-too-many"
        ),
    ],
)  # fmt: skip
def test_schemas_judge_objects(name, value, good):
    schema = {"$ref": f"#/components/schemas/{meta.PREFIX}catalog.v1alpha1.{name}", **V3}
    judge = jsonschema.Draft202012Validator(schema)
    assert judge.is_valid(value) is good
