"""States: versions rows get, and where a watcher of a version may resume."""

import pytest

from apiserver.wire import frames, states
from apiserver.wire.items import Key
from apiserver.wire.selectors import Selector
from apiserver.wire.states import History, State
from tests.apiserver.wire.rows import a_row, rows


def versions(state: State) -> dict[str, int]:
    return {item.row.name: item.version for item in state.items}


def test_the_first_state_gives_every_row_its_version_in_order():
    state = states.first(rows("b", "a"), 10)
    assert (versions(state), state.shared) == ({"a": 10, "b": 10}, False)


def test_nothing_changed_is_no_new_state():
    before = states.first(rows("a", "b"), 10)
    assert states.following(before, rows("b", "a"), 20) is None


def test_one_changed_row_gets_the_new_version_and_the_others_keep_theirs():
    after = states.following(states.first(rows("a", "b"), 10), rows("a=new", "b"), 20)
    assert (versions(after), after.version, after.shared) == ({"a": 20, "b": 10}, 20, False)


def test_several_changes_get_versions_of_their_own_up_to_the_new_one():
    after = states.following(states.first(rows("a", "b", "c"), 10), rows("a=1", "b=1", "d"), 20)
    assert versions(after) == {"a": 17, "b": 18, "d": 20}
    assert {key.name: item.version for key, item in after.gone.items()} == {"c": 19}
    assert after.shared is False


def test_too_few_versions_are_shared_low_and_the_newest_stays_single():
    after = states.following(states.first(rows("a", "b", "c"), 10), rows("a=1", "b=1", "c=1"), 12)
    assert (versions(after), after.shared) == ({"a": 11, "b": 11, "c": 12}, False)


def test_a_state_whose_only_version_is_shared_says_so():
    after = states.following(states.first(rows("a", "b"), 10), rows("a=1", "b=1"), 11)
    assert (versions(after), after.shared) == ({"a": 11, "b": 11}, True)


def test_what_is_gone_is_remembered_until_it_is_forgotten_or_back():
    one = states.first(rows("a", "b"), 10)
    two = states.following(one, rows("a"), 20)
    three = states.following(two, rows("a=1"), 30)
    assert set(three.gone) == {Key("ns", "b")}
    assert states.following(three, rows("a=2"), 40, forget=30).gone == {}
    assert states.following(three, rows("a=1", "b"), 40).gone == {}


def test_a_merged_state_holds_all_in_key_order():
    parts = [
        states.first([a_row("z", namespace="a")], 10),
        states.first([a_row("y", namespace="b")], 10),
    ]
    merged = states.merged(reversed(parts), 10, None)
    assert [item.key for item in merged.items] == [Key("a", "z"), Key("b", "y")]
    assert states.merged(parts, 20, merged) is None


def test_a_namespace_that_goes_away_takes_its_rows_with_it():
    a, b = (states.first([a_row("x", namespace=name)], 10) for name in ("a", "b"))
    before = states.merged([a, b], 10, None)
    after = states.merged([a], 20, before)
    (event,) = frames.difference(before, after, Selector())
    assert (event.type, event.item.key, event.item.version) == ("DELETED", Key("b", "x"), 20)


def a_history(*, shared: bool = False, adjacent: bool = True) -> tuple[History, list[State]]:
    history = History()
    one = states.first(rows("a", "b"), 10)
    two = states.following(one, rows("a=1", "b=1"), 11 if shared else 20)
    history.add(one, adjacent=True)
    history.held_through(14 if not shared else 10)
    history.add(two, adjacent=adjacent)
    return history, [one, two]


@pytest.mark.parametrize(
    ("version", "index"),
    [
        pytest.param(9, None, id="before-all-memory"),
        pytest.param(10, 0, id="exactly-the-first"),
        pytest.param(14, 0, id="as-long-as-it-held"),
        pytest.param(19, 0, id="in-mid-change"),
        pytest.param(20, 1, id="exactly-the-second"),
        pytest.param(25, 1, id="after-it"),
    ],
)
def test_a_watch_resumes_from_the_newest_state_not_after_it(version, index):
    history, remembered = a_history()
    assert history.resume(version) == (None if index is None else remembered[index])


def test_a_watch_at_a_shared_version_goes_back_one_state():
    history, remembered = a_history(shared=True)
    assert history.resume(11) == remembered[0]
    assert history.resume(12) == remembered[1]


def test_a_watch_in_a_stretch_nobody_looked_at_is_too_old():
    history, remembered = a_history(adjacent=False)
    assert history.resume(14) == remembered[0]
    assert history.resume(15) is None


def test_an_exact_version_is_known_only_while_its_state_held():
    history, remembered = a_history()
    assert [history.at(version) for version in (9, 10, 14, 15, 20)] == [
        None,
        remembered[0],
        remembered[0],
        None,
        remembered[1],
    ]


def test_memory_is_bounded():
    history = History(most=2)
    state = states.first(rows("a"), 1)
    for version in range(2, 6):
        history.add(state, adjacent=True)
        state = states.following(state, rows(f"a={version}"), version)
    assert history.oldest == 3
    assert history.resume(2) is None
