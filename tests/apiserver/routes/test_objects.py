"""GET and LIST through the real application."""

import json
import threading

import pytest
import yaml
from yarl import URL

from apiserver.appkeys import Limits
from apiserver.authz import Authorizer
from apiserver.identity import User
from apiserver.routes import answers
from apiserver.wire.values import yaml_text
from gpu import keys
from tests.apiserver import fakes

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
A = f"{ROOT}/namespaces/tenant-a/words"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def face():
    return fakes.a_face(
        fakes.words_world(
            tenant_a={"one": "alpha", "three": "gamma", "two": "beta"}, tenant_b={"four": "delta"}
        )
    )


@pytest.fixture
async def client(serve, face):
    return await serve(face)


async def names(client, path: str, **params) -> list[str]:
    answer = await client.get(path, params=params)
    assert answer.status == 200, await answer.text()
    return [item["metadata"]["name"] for item in (await answer.json())["items"]]


async def refusal(client, path: str, method: str = "GET", **how) -> tuple[int, str, dict]:
    answer = await client.request(method, URL(path, encoded=True), **how)
    found = await answer.json()
    assert (found["kind"], found["apiVersion"], found["status"], found["code"]) == (
        "Status",
        "v1",
        "Failure",
        answer.status,
    )
    return answer.status, found["reason"], found["details"]


async def test_an_object_is_served_whole_and_is_what_the_list_shows(client):
    listed = (await (await client.get(A)).json())["items"][0]
    one = await (await client.get(f"{A}/one")).json()
    assert one == listed
    assert one == {
        "kind": "Word",
        "apiVersion": "catalog.gpu.cozystack.io/v1alpha1",
        "metadata": {
            "name": "one",
            "namespace": "tenant-a",
            "uid": one["metadata"]["uid"],
            "resourceVersion": "100",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"length": "5", "vowel": "a"},
        },
        "spec": {"text": "alpha"},
    }


async def test_a_list_over_all_namespaces_holds_each_in_order(client):
    assert await names(client, f"{ROOT}/words") == ["one", "three", "two", "four"]


async def test_an_unknown_namespace_has_an_empty_list(client):
    assert await names(client, f"{ROOT}/namespaces/nowhere/words") == []


async def test_selectors_narrow_a_list(client):
    assert await names(client, A, labelSelector="vowel") == ["one"]
    assert await names(client, A, fieldSelector="metadata.name!=one") == ["three", "two"]


async def test_a_missing_object_is_not_found_by_name(client):
    assert await refusal(client, f"{A}/nope") == (
        404,
        "NotFound",
        {"name": "nope", "group": keys.CATALOG_GROUP, "kind": "words"},
    )


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}/nosuch", f"{ROOT}/namespaces/tenant-a/nosuch", "/apis/other.io/v1/words",
        f"{ROOT}/words/one", f"{A}/one/status", f"{A}/one/sub/more", f"{A}/%2e%2e", f"{A}/a%2fb",
        f"{ROOT}/namespaces//words", "/nosuch", "/apis/other.io", "/apis/catalog.gpu.cozystack.io/v9",
        "/livez/nosuch",
    ],
)  # fmt: skip
async def test_a_path_nobody_serves_is_a_status(client, path):
    assert await refusal(client, path) == (404, "NotFound", {})


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]
)
@pytest.mark.parametrize("path", [A, f"{A}/one", f"{A}/nope"])
async def test_a_verb_that_is_not_served_is_refused(client, method, path):
    answer = await client.request(method, path, data=b"{}")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert (await answer.json())["reason"] == "MethodNotAllowed"


