"""Attacks by size: a claim so large that each write of it takes an API server seconds."""

import pytest
import pytest_asyncio

from gpu.objects import kinds
from tests.real import site as sites
from tests.real import threat_site as threats
from tests.real.threat_site import ORDERERS, attacker, by

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

A = "tenant-a"
LABELS = {f"l{number:05}": "v" for number in range(15_000)}
"""With them every write of a claim has been seen to take longer than the binder waits for one."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("threats-sizes")) as opened:
        await opened.node("gpu-1", 4)
        await opened.offer("h100")
        await opened.tenant(A, total=4)
        await opened.class_has("h100", 4)
        await opened.shown(A, "h100", total=4)
        await opened.order(A, "usual", "h100")
        await opened.bound(A, "usual")
        yield opened


async def test_a_claim_of_fifteen_thousand_labels_is_refused_to_whoever_may_order(site):
    large = threats.a_claim("large", A, labels=LABELS)
    tries = {
        # kube-apiserver takes a second or more for it, a busy one longer than our client waits.
        role: attacker(site, A, role).create(kinds.GPU_CLAIMS, large, deadline=sites.LATE)
        for role in ORDERERS
    }
    assert await threats.guards(tries) == by(webhook_orders=ORDERERS)
