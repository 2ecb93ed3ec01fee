"""An update of the policies themselves: what is forbidden stays forbidden at every moment of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from devcluster.plane import ControlPlane
from gpu import keys
from gpu.objects import kinds
from policies import bundle
from policies.shapes import Policy, Validation
from policies.standing import Reason
from tests.real import policy_site
from tests.real.policy_site import CONFIG, TENANT, Site, eventually, refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

AFTER = 3.0
"""Seconds to go on asking after all is done: policies are compiled once a second."""
ASKED = 100
"""How often each was asked for at least, however slow the machine is."""
OLD = {"raw-names": "raw-pods", "placement": "placed", "usage-records": "records"}
"""Topics that bore another name in the older version."""
Json = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(fresh_plane: ControlPlane) -> AsyncIterator[Site]:
    async with policy_site.prepared(fresh_plane) as found:
        await found.admin.create(
            kinds.GPU_CLAIMS,
            {
                "metadata": {"name": "held", "namespace": TENANT},
                "spec": {"className": "h100", "count": 1},
            },
        )
        yield found


def forbidden(site: Site) -> dict[str, Callable[[], Awaitable[str | None]]]:
    """Return a request for each policy that a tenant would like to see gone for a moment."""
    meta = {"name": "new", "namespace": TENANT}
    order = {"className": "h100", "count": 1}
    marked = {**meta, "labels": {keys.TEMPLATE_CLAIM_LABEL: "true"}}
    plain = {"containers": [{"name": "main", "image": "i"}]}
    gates = [{"name": keys.PLACEMENT_GATE}]
    record = {**meta, "name": "gpuclaim-new"}
    bodies = {
        "raw-names": (kinds.PODS, policy_site.pod()),
        "vmi-raw-names": (kinds.VMIS, policy_site.vmi()),
        "claim-marks": (kinds.GPU_CLAIMS, {"metadata": marked, "spec": order}),
        "gate": (kinds.PODS, {"metadata": meta, "spec": {**plain, "schedulingGates": gates}}),
        "usage-records": (
            kinds.WORKLOADS,
            {"metadata": record, "status": {"kind": "k", "resources": {}}},
        ),
    }

    def creates(kind: kinds.Kind, body: Json) -> Callable[[], Awaitable[str | None]]:
        return lambda: refused(site.admin.create(kind, body, dry_run=True))

    def writes(kind: kinds.Kind, name: str, patch: Json, namespace: str, sub: str | None):
        return lambda: refused(
            site.admin.patch(kind, name, patch, namespace, subresource=sub, dry_run=True)
        )

    return {
        **{topic: creates(*body) for topic, body in bodies.items()},
        "settings": writes(
            kinds.CONFIG_MAPS, keys.SETTINGS_NAME, {"data": {}}, keys.SETTINGS_NAMESPACE, None
        ),
        "placement": writes(
            kinds.GPU_CLAIMS, "held", {"status": {"phase": "Pending", "term": 9}}, TENANT, "status"
        ),
    }


def older(policy: Policy) -> Policy:
    """Return a policy as an older version had it: other names, other text, one rule more."""
    extra = Validation(expression="request.name != 'x'", message="'x'", fallback="x is refused")
    validations = tuple(
        replace(
            found, expression=f"({found.expression}) && true", fallback=f"old: {found.fallback}"
        )
        for found in policy.validations
    )
    topic = OLD.get(policy.topic, policy.topic)
    return replace(policy, topic=topic, validations=(*validations, extra))


async def put(site: Site, policies: tuple[Policy, ...]) -> None:
    """Apply policies and bindings as the leader of that version would."""
    for policy in policies:
        document = policy.document()
        await site.controller.apply(
            kinds.POLICIES, policy.name, document, field_manager=keys.POLICIES_MANAGER
        )
    for policy in policies:
        for binding in policy.bindings:
            await site.controller.apply(
                kinds.POLICY_BINDINGS,
                policy.binding_name(binding),
                policy.binding_document(binding),
                field_manager=keys.POLICIES_MANAGER,
            )


async def test_an_update_leaves_no_moment_without(site: Site):
    olds = tuple(older(policy) for policy in bundle.policies(CONFIG) if policy.topic != "keeper")
    await put(site, olds)
    asks = forbidden(site)
    for ask in asks.values():
        await eventually(ask)
    asked = dict.fromkeys(asks, 0)
    let_through: list[str] = []
    words: dict[str, set[str]] = {topic: set() for topic in asks}

    async def keep_asking(topic: str, ask: Callable[[], Awaitable[str | None]]) -> None:
        while True:
            said = await ask()
            asked[topic] += 1
            if said is None:
                let_through.append(topic)
            else:
                words[topic].add(said.split("'")[1] if "'" in said else said)

    gone = {policy.name for policy in olds} - {policy.name for policy in bundle.policies(CONFIG)}
    async with asyncio.TaskGroup() as tasks:
        probes = [tasks.create_task(keep_asking(*item)) for item in asks.items()]
        keeping = tasks.create_task(site.keeper().run())
        await eventually(lambda: updated(site, gone), 40)
        await asyncio.sleep(AFTER)
        await eventually(lambda: asyncio.sleep(0, min(asked.values()) > ASKED), 40)
        for task in (*probes, keeping):
            task.cancel()
    assert let_through == []
    for topic in OLD.keys() & asks.keys():
        assert f"cozystack-gpu-{OLD[topic]}-policy" in words[topic]
        assert f"cozystack-gpu-{topic}-policy" in words[topic]


async def updated(site: Site, gone: set[str]) -> bool:
    """Say whether the new policies are stored and those of the older version are out."""
    there = {item["metadata"]["name"] for item in (await site.admin.list(kinds.POLICIES)).items}
    current = site.said and site.said[-1].reason is Reason.CURRENT
    return bool(current) and not gone & there
