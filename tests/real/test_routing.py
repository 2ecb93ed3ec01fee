"""Several replicas behind one Service: in a network namespace of the test's own."""

import pytest

from tests.real import isolated


@pytest.mark.timeout(300)
async def test_two_replicas_by_endpoint_slices(binaries_built, tmp_path):
    if reason := isolated.unavailable():
        pytest.skip(reason)
    said = await isolated.told("tests/real/routing_story.py", tmp_path / "story")
    assert "1 passed" in said
