"""Status: code, reason, details and headers of each error."""

import pytest

from apiserver.wire import status
from apiserver.wire.status import Cause, StatusError

CODES = {
    "BadRequest": 400, "Unauthorized": 401, "Forbidden": 403, "NotFound": 404,
    "MethodNotAllowed": 405, "NotAcceptable": 406, "Expired": 410, "RequestEntityTooLarge": 413,
    "UnsupportedMediaType": 415, "Invalid": 422, "TooManyRequests": 429, "InternalError": 500,
    "ServiceUnavailable": 503, "Timeout": 504,
}  # fmt: skip
WITHOUT_A_REASON_UPSTREAM = {("BadRequest", 417), ("BadRequest", 431)}


def test_every_reason_has_its_code():
    found = {(one.reason, one.code) for one in StatusError.__subclasses__()}
    assert found == set(CODES.items()) | WITHOUT_A_REASON_UPSTREAM


def test_a_missing_object_is_named_as_upstream_names_it():
    assert status.no_such_object("g.io", "words", "x").document() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'words.g.io "x" not found',
        "reason": "NotFound",
        "details": {"name": "x", "group": "g.io", "kind": "words"},
        "code": 404,
    }


def test_a_version_of_the_future_says_when_to_come_back():
    error = status.too_new(99, 10)
    assert error.headers == {"Retry-After": "1"}
    assert error.document()["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }


@pytest.mark.parametrize(
    ("causes", "message"),
    [
        pytest.param(
            [Cause("FieldValueForbidden", "Forbidden: no", "a")],
            'Word.g.io "x" is invalid: a: Forbidden: no',
            id="one",
        ),
        pytest.param(
            [Cause("R", "one", "a"), Cause("R", "two", "b")],
            'Word.g.io "x" is invalid: [a: one, b: two]',
            id="several",
        ),
    ],
)
def test_invalid_words_every_cause(causes, message):
    error = status.invalid("g.io", "Word", "x", causes)
    assert error.message == message
    assert [cause["field"] for cause in error.document()["details"]["causes"]] == [
        cause.field for cause in causes
    ]


def test_an_expired_page_offers_a_token_to_go_on():
    assert status.page_too_old("abc").document()["metadata"] == {"continue": "abc"}


def test_a_refused_method_says_which_are_allowed():
    assert status.method_not_allowed(["GET", "HEAD"]).headers == {"Allow": "GET, HEAD"}
