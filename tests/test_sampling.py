"""That `--full` reaches every property: its number of examples is asked for, never written beside it."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests import sampling

HERE = Path(__file__).parent


@pytest.fixture
def in_full():
    before = settings.get_current_profile_name()
    settings.load_profile(sampling.FULL)
    yield
    settings.load_profile(before)


@pytest.mark.parametrize(
    "many", [500, sampling.MANY, 5_000], ids=["fewer than usual", "as usual", "more than usual"]
)
def test_with_full_a_property_gets_its_many_however_many_those_are(in_full, many):
    assert sampling.examples(7, many).max_examples == many


def test_without_full_a_property_gets_its_few():
    before = settings.get_current_profile_name()
    settings.load_profile(sampling.DAILY)
    try:
        assert sampling.examples(7).max_examples == 7
    finally:
        settings.load_profile(before)


def test_no_property_writes_its_number_down():
    ours = {HERE / "sampling.py", Path(__file__)}
    word = "max_examples"
    found = [path for path in HERE.rglob("*.py") if path not in ours]
    assert [p.name for p in found if word in p.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("profile", [sampling.DAILY, sampling.FULL])
def test_a_slow_machine_fails_no_property(profile):
    assert settings.get_profile(profile).deadline is None
