"""What a request is about, as kube-apiserver reads it."""

import pytest

from apiserver.wire import attributes, selectors
from apiserver.wire.attributes import Attributes
from apiserver.wire.status import StatusError

ROOT = "/apis/g.io/v1"
ONE = selectors.parse("", "metadata.name=one")
IN = {"group": "g.io", "version": "v1", "resource": "words"}


def read(method: str, path: str, **query: str) -> Attributes:
    return attributes.parse(method, attributes.segments(path), query)


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        pytest.param("GET", f"{ROOT}/words", {}, {"verb": "list", **IN}, id="list-all"),
        pytest.param(
            "GET",
            f"{ROOT}/namespaces/ns/words",
            {},
            {"verb": "list", "namespace": "ns", **IN},
            id="list",
        ),
        pytest.param(
            "GET",
            f"{ROOT}/namespaces/ns/words/one",
            {},
            {"verb": "get", "namespace": "ns", "name": "one", **IN},
            id="get",
        ),
        pytest.param(
            "GET",
            f"{ROOT}/namespaces/ns/words/one/status/more",
            {},
            {"verb": "get", "namespace": "ns", "name": "one", "subresource": "status/more", **IN},
            id="subresource",
        ),
        pytest.param("GET", f"{ROOT}/words", {"watch": "1"}, {"verb": "watch", **IN}, id="watch"),
        pytest.param(
            "GET", f"{ROOT}/words", {"watch": "0"}, {"verb": "list", **IN}, id="watch-false"
        ),
        pytest.param(
            "GET",
            f"{ROOT}/words",
            {"watch": "true", "fieldSelector": "metadata.name=one"},
            {"verb": "watch", "name": "one", "selector": ONE, **IN},
            id="watch-one-name",
        ),
        pytest.param(
            "GET",
            f"{ROOT}/words",
            {"fieldSelector": "spec.bad=1"},
            {"verb": "list", **IN},
            id="selector-refused-later",
        ),
        pytest.param("HEAD", f"{ROOT}/words", {}, {"verb": "list", **IN}, id="head"),
        pytest.param("POST", f"{ROOT}/words", {}, {"verb": "create", **IN}, id="create"),
        pytest.param(
            "DELETE", f"{ROOT}/words", {}, {"verb": "deletecollection", **IN}, id="delete-all"
        ),
        pytest.param(
            "DELETE",
            f"{ROOT}/words",
            {"fieldSelector": "metadata.name=one"},
            {"verb": "deletecollection", "selector": ONE, **IN},
            id="delete-selected",
        ),
        pytest.param(
            "DELETE", f"{ROOT}/words/a", {}, {"verb": "delete", "name": "a", **IN}, id="delete"
        ),
        pytest.param(
            "PATCH", f"{ROOT}/words/a", {}, {"verb": "patch", "name": "a", **IN}, id="patch"
        ),
        pytest.param("GET", "/apis", {}, {"verb": "get"}, id="groups"),
        pytest.param("GET", ROOT, {}, {"verb": "get"}, id="group-version"),
        pytest.param("POST", "/metrics", {}, {"verb": "post"}, id="plain-path"),
        pytest.param(
            "GET",
            f"{ROOT}/namespaces/ns",
            {},
            {
                "verb": "get",
                "group": "g.io",
                "version": "v1",
                "resource": "namespaces",
                "name": "ns",
            },
            id="namespaces-as-resource",
        ),
    ],
)
def test_attributes_are_read_from_method_path_and_query(method, path, query, expected):
    assert read(method, path, **query) == Attributes(path=path, **expected)


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}/words/%2e%2e", f"{ROOT}/words/%2e", f"{ROOT}/words/a%2fb", f"{ROOT}/words/%00",
        f"{ROOT}/words/%ff", f"{ROOT}/words/a%25b", f"{ROOT}//words", "//apis", f"{ROOT}/../x",
    ],
)  # fmt: skip
def test_a_path_no_name_can_have_is_refused(path):
    with pytest.raises(StatusError) as caught:
        attributes.segments(path)
    assert caught.value.code in {400, 404}


def test_a_trailing_slash_means_nothing():
    assert attributes.segments("/apis/g/") == ("apis", "g")
    assert attributes.segments("/") == ()
