"""Any sequence of changes: what a watcher was told, laid over its list, is the list now."""

import asyncio
import contextlib
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from apiserver.feeds import Feed
from apiserver.projection import Projection
from apiserver.wire import frames, listing, selectors
from apiserver.wire.items import Item, Key
from apiserver.wire.selectors import Selector
from apiserver.wire.states import State
from tests.apiserver import fakes
from tests.apiserver.fakes import FAST, WORDS
from tests.sampling import examples

PLACES = ("tenant-a", "tenant-b")
EVERYWHERE = ""
TEXTS = st.sampled_from(["x", "y", "open", "under"])
WORDS_OF_ONE = st.dictionaries(st.sampled_from("abcd"), TEXTS, max_size=4)
WORLDS = st.dictionaries(st.sampled_from(PLACES), WORDS_OF_ONE)
SELECTORS = (Selector(), selectors.parse("vowel", ""), selectors.parse("", "metadata.name=a"))


@dataclass
class Client:
    """Lists, watches, and keeps what it was told; checks each event against that."""

    projection: Projection
    namespace: str
    selector: Selector
    held: dict[Key, Item] = field(default_factory=dict)
    at: int = 0
    """The version of the list, of the last event or bookmark."""
    feed: Feed = None
    known: State = None
    then: State | None = None
    """What it is led through first after it was cut."""
    is_whole: bool = True
    """Never cut: nothing may be repeated to it."""

    async def lists(self) -> None:
        self.feed, self.known, self.at = await self.projection.read(WORDS, self.namespace)
        self.held = {one.key: one for one in listing.select(self.known.items, self.selector)}
        self.is_whole = True

    async def resumes(self) -> None:
        """Watch from what was seen last; list again where that is forgotten."""
        self.feed, _, _ = await self.projection.read(WORDS, self.namespace, at_least=self.at)
        self.known = self.feed.history.resume(self.at)
        self.is_whole = False
        if self.known is None:
            await self.lists()
        self.then = self.feed.history.after(self.known)

    def pulls(self, most: int | None = None) -> None:
        """Take up to so many of the events that have come."""
        newest, self.then = self.then or self.feed.history.latest, None
        events = frames.difference(self.known, newest, self.selector)
        self.known = newest
        began = self.at
        if not self.is_whole and events[:most]:
            self.at = 0  # what was told may be told again, from its beginning
        for event in events[:most]:
            self._take(event, began)
        if most is None:
            self.at = max(self.projection.proved(), newest.version, self.at)

    def _take(self, event: frames.Event, began: int) -> None:
        item, before = event.item, self.held.get(event.item.key)
        assert item.version >= self.at, "versions go back"
        if self.is_whole:
            assert item.version > began, "it was told that all up to there had come"
            assert (event.type == "ADDED") == (before is None)
            assert event.type != "MODIFIED" or before.version != item.version
        self.at = item.version
        if event.type == "DELETED":
            assert before is not None or not self.is_whole
            self.held.pop(item.key, None)
        else:
            self.held[item.key] = item

    def agrees(self) -> bool:
        """Say whether it holds what a list now has, to the version of each row."""
        now = listing.select(self.feed.history.latest.items, self.selector)
        return self.held == {item.key: item for item in now}


@contextlib.asynccontextmanager
async def running(source: fakes.FakeSource, **how):
    projection = Projection(source, pace=FAST, **how)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(projection.run())
        try:
            yield projection
        finally:
            task.cancel()


CHANGES = st.tuples(st.just("change"), WORLDS, st.integers(1, 12))
QUIET = st.tuples(st.just("quiet"), st.integers(1, 12))
ONE = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        CHANGES,
        QUIET,
        st.tuples(st.just("pull"), ONE),
        st.tuples(st.just("cut"), ONE, st.integers(0, 3)),
        st.tuples(st.just("stranger"), st.integers(0, 9)),
    ),
    max_size=30,
)


async def play(places, steps) -> None:
    """Have four clients watch while a world changes; all of them agree in the end."""
    source = fakes.FakeSource(fakes.words_world(tenant_a={"a": "x"}, tenant_b={"b": "open"}))
    async with running(source, most_feeds=3) as projection:
        clients = [Client(projection, place, chosen) for place, chosen in places]
        for client in clients:
            await client.lists()
        with contextlib.ExitStack() as stack:
            for client in clients:
                stack.enter_context(projection.following(client.feed))
            for what, *how in [*steps, *(("pull", index) for index in range(4))]:
                await one(projection, source, clients, what, how)


async def one(projection, source, clients, what, how) -> None:
    match what, how:
        case "change", (world, gap):
            named = {place.replace("-", "_"): texts for place, texts in world.items()}
            source.set(fakes.words_world(**named), source.version + gap)
            await projection.read(WORDS, EVERYWHERE, at_least=source.version)
        case "quiet", (gap,):
            source.version += gap
        case "pull", (index,):
            clients[index].pulls()
            clients[index].pulls()
            assert clients[index].agrees()
        case "cut", (index, most):
            clients[index].pulls(most)
            await clients[index].resumes()
        case "stranger", (number,):
            await projection.read(WORDS, f"nowhere-{number}")


@examples(60)
@given(
    st.lists(
        st.tuples(st.sampled_from([*PLACES, EVERYWHERE]), st.sampled_from(SELECTORS)),
        min_size=4,
        max_size=4,
    ),
    STEPS,
)
def test_what_a_watcher_was_told_over_its_list_is_the_list_now(places, steps):
    asyncio.run(play(places, steps))
