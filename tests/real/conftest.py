"""Control planes for real tests: one shared by the session, one of its own for a module that asks."""

from collections.abc import AsyncIterator, Generator

import pytest
import pytest_asyncio

from devcluster import binaries, control_plane
from devcluster.plane import ControlPlane
from tests.real import told


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the product's last words to the report of a test that failed."""
    report = yield
    if report.failed:
        report.sections += [(f"log of {name}", text) for name, text in told.logs(item.funcargs)]
    return report


@pytest.fixture(scope="session")
def binaries_built() -> None:
    """Fail at once, not after minutes of building inside a timed test."""
    missing = binaries.missing()
    if missing:
        pytest.fail(
            f"not built yet: {', '.join(missing)}; run `make build-binaries`", pytrace=False
        )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def plane(
    binaries_built: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """The session's control plane: shared, so make namespaces and names of your own."""
    async with control_plane.control_plane(tmp_path_factory.mktemp("plane")) as cp:
        yield cp


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fresh_plane(
    binaries_built: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """A control plane of this module's own, about 4 s: for what changes or breaks a whole cluster."""
    async with control_plane.control_plane(tmp_path_factory.mktemp("fresh-plane")) as cp:
        yield cp
