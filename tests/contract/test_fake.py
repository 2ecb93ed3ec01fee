"""FakeCluster does what the real API server does; tests/real/test_contract.py asks the latter."""

import pytest

from tests.contract import cases, pod_cases
from tests.fakes.cluster import FakeCluster


@pytest.mark.parametrize("case", pod_cases.CASES, ids=lambda case: case.__name__)
@pytest.mark.timeout(5)
async def test_the_fake(case: cases.Case):
    await case(FakeCluster(with_status=[cases.THING]), "contract")
