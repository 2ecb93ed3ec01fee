"""A client over the real application; its projection runs for the length of a test."""

import asyncio
import contextlib

import pytest
import structlog

from tests.apiserver import fakes


@pytest.fixture
async def serve(aiohttp_client):
    """Return a function that starts a Face and gives its client."""
    async with contextlib.AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())

        async def start(face: fakes.Face, **changes):
            application = face.build(**changes)
            task = group.create_task(face.projection.run())
            stack.callback(task.cancel)
            return await aiohttp_client(application, server_kwargs={"handler_cancellation": True})

        yield start
        for task in list(group._tasks):
            task.cancel()


@pytest.fixture(autouse=True)
def logs():
    """What was logged, as dicts; nothing is printed."""
    with structlog.testing.capture_logs() as captured:
        yield captured
