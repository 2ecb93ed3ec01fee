"""The loop that the product runs on, for all tests of HTTP/2, and a listener."""

import pytest
import uvloop

from apiserver import tls
from tests.apiserver import certificates
from tests.apiserver.http2.listener import SERVING_CA, listening


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def serving(tmp_path_factory):
    leaf = certificates.issue(
        "server", SERVING_CA, purposes=(certificates.SERVER,), hosts=("localhost",)
    )
    return tls.Serving(*leaf.save(tmp_path_factory.mktemp("http2"), "serving"))


@pytest.fixture
async def listener(serving):
    async with listening(serving) as one:
        yield one


@pytest.fixture(autouse=True)
def _nothing_unexpected(caplog, logs):
    """No bug of ours in the log, none that the event loop caught, none of aiohttp's."""
    yield
    said = [one.getMessage() for one in caplog.get_records("call") if one.name != "asyncio.debug"]
    assert not said
    assert not [one for one in logs if one["log_level"] in ("error", "critical")]
