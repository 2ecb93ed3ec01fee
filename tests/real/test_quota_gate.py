"""The quota gate on a real control plane, with two replicas: races, words, and who is not concerned."""

import asyncio
import json

import pytest
import pytest_asyncio

from devcluster import product
from devcluster.errors import CommandError
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import gate_site
from tests.real import site as sites
from tests.real.gate_site import GATE, KEY, RELEASES, SECOND, TENANTS, at_once

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

DENIED = f'admission webhook "{GATE}" denied the request: '


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(binaries_built, tmp_path_factory):
    async with gate_site.opened(tmp_path_factory.mktemp("quota-gate")) as opened:
        await opened.parent("tenant-odd", 4)
        yield opened


def passed(answers):
    return [one for one in answers if isinstance(one, dict)]


@pytest.mark.parametrize("round_", range(3))
async def test_of_eight_at_once_that_ask_for_all_exactly_one_passes(gate, round_):
    home = f"tenant-race{round_}"
    await gate.parent(home, 4)
    answers = await at_once(*(gate.create(home, f"c{at}", {KEY: 4}) for at in range(1, 9)))
    (winner,) = passed(answers)
    lost = [one for one in answers if not isinstance(one, dict)]
    assert [one.status for one in lost] == [422] * 7, [one.message for one in lost]
    for one in lost:
        assert f'remaining "{KEY}" quota of 0 (parent allows 4, 4 already allocated' in one.message
    name = winner["metadata"]["name"]
    assert (await gate.reserved(home)).keys() == {f"{home}-{name}"}
    # The release that the host writes for the one that passed passes too; one without a Tenant does not.
    await gate.release(home, name, {KEY: 4})
    with pytest.raises(errors.Invalid):
        await gate.release(home, "other2", {KEY: 1})


async def test_of_sixteen_at_once_that_ask_for_one_as_many_pass_as_there_are(gate):
    await gate.parent("tenant-many", 4)
    answers = await at_once(
        *(gate.create("tenant-many", f"c{at}", {KEY: 1}) for at in range(1, 17))
    )
    assert len(passed(answers)) == 4


async def test_a_refusal_has_the_hosts_shape_and_its_numbers(gate):
    await gate.parent("tenant-shape", 4)
    await gate.release("tenant-shape", "b", {KEY: 2})
    quotas = {KEY: "3", "gpu.cozystack.io/gld": 1, "cpu": "20"}
    with pytest.raises(errors.Invalid) as caught:
        await gate.create("tenant-shape", "c", quotas)
    unknown = (
        "Forbidden: gpu.cozystack.io/gld is no GPU quota key, did you mean gpu.cozystack.io/gold?; "
        "valid keys: gpu.cozystack.io/total, gpu.cozystack.io/gold, gpu.cozystack.io/h100"
    )
    over = (
        f'Forbidden: requested 3 exceeds the parent tenant\'s remaining "{KEY}" quota of 2 (parent '
        "allows 4, 2 already allocated to sibling tenants, 0 currently in use by the parent pool); "
        "a child tenant may not be granted more quota than its parent has left"
    )
    error = caught.value
    assert error.message == (
        f'{DENIED}Tenant.apps.cozystack.io "c" is invalid: '
        f"[spec.resourceQuotas[gpu.cozystack.io/gld]: {unknown}, "
        f"spec.resourceQuotas[{KEY}]: {over}]"
    )
    assert (error.status, error.reason) == (422, "Invalid")
    assert [(one.reason, one.message, one.field) for one in error.details.causes] == [
        ("FieldValueForbidden", unknown, "spec.resourceQuotas[gpu.cozystack.io/gld]"),
        ("FieldValueForbidden", over, f"spec.resourceQuotas[{KEY}]"),
    ]
    assert (error.details.group, error.details.kind, error.details.name) == (
        "apps.cozystack.io",
        "Tenant",
        "c",
    )


