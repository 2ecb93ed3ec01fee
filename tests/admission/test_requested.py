"""What the claims of a request answer, by what the cache shows of them."""

from dataclasses import replace

import pytest

from gpu.admission import requested
from gpu.admission.requested import Refused, Superseded, Written
from tests.builders import a_claim


def claim(name="c", *, request="r", result="", message="", version=5, on="n1"):
    asked = {"id": request, "vmi": "vm", "claims": ["c", "d"]}
    asked |= {"result": result} if result else {}
    found = a_claim(name, on=on, status={"bindRequest": asked | {"message": message}})
    return replace(found, meta=replace(found.meta, resource_version=str(version)))


def answer(*found, version=5):
    named = zip(("c", "d"), found, strict=True)
    key = a_claim().key
    return requested.answer([(Written(key._replace(name=n), version), it) for n, it in named], "r")


def yes(name, **more):
    return claim(name, result="Succeeded", **more)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param((yes("c"), yes("d")), "n1", id="all-on-one-node"),
        pytest.param((yes("c"), claim("d")), None, id="one-without-an-answer"),
        pytest.param((yes("c"), None), None, id="one-not-seen-yet"),
        pytest.param((yes("c"), yes("d", on="n2")), None, id="on-two-nodes"),
        pytest.param(
            (yes("c"), claim("d", request="old", version=4)), None, id="a-cache-that-lags"
        ),
    ],
)
def test_the_node_is_told_once_every_claim_says_so(found, said):
    assert answer(*found) == said


def test_a_request_of_another_call_on_one_of_them_ends_the_wait():
    assert isinstance(answer(yes("c"), claim("d", request="new", version=6)), Superseded)


def test_words_of_a_refusal_are_told_once():
    no = [claim(name, result="Refused", message="no room") for name in ("c", "d")]
    assert answer(*no) == Refused("no room")
    assert answer(
        *[replace(it, bind_request=replace(it.bind_request, message="")) for it in no]
    ) == (Refused("its claims cannot be placed on one node now"))
