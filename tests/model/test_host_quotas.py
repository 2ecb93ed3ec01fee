"""The host's recorded answers to quota writes, through our gate: they agree, or a row says why not."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from gpu.model import grant_words, grants
from gpu.model.grants import Change, TooMuch
from gpu.units import TenantName
from tests.builders import (
    L40,
    a_class,
    a_kubevirt,
    a_node,
    a_pod,
    a_release,
    a_settings,
    a_snapshot,
)

ROWS: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "quota_gate.json").read_text(encoding="utf-8")
)["rows"]
AGREED: Final = [row for row in ROWS if row["host"]["accepts"] == row["ours"]["accepts"]]


def ruling(row):
    found = a_snapshot(
        classes=[a_class("gold", resource="nvidia.com/GOLD")],
        nodes=[a_node(units=8, resource=L40)],
        releases=[a_release(tenant, quotas) for tenant, quotas in row["declared"].items()],
        pods=[
            a_pod(tenant=tenant, units=units, resource=L40, on="n1")
            for tenant, units in row.get("pods", {}).items()
        ],
        kubevirts=[a_kubevirt(L40, "nvidia.com/GOLD")],
        settings=a_settings(L40, raw=True),
    )
    change = Change(tenant=TenantName(row["child"]), old=row.get("old", {}), new=row["new"])
    return grants.judge(found, change)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["case"])
def test_a_recorded_write_is_accepted_or_refused_as_its_row_says(row):
    assert (not ruling(row).objections) is row["ours"]["accepts"]


@pytest.mark.parametrize("row", AGREED, ids=lambda row: row["case"])
def test_an_amount_both_refuse_is_worded_as_the_host_words_it(row):
    ours = {
        one.key: f"Forbidden: {grant_words.words(one)}"
        for one in ruling(row).objections
        if isinstance(one, TooMuch)
    }
    host = row["host"].get("causes", {})
    assert ours == {key: host[key] for key in ours}


def test_every_difference_says_why():
    differing = [row for row in ROWS if row["host"]["accepts"] != row["ours"]["accepts"]]
    assert all(row.get("why") for row in differing)
    assert len(differing) == 15


def test_a_parent_lowered_below_its_children_is_warned_of():
    (row,) = [row for row in ROWS if row["case"] == "quota-shrink-parent-below-children"]
    (found,) = ruling(row).below
    assert (found.key, found.granted, found.held) == (L40, 1, 2)
