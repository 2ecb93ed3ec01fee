"""Leases and heartbeats of simulated nodes while they are asked for at once."""

import asyncio
import contextlib

import pytest

from devcluster.beats import Beats
from devcluster.machines import Machine, Pace
from gpu.objects import kinds

pytestmark = pytest.mark.looptime


class Api:
    """Takes what is sent, in `takes` seconds, and tells when."""

    def __init__(self, takes=0.0):
        self.takes = takes
        self.sent = []

    def acting_as(self, *_who):
        return self

    async def patch(self, kind, name, *_what, **_how):
        await asyncio.sleep(self.takes)
        self.sent.append((kind.resource, name, round(asyncio.get_running_loop().time(), 3)))


@contextlib.asynccontextmanager
async def beating(api, *names):
    beats = Beats(api, api, {name: Machine(name=name, pace=Pace()) for name in names})
    async with asyncio.TaskGroup() as group:
        task = group.create_task(beats.run())
        yield beats
        task.cancel()


def of(api, kind, name="n"):
    return [at for resource, of, at in api.sent if (resource, of) == (kind.resource, name)]


async def test_one_that_is_asked_for_while_its_heartbeat_is_sent_is_sent_again():
    """It is what `add` does: the machine is served before its node is there."""
    api = Api(takes=0.1)
    async with beating(api, "n") as beats:
        await asyncio.sleep(0.15)  # the Lease is renewed, the heartbeat on its way
        beats.at_once(["n"])
        await asyncio.sleep(1)
    assert of(api, kinds.LEASES) == [0.1, 0.3]
    assert len(of(api, kinds.NODES)) == 2


async def test_one_whose_turn_is_over_in_this_round_does_not_wait_for_the_next():
    api = Api(takes=0.1)
    async with beating(api, "n", "slower") as beats:
        await asyncio.sleep(0.25)  # of `slower` now
        beats.at_once(["n"])
        await asyncio.sleep(1)
    assert len(of(api, kinds.LEASES)) == 2
    assert of(api, kinds.LEASES)[1] < 1
