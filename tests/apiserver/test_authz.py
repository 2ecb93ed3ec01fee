"""Who may: what is asked, what is remembered, and that failure closes."""

import asyncio

import pytest

from apiserver.authz import Authorizer, review
from apiserver.identity import MASTERS, NOBODY, User
from apiserver.wire import attributes
from apiserver.wire.attributes import Attributes
from apiserver.wire.status import Forbidden, InternalError
from tests.apiserver import fakes

ALICE = User("alice", uid="u", groups=("g",), extra=(("k", ("v",)),))
LIST = Attributes(
    verb="list", path="/x", group="g.io", version="v1", namespace="ns", resource="words"
)


def plain(path: str) -> Attributes:
    return attributes.parse("GET", attributes.segments(path), {})


def test_the_review_says_all_that_is_known():
    named = Attributes(
        verb="get", path="/x", group="g.io", version="v1", namespace="ns", resource="words",
        name="one", subresource="status",
    )  # fmt: skip
    assert review(ALICE, named)["spec"] == {
        "user": "alice",
        "uid": "u",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "namespace": "ns", "verb": "get", "group": "g.io", "version": "v1",
            "resource": "words", "subresource": "status", "name": "one",
        },
    }  # fmt: skip
    assert review(NOBODY, plain("/apis"))["spec"] == {
        "user": "system:anonymous",
        "groups": ["system:unauthenticated"],
        "nonResourceAttributes": {"path": "/apis", "verb": "get"},
    }


def test_the_review_says_what_narrows_a_list():
    path = "/apis/g.io/v1/namespaces/ns/words"
    query = {
        "labelSelector": "a=b,c in (e,d),f!=g,h,!i,j>1",
        "fieldSelector": "metadata.name=one,metadata.namespace!=two",
    }
    asked = attributes.parse("GET", attributes.segments(path), query)
    found = review(ALICE, asked)["spec"]["resourceAttributes"]
    assert (found["verb"], found["name"]) == ("list", "one")
    assert found["labelSelector"]["requirements"] == [
        {"key": "a", "operator": "In", "values": ["b"]},
        {"key": "c", "operator": "In", "values": ["d", "e"]},
        {"key": "f", "operator": "NotIn", "values": ["g"]},
        {"key": "h", "operator": "Exists", "values": []},
        {"key": "i", "operator": "DoesNotExist", "values": []},
    ]
    assert found["fieldSelector"]["requirements"] == [
        {"key": "metadata.name", "operator": "In", "values": ["one"]},
        {"key": "metadata.namespace", "operator": "NotIn", "values": ["two"]},
    ]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_selector_that_cannot_be_read_narrows_nothing(method):
    asked = attributes.parse(method, ("apis", "g.io", "v1", "words"), {"labelSelector": "a in ("})
    assert "labelSelector" not in review(ALICE, asked)["spec"]["resourceAttributes"]


async def test_what_was_allowed_of_one_selection_is_not_allowed_of_another():
    reviewer = fakes.FakeReviewer(
        lambda spec: {"allowed": "labelSelector" in spec["resourceAttributes"]}
    )
    access = Authorizer(reviewer)
    for query, allowed in (({"labelSelector": "a=b"}, True), ({}, False)):
        asked = attributes.parse("GET", ("apis", "g.io", "v1", "words"), query)
        if allowed:
            await access.require(ALICE, asked)
        else:
            with pytest.raises(Forbidden):
                await access.require(ALICE, asked)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        pytest.param(
            LIST,
            'words.g.io is forbidden: User "alice" cannot list resource "words" in API group "g.io" '
            'in the namespace "ns": no role',
            id="namespace",
        ),
        pytest.param(
            Attributes(verb="list", path="/x", group="g.io", version="v1", resource="words"),
            'words.g.io is forbidden: User "alice" cannot list resource "words" in API group "g.io" '
            "at the cluster scope: no role",
            id="cluster",
        ),
        pytest.param(
            Attributes(
                verb="get", path="/x", group="g.io", version="v1", namespace="ns",
                resource="words", name="one",
            ),
            'words.g.io "one" is forbidden: User "alice" cannot get resource "words" in API group '
            '"g.io" in the namespace "ns": no role',
            id="name",
        ),
        pytest.param(
            plain("/metrics"),
            'forbidden: User "alice" cannot get path "/metrics": no role',
            id="path",
        ),
    ],
)  # fmt: skip
async def test_a_refusal_has_the_canonical_words(asked, words):
    access = Authorizer(fakes.FakeReviewer(lambda _: {"allowed": False, "reason": "no role"}))
    with pytest.raises(Forbidden) as caught:
        await access.require(ALICE, asked)
    assert caught.value.message == words


