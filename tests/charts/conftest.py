"""The chart as real helm renders it; helm is one of the binaries devcluster builds."""

import pytest

from devcluster import binaries, toolchain
from tests.charts.rendering import Chart


@pytest.fixture(scope="session")
def chart() -> Chart:
    """Fail at once, not after a minute of building inside a timed test."""
    if "helm" in binaries.missing():
        pytest.fail("helm is not built yet; run `make build-binaries`", pytrace=False)
    return Chart(binaries.paths(binaries.cache_folder(), toolchain.find())["helm"])
