"""charts/gpu-quota: the template and its twin in Python make the same of every input."""

import random

import pytest

from tests.charts import quota_twin
from tests.charts.libraries import Library
from tests.charts.quota_rows import L40S, ROWS, Row
from tests.charts.rendering import Chart

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def library(chart: Chart, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(chart.helm, tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def rendered(library: Library):
    return library.render(ROWS)


def twin(row: Row):
    named = {
        name.removesuffix("-allocation-ratio").replace("-", "_"): float(ratio)
        for name, ratio in row.cluster.items()
    }
    return quota_twin.hard(row.quotas, frozenset(row.gpus), ratios=quota_twin.Ratios(**named))


@pytest.mark.parametrize("name", ROWS)
def test_the_template_renders_what_its_twin_says(rendered, name: str):
    assert rendered[name] == twin(ROWS[name])


def amount(dice: random.Random) -> str:
    """Return what looks like an amount, whole or not, small or large."""
    whole = "".join(dice.choices("0123456789", k=dice.randrange(8)))
    part = "".join(dice.choices("05", k=dice.randrange(6)))
    suffix = dice.choice([*"numkMGTPE", "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e"])
    if suffix == "e":
        suffix = f"{dice.choice('eE')}{dice.choice(['', '+', '-'])}{dice.randrange(22)}"
    return f"{dice.choice(['', '', '+', '-'])}{whole}{dice.choice(['', '.'])}{part}{suffix}"


def test_amounts_at_random_come_out_the_same(library: Library, seed: int):
    dice = random.Random(f"amounts {seed}")
    rows = {text: Row({L40S: text}, (L40S,)) for text in (amount(dice) for _ in range(400))}
    assert library.render(rows) == {text: twin(row) for text, row in rows.items()}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"resourceQuotas": {"limits": {"cpu": "1"}}},
            "resourceQuotas[limits]: quotas are one flat map",
        ),
        ({"gpu": {"resourceNames": L40S}}, "gpu.resourceNames: a list of resource names is needed"),
        ({"gpu": {"resourceNames": {L40S: 1}}}, "gpu.resourceNames: a list of resource names"),
        (
            {"_cluster": {"cpu-allocation-ratio": "0"}},
            '_cluster.cpu-allocation-ratio is "0": a number above 0 is needed',
        ),
        (
            {"_cluster": {"memory-allocation-ratio": "twice"}},
            '_cluster.memory-allocation-ratio is "twice": a number above 0 is needed',
        ),
    ],
    ids=str,
)
def test_what_cannot_be_rendered_is_said_with_its_name(library: Library, values, said: str):
    quotas = {"cpu": "1", "memory": "1Gi"}
    assert said in library.refusal({"resourceQuotas": quotas, **values})
