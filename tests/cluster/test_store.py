"""Store: what is in it after a list and events, and when it signals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.errors import DecodeError
from gpu.objects.meta import ObjectKey
from tests.cluster import things
from tests.cluster.scripted import thing

A, B = ObjectKey("ns", "a"), ObjectKey("ns", "b")


@pytest.fixture
def store():
    made = things.store()
    fill(made, thing("b", 2, n=2), thing("a", 1, n=1), version=10)
    return made


def fill(store, *objects, version):
    listing = store.listing()
    for each in objects:
        listing.add(each)
    listing.finish(str(version))


def signals(store):
    counted = []
    store.subscribe(lambda: counted.append(store.generation))
    return counted


def test_nothing_of_a_list_is_seen_before_it_is_finished():
    store = things.store()
    listing = store.listing()
    listing.add(thing("a", 1))
    assert (store.items(), store.has_synced, store.resource_version) == ((), False, 0)
    listing.finish("7")
    assert (things.content(store), store.has_synced, store.resource_version) == ({"a": 0}, True, 7)


def test_items_are_in_key_order_and_the_same_tuple_until_something_changes(store):
    first = store.items()
    assert [item.meta.name for item in first] == ["a", "b"]
    assert store.items() is first
    store.bookmark({"metadata": {"resourceVersion": "11"}})
    assert store.items() is first
    store.put(thing("aa", 12))
    assert [item.meta.name for item in store.items()] == ["a", "aa", "b"]


def test_a_new_version_of_the_same_view_is_kept_and_not_signalled(store):
    seen = signals(store)
    store.put(thing("a", 11, n=1))
    assert seen == []
    assert store.get(A).meta.resource_version == "11"
    assert store.items()[0].meta.resource_version == "11"
    assert store.resource_version == 11


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(lambda s: s.put(thing("a", 11, n=5)), {"a": 5, "b": 2}, id="modified"),
        pytest.param(lambda s: s.put(thing("c", 11)), {"a": 1, "b": 2, "c": 0}, id="added"),
        pytest.param(lambda s: s.remove(thing("a", 11)), {"b": 2}, id="deleted"),
        pytest.param(lambda s: s.put(thing("a", 11, n="x")), {"b": 2}, id="became malformed"),
        pytest.param(lambda s: s.not_served(), {}, id="no longer served"),
        pytest.param(
            lambda s: fill(s, thing("a", 1, n=1), version=11), {"a": 1}, id="list without"
        ),
    ],
)
def test_a_change_is_signalled_once(store, change, want):
    seen = signals(store)
    change(store)
    assert len(seen) == 1
    assert things.content(store) == want


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda s: s.put(thing("a", 1, n=9)), id="event seen before"),
        pytest.param(lambda s: s.put(thing("b", 1, n=9)), id="older event"),
        pytest.param(lambda s: s.remove(thing("b", 1)), id="older deletion"),
        pytest.param(lambda s: s.remove(thing("c", 11)), id="deletion of what is not there"),
        pytest.param(
            lambda s: fill(s, thing("a", 1, n=1), thing("b", 20, n=2), version=20), id="same list"
        ),
    ],
)
def test_what_changes_no_view_is_not_signalled(store, change):
    seen = signals(store)
    change(store)
    assert seen == []
    assert things.content(store) == {"a": 1, "b": 2}


def test_a_recreated_object_is_a_change_although_it_looks_the_same(store):
    seen = signals(store)
    again = thing("a", 11, n=1)
    again["metadata"]["uid"] = "uid-other"
    store.put(again)
    assert len(seen) == 1


def test_a_malformed_object_is_listed_reported_and_never_shown_as_it_was(store):
    reports = []
    store = things.store(report=lambda kind, key, error: reports.append((kind, key, error.path)))
    fill(store, thing("a", 1, n=1), version=10)
    store.put(thing("a", 11, n="many"))
    assert things.content(store) == {}
    assert {key: str(error) for key, error in store.malformed.items()} == {
        A: "spec.n: is not an integer"
    }
    assert reports == [(store.kind, A, "spec.n")]
    seen = signals(store)
    store.put(thing("a", 12, n="many"))
    assert seen == []
    store.put(thing("a", 13, n=2))
    assert (things.content(store), dict(store.malformed), len(seen)) == ({"a": 2}, {}, 1)


def test_deletion_of_a_malformed_object_takes_it_from_the_list_of_malformed():
    store = things.store()
    fill(store, thing("a", 1, n="x"), version=10)
    assert list(store.malformed) == [A]
    seen = signals(store)
    store.remove(thing("a", 11, n="x"))
    assert (dict(store.malformed), len(seen)) == ({}, 1)


def test_a_bug_in_a_decoder_concerns_its_object_alone():
    def decode(raw):
        if raw["metadata"]["name"] == "b":
            raise KeyError("bug")
        return things.decode(raw)

    store = things.Store(things.KIND, decode)
    fill(store, thing("a", 1), thing("b", 2), version=10)
    assert things.content(store) == {"a": 0}
    assert isinstance(store.malformed[B], DecodeError)


def test_an_object_without_metadata_is_malformed_and_not_fatal():
    store = things.store()
    fill(store, {"spec": {}}, thing("a", 1), version=10)
    assert things.content(store) == {"a": 0}
    assert list(store.malformed) == [ObjectKey("", "")]


def test_a_list_of_an_older_version_replaces_all_as_after_a_restored_backup(store):
    fill(store, thing("a", 1, n=7), version=5)
    assert (things.content(store), store.resource_version) == ({"a": 1}, 5)


def test_objects_of_a_namespace():
    store = things.store()
    others = []
    for namespace in ("ns", "ns-a", "ms"):
        for name in ("b", "a"):
            body = thing(name, 1)
            body["metadata"]["namespace"] = namespace
            others.append(body)
    fill(store, *others, version=1)
    assert [item.meta.key for item in store.in_namespace("ns")] == [A, B]
    assert store.in_namespace("none") == ()


def test_an_ended_subscription_is_not_called(store):
    counted = []
    end = store.subscribe(lambda: counted.append(1))
    end()
    end()
    store.put(thing("a", 11, n=5))
    assert counted == []


def test_managed_fields_are_not_kept(store):
    body = thing("c", 11)
    body["metadata"]["managedFields"] = [{"manager": "m"}]
    store.put(body)
    assert "managedFields" not in store.get(ObjectKey("ns", "c")).raw["metadata"]


async def test_waiting_for_the_first_list_ends_with_it():
    store = things.store()
    fill(store, version=1)
    await store.wait_synced()


@given(
    st.lists(st.tuples(st.sampled_from(["put", "remove", "list"]), st.integers(0, 9)), max_size=40)
)
def test_items_are_what_events_left_in_key_order_however_they_came(events):
    store, held = things.store(), {}
    store.listing().finish("1")
    for version, (event, number) in enumerate(events, start=2):
        name = f"thing-{number}"
        if event == "remove":
            held.pop(name, None)
            store.remove(thing(name, version))
        elif event == "put":
            held[name] = version
            store.put(thing(name, version, n=version))
        else:
            held = {name: version}
            fill(store, thing(name, version, n=version), version=version)
        assert things.content(store) == dict(sorted(held.items()))
        assert [item.meta.name for item in store.items()] == sorted(held)
        assert [item.meta.name for item in store.in_namespace("ns")] == sorted(held)


def test_a_reader_on_another_thread_never_leaves_an_older_tuple_behind(store):
    class Slow(list):
        """The objects, of which a copy is made while the watch goes on."""

        def __iter__(self):
            copied = list(super().__iter__())
            if not event:
                event.append(True)
                store.put(thing("c", 12, n=3))
            return iter(copied)

    event: list[bool] = []
    store.put(thing("b", 11, n=4))
    store._sorted = Slow(store._sorted)
    assert [item.meta.name for item in store.items()] == ["a", "b"]
    assert [item.meta.name for item in store.items()] == ["a", "b", "c"]


def lingering():
    """A store whose things of 9 and more stay for their last word, and what it signalled."""
    made = things.store(lingers=lambda thing: thing.n >= 9)
    fill(made, thing("a", 1, n=1), thing("b", 2, n=9), version=10)
    return made, signals(made)


def test_a_deleted_thing_stays_as_its_last_event_shows_it_where_it_lingers():
    store, seen = lingering()
    store.remove(thing("a", 11, n=9))
    assert (things.content(store), len(seen)) == ({"a": 9, "b": 9}, 1)


def test_one_that_was_shown_like_that_already_is_not_signalled_again():
    store, seen = lingering()
    store.remove(thing("b", 11, n=9))
    assert (things.content(store), seen) == ({"a": 1, "b": 9}, [])


def test_one_that_does_not_linger_goes_at_once():
    store, seen = lingering()
    store.remove(thing("a", 11, n=2))
    assert (things.content(store), len(seen)) == ({"b": 9}, 1)


def test_a_new_one_of_the_name_takes_the_place_of_one_that_lingers():
    store, _ = lingering()
    store.remove(thing("b", 11, n=9))
    store.put(thing("b", 12, n=3))
    store.remove(thing("b", 13, n=3))
    assert things.content(store) == {"a": 1}


def test_a_new_list_drops_what_lingers():
    store, seen = lingering()
    store.remove(thing("b", 11, n=9))
    fill(store, thing("a", 1, n=1), version=12)
    assert (things.content(store), len(seen)) == ({"a": 1}, 1)


def test_what_is_too_much_to_linger_goes_in_the_order_it_went(monkeypatch):
    monkeypatch.setattr("gpu.cluster.store.MOST_LINGERING", 1)
    store, _ = lingering()
    store.remove(thing("b", 11, n=9))
    store.remove(thing("a", 12, n=9))
    assert things.content(store) == {"a": 9}


def test_one_that_nobody_can_read_at_its_end_goes():
    store, _ = lingering()
    store.remove({**thing("b", 11), "spec": {"n": "x"}})
    assert things.content(store) == {"a": 1}
