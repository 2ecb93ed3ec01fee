"""The story of test_facade_host.py before the host's own API server: COZYSTACK_API names a binary of it.

It is no Go module that anybody may fetch, so nothing here builds it, and this file has no name by
which tests are collected: it is asked for. The host's metrics listen on every address and no flag
turns that off, so it is told in a network of its own.
"""

import os

import pytest

from tests.real import host_site, isolated


@pytest.mark.timeout(300)
async def test_clients_of_the_host_notice_our_sources_alone(binaries_built, tmp_path):
    assert os.environ.get(host_site.REAL), f"{host_site.REAL} names no binary of the host"
    assert not (reason := isolated.unavailable()), reason
    named = {host_site.TOLD_OF: os.environ[host_site.REAL]}
    said = await isolated.told("tests/real/test_facade_host.py", tmp_path / "story", named)
    assert "passed" in said
