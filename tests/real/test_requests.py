"""VMs under `binding: request`: the stories of the gate, and starts that are refused rather than left waiting."""

import asyncio
import contextlib

import pytest
import pytest_asyncio

from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real import vm_site as vms
from tests.real.test_vm_faults import (  # noqa: F401 -- both ways pass the same stories
    test_a_cordon_leaves_a_running_guest_and_its_claim_follows_its_stop,
    test_a_drain_moves_what_a_vm_that_is_off_holds_and_it_starts_there,
    test_a_forced_migration_takes_the_claim_along,
)
from tests.real.test_vm_lives import (  # noqa: F401
    test_a_guest_that_crashes_starts_again_on_the_same_node,
    test_a_restart_keeps_node_and_claim_under_a_new_instance,
    test_a_vm_that_is_deleted_and_made_anew_at_once_has_its_claim_again,
    test_an_edit_of_a_running_vm_counts_from_its_next_start,
    test_one_of_two_vms_that_race_for_a_claim_gets_it,
)
from tests.real.test_vm_rejections import (  # noqa: F401
    test_a_held_claim_moves_away_from_the_node_whose_plugin_refused_and_notes_it,
    test_a_vm_that_its_node_refuses_starts_elsewhere_by_itself_and_the_node_takes_others,
)
from tests.real.test_vm_story import (  # noqa: F401
    test_a_held_claim_and_units_of_a_class_come_together_on_one_node,
    test_a_held_claim_stays_with_its_tenant_while_the_vm_is_off,
    test_a_second_vm_of_the_same_claim_is_refused_until_the_first_stops,
    test_units_of_a_class_are_held_from_start_to_end,
)
from tests.real.vm_site import ACME, GLOBEX, REPLICA_SETS, gates, guest, held, pins, to_node, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