async def test_head_is_get_without_a_body(client):
    answer = await client.head(A)
    assert (answer.status, answer.content_type, await answer.read()) == (
        200,
        "application/json",
        b"",
    )


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        pytest.param("labelSelector=a+in+(", 400, "BadRequest", id="label"),
        pytest.param("fieldSelector=spec.x=1", 400, "BadRequest", id="field"),
        pytest.param("limit=abc", 400, "BadRequest", id="limit"),
        pytest.param("continue=zzz", 400, "BadRequest", id="token"),
        pytest.param("resourceVersion=abc", 400, "BadRequest", id="version"),
        pytest.param("timeout=invalid", 400, "BadRequest", id="timeout"),
        pytest.param("includeObject=bogus", 400, "BadRequest", id="include"),
        pytest.param("resourceVersionMatch=Exact", 422, "Invalid", id="match"),
        pytest.param("resourceVersion=999999", 504, "Timeout", id="future"),
        pytest.param("resourceVersion=5&resourceVersionMatch=Exact", 410, "Expired", id="past"),
    ],
)
async def test_a_bad_query_is_a_status(client, query, code, reason):
    assert (await refusal(client, f"{A}?{query}"))[:2] == (code, reason)


async def test_reading_a_future_version_of_one_object_waits_and_gives_up(client):
    assert (await refusal(client, f"{A}/one?resourceVersion=999"))[:2] == (504, "Timeout")


@pytest.mark.parametrize(
    "params",
    [
        {"resourceVersion": "0"}, {"resourceVersion": "100"}, {"resourceVersion": "7"},
        {"resourceVersion": "100", "resourceVersionMatch": "NotOlderThan"},
        {"resourceVersion": "100", "resourceVersionMatch": "Exact"}, {"watch": "false"},
        {"limit": "0"}, {"limit": "-1"}, {"foo": "bar"}, {"timeout": "20s"}, {"timeoutSeconds": "5"},
    ],
)  # fmt: skip
async def test_a_good_query_changes_nothing(client, params):
    assert await names(client, A, **params) == ["one", "three", "two"]


async def test_a_version_just_ahead_is_waited_for(client, face):
    face.source.version = 105
    answer = await client.get(A, params={"resourceVersion": "105"})
    assert (await answer.json())["metadata"]["resourceVersion"] == "105"


async def test_the_version_of_a_list_grows_with_the_proof_and_its_objects_keep_theirs(client, face):
    await client.get(A)
    face.source.version = 140
    found = await (await client.get(A)).json()
    assert found["metadata"]["resourceVersion"] == "140"
    assert {item["metadata"]["resourceVersion"] for item in found["items"]} == {"100"}


async def test_pages_stay_at_the_first_pages_version_while_objects_change(client, face):
    first = await (await client.get(A, params={"limit": 2})).json()
    face.source.set(fakes.words_world(tenant_a={"zed": "new"}))
    assert await names(client, A) == ["zed"]
    token = first["metadata"]["continue"]
    second = await (await client.get(A, params={"limit": 2, "continue": token})).json()
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}
    assert [item["metadata"]["name"] for item in second["items"]] == ["two"]
    assert first["metadata"]["remainingItemCount"] == 1


async def test_a_page_of_a_forgotten_version_is_expired_and_offers_to_go_on(client, face):
    first = await (await client.get(A, params={"limit": 1})).json()
    for number in range(120):
        face.source.set(fakes.words_world(tenant_a={"three": str(number)}))
        await client.get(A)
    params = {"limit": "1", "continue": first["metadata"]["continue"]}
    answer = await client.get(A, params=params)
    status = await answer.json()
    assert (answer.status, status["reason"]) == (410, "Expired")
    rest = await names(client, A, limit="1", **{"continue": status["metadata"]["continue"]})
    assert rest == ["three"]


async def test_a_token_shows_nothing_in_another_namespace(client):
    first = await (await client.get(A, params={"limit": 1})).json()
    other = f"{ROOT}/namespaces/tenant-b/words?continue={first['metadata']['continue']}"
    assert (await refusal(client, other))[0] == 400


async def test_a_table_has_the_rows_of_the_list(client):
    found = await (await client.get(A, headers={"Accept": TABLE})).json()
    assert [column["name"] for column in found["columnDefinitions"]] == ["Name", "Length", "Text"]
    assert [row["cells"] for row in found["rows"]] == [
        ["one", 5, "alpha"],
        ["three", 5, "gamma"],
        ["two", 4, "beta"],
    ]


async def test_one_object_as_a_table_is_one_row(client):
    found = await (await client.get(f"{A}/two", headers={"Accept": TABLE})).json()
    assert [row["cells"] for row in found["rows"]] == [["two", 4, "beta"]]


