"""CEL text."""

import pytest

from policies import cel


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", "'plain'"),
        ("it's", "'it\\'s'"),
        ("back\\slash", "'back\\\\slash'"),
        ("two\nlines", "'two\\nlines'"),
        ("", "''"),
    ],
)
def test_a_literal_says_the_text_and_nothing_more(text: str, quoted: str):
    assert cel.quote(text) == quoted


def test_one_value_is_compared_and_several_are_looked_up():
    assert cel.one_of("a.b", ("x",)) == "a.b == 'x'"
    assert cel.one_of("a.b", ("x", "y's")) == "a.b in ['x', 'y\\'s']"


def test_joined_expressions_keep_their_own_precedence():
    assert cel.all_of("a || b", "c") == "(a || b) && (c)"
    assert cel.any_of("a && b", "c") == "(a && b) || (c)"
    assert cel.any_of("a && b") == "a && b"


def test_a_message_puts_expressions_in_their_places():
    built = cel.message(
        "pod {name}: not {count} of 'x'", name="object.metadata.name", count="1 + 2"
    )
    assert built == "'pod ' + object.metadata.name + ': not ' + (1 + 2) + ' of \\'x\\''"


def test_a_message_may_begin_or_end_with_a_part():
    assert cel.message("{a}{b}", a="x", b="y") == "x + y"


def test_a_part_that_is_not_given_is_an_error():
    with pytest.raises(KeyError):
        cel.message("{name}")
