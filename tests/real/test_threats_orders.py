"""Attacks on orders and holds, by every role: forged, marked, another's, raw, owned, kept, not entitled."""

import pytest
import pytest_asyncio

from devcluster import guests
from gpu import keys
from gpu.cluster import urls
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import threat_site as threats
from tests.real.threat_site import EVERYBODY, ORDERERS, ROLES, TRUSTED, a_claim, attacker, by

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

A = "tenant-a"
B = "tenant-b"
VGPU = "nvidia.com/L40S-24C"
MARK = {keys.TEMPLATE_CLAIM_LABEL: "true"}
OWN_FINALIZER = "tenant.example.com/kept"
REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
AT = "2026-01-01T00:00:00Z"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with sites.opened(tmp_path_factory.mktemp("threats-orders")) as opened:
        await opened.node("gpu-1", 16)
        await opened.node("gpu-2", 8, VGPU)
        await opened.offer("h100")
        source = {"devicePlugin": {"resourceName": VGPU}}
        share = {"metadata": {"name": "share"}, "spec": {"mode": "vgpu", "source": source}}
        await opened.admin.create(kinds.GPU_CLASSES, share)
        for tenant in (A, B):
            await opened.tenant(tenant, total=4)
            await threats.trust(opened, tenant)
            await opened.shown(tenant, "h100", "share", total=4)
            await opened.cp.namespace_ready(tenant)
        await opened.class_has("h100", 16)
        await opened.admin.create(kinds.NAMESPACES, {"metadata": {"name": "cozy-other"}})
        await opened.order(A, "held", "h100", 2)
        await opened.bound(A, "held")
        await sites.until(lambda: in_force(opened), sites.LATE, "the policies in force")
        yield opened


async def in_force(site) -> bool:
    """Tell whether the last policy to compile refuses."""
    mark = a_claim("probe", A, labels=MARK)
    tries = (
        site.admin.create(kinds.GPU_CLAIMS, mark, dry_run=True),
        site.admin.create(kinds.PODS, threats.a_pod(A), dry_run=True),
        site.admin.create(kinds.VMIS, threats.a_vmi(A, "gpus"), dry_run=True),
        site.admin.patch(
            kinds.GPU_CLAIMS, "held", {"status": PLACEMENT}, A, subresource="status", dry_run=True
        ),
    )
    found = [threats.guard(await threats.said(one)) for one in tries]
    return found == [
        "policy claim-marks",
        "policy raw-names",
        "policy vmi-raw-names",
        "policy placement",
    ]


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_changed(site):
    """Whatever a test tries: what is held before it is held after it, on the same node."""
    before = await stored(site)
    yield
    assert await stored(site) == before
    assert await threats.pool(site, A) == 2
    assert await threats.pool(site, B) == 0


async def stored(site):
    claim = await site.claim(A, "held")
    meta = {name: claim["metadata"].get(name) for name in ("uid", "labels", "finalizers")}
    status = {name: claim["status"].get(name) for name in FORGED}
    names = {
        (item["metadata"]["namespace"], item["metadata"]["name"]) for item in await site.claims()
    }
    return meta, claim["spec"], status, names


PLACEMENT = {"phase": "Lost", "nodeName": "gpu-9", "boundAt": AT, "term": 99}
BELIEVED = {
    "attachedTo": {"name": "vm", "admission": "a", "since": AT},
    "rejectedNodes": [{"node": "gpu-1", "until": "2099-01-01T00:00:00Z"}],
    "bindRequest": {"id": "x", "vmi": "vm", "claims": ["held"], "requestedAt": AT},
    "conditions": [],
}
FORGED = {**PLACEMENT, **BELIEVED}


@pytest.mark.parametrize("part", FORGED)
async def test_no_role_writes_a_status_whether_as_status_or_with_the_claim(site, part):
    forged = {"status": {part: FORGED[part]}}
    for subresource in ("status", None):
        found = {
            role: attacker(site, A, role).patch(
                kinds.GPU_CLAIMS, "held", forged, A, subresource=subresource
            )
            for role in ROLES
        }
        assert await threats.guards(found) == by(rbac=ROLES)


@pytest.mark.parametrize("part", PLACEMENT)
async def test_who_has_every_right_still_writes_no_placement(site, part):
    them = attacker(site, A, TRUSTED)
    forged = {"status": {part: PLACEMENT[part]}}
    try_ = them.patch(kinds.GPU_CLAIMS, "held", forged, A, subresource="status")
    assert threats.guard(await threats.said(try_)) == "policy placement"
    # With the claim itself the API server drops it.
    await them.patch(kinds.GPU_CLAIMS, "held", forged, A)


