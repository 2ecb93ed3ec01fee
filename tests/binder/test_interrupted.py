"""Every prefix of the writes of a pass, the last of them applied or not, a crash, then a new leader.

After it nothing is booked twice, no budget is exceeded, and as many orders are Bound as without the
interruption.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpu.cluster import errors
from gpu.config import Config
from gpu.objects import kinds
from gpu.ports import Outcome
from tests.binder import raws
from tests.binder.rig import Rig
from tests.fakes.cluster import FakeCluster, Fault


@dataclass
class Cut:
    """A line to the cluster that is cut at the `at`-th write: that one `executed` or not, no more."""

    cluster: FakeCluster
    at: int
    executed: bool
    sent: int = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.cluster, name)
        return self._write(found) if name in {"create", "patch", "apply", "delete"} else found

    def _write(self, send: Callable[..., Any]) -> Callable[..., Any]:
        async def write(*args: Any, **how: Any) -> Any:
            self.sent += 1
            if self.sent < self.at:
                return await send(*args, **how)
            if self.sent == self.at and self.executed:
                await send(*args, **how)
            raise errors.Unreachable("the line was cut", sent=True)

        return write


def orders(*counts: int, tenant: str = "tenant-a", **more: Any) -> list[raws.Raw]:
    return [
        raws.a_claim(f"{tenant[-1]}{n}", tenant=tenant, count=count, at=n, **more)
        for n, count in enumerate(counts)
    ]


@dataclass(frozen=True)
class Case:
    """A cluster at the moment a leader begins its pass."""

    nodes: dict[str, int]
    claims: list[raws.Raw]
    quotas: dict[str, int] = field(default_factory=dict)
    in_flight: int = 8


HELD = raws.a_claim("held", count=3, meta={"finalizers": ["gpu.cozystack.io/claim"]})
CASES = {
    "one order": Case({"n1": 8}, orders(1)),
    "room for all": Case({"n1": 8, "n2": 8}, orders(5, 5, 3)),
    "room for some": Case({"n1": 4, "n2": 4}, orders(4, 4, 4)),
    "one after the other": Case({"n1": 4, "n2": 4}, orders(4, 4, 4), in_flight=1),
    "a budget for some": Case({"n1": 8}, orders(2, 2, 2), {"total": 4}),
    "two tenants": Case({"n1": 4}, orders(2, 2) + orders(2, tenant="tenant-b")),
    "with holds": Case({"n1": 8}, [HELD | {"status": raws.bound("n1")}, *orders(5, 5)]),
    "with a deleted hold": Case(
        {"n1": 8},
        [raws.a_claim("old", count=8, meta=raws.DELETED, status=raws.bound("n1")), *orders(8)],
    ),
    "with a deleted order": Case({"n1": 8}, [raws.a_claim("old", meta=raws.DELETED), *orders(8)]),
    "too large for any node": Case({"n1": 4, "n2": 4}, orders(6, 4, 4)),
}


def a_rig(case: Case) -> Rig:
    pace = replace(Config().pace, sets_in_flight=case.in_flight)
    rig = Rig(config=Config(pace=pace))
    rig.store(
        classes=[raws.a_class(meta={"finalizers": []})],
        nodes=[raws.a_node(name, units=units) for name, units in case.nodes.items()],
        inventory=[raws.an_inventory(name) for name in case.nodes],
        namespaces=[raws.a_tenant(name) for name in ("tenant-root", "tenant-a", "tenant-b")],
        releases=[raws.a_release(**case.quotas)] if case.quotas else [],
        claims=case.claims,
    )
    return rig


def check(rig: Rig, case: Case) -> None:
    booked: Counter[str] = Counter()
    used = 0
    for raw in rig.cluster._objects.get(kinds.GPU_CLAIMS, {}).values():
        status = raw.get("status", {})
        if status.get("phase") == "Bound":
            booked[status["nodeName"]] += raw["spec"]["count"]
            used += raw["spec"]["count"] * (raw["metadata"]["namespace"] == "tenant-a")
    assert all(units <= case.nodes[node] for node, units in booked.items()), booked
    assert used <= case.quotas.get("total", used)


async def whole_run(case: Case) -> tuple[int, dict[str, str]]:
    """How many writes an uninterrupted run makes, and what is placed in the end."""
    rig = a_rig(case)
    await rig.until_still()
    check(rig, case)
    return len(rig.cluster.writes), rig.placed()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_whatever_is_cut_off_the_next_leader_makes_good(case):
    total, placed = await whole_run(case)
    assert total > 0
    for at in range(1, total + 1):
        for executed in (True, False):
            rig = a_rig(case)
            cut = Cut(rig.cluster, at, executed)
            rig.writer.api = cut  # type: ignore[assignment]  # a Writer by __getattr__
            for _ in range(4):
                report = await rig.once()
                if any(item.outcome is Outcome.UNKNOWN for item in report.failed):
                    break
            assert cut.sent >= at, f"write {at} of {total} was never sent"
            check(rig, case)
            heir = rig.next_leader(lag=True)
            await heir.view.begin()
            await heir.until_still()
            check(heir, case)
            assert heir.placed().keys() == placed.keys(), f"cut at write {at}, executed={executed}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_same_leader_goes_on_after_any_one_lost_reply(case):
    total, placed = await whole_run(case)
    for at in range(1, total + 1):
        for executed in (True, False):
            rig = a_rig(case)
            rig.lag = True
            rig.cluster.fail(Fault(at=at, executed=executed))
            for _ in range(12):
                report = await rig.once()
                check(rig, case)
                if not report.written and not report.failed:
                    break
            assert rig.placed().keys() == placed.keys(), f"lost at write {at}, executed={executed}"
