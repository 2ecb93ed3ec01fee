"""What every test has: the guard against blocking the loop, --seed, --full; no domain objects."""

import asyncio
import functools
import gc
import secrets
from collections.abc import Iterator
from pathlib import Path

import blockbuster
import hypothesis
import pytest

from tests import sampling

GUARDED = ["apiserver", "gpu", "openapi", "policies"]
REAL = Path(__file__).parent / "real"
REAL_TIMEOUT = 300
"""Seconds; a real test may bring up a control plane and wait for controllers."""
PROPERTY_TIMEOUT = 600
"""Seconds; Hypothesis shrinks a failure for up to 300, and one that is cut off is never told."""
FULL_TIMEOUT = 3_600
_GUARD = pytest.StashKey[blockbuster.BlockBuster]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cozystack-gpu")
    group.addoption("--seed", type=int, help="seed of sampled tests; printed when not given")
    group.addoption("--full", action="store_true", help="run long samples whole")


def pytest_configure(config: pytest.Config) -> None:
    # looptime asks for the policy's loop around tests that have none; until somebody has set one,
    # asyncio then makes a loop that nobody closes.
    asyncio.set_event_loop(None)
    if config.option.seed is None:
        config.option.seed = secrets.randbelow(2**32)
    profile = sampling.FULL if config.option.full else sampling.DAILY
    hypothesis.settings.load_profile(profile)
    config.stash[_GUARD] = blockbuster.BlockBuster(scanned_modules=GUARDED)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_GUARD].deactivate()


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed of sampled tests: --seed={config.option.seed}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays: the garbage collector walks over it neither now nor in any test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def _is_real(path: Path) -> bool:
    return REAL in path.parents


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    property_timeout = FULL_TIMEOUT if config.option.full else PROPERTY_TIMEOUT
    for item in items:
        is_real = _is_real(item.path)
        if is_real:
            item.add_marker(pytest.mark.real)
        if item.get_closest_marker("timeout") is not None:
            continue
        if is_real:
            item.add_marker(pytest.mark.timeout(REAL_TIMEOUT))
        elif hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.timeout(property_timeout))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A call of ours that blocks the loop fails the unit test that makes it, or the fixture."""
    guard = item.config.stash[_GUARD]
    if any(item.get_closest_marker(name) is not None for name in ("real", "may_block")):
        guard.deactivate()
    else:
        guard.activate()  # left so between unit tests: to put it on and off costs more than most of them


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The seed of this run; a test that samples derives its own generator from it."""
    value: int = pytestconfig.option.seed
    return value


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether long tests run whole rather than sampled."""
    value: bool = pytestconfig.option.full
    return value