ON = {"binding": "request"}
GRACE = 20
"""Seconds that a start's claims are left to it where its instance has not come: a create is made again in them."""
REQUEST = ("--binding=request", f"--attachment-grace={GRACE}")
FLAGS = (*vms.FLAGS, *REQUEST)
CPU = 64
"""Of each node, as the simulation makes it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    directory = tmp_path_factory.mktemp("requests")
    async with vms.opened(directory, flags=REQUEST, values=ON) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def site(plane):
    yield plane
    for node in vms.NODES:
        await plane.nodes.uncordon(node)
        await plane.nodes.set_allocatable(node, {"cpu": CPU})
        plane.sim.machine(node).refusals.clear()
    await plane.clear()


async def left(site, name):
    """What a start has left on a claim."""
    status = (await site.claim(ACME, name)).get("status") or {}
    return {key: status[key] for key in ("attachedTo", "bindRequest") if status.get(key)}


async def nothing_left(site, *names):
    """Wait until no template claim is there, and nothing of a start on claims."""

    async def clean():
        return not await site.of_templates() and not any([await left(site, it) for it in names])

    async def found():
        return [await site.of_templates(), *[await left(site, it) for it in names]]

    try:
        await sites.until(clean, vms.LATE, "nothing left of the start")
    except AssertionError as error:
        raise AssertionError(f"left of the start: {await found()}") from error


async def test_a_start_without_room_is_refused_on_the_vm_and_leaves_nothing(site):
    assert await site.hold("most", "l40s", 3) == "gpu-3"
    await site.hold("pair", "h100", 2)
    await site.make("late", [held("pair"), unit("l40s", "x"), unit("l40s", "y")])
    words = await site.refused("late", "l40s")
    assert 'webhook "vmis.gpu.cozystack.io" denied the request: VM late: ' in words
    assert not await site.found(kinds.VMIS, "late")
    await site.strategy("late", "Halted")
    await nothing_left(site, "pair")
    assert (await site.claim(ACME, "pair"))["status"]["phase"] == "Bound"


async def test_a_refused_vm_runs_once_there_is_room_and_it_is_started_again(site):
    await site.hold("most", "l40s", 4)
    await site.make("late", [unit("l40s")])
    await site.refused("late", "l40s")
    await site.stop("late")
    await site.give_back("most")
    await site.start("late")
    vmi = await site.runs("late")
    pod = await site.launcher("late")
    assert vmi["status"]["nodeName"] == "gpu-3"
    assert (gates(pod), pins(pod)) == ([], [to_node("gpu-3")])


async def test_a_budget_refuses_before_anybody_is_asked(site):
    await site.hold("all", "h100", 4)
    await site.make("more", [unit()])
    await site.refused("more", "gpu.cozystack.io/h100")
    await nothing_left(site, "all")


async def test_of_two_vms_that_race_for_the_last_unit_one_runs_and_one_is_refused(site):
    await site.hold("most", "l40s", 3)
    names = {"left", "right"}
    await asyncio.gather(*(site.make(name, [unit("l40s")]) for name in names))

    async def running():
        found = [await site.found(kinds.VMIS, name) for name in names]
        return [one for one in found if one.get("status", {}).get("phase") == "Running"]

    (winner,) = await sites.until(running, vms.LATE, "one of the two Running")
    (loser,) = names - {winner["metadata"]["name"]}
    await site.refused(loser, "l40s")
    assert not await site.found(kinds.VMIS, loser)
    assert await site.booked() == {"gpu-3": 4}


# What its launcher asks for beside units.


def asks(cpu):
    return {"resources": {"requests": {"cpu": cpu}}}


async def test_a_vm_is_pinned_to_the_one_node_that_takes_all_of_it(site):
    await site.nodes.set_allocatable("gpu-1", {"cpu": 8})
    there = {"kubernetes.io/hostname": "gpu-2"}
    await site.hold("c", "h100", 1)
    assert await site.bound(ACME, "c") == "gpu-1"
    await site.make("big", [], domain=guest(unit(), **asks("12")))
    await site.make("there", [unit()], nodeSelector=there)
    await site.make("moved", [], domain=guest(held("c"), **asks("12")))
    for name in ("big", "there", "moved"):
        assert (await site.runs(name))["status"]["nodeName"] == "gpu-2"
        pod = await site.launcher(name)
        assert (gates(pod), pins(pod)) == ([], [to_node("gpu-2")])
    assert await site.bound(ACME, "c") == "gpu-2"


async def test_a_vm_that_no_node_takes_is_refused_saying_what_it_lacks(site):
    await site.make("big", [], domain=guest(unit(), **asks("65")))
    await site.make("away", [unit()], nodeSelector={"kubernetes.io/hostname": "gpu-3"})
    words = await site.refused("big", "of 2 nodes: 2 lack CPU")
    assert "it asks for 65 CPU" in words
    await site.refused("away", "of 2 nodes: 2 are left out by its node selector")
    for name in ("big", "away"):
        await site.strategy(name, "Halted")
    await nothing_left(site)


# Asked without a start, and asked twice.


async def test_a_dry_run_writes_nothing(site):
    await site.hold("c", "h100", 1)
    before = await site.claims()
    vmi = starts.a_vmi("web", [held("c"), unit(entry="more")], namespace=ACME)
    vmi["spec"]["domain"]["memory"] = {"guest": "64Mi"}
    told = await starts.created(site, vmi, dry_run=True)
    assert [it["deviceName"] for it in told["spec"]["domain"]["devices"]["gpus"]] == [vms.H100] * 2
    assert "affinity" not in told["spec"]
    await site.hold("most", "h100", 3)
    after = await site.claims()
    with pytest.raises(errors.Forbidden, match=r"gpu\.cozystack\.io/h100"):
        await starts.created(site, vmi, dry_run=True)  # its budget is used up
    assert [it for it in after if it["metadata"]["name"] == "c"] == before
    assert await site.claims() == after


async def test_a_create_that_is_made_again_is_admitted_without_a_new_request(site):
    """KubeVirt refuses the first one after our webhook has had it bound."""
    vmi = starts.a_vmi("web", [unit()], namespace=ACME)
    vmi["spec"]["domain"] |= {"memory": {"guest": "64Mi"}}
    vmi["spec"]["domain"]["devices"]["disks"] = [{"name": "none", "disk": {}}]
    with pytest.raises(errors.Invalid, match="disks"):
        await starts.created(site, vmi)
    (claim,) = await site.of_templates()
    first = claim["status"]["bindRequest"]
    assert (first["result"], claim["status"]["phase"]) == ("Succeeded", "Bound")
    del vmi["spec"]["domain"]["devices"]["disks"]
    await starts.created(site, vmi)
    await site.runs("web")
    (claim,) = await site.of_templates()
    assert claim["status"]["bindRequest"] == first
    pod = await site.launcher("web")
    assert pins(pod) == [to_node(claim["status"]["nodeName"])]


async def test_an_instance_without_a_name_is_refused_saying_why(site):
    body = {
        "metadata": {"name": "farm", "namespace": ACME},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"set": "farm"}},
            "template": {"metadata": {"labels": {"set": "farm"}}, **vms.a_template([unit()])},
        },
    }
    await site.admin.create(REPLICA_SETS, body)

    async def said():
        found = (await site.found(REPLICA_SETS, "farm")).get("status") or {}
        return next((it["message"] for it in found.get("conditions") or []), "")

    words = await sites.until(said, vms.LATE, "the refusal")
    assert "held for a VM by its name before it is started" in words


async def test_a_start_moves_what_is_held_on_a_cordoned_node(site):
    assert await site.hold("c", "h100", 2) == "gpu-1"
    await site.nodes.cordon("gpu-1")
    await site.make("web", [held("c")])
    assert (await site.runs("web"))["status"]["nodeName"] == "gpu-2"
    assert await site.bound(ACME, "c") == "gpu-2"


async def test_what_a_webhook_that_was_killed_has_written_goes_by_itself(site):
    """The leader stands still meanwhile, so the claims are attached and asked for and never answered."""
    await site.hold("c", "h100", 1)
    await site.product.stop()
    await site.product.start("leader", flags=(*FLAGS, "--attachment-grace=5"))
    await sites.until(lambda: leads(site, "leader"), vms.LATE, "the other replica leads")
    await site.product.start(flags=FLAGS)
    site.product.freeze("leader")
    try:
        await site.make("web", [held("c"), unit(entry="more")])

        async def asked():
            found = [
                await left(site, "c"),
                *[it.get("status", {}) for it in await site.of_templates()],
            ]
            return len(found) == 2 and all("bindRequest" in it for it in found)

        await sites.until(asked, vms.LATE, "the request on both claims")
        site.product.kill()
    finally:
        site.product.thaw("leader")
    await site.strategy("web", "Halted")
    await nothing_left(site, "c")
    await site.product.stop("leader")
    await site.product.start(flags=FLAGS)
    await site.start("web")
    await site.runs("web")


async def leads(site, identity):
    """Say whether a replica leads."""
    with contextlib.suppress(KeyError):
        found = await site.admin.get(kinds.GPU_BINDERS, "binder")
        return found["status"]["holder"] == identity
    return False


async def changed(site, binding):
    """Have the product run anew under the other `binding`, as an upgrade that changes the value does."""
    await site.product.stop()
    await site.product.configure({"binding": binding})
    await site.product.start(flags=(*vms.FLAGS, f"--binding={binding}"))
    await sites.until(lambda: leads(site, "replica-1"), vms.LATE, "the product leads again")


async def test_a_vm_that_runs_does_not_notice_that_binding_is_changed_and_changed_back(site):
    await site.hold("c", "h100", 2)
    await site.make("asked", [held("c"), unit(entry="more")])
    asked = await site.runs("asked")
    await changed(site, "gate")
    await site.make("gated", [unit("l40s")])
    gated = await site.runs("gated")
    await site.hold("rest", "l40s", 3, tenant=GLOBEX)
    await site.make("waits", [unit("l40s")])
    await site.gated("waits")
    await changed(site, "request")
    await site.give_back("rest", GLOBEX)
    await site.runs("waits")  # at the gate since before
    for name, vmi in (("asked", asked), ("gated", gated)):
        assert (await site.runs(name))["metadata"]["uid"] == vmi["metadata"]["uid"]
    assert await site.user("c") == "asked"
    assert {it["metadata"]["ownerReferences"][0]["name"] for it in await site.of_templates()} == {
        "asked",
        "gated",
        "waits",
    }
    for name in ("asked", "gated", "waits"):
        await site.stop(name)
    await nothing_left(site)
    await site.start("gated")
    again = await site.runs("gated", but=gated["metadata"]["uid"])
    assert again["status"]["nodeName"] == "gpu-3"
