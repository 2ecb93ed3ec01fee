"""The process alone: it is measured without a control plane, and what it says is what happened."""

import pytest

from bench import lag, lone
from bench.figures import Collected
from gpu.objects import kinds

pytestmark = pytest.mark.long  # a short bench


async def test_a_short_round_binds_orders_and_reads_lists_while_passes_run():
    got = Collected()
    await lag.measure(1, 300, lambda _: None, got, seconds=0.5)
    found = {figure.name.partition(",")[0]: figure for figure in got.figures()}
    assert set(found) == {
        "event-loop lag",
        "LIST options",
        "GET option",
        "LIST gpuoffers",
        "/healthz",
        "order to Bound",
        "pass",
    }
    assert min(figure.spread.count for figure in found.values()) > 0
    assert {name for name, figure in found.items() if figure.goal is not None} == {
        "event-loop lag",
        "LIST options",
        "LIST gpuoffers",
    }


async def test_a_process_that_ends_early_is_told_with_its_status(monkeypatch):
    monkeypatch.setattr(lag.lone, "__name__", "bench.no_such_module")
    with pytest.raises(RuntimeError, match=r"bench\.no_such_module ended early, with status 1"):
        await lag.measure(1, 300, lambda _: None, Collected(), seconds=0.5)


async def test_the_house_has_as_many_bound_claims_as_were_asked_for_on_nodes_with_room():
    plane = lone.full(300)
    stored = (await plane.list(kinds.GPU_CLAIMS)).items
    nodes = [claim["status"]["nodeName"] for claim in stored]
    assert len(nodes) == 300
    assert {node: nodes.count(node) for node in nodes} == {
        "node-000": 128,
        "node-001": 128,
        "node-002": 44,
    }
