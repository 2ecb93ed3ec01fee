"""Bodies as they are sent: JSON and YAML mean the same, and nothing that is sent ends the process."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apiserver.wire import decoding
from apiserver.wire.decoding import Body
from apiserver.wire.negotiate import JSON, YAML
from apiserver.wire.status import BadRequest, TooLarge, UnsupportedMediaType
from apiserver.wire.values import json_line
from tests import sampling

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(sampling.ASCII),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(sampling.ASCII, max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@sampling.examples(100)
@given(st.dictionaries(st.text(sampling.ASCII, max_size=8), VALUES, max_size=4))
def test_yaml_of_a_json_object_is_read_as_that_object(content):
    written = yaml.safe_dump(content).encode()
    assert decoding.decode(written, YAML) == decoding.decode(json.dumps(content).encode(), JSON)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, JSON),
        ("application/json; charset=utf-8", JSON),
        ("Application/YAML", YAML),
    ],
)
def test_the_type_of_a_body_is_json_unless_it_says_otherwise(said, expected):
    assert decoding.media(said) == expected


@pytest.mark.parametrize(
    "said", ["text/plain", "application/octet-stream", "application/merge-patch+json", "json"]
)
def test_another_type_is_refused_naming_both(said):
    with pytest.raises(UnsupportedMediaType, match="application/json, application/yaml"):
        decoding.media(said)


@pytest.mark.parametrize(
    ("body", "media"),
    [
        pytest.param(b'{"a": {"b": 1, "c": [{}, {"d": 1, "d": 2}], "b": 3}}', JSON, id="json"),
        pytest.param(b"a:\n  b: 1\n  c: [{}, {d: 1, d: 2}]\n  b: 3\n", YAML, id="yaml"),
    ],
)
def test_members_that_stand_twice_are_told_by_their_paths_and_the_last_counts(body, media):
    assert decoding.decode(body, media) == Body(
        {"a": {"b": 3, "c": [{}, {"d": 2}]}}, ("a.b", "a.c[1].d")
    )


def test_what_is_replaced_by_a_later_member_is_not_told_of():
    assert decoding.decode(b'{"a": {"b": 1, "b": 2}, "a": {}}', JSON) == Body({"a": {}}, ("a",))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-11-30", "2026-11-30"),
        ("2026-11-30T01:02:03Z", "2026-11-30T01:02:03Z"),
        ("yes", True),
        ("~", None),
        ("0x10", 16),
        ("!!str 1", "1"),
        ("{1: a, true: b, ~: c}", {"1": "a", "true": "b", "~": "c"}),
    ],
)
def test_yaml_means_what_json_can_say(text, value):
    assert decoding.decode(f"a: {text}".encode(), YAML).content == {"a": value}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"a: &x [1]\nb: *x\n", id="alias"),
        pytest.param(b"a: &x {b: *x}", id="itself"),
        pytest.param(b"{? [1] : 2}", id="a-list-as-key"),
        pytest.param(b"a: !!binary aGk=", id="bytes"),
        pytest.param(b"a: !!set {b}", id="set"),
        pytest.param(b"a: !!python/name:os.system x", id="python"),
        pytest.param(b"a: !!int x", id="no-int"),
        pytest.param(b'a: "\\ud800"', id="half-a-character"),
        pytest.param(b"a: 1\n---\nb: 2\n", id="two-documents"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"{a: " * 50_000, id="deep-objects"),
        pytest.param(b"\xff\xfe\xff", id="no-text"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"text", id="a-text"),
    ],
)
def test_other_yaml_is_a_bad_request(body):
    with pytest.raises(BadRequest):
        decoding.decode(body, YAML)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"a"',
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
        b"\xff",
        b"{} {}",
    ],
)
def test_what_is_no_json_object_is_a_bad_request(body):
    with pytest.raises(BadRequest):
        decoding.decode(body, JSON)


def test_more_yaml_than_is_read_in_time_is_too_large():
    with pytest.raises(TooLarge):
        decoding.decode(b"a: " + b"x" * decoding.YAML_LIMIT, YAML)


@sampling.examples(200)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.sampled_from([JSON, YAML]))
def test_whatever_is_sent_is_read_or_refused_and_can_be_sent_back(body, media):
    try:
        found = decoding.decode(body, media)
    except BadRequest:
        return
    assert json_line(found.content)
