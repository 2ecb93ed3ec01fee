"""The keeper on a real API server: order, drift, modes, the switch, what an older version left."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from devcluster import chart
from devcluster.plane import ControlPlane
from gpu import keys, ports
from gpu.cluster import errors
from gpu.config import PolicyMode
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from policies import shapes, standing
from policies.standing import Reason
from tests.real import policy_site
from tests.real.policy_site import Site

pytestmark = pytest.mark.asyncio(loop_scope="module")

RAW_NAMES = "cozystack-gpu-raw-names-policy"
FENCE = "cozystack-gpu-term-policy"
PIN_FENCE = "cozystack-gpu-pin-term-policy"
KEEPER = "cozystack-gpu-keeper-policy"
BOTH = (kinds.POLICIES, kinds.POLICY_BINDINGS)
Json = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(fresh_plane: ControlPlane) -> AsyncIterator[Site]:
    async with policy_site.prepared(fresh_plane) as found:
        yield found


async def ours(site: Site, kind: Kind) -> set[str]:
    return {item["metadata"]["name"] for item in (await site.admin.list(kind)).items}


async def spec_of(site: Site, kind: Kind, name: str) -> Json:
    spec: Json = (await site.admin.get(kind, name))["spec"]
    return spec


async def test_nothing_is_applied_before_what_it_matches(site: Site):
    """KubeVirt's kinds are taken away: its policy waits and nothing else does."""
    vmis = f"{kinds.VMIS.plural}.{kinds.VMIS.group}"
    definition = await site.admin.get(kinds.CRDS, vmis)
    await site.admin.delete(kinds.CRDS, vmis)
    await policy_site.eventually(lambda: gone(site, kinds.CRDS, vmis))
    await policy_site.eventually(lambda: unserved(site))
    assert (await site.keep()).reason is Reason.CURRENT
    assert "cozystack-gpu-vmi-raw-names-policy" not in await ours(site, kinds.POLICIES)
    body = {"metadata": {"name": vmis}, "spec": definition["spec"]}
    await site.admin.create(kinds.CRDS, body)

    async def applied() -> bool:
        await site.keep()
        return "cozystack-gpu-vmi-raw-names-policy" in await ours(site, kinds.POLICIES)

    await policy_site.eventually(applied)
    assert await in_place(site) == policy_site.names_of()


async def unserved(site: Site) -> bool:
    """Say whether VMIs are not served any more: a kind is, for a moment after its definition is gone."""
    try:
        await site.admin.list(kinds.VMIS)
    except errors.NotFound:
        return True
    return False


async def gone(site: Site, kind: Kind, name: str) -> bool:
    try:
        await site.admin.get(kind, name)
    except errors.NotFound:
        return True
    return False


async def test_the_release_owns_all_but_the_keeper(site: Site):
    await site.keep()
    role = await site.admin.get(kinds.CLUSTER_ROLES, policy_site.CONFIG.owner_cluster_role)
    for kind in BOTH:
        for item in (await site.admin.list(kind)).items:
            meta = item["metadata"]
            owners = [owner["uid"] for owner in meta.get("ownerReferences", [])]
            assert owners == ([] if meta["name"] == KEEPER else [role["metadata"]["uid"]])


async def test_a_second_round_writes_nothing(site: Site):
    await site.keep()
    before = [await without_status(site, kind) for kind in BOTH]
    await site.keep()
    assert [await without_status(site, kind) for kind in BOTH] == before


async def without_status(site: Site, kind: Kind) -> list[Json]:
    """Return all objects as somebody meant them: kube-controller-manager writes status late."""
    found = (await site.admin.list(kind)).items
    for item in found:
        item.pop("status", None)
        meta = item["metadata"]
        del meta["resourceVersion"]
        meta["managedFields"] = [
            entry for entry in meta["managedFields"] if entry.get("subresource") != "status"
        ]
    return list(found)


