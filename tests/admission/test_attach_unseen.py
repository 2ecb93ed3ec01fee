"""A start that takes over what was promised to one that left no trace: it takes the doubt along."""

import pytest

from gpu import keys
from gpu.cluster import errors
from gpu.errors import DecodeError
from gpu.model.signs import UNSEEN
from gpu.objects import kinds
from tests import builders
from tests.admission.attaching_site import Site, ids
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


def a_launcher(site, *, vm="vm", uid="p", phase="Running", **spec):
    raw = builders.raw_pod("launcher", uid=uid, on="n1", phase=phase, **spec)
    raw["metadata"]["labels"] = {"kubevirt.io": "virt-launcher"}
    kind = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance"}
    raw["metadata"]["ownerReferences"] = [kind | {"name": vm, "uid": "u-old", "controller": True}]
    site.api.put(kinds.PODS, raw)


@pytest.mark.parametrize(
    ("pod", "is_spent"),
    [
        ({}, True),
        ({"vm": "another"}, False),
        ({"phase": "Succeeded"}, False),
        ({"gates": [keys.PLACEMENT_GATE]}, False),
        (None, False),
    ],
    ids=["its launcher runs", "another's", "it has ended", "at the gate", "none is there"],
)
async def test_an_id_that_a_vmi_had_which_came_and_went_unseen_is_spent(pod, is_spent):
    """Its launcher would run on beside the next one, both with the units of one claim."""
    site = Site()
    promised(site, since=0, admission="id-old")
    if pod is not None:
        a_launcher(site, **pod)
    response = await site.start()
    assert ids(response) == {"c": "id-0" if is_spent else "id-old"}
    pods = {it["uid"]: it["node"] for it in site.attached()["pods"]}
    assert pods.get("p") == ("n1" if is_spent else None)
    (claim,) = site.raw(kinds.GPU_CLAIMS)
    assert bool(claim["status"].get("bindRequest")) is not is_spent


@pytest.mark.parametrize("is_there", [True, False], ids=["a later VMI of it is there", "none is"])
async def test_who_takes_over_what_another_vm_was_promised_takes_its_launcher_along(is_there):
    """Nobody adopted that VMI in time. Is a later one of its name there, the launcher may be that one's."""
    site = Site()
    raw = builders.raw_claim("c", on="n1", attached=attachment("other", since=-100))
    told = {"id": "r1", "vmi": "other", "claims": ["c"], "requestedAt": builders.instant(-100)}
    raw["status"]["bindRequest"] = told | {"result": "Succeeded"}
    site.api.put(kinds.GPU_CLAIMS, raw)
    a_launcher(site, vm="other")
    if is_there:
        site.vmi("other", uid="u-later")
    assert (await site.start())["allowed"]
    uids = {pod["uid"] for pod in site.attached()["pods"]}
    assert ("p" in uids) is not is_there


def looks(site, *answers):
    """Have the next looks at pods end so: an error, or None for what is there."""
    left, list_all = list(answers), site.api.list_all

    async def looked(kind, namespace=None, **which):
        error = left.pop(0) if kind == kinds.PODS and left else None
        if error is not None:
            raise error
        return await list_all(kind, namespace, **which)

    site.api.list_all = looked
    return left


async def test_a_look_at_pods_that_got_no_answer_is_made_again():
    site = Site()
    promised(site, since=0, admission="id-old")
    a_launcher(site)
    left = looks(site, errors.Unreachable("the line was cut", sent=True))
    assert ids(await site.start()) == {"c": "id-0"}
    assert left == []


async def test_a_launcher_that_cannot_be_read_refuses_the_start_in_words_and_nothing_is_written():
    site = Site()
    promised(site, since=0, admission="id-old")
    before = site.raw(kinds.GPU_CLAIMS)
    looks(site, DecodeError("spec", "cannot be read"))
    response = await site.start()
    assert not response["allowed"]
    assert "cannot be read" in response["status"]["message"]
    assert "try again" in response["status"]["message"]
    assert site.raw(kinds.GPU_CLAIMS) == before
