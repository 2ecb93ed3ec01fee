"""Starts on a real control plane: VMIs and launchers as KubeVirt and the webhooks leave them."""

import contextlib
import uuid
from dataclasses import dataclass

import pytest
import pytest_asyncio

from devcluster import guests
from gpu import keys
from gpu.cluster import errors
from gpu.model import template_claims
from gpu.objects import kinds, kubevirt, pods
from tests.real import site as sites
from tests.real.site import H100

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

T = "tenant-a"
LATE = 45.0
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Gated:
    """A VMI and its launcher, as created."""

    name: str
    uid: str
    pod: str
    pod_uid: str

    def template(self, name="h100"):
        return template_claims.name_of(self.uid, name)


class Stage:
    """One tenant's VMs on the site."""

    def __init__(self, site):
        self.site = site
        self.kubevirt = site.admin.acting_as(guests.KUBEVIRT, ["system:masters"])

    async def start(self, name, *, held=(), units=None, **more):
        """The same as `begin`, and the VMI lists its launcher."""
        return await self.report(await self.begin(name, held=held, units=units, **more))

    async def begin(self, name, *, held=(), units=None, asks=None, spec=None, noted=True):
        """Attach as the webhook does, then VMI and gated launcher as KubeVirt makes them."""
        admissions = {}
        for claim in held:
            await self.free(claim)
            admissions[claim] = uuid.uuid4().hex[:16]
            attached = {"name": name, "admission": admissions[claim], "since": now()}
            patch = {"status": {"attachedTo": attached}}
            await self.kubevirt.patch(kinds.GPU_CLAIMS, claim, patch, T, subresource="status")
        resolved = kubevirt.format_resolved(admissions, units or {})
        notes = {keys.RESOLVED_CLAIMS_ANNOTATION: resolved} if noted else {}
        meta = {"name": name, "namespace": T, "annotations": notes}
        vmi = await self.kubevirt.create(kinds.VMIS, {"metadata": meta, "spec": {"domain": {}}})
        uid = vmi["metadata"]["uid"]
        amount = sum((units or {}).values()) if asks is None else asks
        pod = await self.launcher(name, uid, amount, spec or {})
        return Gated(name, uid, pod["name"], pod["uid"])

    async def free(self, claim):
        """Wait until a claim is attached to nothing: what stands for the webhook here takes over from nobody."""

        async def so():
            return "attachedTo" not in await self.status(claim)

        await sites.until(so, LATE, f"{claim} attached to nothing")

    async def report(self, gated, phase="Scheduling", **more):
        status = {"phase": phase, "activePods": {gated.pod_uid: ""}} | more
        await self.kubevirt.patch(kinds.VMIS, gated.name, {"status": status}, T)
        return gated

    async def launcher(self, name, uid, units, spec):
        amounts = {H100: str(units)} if units else {}
        compute = {
            "name": "compute",
            "image": "none.invalid/none",
            "resources": {"requests": amounts, "limits": amounts},
        }
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": name}
        body = {
            "metadata": {
                "generateName": f"virt-launcher-{name}-",
                "namespace": T,
                "labels": {
                    pods.LAUNCHER_LABEL: pods.LAUNCHER_VALUE,
                    pods.CREATED_BY_LABEL: uid,
                },
                "ownerReferences": [owner | {"uid": uid, "controller": True}],
            },
            "spec": {
                "schedulingGates": [{"name": keys.PLACEMENT_GATE}],
                "automountServiceAccountToken": False,
                "containers": [compute],
                **spec,
            },
        }
        return (await self.kubevirt.create(kinds.PODS, body))["metadata"]

    async def pod(self, gated):
        return await self.site.admin.get(kinds.PODS, gated.pod, T)

    async def runs_on(self, gated, within=sites.BEFORE_RESYNC):
        """Wait until kube-scheduler has bound the launcher; return its node."""

        async def node():
            return (await self.pod(gated))["spec"].get("nodeName")

        return await sites.until(node, within, f"launcher of {gated.name} bound")

    async def told(self, gated, reason, within=sites.BEFORE_RESYNC):
        """Wait for an Event on the VMI; return its note."""

        async def note():
            listing = await self.site.admin.list_all(kinds.EVENTS, T)
            return next(
                (
                    it["note"]
                    for it in listing.items
                    if it["regarding"].get("uid") == gated.uid and it["reason"] == reason
                ),
                "",
            )

        return await sites.until(note, within, f"Event {reason} on VMI {gated.name}")

    async def waits(self, gated):
        spec = (await self.pod(gated))["spec"]
        return [it["name"] for it in spec.get("schedulingGates", [])] == [keys.PLACEMENT_GATE]

    async def status(self, claim):
        return (await self.site.claim(T, claim)).get("status") or {}

    async def stop(self, gated):
        """End it at the gate or on a node, as KubeVirt does."""
        admin = self.site.admin
        for kind, name in ((kinds.PODS, gated.pod), (kinds.VMIS, gated.name)):
            if kind == kinds.PODS:
                over = {"status": {"phase": "Succeeded"}}
                await admin.patch(kind, name, over, T, subresource="status")
                await self.kubevirt.patch(
                    kinds.VMIS, gated.name, {"status": {"phase": "Succeeded"}}, T
                )
            await admin.delete(kind, name, T, grace_period=0)


