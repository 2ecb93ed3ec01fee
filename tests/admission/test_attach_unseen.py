"""A start that takes over what was promised to one that left no trace: it takes the doubt along."""

import pytest

from gpu.model.signs import UNSEEN
from gpu.objects import kinds
from tests import builders
from tests.admission.attaching_site import Site
from tests.builders import attachment

pytestmark = pytest.mark.looptime


def promised(site, **attached):
    """A claim that was promised n1 to a start of VM vm."""
    raw = builders.raw_claim("c", on="n1", attached=attachment("vm", **attached))
    raw["status"]["bindRequest"] = {
        "id": "r1",
        "vmi": "vm",
        "claims": ["c"],
        "requestedAt": builders.instant(),
        "result": "Succeeded",
    }
    site.api.put(kinds.GPU_CLAIMS, raw)


@pytest.mark.parametrize(
    ("attached", "stands"),
    [
        ({"uid": "u-old"}, True),
        ({"uid": "u-old", "launched": True}, False),
        ({"since": 0, "admission": "id-old"}, False),
    ],
    ids=["its VMI is gone", "its launcher was noted", "its VMI never came"],
)
async def test_the_next_start_takes_over_a_launcher_that_nobody_saw(attached, stands):
    site = Site()
    promised(site, **attached)
    assert (await site.start())["allowed"]
    found = site.attached()
    pods = [(pod["uid"].startswith(UNSEEN), pod["node"]) for pod in found["pods"]]
    assert pods == ([(True, "n1")] if stands else [])
    assert "launched" not in found