async def test_yaml_says_the_same(client):
    as_yaml = await client.get(A, headers={"Accept": "application/yaml"})
    assert as_yaml.content_type == "application/yaml"
    assert yaml.safe_load(await as_yaml.text()) == {
        **(await (await client.get(A)).json()),
        "metadata": {"resourceVersion": "100"},
    }


async def test_a_person_gets_indented_json(client):
    answer = await client.get(A, headers={"User-Agent": "curl/8.0"})
    assert (await answer.text()).startswith('{\n  "kind": "WordList"')


async def test_every_answer_has_its_headers_and_names_no_software(client):
    for path in (A, f"{A}/nope", "/apis", f"{A}?watch=1&timeoutSeconds=1"):
        headers = (await client.get(path, headers={"Audit-ID": "abc"})).headers
        assert headers.getall("Audit-ID") == ["abc"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-cache, private"
        assert "Server" not in headers


async def test_an_audit_id_is_made_where_none_is_sent_and_never_twice(client):
    ids = {(await client.get("/apis")).headers["Audit-ID"] for _ in range(3)}
    assert len(ids) == 3


async def test_a_review_bears_the_audit_id_of_the_request_that_it_was_made_for(serve, face):
    reviewer = fakes.FakeReviewer(lambda _: {"allowed": True})
    face.access.require = Authorizer(reviewer).require
    face.identity.user = User("somebody")
    client = await serve(face)
    asked = [await client.get(A, headers={"Audit-ID": "abc"}), await client.get("/apis")]
    assert reviewer.audit_ids == [one.headers["Audit-ID"] for one in asked]
    assert reviewer.audit_ids[0] == "abc"


async def test_a_large_list_is_compressed_for_those_who_ask(serve):
    words = {f"w{number}": "x" * 200 for number in range(600)}
    client = await serve(fakes.a_face(fakes.words_world(tenant_a=words)))
    packed = await client.get(A, headers={"Accept-Encoding": "gzip"})
    plain = await client.get(A, headers={"Accept-Encoding": "identity"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert json.loads(await packed.read()) == json.loads(await plain.read())
    assert {one.headers["Vary"] for one in (packed, plain)} == {"Accept, Accept-Encoding"}


async def test_a_list_as_yaml_is_made_beside_the_loop(client, monkeypatch):
    made_by = []

    def slow(content):
        made_by.append(threading.current_thread())
        return yaml_text(content)

    monkeypatch.setattr(answers, "yaml_text", slow)
    answer = await client.get(A, headers={"Accept": "application/yaml"})
    assert (answer.status, answer.content_type) == (200, "application/yaml")
    assert [one is threading.main_thread() for one in made_by] == [False]


async def test_before_the_first_sync_lists_are_unavailable_and_discovery_answers(serve, face):
    face.source.synced = False
    client = await serve(face)
    answer = await client.get(A)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert (await client.get(ROOT)).status == 200
    face.source.synced = True
    assert await names(client, A) == ["one", "three", "two"]


async def test_with_the_feature_off_lists_are_empty_at_once(serve):
    face = fakes.a_face(fakes.words_world(tenant_a={"one": "alpha"}), enabled=False)
    face.source.synced = False
    client = await serve(face)
    found = await (await client.get(A)).json()
    assert (found["items"], found["metadata"]) == ([], {"resourceVersion": "1"})
    face.source.synced = True
    assert await names(client, f"{ROOT}/words") == []


async def test_a_slow_answer_ends_in_a_timeout(serve, face):
    face.source.synced = False
    client = await serve(face, limits=Limits(seconds=0.05))
    assert (await refusal(client, A))[:2] == (504, "Timeout")


async def test_a_rows_function_that_fails_is_an_internal_error_and_the_process_lives(serve, face):
    face.source.set(fakes.words_world(tenant_a={"bad": ""}), 100)
    client = await serve(face)
    assert (await refusal(client, A))[:2] == (500, "InternalError")
    assert (await client.get("/livez")).status == 200


async def test_300_groups_and_a_long_selector_are_no_trouble(serve, face):
    client = await serve(face)
    values = ",".join(f"value{number}" for number in range(900))
    assert len(await names(client, A, labelSelector=f"nokey notin ({values})")) == 3