def now():
    return sites.now().strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(binaries_built, tmp_path_factory):
    directory = tmp_path_factory.mktemp("gates")
    async with sites.opened(directory, flags=sites.STEADY, guarded_owners=True) as opened:
        await opened.offer("h100")
        await opened.tenant(T, h100=8)
        await opened.shown(T, "h100", h100=8)
        await opened.cp.namespace_ready(T)
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def stage(plane):
    """Two nodes, n1 with 2 units and n2 with 4; everything else is gone afterwards.

    Orders are judged by what is known of nodes: those that were added, and no more those of before.
    """
    await plane.node("n1", 2)
    await plane.node("n2", 4)
    await plane.class_has("h100", 6)
    made = Stage(plane)
    yield made
    admin = plane.admin
    for kind in (kinds.PODS, kinds.VMIS):
        for item in (await admin.list_all(kind, T)).items:
            with contextlib.suppress(errors.NotFound):  # the leader was faster
                await admin.delete(kind, item["metadata"]["name"], T, grace_period=0)
    for node in (await admin.list_all(kinds.NODES)).items:
        await plane.nodes.remove(node["metadata"]["name"])
    for claim in await plane.claims():
        try:
            await admin.delete(kinds.GPU_CLAIMS, claim["metadata"]["name"], T)
        except errors.NotFound:
            continue
    for claim in await plane.claims():
        await plane.gone(T, claim["metadata"]["name"], LATE)
    await plane.class_has("h100", 0)


async def hold(stage, name, node, count=1):
    await stage.site.order(T, name, "h100", count)
    assert await stage.site.bound(T, name) == node


async def test_template_units_are_claimed_and_the_scheduler_binds_the_launcher(stage):
    vm = await stage.start("one", units={"h100": 2})
    assert await stage.runs_on(vm) == "n1"
    claim = await stage.site.claim(T, vm.template())
    assert (claim["status"]["phase"], claim["status"]["nodeName"]) == ("Bound", "n1")
    assert claim["status"]["attachedTo"]["uid"] == vm.uid
    assert claim["status"]["attachedTo"]["pods"] == [{"uid": vm.pod_uid, "node": "n1"}]
    assert claim["metadata"]["ownerReferences"][0]["uid"] == vm.uid
    assert await stage.told(vm, "Pinned")


async def test_a_launcher_goes_where_its_held_claims_are(stage):
    await hold(stage, "a", "n1")
    vm = await stage.start("two", held=["a"], asks=1)
    assert await stage.runs_on(vm) == "n1"