@pytest.mark.parametrize(
    "quotas",
    [
        pytest.param({KEY: -1}, id="negative"),
        pytest.param({KEY: "1.5"}, id="a fraction"),
        pytest.param({KEY: "many"}, id="text"),
        pytest.param({KEY: None}, id="null"),
        pytest.param({KEY: {}}, id="an object"),
        pytest.param([KEY], id="a list"),
        pytest.param(KEY, id="a text"),
        pytest.param({sites.H100: 1}, id="a raw name, denied"),
        pytest.param({f"requests.{sites.H100}": 1}, id="another spelling"),
    ],
)
async def test_what_the_host_lets_through_is_refused(gate, quotas):
    with pytest.raises(errors.Invalid) as caught:
        await gate.release("tenant-odd", "c", quotas)
    assert f'"{RELEASES}" denied the request: ' in caught.value.message


@pytest.mark.parametrize("quotas", [None, {}], ids=str)
async def test_no_quotas_are_nothing_to_judge(gate, quotas):
    await gate.release("tenant-odd", f"none{'' if quotas is None else 'too'}", quotas)


async def test_keys_of_others_are_left_alone(gate):
    await gate.parent("tenant-keys", 4)
    quotas = {"cpu": -1, "foo": "x", "count/pods": "y", "nvidia.com/OTHER": "1.5", KEY: "1e0"}
    await gate.release("tenant-keys", "c", quotas)


async def test_an_unbounded_parent_hides_no_grandparent(gate):
    await gate.parent("tenant-grand", 4)
    await gate.parent("tenant-grand-m")
    with pytest.raises(errors.Invalid) as caught:
        await gate.create("tenant-grand-m", "n", {KEY: 1000})
    assert "quota of 4 that tenant-grand leaves to the parent tenant" in caught.value.message
    await gate.create("tenant-grand-m", "n", {KEY: 4})
    assert await gate.reserved("tenant-grand") == {"tenant-grand-m-n": {KEY: 4}}


async def test_kubectl_prints_the_object_the_key_and_the_numbers(gate):
    await gate.parent("tenant-said", 4)
    body = {
        "apiVersion": TENANTS.api_version,
        "kind": TENANTS.kind,
        "metadata": {"name": "c", "namespace": "tenant-said"},
        "spec": {"resourceQuotas": {KEY: 5}},
    }
    with pytest.raises(CommandError) as caught:
        await gate.site.cp.kubectl("create", "--filename=-", stdin=json.dumps(body))
    assert str(caught.value).endswith(
        f'The Tenant "c" is invalid: spec.resourceQuotas[{KEY}]: Forbidden: requested 5 exceeds the '
        f'parent tenant\'s remaining "{KEY}" quota of 4 (parent allows 4, 0 already allocated to '
        "sibling tenants, 0 currently in use by the parent pool); a child tenant may not be granted "
        "more quota than its parent has left"
    )


async def test_units_that_the_parent_holds_are_not_promised(gate):
    await gate.parent("tenant-user", 4)
    await gate.site.order("tenant-user", "mine", "h100", 2)

    async def known():  # what is declared is read past the caches, what is held is not
        gates = (await gate.site.served("tenant-user", "quotagates"))["items"]
        return {one["spec"]["key"]: one["status"]["used"] for one in gates}.get(KEY) == 2

    await sites.until(known, sites.LATE, "what the parent holds is known")
    with pytest.raises(errors.Invalid) as caught:
        await gate.create("tenant-user", "c", {KEY: 3})
    assert "quota of 2 (parent allows 4, 0 already allocated" in caught.value.message
    assert "2 currently in use by the parent pool" in caught.value.message
    await gate.create("tenant-user", "c", {KEY: 2})