FALSE = {"name": "never", "expression": "false"}


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param(kinds.POLICIES, {"spec": {"failurePolicy": "Ignore"}}, id="a changed field"),
        pytest.param(
            kinds.POLICIES,
            {"spec": {"matchConditions": [FALSE]}},
            id="conditions replaced by one that is always false",
        ),
        pytest.param(
            kinds.POLICIES, {"spec": {"validations": [{"expression": "true"}]}}, id="rules"
        ),
        pytest.param(
            kinds.POLICIES,
            {
                "spec": {
                    "matchConstraints": {
                        "excludeResourceRules": [
                            {
                                "apiGroups": ["*"],
                                "apiVersions": ["*"],
                                "resources": ["*"],
                                "operations": ["*"],
                            }
                        ]
                    }
                }
            },
            id="an exclusion beside our fields",
        ),
        pytest.param(
            kinds.POLICY_BINDINGS, {"spec": {"validationActions": ["Audit"]}}, id="only audited"
        ),
        pytest.param(
            kinds.POLICY_BINDINGS,
            {"spec": {"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}},
            id="a selector that matches nothing",
        ),
        pytest.param(
            kinds.POLICY_BINDINGS, {"spec": {"paramRef": {"name": "other"}}}, id="other settings"
        ),
        pytest.param(kinds.POLICIES, {"metadata": {"labels": None}}, id="our label"),
        pytest.param(kinds.POLICIES, {"metadata": {"ownerReferences": None}}, id="the owner"),
    ],
)
async def test_an_edit_is_healed(site: Site, kind: Kind, patch: Json):
    await site.keep()
    meant = await site.admin.get(kind, RAW_NAMES)
    edited = await site.admin.patch(kind, RAW_NAMES, patch, field_manager="kubectl-edit")
    assert edited["metadata"]["generation"] >= meant["metadata"]["generation"]
    await site.keep()
    healed = await site.admin.get(kind, RAW_NAMES)
    assert healed["spec"] == meant["spec"]
    for field in ("labels", "ownerReferences"):
        assert healed["metadata"][field] == meant["metadata"][field]


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("name", [RAW_NAMES, FENCE, KEEPER])
async def test_a_deleted_one_comes_back(site: Site, kind: Kind, name: str):
    await site.keep()
    meant = await spec_of(site, kind, name)
    await site.admin.delete(kind, name)
    await site.keep()
    assert await spec_of(site, kind, name) == meant


async def test_what_an_older_version_left_goes_last_and_others_stay(site: Site):
    await site.keep()
    spec = await spec_of(site, kinds.POLICIES, RAW_NAMES)
    bound = await spec_of(site, kinds.POLICY_BINDINGS, RAW_NAMES)
    old, other = "cozystack-gpu-old-policy", "cozystack-tenant-host-policy"
    for name in (old, other):
        meta = {"name": name, "labels": shapes.LABELS}
        await site.admin.create(kinds.POLICIES, {"metadata": meta, "spec": spec})
        binding = {"metadata": meta, "spec": {**bound, "policyName": name}}
        await site.admin.create(kinds.POLICY_BINDINGS, binding)
    await site.admin.delete(kinds.POLICY_BINDINGS, RAW_NAMES)
    keeping = site.keeper()
    await policy_site.finished(keeping, site.said)
    assert {old, RAW_NAMES} <= await ours(site, kinds.POLICY_BINDINGS)
    await policy_site.settled(keeping, site.said)
    for kind in BOTH:
        assert {old, other} & await ours(site, kind) == {other}
        await site.admin.delete(kind, other)


async def in_place(site: Site) -> tuple[set[str], set[str]]:
    """Return the names of the stored policies and bindings."""
    return await ours(site, kinds.POLICIES), await ours(site, kinds.POLICY_BINDINGS)


async def test_off_leaves_the_fences_and_the_keeper(site: Site):
    await site.keep()
    assert (await site.keep(policies=PolicyMode.OFF)).reason is Reason.OFF
    assert await in_place(site) == policy_site.names_of(policies=PolicyMode.OFF)
    assert {FENCE, PIN_FENCE, KEEPER} <= await ours(site, kinds.POLICY_BINDINGS)
    for topic in ("claim-marks", "class-marks", "gate", "usage-records", "usage-monitor"):
        assert f"cozystack-gpu-{topic}-policy" not in await ours(site, kinds.POLICIES)