@pytest.mark.parametrize("role", ORDERERS)
async def test_a_status_that_comes_with_an_order_is_dropped(site, role):
    body = a_claim("born", A) | {"status": {**FORGED, "phase": "Bound"}}
    made = await attacker(site, A, role).create(kinds.GPU_CLAIMS, body)
    assert "gpu-9" not in str(made)
    assert await site.bound(A, "born") == "gpu-1"
    assert (await site.claim(A, "born"))["status"].get("attachedTo") is None
    await threats.given_back(site, A, ["born"])


@pytest.mark.parametrize("count", [1, 99], ids=["one", "too-many"])
@pytest.mark.parametrize("named", ["name", "generateName"])
async def test_the_template_mark_is_taken_by_nobody_at_an_order(site, named, count):
    body = a_claim("sly", A, count=count, labels=MARK)
    body["metadata"][named] = body["metadata"].pop("name")
    tries = {role: attacker(site, A, role).create(kinds.GPU_CLAIMS, body) for role in EVERYBODY}
    found = await threats.guards(tries)
    # Policy and webhook are asked side by side; whichever speaks, the order is not taken.
    refused = {"policy claim-marks"} if count == 1 else {"policy claim-marks", "webhook orders"}
    assert {found.pop(role) for role in ("view", "use")} == {"rbac"}
    assert set(found.values()) <= refused


async def test_the_template_mark_is_put_on_by_nobody_later(site):
    marked = {"metadata": {"labels": MARK}}
    tries = {
        role: attacker(site, A, role).patch(kinds.GPU_CLAIMS, "held", marked, A)
        for role in EVERYBODY
    }
    assert await threats.guards(tries) == by(rbac=ROLES, policy_claim_marks=[TRUSTED])


async def test_nobody_reads_changes_or_deletes_another_tenants_claim(site):
    label = {"metadata": {"labels": {"a": "b"}}}
    for role in EVERYBODY:
        if role == "ancestor's account":  # of tenant-root: an ancestor of both
            continue
        them = attacker(site, B, role)
        tries = {
            "get": them.get(kinds.GPU_CLAIMS, "held", A),
            "list": them.list_all(kinds.GPU_CLAIMS, A),
            "patch": them.patch(kinds.GPU_CLAIMS, "held", label, A),
            "delete": them.delete(kinds.GPU_CLAIMS, "held", A),
            "order": them.create(kinds.GPU_CLAIMS, a_claim("more", A)),
        }
        assert set((await threats.guards(tries)).values()) == {"rbac"}, role


async def test_a_vm_that_names_another_tenants_claim_gets_nothing_of_it(site):
    """By every spelling, with the very id of its attachment, and started by KubeVirt."""
    await site.person(B, "super-admin").create(kinds.VMS, a_thief("held", f"{A}/held"))
    thief = guests.Guests(site.admin, B)
    gated = await thief.begin("thief", units={sites.H100: 1})
    note = {keys.RESOLVED_CLAIMS_ANNOTATION: '[{"name":"held","admission":"a"}]'}
    patch = {"metadata": {"annotations": note | {keys.CLAIMS_ANNOTATION: f"held,{A}/held"}}}
    await site.admin.patch(kinds.VMIS, "thief", patch, B)
    # A pass has seen all that when it binds what was ordered after it.
    await site.order(B, "later", "h100")
    await site.bound(B, "later")
    status = (await site.claim(A, "held"))["status"]
    assert status.get("attachedTo") is None
    assert await waits_at_the_gate(site, gated)
    await thief.stop(gated)
    await site.admin.delete(kinds.VMS, "thief", B)
    await threats.given_back(site, B)


async def waits_at_the_gate(site, gated):
    pod = await site.admin.get(kinds.PODS, gated.pod, B)
    return [one["name"] for one in pod["spec"]["schedulingGates"]] == [keys.PLACEMENT_GATE]


def a_thief(*names):
    gpus = [
        {"name": f"gpu{at}", "deviceName": f"{keys.CLAIM_DEVICE_PREFIX}{name}"}
        for at, name in enumerate(names)
    ]
    template = {
        "metadata": {"annotations": {keys.CLAIMS_ANNOTATION: ",".join(names)}},
        "spec": {"domain": {"devices": {"gpus": gpus}}},
    }
    meta = {"name": "thief", "namespace": B}
    return {"metadata": meta, "spec": {"runStrategy": "Always", "template": template}}


