from datetime import UTC, datetime

import pytest

from gpu.errors import DecodeError
from gpu.objects.claims import Phase
from gpu.objects.decode import Fields
from gpu.objects.meta import EPOCH, ObjectKey, OwnerRef, condition, decode_conditions, decode_meta


def test_an_absent_or_null_object_reads_as_empty():
    assert Fields({"a": None}).child("a").raw == {}
    assert Fields({}).child("a").child("b").raw == {}
    assert Fields(None).raw == {}


def test_absent_optional_fields_have_their_defaults():
    fields = Fields({"null": None})
    for name in ("absent", "null"):
        assert (fields.text_or(name), fields.text_or(name, "d")) == ("", "d")
        assert (fields.flag(name), fields.whole(name, 3), fields.units(name, 2)) == (False, 3, 2)
        assert (fields.time(name), fields.texts(name), fields.text_map(name)) == (None, (), {})
        assert (list(fields.children(name)), fields.has(name)) == ([], False)


def test_fields_of_the_right_shape_are_returned_as_they_are():
    fields = Fields({"t": "x", "f": True, "n": 3, "q": "1k", "ts": ["a"], "m": {"a": "b"}, "e": ""})
    assert (fields.text("t"), fields.flag("f"), fields.whole("n")) == ("x", True, 3)
    assert (fields.units("n"), fields.quantity("q")) == (3, 1000)
    assert (fields.texts("ts"), fields.text_map("m"), fields.text_or("e", "d")) == (
        ("a",),
        {"a": "b"},
        "",
    )


def test_a_time_is_read_with_its_zone():
    fields = Fields({"z": "2026-01-02T03:04:05Z", "micro": "2026-01-02T03:04:05.123456Z"})
    assert fields.time("z") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert fields.time("micro") == datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)


WRONG = {
    "text": 4,
    "empty": "",
    "flag": "true",
    "whole": "4",
    "bool": True,
    "units": -1,
    "quantity": "half",
    "time": "yesterday",
    "local": "2026-01-02T03:04:05",
    "number": 7,
    "list": {},
    "texts": ["a", 4],
    "map": [],
    "mixed": {"a": 4},
    "word": "Pendin",
    "objects": [{}, 4],
}


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda f: f.text("gone"), "spec.gone: is missing"),
        (lambda f: f.text("text"), "spec.text: is not a string"),
        (lambda f: f.text("empty"), "spec.empty: is not a string"),
        (lambda f: f.text_or("text"), "spec.text: is int, not a string"),
        (lambda f: f.flag("flag"), "spec.flag: is str, not a boolean"),
        (lambda f: f.whole("lost"), "spec.lost: is missing"),
        (lambda f: f.whole("whole"), "spec.whole: is not an integer"),
        (lambda f: f.whole("bool"), "spec.bool: is not an integer"),
        (lambda f: f.units("units"), "spec.units: -1 units: an amount cannot be negative"),
        (lambda f: f.quantity("quantity"), "spec.quantity: 'half' is not a quantity"),
        (lambda f: f.time("time"), "spec.time: 'yesterday' is not an RFC 3339 time"),
        (lambda f: f.time("number"), "spec.number: 7 is not an RFC 3339 time"),
        (lambda f: f.time("local"), "spec.local: '2026-01-02T03:04:05' has no time zone"),
        (lambda f: f.texts("list"), "spec.list: is dict, not a list"),
        (lambda f: f.texts("texts"), "spec.texts[1]: is not a string"),
        (lambda f: f.text_map("map"), "spec.map: is list, not an object"),
        (lambda f: f.text_map("mixed"), "spec.mixed[a]: is not a string"),
        (lambda f: f.child("text"), "spec.text: is int, not an object"),
        (lambda f: list(f.children("objects")), "spec.objects[1]: is int, not an object"),
        (lambda f: f.one_of("word", Phase, ""), "spec.word: 'Pendin' is not a known value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_field_of_the_wrong_shape_is_an_error_with_its_path(read, why):
    fields = Fields({"spec": WRONG}).child("spec")
    with pytest.raises(DecodeError) as caught:
        read(fields)
    assert str(caught.value) == why
    assert f"{caught.value.path}: {caught.value.why}" == why


def test_an_object_that_is_none_is_an_error():
    with pytest.raises(DecodeError, match="object: is list, not an object"):
        Fields([])


def test_metadata_is_read_whole():
    meta = decode_meta(
        Fields(
            {
                "metadata": {
                    "name": "n",
                    "namespace": "ns",
                    "uid": "u",
                    "resourceVersion": "12",
                    "generation": 3,
                    "creationTimestamp": "2026-01-01T00:00:00Z",
                    "deletionTimestamp": "2026-01-02T00:00:00Z",
                    "labels": {"a": "b"},
                    "annotations": {"c": "d"},
                    "finalizers": ["f"],
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "K",
                            "name": "o",
                            "uid": "ou",
                            "controller": True,
                        }
                    ],
                }
            }
        )
    )
    assert (meta.key, meta.version, meta.generation) == (ObjectKey("ns", "n"), 12, 3)
    assert (meta.created, meta.deleting) == (datetime(2026, 1, 1, tzinfo=UTC), True)
    assert (meta.labels, meta.annotations, meta.finalizers) == ({"a": "b"}, {"c": "d"}, ("f",))
    assert meta.owners == (
        OwnerRef(api_version="v1", kind="K", name="o", uid="ou", controller=True),
    )


def test_metadata_without_a_name_is_an_error_and_without_a_creation_time_is_old():
    with pytest.raises(DecodeError, match=r"metadata\.name: is missing"):
        decode_meta(Fields({}))
    assert decode_meta(Fields({"metadata": {"name": "n"}})).created == EPOCH


def test_a_new_resource_version_alone_is_no_change():
    one, two = (
        decode_meta(Fields({"metadata": {"name": "n", "resourceVersion": version}}))
        for version in ("1", "2")
    )
    assert one == two
    assert (one.version, two.version) == (1, 2)
    assert decode_meta(Fields({"metadata": {"name": "n"}})).version == 0


def test_keys_sort_as_the_api_server_lists_and_print_as_people_write():
    keys = [ObjectKey("b", "a"), ObjectKey("a", "z"), ObjectKey("", "n")]
    assert sorted(keys) == [keys[2], keys[1], keys[0]]
    assert [str(key) for key in keys] == ["b/a", "a/z", "n"]


def test_conditions_are_found_by_type():
    found = decode_conditions(
        Fields({"conditions": [{"type": "A", "status": "True"}, {"type": "B"}]})
    )
    assert [(item.type, item.status) for item in found] == [("A", "True"), ("B", "Unknown")]
    assert condition(found, "B") == found[1]
    assert condition(found, "C") is None