async def test_with_the_feature_off_only_what_starts_pods_is_unbound(site: Site):
    assert (await site.keep()).reason is Reason.CURRENT
    assert (await site.keep(enabled=False)).reason is Reason.CURRENT
    assert await in_place(site) == policy_site.names_of(enabled=False)
    unbound = policy_site.names_of()[1] - await ours(site, kinds.POLICY_BINDINGS)
    assert {name for name in unbound if not name.endswith("-root")} == {
        RAW_NAMES,
        "cozystack-gpu-vmi-raw-names-policy",
        "cozystack-gpu-gate-policy",
        PIN_FENCE,
    }


async def test_rendered_ones_are_judged_and_left_alone(site: Site):
    rendered = {"policies": PolicyMode.RENDERED}
    await site.keep()
    assert (await site.keep(**rendered)).reason is Reason.RENDERED
    patch = {"spec": {"failurePolicy": "Ignore"}}
    await site.admin.patch(kinds.POLICIES, RAW_NAMES, patch)
    await site.admin.delete(kinds.POLICY_BINDINGS, FENCE)
    found = await site.keep(**rendered)
    assert (found.reason, RAW_NAMES in found.message) == (Reason.RENDERED_DIFFER, True)
    assert (await spec_of(site, kinds.POLICIES, RAW_NAMES))["failurePolicy"] == "Ignore"
    assert FENCE in await ours(site, kinds.POLICY_BINDINGS)


async def test_a_replica_that_no_longer_leads_writes_nothing(site: Site):
    await site.keep()
    await site.admin.delete(kinds.POLICY_BINDINGS, RAW_NAMES)
    keeping = site.keeper()
    keeping._leading = lambda: False
    await keeping.once()
    assert RAW_NAMES not in await ours(site, kinds.POLICY_BINDINGS)
    await site.keep()


class Noon:
    """A clock that stands still."""

    def __init__(self, text: str) -> None:
        self._text = text

    def now(self):
        return policy_site.time_of(self._text)

    def monotonic(self) -> float:
        return 0.0


async def test_the_standing_is_a_condition_of_gpubinder_beside_those_of_others(site: Site):
    other = {
        "type": "Leading",
        "status": "True",
        "reason": "Holds",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    applied = {"metadata": {"name": keys.BINDER_NAME}, "status": {"conditions": [other]}}
    await site.controller.apply(
        kinds.GPU_BINDERS,
        keys.BINDER_NAME,
        applied,
        subresource="status",
        field_manager=keys.BINDER_MANAGER,
    )
    clock: ports.Clock = Noon("2026-01-01T12:00:00Z")
    tell = standing.on_binder(site.controller, clock)
    await tell(standing.Standing(reason=Reason.OFF, message="off"))
    late = standing.on_binder(site.controller, Noon("2026-01-01T13:00:00Z"))
    await late(standing.Standing(reason=Reason.WRITE_FAILED, message="no"))
    stored = await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
    ours_now = {
        "type": "PoliciesCurrent",
        "status": "False",
        "reason": "WriteFailed",
        "message": "no",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    assert sorted(stored["status"]["conditions"], key=lambda item: item["type"]) == [
        other,
        ours_now,
    ]
    await late(standing.Standing(reason=Reason.CURRENT, message="all"))
    again = await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
    assert again["status"]["conditions"][-1]["lastTransitionTime"] == "2026-01-01T13:00:00Z"


async def test_the_chart_takes_the_policies_over_and_gives_them_back(site: Site):
    """Mode managed to rendered and back. Helm wants --take-ownership of what it has not made."""
    await site.keep()
    await upgrade(site, "rendered", "--take-ownership")
    assert (await site.keep(policies=PolicyMode.RENDERED)).reason is Reason.RENDERED
    assert await in_place(site) == policy_site.names_of()
    await upgrade(site, "managed")
    assert await in_place(site) == policy_site.names_of(policies=PolicyMode.RENDERED)
    assert (await site.keep()).reason is Reason.CURRENT
    assert await in_place(site) == policy_site.names_of()


async def upgrade(site: Site, mode: str, *flags: str) -> None:
    await site.plane.helm(
        "upgrade",
        chart.RELEASE,
        str(chart.CHART),
        f"--namespace={chart.NAMESPACE}",
        "--reuse-values",
        f"--set=policies.mode={mode}",
        *flags,
    )