async def test_all_is_held_before_the_vmi_lists_its_launcher_which_is_let_through_after(stage):
    await hold(stage, "a", "n1")
    vm = await stage.begin("early", held=["a"], units={"h100": 1}, asks=2)

    async def held():
        noted = [(await stage.status(it)).get("attachedTo", {}) for it in ("a", vm.template())]
        return all(it.get("pods") == [{"uid": vm.pod_uid, "node": "n1"}] for it in noted)

    await sites.until(held, sites.BEFORE_RESYNC, "both claims note the launcher")
    assert (await stage.status(vm.template()))["phase"] == "Bound"
    assert await stage.waits(vm)
    await stage.report(vm)
    assert await stage.runs_on(vm) == "n1"


async def test_what_is_held_for_a_launcher_that_is_never_listed_is_given_back_at_once(stage):
    """No node had it: nobody waits for one to have looked."""
    await hold(stage, "a", "n1")
    vm = await stage.begin("never", held=["a"])

    async def is_noted():
        return (await stage.status("a")).get("attachedTo", {}).get("pods")

    await sites.until(is_noted, sites.BEFORE_RESYNC, "the claim notes the launcher")
    for kind, name in ((kinds.PODS, vm.pod), (kinds.VMIS, vm.name)):
        await stage.site.admin.delete(kind, name, T, grace_period=0)
    await stage.free("a")
    assert (await stage.status("a"))["nodeName"] == "n1"


async def test_a_set_is_gathered_where_its_template_units_have_room_too(stage):
    await hold(stage, "a", "n1")
    vm = await stage.start("three", held=["a"], units={"h100": 2}, asks=3)
    assert await stage.runs_on(vm) == "n2"
    status = await stage.status("a")
    assert (status["nodeName"], status["displaced"]["cause"]) == ("n2", "SetTorn")


async def test_every_term_of_a_node_affinity_is_narrowed(stage):
    terms = [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "no-such-label", "operator": "Exists"}]},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    vm = await stage.start("four", units={"h100": 1}, spec={"affinity": affinity})
    await stage.told(vm, "Pinned")
    spec = (await stage.pod(vm))["spec"]
    found = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    node = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    assert found == [{**term, "matchFields": node} for term in terms]


async def test_a_vm_that_finds_no_room_waits_uses_no_budget_and_starts_when_there_is(stage):
    vm = await stage.start("five", units={"h100": 5})
    note = await stage.told(vm, "NoNodeAccepts")
    assert "5 units of class h100" in note
    await hold(stage, "a", "n2", 4)
    await stage.site.node("n3", 5)
    await stage.told(vm, "OverBudget", within=LATE)
    assert await stage.waits(vm)
    await stage.site.admin.delete(kinds.GPU_CLAIMS, "a", T)
    assert await stage.runs_on(vm, within=LATE) == "n3"


async def test_a_held_claim_whose_pod_fits_nowhere_says_so_until_it_does(stage):
    await hold(stage, "a", "n1")
    vm = await stage.start("six", held=["a"], asks=1, spec={"nodeSelector": {"disk": "fast"}})
    await stage.told(vm, "PodFitsNowhere")

    async def says(wanted):
        found = (await stage.status("a"))["conditions"]
        return {it["type"]: it["reason"] for it in found if it["status"] == "True"} == wanted

    waits = {"Bound": "Placed", "Waiting": "PodFitsNowhere"}
    await sites.until(lambda: says(waits), LATE, f"a says {waits}")
    await stage.site.admin.patch(kinds.NODES, "n1", {"metadata": {"labels": {"disk": "fast"}}})
    assert await stage.runs_on(vm, within=LATE) == "n1"
    await sites.until(lambda: says({"Bound": "Placed"}), LATE, "a waits no more")


