"""A stranger's checker finds every MUST and SHOULD met by each resource, through kube-apiserver and directly."""

import asyncio
from pathlib import Path

import pytest
import pytest_asyncio

from devcluster import accept, product
from devcluster.plane import ControlPlane

CHECKER = Path(accept.__file__).parents[2] / "shared" / "accept" / "wire_check.py"
NOT_JUDGED = {"options": {"8.4-delete"}}
"""What the checker cannot judge: the objects of `options` are its sources, none comes or goes."""

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(420),
    pytest.mark.skipif(not CHECKER.is_file(), reason=f"there is no checker at {CHECKER}"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(fresh_plane: ControlPlane):
    async with product.running(fresh_plane, values=accept.VALUES) as gpu:
        await accept.prepare(fresh_plane, gpu)
        yield fresh_plane, gpu


@pytest.mark.parametrize("resource", accept.SUBJECTS)
async def test_every_must_and_should_is_met(site, resource):
    plane, gpu = site
    checker = await asyncio.create_subprocess_exec(
        *accept.argv(plane, gpu, CHECKER, resource),
        env=accept.environment(plane),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said = (await checker.communicate())[0].decode()
    lines = [line.split() for line in said.splitlines()]
    passed, skipped = (
        {words[1] for words in lines if words[0] == verdict} for verdict in ("PASS", "SKIP")
    )
    unmet = [line for line in said.splitlines() if line.startswith(("FAIL", "WARN"))]
    assert unmet == []
    assert (checker.returncode, skipped) == (0, NOT_JUDGED.get(resource, set())), said
    assert len(passed) > 100, said
