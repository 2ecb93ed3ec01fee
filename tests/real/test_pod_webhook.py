"""The launcher webhook on a real control plane: which pods it is asked about, and what it adds."""

import json

import pytest
import pytest_asyncio

from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import start_site as starts
from tests.real.start_site import A, a_launcher

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

OURS = {"name": keys.PLACEMENT_GATE}
OTHER = {"name": "other.example.com/gate"}
TAINT = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
USES = {keys.RESOLVED_CLAIMS_ANNOTATION: json.dumps([{"class": "h100", "units": 1}])}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with starts.opened(tmp_path_factory.mktemp("pod-webhook")) as opened:
        await opened.order(A, "held", "h100")
        await opened.bound(A, "held")
        yield opened


async def made(site, body, who=starts.KUBEVIRT):
    them = site.admin.acting_as(who, ["system:masters"])
    return await them.create(kinds.PODS, body, dry_run=True)


def gates(pod):
    return pod["spec"].get("schedulingGates", [])


def tolerations(pod):
    """Those that nobody but we or the pod's maker added."""
    found = pod["spec"].get("tolerations", [])
    return [one for one in found if not one["key"].startswith("node.kubernetes.io/")]


async def test_a_launcher_of_template_units_is_gated_and_tolerates_what_its_class_does(site):
    pod = await made(site, a_launcher(annotations=USES))
    assert (gates(pod), tolerations(pod)) == ([OURS], [TAINT])


async def test_a_launcher_of_a_held_claim_is_too(site):
    marks = {
        keys.RESOLVED_CLAIMS_ANNOTATION: json.dumps([{"claim": "held", "admission": "whatever"}])
    }
    pod = await made(site, a_launcher(annotations=marks))
    assert (gates(pod), tolerations(pod)) == ([OURS], [TAINT])


async def test_the_temporary_pod_of_a_volume_is_gated_too(site):
    marks = {**USES, "kubevirt.io/ephemeral-provisioning": "true"}
    assert gates(await made(site, a_launcher(annotations=marks))) == [OURS]


async def test_a_raw_launcher_is_gated_without_tolerations(site):
    pod = await made(site, a_launcher())
    assert (gates(pod), tolerations(pod)) == ([OURS], [])


async def test_what_is_there_already_is_not_added_twice_and_stays(site):
    theirs = {"key": "x", "operator": "Exists"}
    body = a_launcher(
        annotations=USES,
        schedulingGates=[OTHER, OURS],
        tolerations=[theirs, {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
        nodeSelector={"a": "b"},
    )
    pod = await made(site, body)
    assert gates(pod) == [OTHER, OURS]
    assert [one["key"] for one in tolerations(pod)] == ["x", "dedicated"]
    assert pod["spec"]["nodeSelector"] == {"a": "b"}


async def test_a_record_that_cannot_be_read_does_not_open_the_gate(site):
    marks = {keys.RESOLVED_CLAIMS_ANNOTATION: "{"}
    assert gates(await made(site, a_launcher(annotations=marks))) == [OURS]


LEFT_ALONE = {
    "a migration's target": {"labels": {"kubevirt.io/migrationJobUID": "u"}},
    "no launcher": {"labels": {"kubevirt.io": "virt-handler"}},
    "a launcher without the record": {"annotations": {}},
    "an annotation of KubeVirt's": {"annotations": {"kubevirt.io/migrationJobName": "x"}},
}


@pytest.mark.parametrize("what", LEFT_ALONE)
async def test_every_other_pod_is_left_alone(site, what):
    assert gates(await made(site, a_launcher(**LEFT_ALONE[what]))) == []


async def test_an_annotation_of_kubevirts_does_not_keep_the_gate_away(site):
    marks = {**USES, "kubevirt.io/migrationJobName": "x"}
    assert gates(await made(site, a_launcher(annotations=marks))) == [OURS]


async def test_nobody_but_kubevirt_gets_a_pod_gated(site):
    who = "system:serviceaccount:tenant-a:kubevirt-controller"
    body = a_launcher(annotations=USES)
    body["spec"]["containers"][0].pop("resources")
    assert gates(await made(site, body, who)) == []
    with pytest.raises(errors.Forbidden, match="cozystack-gpu-gate-policy"):
        await made(site, {**body, "spec": {**body["spec"], "schedulingGates": [OURS]}}, who)


async def test_namespaces_of_the_system_are_none_of_its_business(site):
    body = a_launcher(namespace="kube-system", annotations=USES)
    assert gates(await made(site, body)) == []


async def test_while_nobody_answers_every_other_kind_of_pod_is_created(site):
    await site.product.stop()
    try:
        with pytest.raises(errors.ApiError, match=r"pods\.gpu\.cozystack\.io"):
            await made(site, a_launcher(annotations=USES))
        for what in LEFT_ALONE.values():
            await made(site, a_launcher(**what))
        plain = {"containers": [{"name": "c", "image": "i"}]}
        for namespace in (A, "kube-system", "default"):
            meta = {"name": "plain", "namespace": namespace}
            await made(site, {"metadata": meta, "spec": plain}, "system:admin")
    finally:
        await site.product.start(flags=starts.FLAGS)
