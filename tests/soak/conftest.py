"""What tests of the judge begin with: a cluster, and a judge who has looked at it and found nothing."""

import pytest

from soak.judge import Judge
from soak.site import Site


@pytest.fixture
def site():
    return Site("judge")


@pytest.fixture
def judge(site):
    judge = Judge(site)
    assert judge.look() == []
    return judge