@pytest.mark.parametrize(
    ("user", "path", "asks"),
    [
        pytest.param(User("root", groups=(MASTERS,)), "/apis", 0, id="masters"),
        pytest.param(NOBODY, "/readyz", 0, id="probe"),
        pytest.param(NOBODY, "/readyz/ping", 1, id="below-a-probe"),
        pytest.param(NOBODY, "/metrics", 1, id="metrics"),
        pytest.param(NOBODY, "/apis", 1, id="discovery"),
    ],
)
async def test_only_masters_and_the_exact_probes_pass_unasked(user, path, asks):
    reviewer = fakes.FakeReviewer(lambda _: {"allowed": True})
    await Authorizer(reviewer).require(user, plain(path))
    assert len(reviewer.posted) == asks


@pytest.mark.parametrize("allowed", [True, False])
async def test_an_answer_is_kept_for_seconds_and_asked_once_by_many(allowed):
    reviewer = fakes.FakeReviewer(lambda _: {"allowed": allowed})
    reviewer.delay = 0.01
    access = Authorizer(reviewer, seconds=0.1)
    results = await asyncio.gather(
        *(access.require(ALICE, LIST) for _ in range(10)), return_exceptions=True
    )
    assert {type(result) for result in results} == {type(None) if allowed else Forbidden}
    assert len(reviewer.posted) == 1
    await asyncio.sleep(0.12)
    await asyncio.gather(access.require(ALICE, LIST), return_exceptions=True)
    assert len(reviewer.posted) == 2


async def test_denied_beats_allowed():
    access = Authorizer(fakes.FakeReviewer(lambda _: {"allowed": True, "denied": True}))
    with pytest.raises(Forbidden):
        await access.require(ALICE, LIST)


@pytest.mark.parametrize(
    "status", [{}, {"allowed": "true"}, {"allowed": None}], ids=["empty", "text", "null"]
)
async def test_what_is_not_a_clear_yes_is_a_no(status):
    with pytest.raises(Forbidden):
        await Authorizer(fakes.FakeReviewer(lambda _: status)).require(ALICE, LIST)


async def test_a_reviewer_that_fails_closes_for_all_who_wait_and_is_asked_anew():
    reviewer = fakes.FakeReviewer(lambda _: {"allowed": True})
    reviewer.delay, reviewer.error = 0.01, ConnectionError("away")
    access = Authorizer(reviewer)
    results = await asyncio.gather(
        *(access.require(ALICE, LIST) for _ in range(5)), return_exceptions=True
    )
    assert {type(result) for result in results} == {InternalError}
    assert len(reviewer.posted) == 1
    reviewer.error = None
    await access.require(ALICE, LIST)


async def test_a_reviewer_that_hangs_closes_in_time():
    reviewer = fakes.FakeReviewer(lambda _: {"allowed": True})
    reviewer.delay = 10
    with pytest.raises(InternalError):
        await Authorizer(reviewer, deadline=0.02).require(ALICE, LIST)


@pytest.mark.looptime
async def test_one_who_hangs_up_while_asking_does_not_take_the_others_along():
    reviewer = fakes.FakeReviewer(lambda _: {"allowed": True})
    reviewer.delay = 0.05
    access = Authorizer(reviewer)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(access.require(ALICE, LIST))
        await asyncio.sleep(0.01)
        second = group.create_task(access.require(ALICE, LIST))
        await asyncio.sleep(0.01)
        first.cancel()
    assert (first.cancelled(), second.result(), len(reviewer.posted)) == (True, None, 2)


async def test_what_is_kept_is_bounded():
    access = Authorizer(fakes.FakeReviewer(lambda _: {"allowed": True}), most=3)
    for number in range(10):
        await access.require(User(f"user-{number}"), LIST)
    assert len(access._verdicts) == 3


async def test_what_is_asked_often_is_forgotten_last():
    reviewer = fakes.FakeReviewer(lambda _: {"allowed": True})
    access = Authorizer(reviewer, most=3)
    for number in range(20):
        await access.require(ALICE, LIST)
        await access.require(User(f"user-{number}"), LIST)
    assert [spec["user"] for spec in reviewer.posted].count("alice") == 1


async def test_reviews_that_fail_are_logged_once_until_they_succeed(logs):
    reviewer = fakes.FakeReviewer(lambda _: {"allowed": True})
    access = Authorizer(reviewer)
    for error in (ConnectionError("a"), ConnectionError("b"), None, ConnectionError("c")):
        reviewer.error = error
        asked = access.require(User(str(error)), LIST)
        if error is None:
            await asked
        else:
            with pytest.raises(InternalError):
                await asked
    assert [entry["event"] for entry in logs] == [
        "access not reviewed", "access is reviewed again", "access not reviewed",
    ]  # fmt: skip