async def test_lowering_below_the_children_passes_with_a_warning(gate):
    await gate.parent("tenant-low", 4)
    await gate.release("tenant-low", "b", {KEY: 3})
    releases = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/tenant-root/helmreleases/tenant-low"
    patch = {"spec": {"values": {"resourceQuotas": {KEY: 1}}}}

    async def warned():
        return await gate.warned(f"{releases}?dryRun=All", patch)

    found = await sites.until(warned, sites.LATE, "a warning")
    assert f"{KEY}: 1 granted, 3 in use or promised to tenants below" in found
    # Over its parent now, the child may keep and lower what it has, and not raise it.
    await gate.warned(releases, patch)
    child = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/tenant-low/helmreleases/tenant-b"
    await gate.warned(child, {"metadata": {"labels": {"a": "b"}}})
    await gate.warned(child, {"spec": {"values": {"resourceQuotas": {KEY: 2}}}})
    with pytest.raises(errors.Invalid):
        await gate.site.admin.patch(
            kinds.HELM_RELEASES,
            "tenant-b",
            {"spec": {"values": {"resourceQuotas": {KEY: 3}}}},
            "tenant-low",
        )


async def test_a_dry_run_is_judged_and_reserves_nothing(gate):
    await gate.parent("tenant-dry", 4)
    await gate.create("tenant-dry", "b", {KEY: 4}, dry_run=True)
    with pytest.raises(errors.Invalid):
        await gate.create("tenant-dry", "b", {KEY: 5}, dry_run=True)
    assert await gate.reserved("tenant-dry") == {}


async def test_a_budget_moved_between_children_needs_no_waiting_for_a_reservation_to_expire(gate):
    await gate.parent("tenant-move", 4)
    await gate.release("tenant-move", "b", {KEY: 4})
    child = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/tenant-move/helmreleases/tenant-b"
    await gate.warned(child, {"spec": {"values": {"resourceQuotas": {KEY: 1}}}})
    await gate.grantable("tenant-move", 3)
    await gate.release("tenant-move", "c2", {KEY: 3})
    await gate.site.admin.delete(kinds.HELM_RELEASES, "tenant-c2", "tenant-move")
    await gate.grantable("tenant-move", 3)
    await gate.release("tenant-move", "d", {KEY: 3})


async def test_other_releases_are_not_asked_about(gate):
    await gate.parent("tenant-other", 4)
    await gate.release("tenant-other", "b", {KEY: 99}, kind="VMInstance")
    patch = {"metadata": {"labels": {keys.APPLICATION_KIND_LABEL: "Tenant"}}}
    with pytest.raises(errors.Invalid) as caught:
        await gate.site.admin.patch(kinds.HELM_RELEASES, "tenant-b", patch, "tenant-other")
    assert f'"{RELEASES}" denied' in caught.value.message
    assert f"spec.values.resourceQuotas[{KEY}]: Forbidden: requested 99" in caught.value.message


async def test_the_hosts_own_updates_pass_while_nobody_answers(gate):
    await gate.parent("tenant-alone", 4)
    await gate.release("tenant-alone", "b", {KEY: 2, "cpu": 1})
    await gate.create("tenant-alone", "b", {KEY: 2, "cpu": 1})
    for identity in (product.FIRST, SECOND):
        await gate.site.product.stop(identity)
    try:
        admin = gate.site.admin
        for kind, name in ((TENANTS, "b"), (kinds.HELM_RELEASES, "tenant-b")):
            labelled = {"metadata": {"labels": {"host": "wrote"}}}
            await admin.patch(kind, name, labelled, "tenant-alone")
        await gate.update("tenant-alone", "b", {"cpu": 5, "count/pods": 3})
        await gate.update("tenant-alone", "b", {KEY: None})
        await gate.create("tenant-alone", "plain", {"cpu": 1})
        await gate.create("tenant-alone", "none", None)
        with pytest.raises(errors.ServerFault) as caught:
            await gate.create("tenant-alone", "c", {KEY: 1})
        assert f'failed calling webhook "{GATE}"' in caught.value.message
    finally:
        await asyncio.gather(
            *(gate.site.product.start(one, flags=sites.FAST) for one in (product.FIRST, SECOND))
        )