@pytest.mark.parametrize(
    "namespace", [B, "default", "kube-system", "cozy-system", "cozy-other", keys.TENANT_ROOT]
)
async def test_nobody_orders_outside_the_own_namespace(site, namespace):
    roles = [role for role in EVERYBODY if role != "ancestor's account"]
    tries = {
        role: attacker(site, A, role).create(kinds.GPU_CLAIMS, a_claim("out", namespace))
        for role in roles
    }
    assert await threats.guards(tries) == by(rbac=roles)


@pytest.mark.parametrize("namespace", ["kube-system", "cozy-other"])
async def test_an_order_where_no_tenant_is_gets_nothing_whoever_made_it(site, namespace):
    """The webhook is not asked there; the binder is."""
    await site.admin.create(kinds.GPU_CLAIMS, a_claim("stray", namespace))
    await site.waits(namespace, "stray", "NoTenant")
    await threats.given_back(site, namespace, ["stray"])


SHAPES = {
    "gpus": ["gpus"],
    "hostDevices": ["hostDevices"],
    "limits": ["limits"],
    "requests": ["requests"],
    "all at once": ["gpus", "hostDevices", "limits", "requests"],
}


@pytest.mark.parametrize("init", [False, True], ids=["container", "init-container"])
async def test_no_pod_names_a_gpu_while_raw_names_are_denied(site, init):
    body = threats.a_pod(A, init=init)
    tries = {role: attacker(site, A, role).create(kinds.PODS, body) for role in EVERYBODY}
    tries["a controller"] = site.admin.acting_as(REPLICA_SETS, ["system:masters"]).create(
        kinds.PODS, body
    )
    assert await threats.guards(tries) == by(rbac=ROLES, policy_raw_names=[TRUSTED, "a controller"])


async def test_no_container_that_is_added_later_names_a_gpu(site):
    trusted = attacker(site, A, TRUSTED)
    await trusted.create(kinds.PODS, threats.a_pod(A, plain=True))
    late = {"name": "late", "image": "i", "resources": {"limits": {sites.H100: "1"}}}
    added = {"spec": {"ephemeralContainers": [late]}}
    tries = {
        role: attacker(site, A, role).patch(
            kinds.PODS, "raw", added, A, subresource="ephemeralcontainers"
        )
        for role in ROLES
    }
    assert await threats.guards(tries) == by(rbac=ROLES)
    words = await threats.said(
        trusted.patch(kinds.PODS, "raw", added, A, subresource="ephemeralcontainers")
    )
    assert "spec.ephemeralContainers[0].resources: Forbidden" in words
    main = {"name": "c", "resources": {"limits": {sites.H100: "1"}}}
    for subresource in (None, "resize"):
        words = await threats.said(
            trusted.patch(
                kinds.PODS, "raw", {"spec": {"containers": [main]}}, A, subresource=subresource
            )
        )
        assert words, subresource
    pod = await site.admin.get(kinds.PODS, "raw", A)
    assert sites.H100 not in str(pod)
    await site.admin.delete(kinds.PODS, "raw", A, grace_period=0)


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_vm_of_any_shape_may_name_a_gpu_and_never_starts(site, shape):
    """A VM is a wish; what KubeVirt makes of it is judged, KubeVirt too."""
    body = threats.a_vmi(A, *SHAPES[shape])
    vm = {"metadata": body["metadata"], "spec": {"template": {"spec": body["spec"]}}}
    await site.person(A, "super-admin").create(kinds.VMS, vm)
    tries = {role: attacker(site, A, role).create(kinds.VMIS, body) for role in EVERYBODY}
    tries["kubevirt"] = site.admin.acting_as(guests.KUBEVIRT, ["system:masters"]).create(
        kinds.VMIS, body
    )
    assert await threats.guards(tries) == by(rbac=ROLES, policy_vmi_raw_names=[TRUSTED, "kubevirt"])
    await site.admin.delete(kinds.VMS, "raw", A)


@pytest.mark.parametrize("role", ORDERERS)
async def test_an_order_that_looks_like_the_controllers_is_judged_like_any(site, role):
    """Owned by a VMI as template claims are, with our finalizer and our annotations, over its budget."""
    body = a_claim(
        "costume",
        A,
        count=3,
        ownerReferences=[threats.an_owner(kinds.VMIS, "vm", "no-such-uid")],
        finalizers=[keys.CLAIM_FINALIZER],
        annotations={keys.TEMPLATE_CLAIM_LABEL: "true"},
    )
    words = await threats.said(attacker(site, A, role).create(kinds.GPU_CLAIMS, body))
    assert threats.guard(words) == "webhook orders"
    assert f"budget gpu.cozystack.io/total of {A} is 4 and 2 are used" in words


