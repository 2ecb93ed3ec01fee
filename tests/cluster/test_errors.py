"""The error tree: which error an answer becomes, and what it means for a write."""

import pytest

from gpu.cluster import errors
from gpu.ports import Outcome


def body(code, reason, **more):
    import json  # noqa: PLC0415 -- only here

    return json.dumps({"kind": "Status", "code": code, "reason": reason, **more}).encode()


@pytest.mark.parametrize(
    ("code", "answer", "want", "outcome"),
    [
        pytest.param(400, body(400, "BadRequest"), errors.ApiError, Outcome.REFUSED, id="400"),
        pytest.param(
            401, body(401, "Unauthorized"), errors.Unauthorized, Outcome.UNKNOWN, id="401"
        ),
        pytest.param(403, body(403, "Forbidden"), errors.Forbidden, Outcome.REFUSED, id="403"),
        pytest.param(404, body(404, "NotFound"), errors.NotFound, Outcome.GONE, id="404"),
        pytest.param(404, b"404 page not found\n", errors.NotFound, Outcome.GONE, id="404 text"),
        pytest.param(409, body(409, "Conflict"), errors.Conflict, Outcome.CONFLICT, id="409"),
        pytest.param(
            409, body(409, "AlreadyExists"), errors.AlreadyExists, Outcome.CONFLICT, id="exists"
        ),
        pytest.param(409, b"", errors.Conflict, Outcome.CONFLICT, id="409 without a body"),
        pytest.param(410, body(410, "Expired"), errors.Gone, Outcome.REFUSED, id="410 Expired"),
        pytest.param(410, body(410, "Gone"), errors.Gone, Outcome.REFUSED, id="410 Gone"),
        pytest.param(422, body(422, "Invalid"), errors.Invalid, Outcome.REFUSED, id="422"),
        pytest.param(
            429, body(429, "TooManyRequests"), errors.Throttled, Outcome.UNKNOWN, id="429"
        ),
        pytest.param(
            500, body(500, "InternalError"), errors.ServerFault, Outcome.UNKNOWN, id="500"
        ),
        pytest.param(503, b"<html>", errors.ServerFault, Outcome.UNKNOWN, id="503 HTML"),
        pytest.param(504, body(504, "Timeout"), errors.ServerFault, Outcome.UNKNOWN, id="504"),
    ],
)
def test_an_answer_becomes_its_error(code, answer, want, outcome):
    error = errors.from_answer(code, answer)
    assert (type(error), error.status, error.outcome) == (want, code, outcome)
    assert error.outcome_unknown is (code >= 500)
    assert error.definite is (code < 500 and code not in {401, 409, 429})


@pytest.mark.parametrize("before", ["", "rpc error: code = InvalidArgument desc = "])
def test_an_object_that_etcd_does_not_take_is_refused_for_good(before):
    """One that a tenant has filled must not stop the placing of everybody else's."""
    answer = body(500, "", message=f"{before}etcdserver: request is too large")
    error = errors.from_answer(500, answer)
    assert (type(error), error.outcome) == (errors.TooLarge, Outcome.REFUSED)
    assert (error.definite, error.outcome_unknown) == (True, False)


@pytest.mark.parametrize("sent", [True, False])
def test_no_answer_is_unknown_when_the_request_was_sent(sent):
    error = errors.Unreachable("cut", sent=sent)
    assert (error.outcome_unknown, error.definite, error.outcome) == (sent, False, Outcome.UNKNOWN)


def test_details_are_kept_as_far_as_they_are_used():
    error = errors.from_answer(
        422,
        body(
            422,
            "Invalid",
            message="spec.count: Invalid value",
            details={
                "name": "one",
                "group": "gpu.cozystack.io",
                "kind": "GPUClaim",
                "causes": [{"reason": "FieldValueInvalid", "message": "no", "field": "spec.count"}],
            },
        ),
    )
    assert str(error) == "422 Invalid: spec.count: Invalid value"
    assert error.details == errors.Details(
        name="one",
        group="gpu.cozystack.io",
        kind="GPUClaim",
        causes=(errors.Cause("FieldValueInvalid", "no", "spec.count"),),
    )


def test_a_missing_object_is_told_from_a_kind_that_is_not_served():
    missing = errors.from_answer(404, body(404, "NotFound", details={"name": "one"}))
    unserved = errors.from_answer(404, b"404 page not found\n")
    assert isinstance(missing, errors.NotFound)
    assert isinstance(unserved, errors.NotFound)
    assert (missing.of_kind, unserved.of_kind) == (False, True)


@pytest.mark.parametrize(
    ("header", "details", "want"),
    [
        pytest.param("7", {}, 7.0, id="header"),
        pytest.param(None, {"retryAfterSeconds": 3}, 3.0, id="details"),
        pytest.param("7", {"retryAfterSeconds": 3}, 3.0, id="both"),
        pytest.param("soon", {}, 1.0, id="neither"),
    ],
)
def test_a_throttled_request_says_how_long_to_wait(header, details, want):
    error = errors.from_answer(429, body(429, "TooManyRequests", details=details), header)
    assert isinstance(error, errors.Throttled)
    assert error.retry_after == want


def test_what_a_server_says_is_capped():
    error = errors.from_answer(500, b"x" * 100_000)
    assert len(error.message) == errors.MESSAGE_CAP
    assert len(str(error)) < errors.MESSAGE_CAP + 50


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="empty"),
        pytest.param({"code": "410", "reason": 7, "message": [], "details": "x"}, id="wrong types"),
        pytest.param({"details": {"causes": "x", "retryAfterSeconds": "1"}}, id="wrong details"),
    ],
)
def test_a_malformed_status_is_still_an_error(status):
    assert type(errors.from_status(status, 500)) is errors.ServerFault
