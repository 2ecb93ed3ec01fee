"""What a request leaves behind: nothing that only the garbage collector, which comes rarely, would find."""

import asyncio
import gc

import pytest
from aiohttp import web

from gpu import keys
from tests.apiserver import fakes

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"


@pytest.fixture
def face():
    return fakes.a_face(fakes.words_world(tenant_a={"a": "x"}))


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", "/nothing", 404, id="no-route"),
        pytest.param("POST", "/version", 405, id="no-method"),
        pytest.param("GET", f"{ROOT}/nothing", 404, id="no-resource"),
        pytest.param("DELETE", f"{ROOT}/words", 405, id="no-verb"),
        pytest.param("GET", f"{ROOT}/words?labelSelector=a+in+(", 400, id="no-selector"),
    ],
)
async def test_a_refused_request_is_gone_without_the_garbage_collector(
    serve, face, method, path, code
):
    client = await serve(face)
    gc.collect()
    gc.disable()  # the process collects rarely, and headers of one request may be 32 MiB
    try:
        for _ in range(5):
            answer = await client.request(method, path)
            assert answer.status == code
            await answer.read()
        await asyncio.sleep(0)
        kept = [one for one in gc.get_objects() if isinstance(one, web.Request)]
        assert len(kept) <= 1
    finally:
        gc.enable()
