"""JSON Patch: what is put is there after it is applied, and what changes nothing is left out."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from gpu.admission.jsonpatch import Editor, pointer
from tests.admission.starts import patched

names = st.sampled_from(["a", "b", "a/b", "~", "~1", ""])
paths = st.lists(names, min_size=1, max_size=3)
values = st.one_of(st.none(), st.integers(0, 2), st.just([1]), st.dictionaries(names, st.just(1)))
objects = st.recursive(
    st.dictionaries(names, st.one_of(st.none(), st.integers(0, 2))),
    lambda inner: st.dictionaries(names, inner),
    max_leaves=5,
)
edits = st.lists(st.tuples(st.sampled_from(["put", "remove"]), paths, values), max_size=5)


@given(objects, edits)
def test_the_operations_make_the_object_what_the_editor_shows(before, edits):
    untouched = copy.deepcopy(before)
    editor = Editor(before)
    for what, path, value in edits:
        if what == "put":
            editor.put(path, value)
            assert editor.at(pointer(path)) == value
        else:
            editor.remove(path)
    assert before == untouched
    assert patched(before, editor.operations) == editor.after


@given(objects, paths, values)
def test_what_is_so_already_needs_no_operation(before, path, value):
    once = Editor(before)
    once.put(path, value)
    again = Editor(once.after)
    again.put(path, value)
    assert again.operations == []


def test_what_is_on_the_way_is_made_with_it():
    editor = Editor({"metadata": {"annotations": None}})
    editor.put(("metadata", "annotations", "x.io/y"), "z")
    assert editor.operations == [
        {"op": "add", "path": "/metadata/annotations", "value": {"x.io/y": "z"}}
    ]
    editor.put(("metadata", "annotations", "x.io/~"), "z")
    assert editor.operations[1]["path"] == "/metadata/annotations/x.io~1~0"
