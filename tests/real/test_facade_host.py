"""The facade before the host's real API server, where COZYSTACK_API names a binary of it."""

import pytest

from tests.real import host_site, isolated

pytestmark = pytest.mark.skipif(
    not host_site.BINARY.is_file(), reason="COZYSTACK_API names no binary of the host's API server"
)


@pytest.mark.timeout(300)
async def test_clients_of_the_host_notice_our_sources_alone(binaries_built, tmp_path):
    if reason := isolated.unavailable():
        pytest.skip(reason)
    said = await isolated.told("tests/real/facade_story.py", tmp_path / "story")
    assert "passed" in said
