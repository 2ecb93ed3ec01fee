"""Proofs: what is read, what is left to settle, what is proved, and who waits for whom."""

import asyncio

import pytest

from apiserver.proofs import Proofs
from gpu.model.premises import of_object
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass
from gpu.objects.nodes import Node

pytestmark = pytest.mark.looptime

SETTLE = 0.02
PROOF = 0.1
CLASS = of_object(GPUClass, "h100")


class Source:
    """Notes what is asked of it and when it was answered; some kinds' watches are not well."""

    def __init__(self, *, broken=(), reads=True):
        self.broken = set(broken)
        self.reads = reads
        self.breaks = set()
        """Kinds whose watch breaks while they settle."""
        self.done = []

    def _is_done(self, *what):
        self.done.append((*what, round(asyncio.get_running_loop().time(), 3)))

    def is_live(self, view):
        return view not in self.broken

    async def settle(self, views, until):
        await asyncio.sleep(until - asyncio.get_running_loop().time())
        self.broken |= self.breaks
        self._is_done("settled", *sorted(view.__name__ for view in views))

    async def prove(self, view):
        await asyncio.sleep(PROOF)
        self._is_done("proved", view.__name__)

    async def read(self, view, key):
        await asyncio.sleep(0.003)
        if not self.reads:
            raise ConnectionError("no answer")
        self._is_done("read", view.__name__, str(key))


async def since(source, premises, *, came=0.0, within=0.5):
    return await Proofs(source, settle=SETTLE, within=within).since(came, frozenset(premises))


@pytest.mark.parametrize(
    ("source", "premises", "done"),
    [
        pytest.param(Source(), (), [], id="nothing"),
        pytest.param(Source(), CLASS, [("read", "GPUClass", "h100", 0.003)], id="one object"),
        pytest.param(
            Source(), {GPUClaim, Node}, [("settled", "GPUClaim", "Node", SETTLE)], id="live kinds"
        ),
        pytest.param(
            Source(broken=[Node]),
            {GPUClaim, Node},
            [("settled", "GPUClaim", SETTLE), ("proved", "Node", PROOF)],
            id="one of a broken watch",
        ),
        pytest.param(
            Source(),
            CLASS | {Node},
            [("read", "GPUClass", "h100", 0.003), ("settled", "Node", SETTLE)],
            id="an object and a kind, beside each other",
        ),
        pytest.param(
            Source(reads=False),
            CLASS,
            [("proved", "GPUClass", 0.103)],
            id="an object that cannot be read alone",
        ),
    ],
)
async def test_each_is_had_current_in_its_own_way(source, premises, done):
    assert await since(source, premises)
    assert source.done == done


async def test_kinds_settle_from_the_question_on():
    source = Source()
    await asyncio.sleep(0.015)
    assert await since(source, {Node})
    assert source.done == [("settled", "Node", SETTLE)]


async def test_a_kind_whose_watch_breaks_while_it_settles_is_proved():
    source = Source()
    source.breaks = {Node}
    assert await since(source, {GPUClaim, Node})
    assert source.done == [("settled", "GPUClaim", "Node", SETTLE), ("proved", "Node", 0.12)]


async def test_what_does_not_come_in_time_is_said(logs):
    source = Source(broken=[Node])
    assert not await since(source, {GPUClaim, Node}, within=0.05)
    assert [entry["event"] for entry in logs] == ["caches not proved current"]


async def test_one_proof_serves_all_who_came_before_it():
    source = Source(broken=[Node])
    proofs = Proofs(source, settle=SETTLE, within=0.5)
    await asyncio.sleep(0.01)
    await asyncio.gather(*(proofs.since(0.005, frozenset({Node})) for _ in range(30)))
    assert source.done == [("proved", "Node", 0.11)]