async def test_a_claim_of_another_vm_is_waited_for(stage):
    await hold(stage, "a", "n1")
    first = await stage.start("first", held=["a"], asks=1)
    assert await stage.runs_on(first) == "n1"
    attached = (await stage.status("a"))["attachedTo"]
    second = await stage.start("second", units={}, asks=0, noted=False)
    resolved = kubevirt.format_resolved({"a": "stolen"}, {})
    patch = {"metadata": {"annotations": {keys.RESOLVED_CLAIMS_ANNOTATION: resolved}}}
    await stage.kubevirt.patch(kinds.VMIS, "second", patch, T)
    assert (await stage.status("a"))["attachedTo"] == attached
    third = await stage.start("third", units={"h100": 1})
    await stage.runs_on(third)
    assert (await stage.status("a"))["attachedTo"]["uid"] == first.uid
    assert second.uid not in str(await stage.status("a"))


async def test_a_stopped_vms_template_claim_goes_and_its_units_come_back(stage):
    vm = await stage.start("seven", units={"h100": 2})
    await stage.runs_on(vm)
    await stage.stop(vm)
    await stage.site.gone(T, vm.template(), LATE)
    again = await stage.start("seven", units={"h100": 2})
    assert await stage.runs_on(again, within=LATE) == "n1"


async def test_a_launcher_that_references_nothing_is_let_go_as_it_is(stage):
    vm = await stage.start("eight")
    assert await stage.told(vm, "Ungated")
    assert "affinity" not in (await stage.pod(vm))["spec"]
    assert await stage.runs_on(vm) in {"n1", "n2"}


async def test_a_raw_launcher_waits_where_raw_names_are_denied(stage):
    vm = await stage.start("nine", asks=1)
    assert "denies" in await stage.told(vm, "RawNameDenied")
    assert await stage.waits(vm)


async def test_the_older_of_two_that_race_for_one_place_gets_it(stage):
    await hold(stage, "a", "n2", 4)
    first = await stage.start("older", units={"h100": 2})
    assert await stage.runs_on(first) == "n1"
    second = await stage.start("younger", units={"h100": 2})
    await stage.told(second, "NoFreeUnits")
    assert await stage.waits(second)
    assert await stage.site.booked() == {"n1": 2, "n2": 4}


async def switched(stage, *flags):
    """Start the product anew with other flags; nobody is told that it goes."""
    await stage.site.product.stop()
    await stage.site.product.start(flags=(*sites.STEADY, *flags))


async def says_enabled(stage, status):
    """Wait for GPUBinder's condition Enabled; return its message."""

    async def message():
        binder = await stage.site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
        found = {it["type"]: it for it in binder["status"]["conditions"]}
        enabled = found.get("Enabled", {})
        return enabled["message"] if enabled.get("status") == status else ""

    return await sites.until(message, sites.LATE, f"Enabled={status}")


async def test_switched_off_and_on_again_with_vms_at_the_gate(stage):
    await hold(stage, "a", "n1")
    runs = await stage.start("runs", held=["a"], asks=1)
    assert await stage.runs_on(runs) == "n1"
    waits = await stage.start("waits", units={"h100": 5})
    await stage.told(waits, "NoNodeAccepts")
    await switched(stage, "--no-enabled")
    try:
        fits = await stage.start("fits", units={"h100": 1})

        async def counted():
            return "2 pods wait at the gate and stay" in await says_enabled(stage, "False")

        await sites.until(counted, sites.LATE, "both launchers counted")
        assert [await stage.waits(it) for it in (waits, fits)] == [True, True]
        assert (await stage.status("a"))["attachedTo"]["uid"] == runs.uid
        assert (await stage.site.booked()) == {"n1": 1}, "what is held stays held"
    finally:
        await switched(stage)
    assert await says_enabled(stage, "True")
    assert await stage.runs_on(fits) == "n1"
    assert await stage.waits(waits)
    await stage.site.node("n3", 5)
    assert await stage.runs_on(waits, within=LATE) == "n3"
    assert await stage.site.booked() == {"n1": 2, "n3": 5}


async def test_a_start_is_finished_by_the_next_leader(stage):
    await stage.site.product.stop(next(iter(stage.site.product.replicas)))
    vm = await stage.start("ten", units={"h100": 2})
    await stage.site.product.start("second", flags=sites.STEADY)
    assert await stage.runs_on(vm, within=LATE) == "n1"
