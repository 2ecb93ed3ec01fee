"""Attacks by starts of VMs: forged records, reserved names, others' claims, stolen attachments.

What a tenant writes into a VM arrives in KubeVirt's name; by the trusted person it is tried directly too.
"""

import json

import pytest
import pytest_asyncio

from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import start_site as starts
from tests.real import threat_site as threats
from tests.real.site import H100
from tests.real.start_site import A, a_launcher, a_vmi, attached, claim, devices, gpu, record, unit
from tests.real.threat_site import ROLES, TRUSTED, attacker, by

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

B = "tenant-b"
RESOLVED = keys.RESOLVED_CLAIMS_ANNOTATION


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with starts.opened(tmp_path_factory.mktemp("threats-vms")) as opened:
        for tenant, name in ((A, "mine"), (A, "spare"), (B, "theirs")):
            await opened.order(tenant, name, "h100", 2)
            await opened.bound(tenant, name)
        for tenant in (A, B):
            await threats.trust(opened, tenant)
        for namespace, name, used in ((A, "own", "mine"), (B, "victim", "theirs")):
            await made(opened, a_vmi(name, [claim(used)], namespace=namespace))
            await starts.adopted(opened, used, namespace)
        yield opened


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_stolen(site):
    """Whatever is tried: both attachments are as they were, and nobody holds more."""
    before = [await attached(site, "mine"), await attached(site, "theirs", B)]
    yield
    assert [await attached(site, "mine"), await attached(site, "theirs", B)] == before
    assert await threats.held(site) == {A: 4, B: 2}


async def made(site, body, **how):
    """Create a VMI in KubeVirt's name; again, as KubeVirt would, while it is not judged in time."""
    return await sites.judged(lambda: starts.created(site, body, **how))


async def tried(site, body):
    """Who refuses a VMI: of every role directly, and as what KubeVirt makes of a tenant's VM."""
    tries = {
        role: attacker(site, A, role).create(kinds.VMIS, body, dry_run=True)
        for role in (*ROLES, TRUSTED)
    }
    tries["kubevirt"] = starts.kubevirt(site).create(kinds.VMIS, body, dry_run=True)
    return await threats.guards(tries)


def forged(count, *items, name="vm", **more):
    """Units as the webhook writes them, with a record that a tenant wrote."""
    units = [gpu(H100, f"gpuclaim-{number}") for number in range(count)]
    return a_vmi(name, units, annotations={RESOLVED: json.dumps(items)}, **more)


BY_WEBHOOK = by(rbac=ROLES, webhook_vmis=[TRUSTED, "kubevirt"])


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(a_vmi("vm", [gpu(H100, "gpuclaim-0")]), id="a-reserved-name-alone"),
        pytest.param(a_vmi("vm", hosts=[gpu(H100, "gpuclaim-0")]), id="among-host-devices"),
        pytest.param(forged(1), id="a-record-of-nothing"),
        pytest.param(forged(8, {"class": "h100", "units": 4}), id="more-units-than-the-record"),
        pytest.param(
            forged(8, {"class": "h100", "units": 8}), id="more-units-than-a-claim-may-have"
        ),
        pytest.param(
            forged(2, {"claim": "mine", "admission": "guessed"}), id="an-id-that-is-guessed"
        ),
        pytest.param(forged(2, {"claim": "theirs", "admission": "guessed"}), id="anothers-claim"),
        pytest.param(a_vmi("vm", [gpu(H100)]), id="a-raw-name"),
        pytest.param(a_vmi("vm", resources={"limits": {H100: "1"}}), id="a-raw-amount"),
        pytest.param(a_vmi("vm", [claim("mine")]), id="a-claim-that-another-vm-uses"),
        pytest.param(a_vmi("vm", [claim("theirs")]), id="anothers-claim-by-name"),
        pytest.param(a_vmi("vm", [claim("tenant-b/theirs")]), id="by-a-path"),
        pytest.param(a_vmi("vm", [claim("../tenant-b/theirs")]), id="by-a-way-up"),
        pytest.param(
            a_vmi("vm", annotations={keys.CLAIMS_ANNOTATION: "tenant-b/theirs"}), id="by-annotation"
        ),
        pytest.param(a_vmi("vm", [unit()] * 20_000), id="twenty-thousand-units"),
    ],
)
async def test_units_that_nobody_granted_are_refused_to_every_role(site, body):
    assert await tried(site, body) == BY_WEBHOOK


async def test_the_very_id_of_an_attachment_opens_nothing(site):
    """Every tenant may read its claims' status."""
    for name, tenant, used in (("mine", A, "own"), ("theirs", B, "victim")):
        admission = (await attached(site, name, tenant))["admission"]
        item = {"claim": name, "admission": admission}
        assert await tried(site, forged(2, item)) == BY_WEBHOOK
        assert await tried(site, forged(2, item, name=f"{used}2")) == BY_WEBHOOK


async def test_the_name_of_a_running_vm_takes_nothing_from_it(site):
    admission = (await attached(site, "mine"))["admission"]
    for body in (
        a_vmi("own", [claim("mine")]),
        forged(2, {"claim": "mine", "admission": admission}, name="own"),
    ):
        with pytest.raises((errors.AlreadyExists, errors.Forbidden)):
            await made(site, body)


async def test_a_namesake_in_another_namespace_takes_nothing_from_it(site):
    admission = (await attached(site, "theirs", B))["admission"]
    body = forged(2, {"claim": "theirs", "admission": admission}, name="victim")
    assert await tried(site, body) == BY_WEBHOOK


async def test_a_forged_record_beside_honest_references_is_overwritten(site):
    items = json.dumps([{"claim": "mine", "admission": "x"}, {"class": "h100", "units": 4}])
    vmi = await made(
        site, a_vmi("vm", [claim("spare")], annotations={RESOLVED: items}), dry_run=True
    )
    assert [it["claim"] for it in record(vmi)] == ["spare"]
    assert devices(vmi) == [("gpuclaim-0", H100), ("gpuclaim-1", H100)]


async def test_marks_in_a_vms_template_do_not_reach_its_launcher(site):
    """A term there would have the launcher refused for ever, a record would have it gated."""
    marks = {RESOLVED: "[]", keys.TERM_ANNOTATION: "99"}
    vmi = await made(site, a_vmi("vm", annotations=marks), dry_run=True)
    assert not vmi["metadata"].get("annotations")


async def test_a_pod_that_looks_like_a_launcher_gets_no_gate_and_may_bring_none(site):
    marks = {RESOLVED: json.dumps([{"class": "h100", "units": 1}])}
    plain = a_launcher(annotations=marks)
    plain["spec"]["containers"][0].pop("resources")
    trusted = attacker(site, A, TRUSTED)
    made = await trusted.create(kinds.PODS, plain, dry_run=True)
    assert "schedulingGates" not in made["spec"]
    plain["spec"]["schedulingGates"] = [{"name": keys.PLACEMENT_GATE}]
    said = await threats.said(trusted.create(kinds.PODS, plain, dry_run=True))
    assert threats.guard(said) == "policy gate"
