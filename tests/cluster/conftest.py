"""A scripted API server for each test that asks."""

from collections.abc import AsyncIterator

import pytest

from tests.cluster.scripted import Scripted


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with Scripted() as running:
        yield running
