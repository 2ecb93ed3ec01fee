"""The VMI webhook on a real control plane: every form of a reference, every refusal, and races."""

import asyncio
import json

import pytest
import pytest_asyncio

from devcluster.errors import CommandError
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real.site import H100
from tests.real.start_site import L40, A, a_vmi, attached, claim, devices, gpu, record, unit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

B = "tenant-b"
CLAIMS = {"one": ("h100", 1), "three": ("h100", 3), "l": ("l40s", 2), "big": ("l40s", 5)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with starts.opened(tmp_path_factory.mktemp("vmi-webhook")) as opened:
        for name, (class_name, count) in CLAIMS.items():
            await opened.order(A, name, class_name, count)
        await opened.order(B, "theirs", "h100")
        for name in CLAIMS:
            await opened.bound(A, name)
        await opened.bound(B, "theirs")
        yield opened


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_runs(site):
    """Every test leaves no VMI behind and every claim to itself."""
    yield
    for raw in (await site.admin.list_all(kinds.VMIS)).items:
        meta = raw["metadata"]
        await site.admin.delete(kinds.VMIS, meta["name"], meta["namespace"])
    for raw in await site.claims():
        if (raw.get("status") or {}).get("attachedTo"):
            meta = raw["metadata"]
            await site.controller().patch(
                kinds.GPU_CLAIMS,
                meta["name"],
                {"status": {"attachedTo": None}},
                meta["namespace"],
                subresource="status",
            )


async def test_every_form_of_a_reference_becomes_units(site):
    body = a_vmi(
        "vm",
        [gpu("usb.io/x"), claim("one", tag="t"), unit()],
        hosts=[claim("l"), gpu("usb.io/y")],
        annotations={keys.CLAIMS_ANNOTATION: "three"},
    )
    made = await starts.created(site, body)
    assert devices(made) == [
        ("g", "usb.io/x"),
        *((f"gpuclaim-{number}", H100) for number in range(5)),
    ]
    assert devices(made, "hostDevices") == [
        ("gpuclaim-5", L40),
        ("gpuclaim-6", L40),
        ("g", "usb.io/y"),
    ]
    found = record(made)
    (admission,) = {it["admission"] for it in found if "claim" in it}
    assert found == [
        *({"claim": name, "admission": admission} for name in ("l", "one", "three")),
        {"class": "h100", "units": 1},
    ]
    assert len(admission) == 32
    for name in ("l", "one", "three"):
        now = await attached(site, name)
        assert (now["name"], now["admission"]) == ("vm", admission)


async def test_the_leader_adopts_the_vmi_that_carries_the_id(site):
    made = await starts.created(site, a_vmi("vm", [claim("one")]))
    assert await starts.adopted(site, "one") == made["metadata"]["uid"]


REFUSED = {
    "a claim that is not there": ([claim("no")], "claim no does not exist in tenant-a, and a VM "),
    "another tenant's claim": ([claim("theirs")], "claim theirs does not exist in tenant-a"),
    "a claim with a namespace": (
        [claim("tenant-b/theirs")],
        "tenant-b/theirs is no name of a claim",
    ),
    "a claim with a dot": ([claim("tenant-b.theirs")], "claim tenant-b.theirs does not exist in "),
    "a claim twice": ([claim("one"), claim("one")], "claim one is named 2 times: name it once"),
    "a class that is not there": ([unit("no")], "class no does not exist"),
    "a retired class": ([unit("old")], "class old is retired and takes no new orders"),
    "more units than a claim may have": (
        [unit()] * 5,
        "one claim of class h100 may have at most 4",
    ),
    "more units than a VM can have": (
        [unit()] * 257,
        "257 units asked, one VM can have at most 256",
    ),
    "a name that is reserved": ([gpu("usb.io/x", "gpuclaim-0")], "the name gpuclaim-0 is reserved"),
    "units nobody wrote": ([gpu(H100, "gpuclaim-0")], "the name gpuclaim-0 is reserved"),
    "a raw name": ([gpu(H100)], f"{H100} is a raw GPU resource name, and those are denied here"),
    "no form of ours": (
        [gpu("x.gpu.cozystack.io/one")],
        "x.gpu.cozystack.io/one refers to nothing",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_waiting_cannot_cure_is_refused(site, what):
    gpus, said = REFUSED[what]
    found = await starts.words(site, a_vmi("vm", gpus))
    assert found.startswith(f"{starts.VMIS_SAY}VM vm: ")
    assert said in found
    assert await attached(site, "one") is None


@pytest.mark.parametrize("part", ["limits", "requests"])
async def test_a_raw_name_among_amounts_is_refused(site, part):
    found = await starts.words(site, a_vmi("vm", resources={part: {H100: "1"}}))
    assert f"{H100} is a raw GPU resource name" in found


async def test_all_reasons_are_told_at_once_and_each_is_a_cause(site):
    body = a_vmi("vm", [claim("no"), unit("old"), gpu(H100)])
    with pytest.raises(errors.Forbidden) as caught:
        await starts.created(site, body)
    causes = [(cause.reason, cause.field) for cause in caught.value.details.causes]
    where = "spec.domain.devices.gpus[{}].deviceName"
    assert causes == [
        ("RawNameDenied", where.format(2)),
        ("ClaimMissing", where.format(0)),
        ("ClassRetired", where.format(1)),
    ]
    assert caught.value.details.name == "vm"


async def test_kubectl_prints_the_reasons(site):
    body = {"apiVersion": "kubevirt.io/v1", "kind": kinds.VMIS.kind, **a_vmi("vm", [claim("no")])}
    with pytest.raises(CommandError) as caught:
        await site.cp.kubectl("create", "--filename=-", stdin=json.dumps(body))
    assert str(caught.value).endswith(
        f'Error from server (Forbidden): error when creating "STDIN": {starts.VMIS_SAY}VM vm: claim no '
        "does not exist in tenant-a, and a VM uses claims of its own namespace only: order it, or "
        "name one that `kubectl get gpuclaims -n tenant-a` lists"
    )


async def test_a_dry_run_is_answered_alike_and_writes_nothing(site):
    made = await starts.created(site, a_vmi("vm", [claim("one")]), dry_run=True)
    assert devices(made) == [("gpuclaim-0", H100)]
    assert await attached(site, "one") is None
    body = a_vmi("vm", [claim("no")])
    assert await starts.words(site, body, dry_run=True) == await starts.words(site, body)


async def test_without_a_name_classes_work_and_claims_are_refused(site):
    made = await starts.created(site, a_vmi("vm-", [unit(), unit()]))
    assert record(made) == [{"class": "h100", "units": 2}]
    assert "it has no name yet (generateName)" in await starts.words(
        site, a_vmi("vm-", [claim("one")])
    )


async def test_a_claim_in_use_is_refused_until_its_vmi_goes(site):
    await starts.created(site, a_vmi("first", [claim("one")]))
    said = await starts.words(site, a_vmi("second", [claim("one")]))
    assert "claim one is used by VM first: stop first first, or name another claim" in said
    await starts.adopted(site, "one")
    await starts.stopped(site, "first")
    await starts.created(site, a_vmi("second", [claim("one")]))
    assert (await attached(site, "one"))["name"] == "second"


async def test_a_name_that_is_taken_is_told_as_taken_and_changes_nothing(site):
    await starts.created(site, a_vmi("vm", [claim("one")]))
    before = (await attached(site, "one"))["admission"]
    with pytest.raises(errors.AlreadyExists):
        await starts.created(site, a_vmi("vm", [claim("one")]))
    assert (await attached(site, "one"))["admission"] == before


async def test_a_restart_takes_the_claim_over_under_a_new_id(site):
    first = await starts.created(site, a_vmi("vm", [claim("one")]))
    await starts.adopted(site, "one")
    await starts.stopped(site, "vm")
    second = await starts.created(site, a_vmi("vm", [claim("one")]))
    assert record(first)[0]["admission"] != record(second)[0]["admission"]
    assert (await attached(site, "one"))["admission"] == record(second)[0]["admission"]


async def test_of_many_that_race_for_one_claim_exactly_one_gets_it(site):
    async def start(name):
        try:
            return await starts.created(site, a_vmi(name, [claim("three"), claim("one")]))
        except errors.Forbidden as error:
            return str(error)

    async def tried(name):  # again where there was no time to judge it, as KubeVirt does
        return await sites.until(lambda: start(name), 60, f"{name} started or refused")

    found = await asyncio.gather(*(tried(f"racer-{number}") for number in range(8)))
    (winner,) = [made for made in found if not isinstance(made, str)]
    said = [words for words in found if isinstance(words, str)]
    assert all("claim one is " in words or "claim three is " in words for words in said)
    for name in ("one", "three"):
        assert (await attached(site, name))["name"] == winner["metadata"]["name"]


async def test_a_claim_that_waits_for_units_is_attached_and_waits_at_the_gate(site):
    await site.admin.patch(kinds.NODES, "gpu-2", {"spec": {"unschedulable": True}})
    try:
        made = await starts.created(site, a_vmi("vm", [claim("big")]))
        assert len(devices(made)) == 5
    finally:
        await site.admin.patch(kinds.NODES, "gpu-2", {"spec": {"unschedulable": None}})


async def test_a_vmi_without_gpus_is_stored_as_it_came(site):
    body = a_vmi("plain", [gpu("usb.io/x")], annotations={"example.com/a": "b"})
    made = await starts.created(site, body)
    assert (made["spec"], made["metadata"]["annotations"]) == (
        body["spec"],
        {"example.com/a": "b"},
    )


async def test_annotations_of_ours_are_stripped_from_a_vmi_that_references_nothing(site):
    forged = {
        keys.RESOLVED_CLAIMS_ANNOTATION: '[{"class":"h100","units":4}]',
        keys.TERM_ANNOTATION: "9",
    }
    made = await starts.created(site, a_vmi("plain", annotations=forged))
    assert not made["metadata"].get("annotations")


async def test_what_the_webhook_wrote_passes_the_policy_on_raw_names(site):
    """The same names that a tenant may not write."""
    assert devices(await starts.created(site, a_vmi("vm", [unit()]))) == [("gpuclaim-0", H100)]


async def test_namespaces_of_the_system_are_none_of_its_business(site):
    for namespace in ("kube-system", "cozy-system"):
        body = a_vmi("vm", [claim("no")], namespace=namespace)
        assert devices(await starts.created(site, body, dry_run=True)) == [
            ("g", "claim.gpu.cozystack.io/no")
        ]


async def test_a_namespace_of_no_tenant_has_no_classes(site):
    said = await starts.words(site, a_vmi("vm", [unit()], namespace="default"))
    assert "namespace default belongs to no tenant" in said


async def test_while_nobody_answers_only_vms_with_devices_are_refused(site):
    await site.product.stop()
    try:
        said = await starts.words(site, a_vmi("vm", [claim("one")]))
        assert "vmis.gpu.cozystack.io" in said
        await starts.created(site, a_vmi("plain", resources={"limits": {"cpu": "1"}}))
    finally:
        await site.product.start(flags=starts.FLAGS)


async def test_a_vmi_of_many_devices_is_judged_and_passes_the_policy_at_its_cost(site):
    nics = [gpu("vendor.com/nic", f"n{number}") for number in range(1000)]
    body = a_vmi("large", [*nics, claim("one")], hosts=nics)
    made = await starts.created(site, body, dry_run=True)
    assert devices(made)[-1] == ("gpuclaim-0", H100)
    said = await starts.words(site, a_vmi("large", [*nics, gpu(H100)], hosts=nics))
    assert f"{H100} is a raw GPU resource name" in said
