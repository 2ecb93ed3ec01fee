"""Warning headers: whatever the texts, lines a header can carry."""

from hypothesis import given
from hypothesis import strategies as st

from apiserver.wire import warnings


def test_a_text_is_sent_once_quoted():
    assert warnings.lines(['a "b" \\ ü\n', "c", "c"]) == ['299 - "a \\"b\\" \\\\ ??"', '299 - "c"']


@given(st.lists(st.text(max_size=3000), max_size=40))
def test_headers_stay_small_and_plain(texts):
    found = warnings.lines(texts)
    assert sum(map(len, found)) <= 2 * warnings.TOTAL + len(found) * len('299 - ""')
    assert all(line.isascii() and line.isprintable() for line in found)
