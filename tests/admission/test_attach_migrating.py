"""A start that takes a claim over whose VMI was forced away in the middle of a live migration."""

import pytest

from gpu import keys
from gpu.objects import kinds
from tests import builders
from tests.admission.attaching_site import Site
from tests.admission.requesting_site import RequestSite
from tests.builders import attachment

pytestmark = pytest.mark.looptime
TARGET = {"kubevirt.io": "virt-launcher", "kubevirt.io/migrationJobUID": "job"}


def a_target(site, *, uid="q", owner="u-old", vm="vm", labels=TARGET, node="n2", **spec):
    """The target of a migration that no leader has noted; its source is pod p."""
    raw = builders.raw_pod(f"target-{uid}", uid=uid, on=node, **{"phase": "Running", **spec})
    raw["metadata"]["labels"] = labels
    kind = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance"}
    raw["metadata"]["ownerReferences"] = [kind | {"name": vm, "uid": owner, "controller": True}]
    site.api.put(kinds.PODS, raw)


def held(site, name="c", *, vm="vm", ended=(), **more):
    """A claim that the VMI of uid u-old has, or had."""
    pods = more.pop("pods", {"p": "n1"})
    site.claim(name, attached=attachment(vm, uid="u-old", pods=pods, ended=ended, **more))


def promised(site):
    """The same of a VMI that was granted its node, its launcher noted."""
    raw = builders.raw_claim(
        "c", on="n1", attached=attachment("vm", uid="u-old", pods={"p": "n1"}, launched=True)
    )
    told = {"id": "r1", "vmi": "vm", "claims": ["c"], "requestedAt": builders.instant()}
    raw["status"]["bindRequest"] = told | {"result": "Succeeded"}
    site.api.put(kinds.GPU_CLAIMS, raw)


def left(site, name="c"):
    return {pod["uid"]: pod["node"] for pod in site.attached(name)["pods"]}


@pytest.mark.parametrize("vmi", [None, {}, {"active": {"p": "n1", "q": "n2"}}])
async def test_the_next_start_takes_the_target_along_once_whether_its_vmi_lists_it_or_not(vmi):
    site = Site()
    held(site)
    a_target(site)
    if vmi is not None:
        site.vmi(uid="u-old", deleting=True, **{"active": {"p": "n1"}, **vmi})
    assert (await site.start())["allowed"]
    assert left(site) == {"p": "n1", "q": "n2"}
    assert "uid" not in site.attached()


async def test_so_does_a_start_of_another_vm():
    site = Site()
    held(site, vm="other")
    a_target(site, vm="other")
    assert (await site.start())["allowed"]
    assert left(site) == {"p": "n1", "q": "n2"}


async def test_each_claim_of_a_start_takes_it_along_and_pods_are_listed_once():
    site = Site()
    for name in ("c", "d"):
        held(site, name)
    a_target(site)
    listed, list_all = [], site.api.list_all

    async def counted(kind, namespace=None, **which):
        listed.append((kind.plural, which))
        return await list_all(kind, namespace, **which)

    site.api.list_all = counted
    assert (await site.start("vm", "c", "d"))["allowed"]
    assert [left(site, name) for name in ("c", "d")] == [{"p": "n1", "q": "n2"}] * 2
    assert listed == [("pods", {"label_selector": "kubevirt.io/migrationJobUID"})]


async def test_so_does_one_that_asks_for_a_node_first():
    site = RequestSite()
    promised(site)
    a_target(site)
    async with site.binder():
        assert (await site.start())["allowed"]
    assert left(site) == {"p": "n1", "q": "n2"}


@pytest.mark.parametrize(
    "pod",
    [
        {"phase": "Succeeded"},
        {"owner": "u-later"},
        {"vm": "other"},
        {"labels": {"kubevirt.io": "virt-launcher"}},
        {"labels": {"kubevirt.io/migrationJobUID": "job"}},
        {"node": None, "phase": "Pending", "gates": [keys.PLACEMENT_GATE]},
    ],
    ids=["ended", "another start's", "another VM's", "no target", "no launcher", "at the gate"],
)
async def test_other_pods_stay_behind(pod):
    site = Site()
    held(site)
    if pod.get("vm") == "other":
        pod = {**pod, "owner": "u-other"}
    a_target(site, **pod)
    assert (await site.start())["allowed"]
    assert left(site) == {"p": "n1"}


async def test_one_that_comes_between_two_looks_is_taken_along_as_well():
    """The first write of the attachment meets a conflict; the target is there by then."""
    site = Site()
    held(site)
    patch = site.api.patch

    async def patched(kind, *args, **how):
        if not site.raw(kinds.PODS):
            a_target(site)
            held(site)  # a version more
        return await patch(kind, *args, **how)

    site.api.patch = patched
    assert (await site.start())["allowed"]
    assert left(site) == {"p": "n1", "q": "n2"}


async def test_a_claim_whose_vmi_was_never_adopted_takes_no_look_at_pods():
    site = Site()
    site.claim(attached=attachment("vm", since=-100))
    site.api.list_all = None
    assert (await site.start())["allowed"]
