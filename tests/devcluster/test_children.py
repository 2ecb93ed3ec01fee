"""A process for the length of a block."""

import sys

import pytest

from devcluster import children

ECHO = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)"


async def test_one_is_talked_to_and_gone_after_the_block():
    async with children.running(sys.executable, "-c", ECHO) as process:
        process.stdin.write(b"x" * 100_000 + b"\n")
        assert len(await process.stdout.readline()) == 100_001
        assert process.returncode is None
    assert process.returncode == -9


async def test_one_that_ended_by_itself_is_let_be():
    async with children.running(sys.executable, "-c", "") as process:
        assert await process.wait() == 0
    assert process.returncode == 0


async def test_one_is_gone_too_where_the_block_fails():
    with pytest.raises(ZeroDivisionError):
        async with children.running(sys.executable, "-c", ECHO) as process:
            raise ZeroDivisionError
    assert process.returncode == -9