async def test_a_claim_whose_owner_is_gone_is_collected_and_its_units_come_back(site):
    owner = threats.an_owner(kinds.GPU_CLASSES, "h100", "no-such-uid")
    body = a_claim("orphan", A, ownerReferences=[owner])
    await site.person(A).create(kinds.GPU_CLAIMS, body)
    await site.gone(A, "orphan")
    await site.order(A, "after", "h100", 2)
    await site.bound(A, "after")
    await threats.given_back(site, A, ["after"])


async def test_owners_and_finalizers_of_a_held_claim_are_changed_by_no_role(site):
    owner = threats.an_owner(kinds.GPU_CLASSES, "h100", "no-such-uid")
    changes = {
        "owners": {"ownerReferences": [owner]},
        "ours off": {"finalizers": None},
        "one more": {"finalizers": [keys.CLAIM_FINALIZER, OWN_FINALIZER]},
    }
    for what, meta in changes.items():
        tries = {
            role: attacker(site, A, role).patch(kinds.GPU_CLAIMS, "held", {"metadata": meta}, A)
            for role in ROLES
        }
        assert await threats.guards(tries) == by(rbac=ROLES), what


async def test_who_has_every_right_still_takes_our_finalizer_off_no_claim(site):
    trusted = attacker(site, A, TRUSTED)
    for left in (None, [OWN_FINALIZER]):
        patch = {"metadata": {"finalizers": left}}
        words = await threats.said(trusted.patch(kinds.GPU_CLAIMS, "held", patch, A))
        assert threats.guard(words) == "policy claim-marks"


async def test_a_claim_kept_by_a_finalizer_of_its_own_counts_until_it_is_gone(site):
    """Its tenant pays for what it keeps: the units are in its budget and on their node, once."""
    body = a_claim("kept", A, count=2, finalizers=[OWN_FINALIZER])
    await site.person(A).create(kinds.GPU_CLAIMS, body)
    await site.bound(A, "kept")
    await site.person(A).delete(kinds.GPU_CLAIMS, "kept", A)

    async def is_let_go():
        found = (await site.claim(A, "kept"))["metadata"]
        return found["finalizers"] == [OWN_FINALIZER]

    await sites.until(is_let_go, sites.LATE, "our finalizer taken off")
    words = await threats.said(site.order(A, "second", "h100", 1))
    assert threats.guard(words) == "webhook orders"
    assert "is 4 and 4 are used" in words
    assert await threats.pool(site, A) == 4
    assert await site.booked() == {"gpu-1": 4}

    async def is_billed():
        page = await site.admin.list_all(kinds.WORKLOADS, A)
        return "gpuclaim-kept" in {one["metadata"]["name"] for one in page.items}

    await sites.until(is_billed, sites.LATE, "billed on")
    await site.admin.patch(kinds.GPU_CLAIMS, "kept", {"metadata": {"finalizers": None}}, A)
    await site.gone(A, "kept")


async def test_no_role_deletes_claims_by_the_collection(site):
    for role in ROLES:
        answer = await attacker(site, A, role).raw("DELETE", urls.path(kinds.GPU_CLAIMS, A))
        assert (answer.status, b"deletecollection" in answer.body) == (403, True), role


@pytest.mark.parametrize("role", EVERYBODY)
async def test_a_vgpu_class_is_ordered_by_nobody_of_a_tenant_without_entitlement(site, role):
    words = await threats.said(
        attacker(site, A, role).create(kinds.GPU_CLAIMS, a_claim("share", A, "share"))
    )
    wanted = "rbac" if role in {"view", "use"} else "webhook orders"
    assert threats.guard(words) == wanted
    assert wanted == "rbac" or f"{A} is not entitled" in words


async def test_no_role_entitles_its_own_namespace(site):
    label = {"metadata": {"labels": {keys.VGPU_ENTITLED_LABEL: "true"}}}
    tries = {role: attacker(site, A, role).patch(kinds.NAMESPACES, A, label) for role in ROLES}
    assert await threats.guards(tries) == by(rbac=ROLES)
    # Who is above it cannot either: the hoster alone labels namespaces.
    assert (
        threats.guard(
            await threats.said(
                attacker(site, A, "ancestor's account").patch(
                    kinds.NAMESPACES, keys.TENANT_ROOT, label
                )
            )
        )
        == "rbac"
    )
