"""The canary on two real API servers over one etcd: proofs, frozen parameters, the way out."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from apiserver.clock import SystemClock
from devcluster.plane import ControlPlane
from gpu import keys, ports
from gpu.cluster import endpoints, errors
from gpu.cluster.client import Client
from gpu.config import Config, Pace, PolicyMode
from gpu.objects import kinds
from gpu.settings import RawNames
from policies import bundle, canary, revisions
from policies.asking import Canary, Report
from policies.canary import Finding
from policies.keeper import SETTLE, Keeper
from policies.proof import Proof
from policies.standing import Reason, Standing
from tests.real import freezing, policy_site
from tests.real.policy_site import RAW, Site, eventually, pod, refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONFIG = replace(Config(), pace=Pace(canary=0.5))
NEW = "vendor.com/new"
CANARY = "cozystack-gpu-canary-policy"


@dataclass
class Pair:
    """A prepared plane with two API servers, and leaders of the policies over it."""

    site: Site
    first: str
    second: str = ""
    heard: list[Report] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def doors(self) -> AsyncIterator[ports.Doors]:
        usual = self.site.controller
        async with contextlib.AsyncExitStack() as stack:
            each = {
                name: await stack.enter_async_context(Client(self.at(name)))
                for name in (self.first, self.second)
            }
            yield ports.Doors(each=each, usual=usual, usual_name="usual")

    def at(self, name: str):
        return self.site.controller.access.at(f"https://{name}", endpoints.SERVER_NAME)

    def leader(self, **changes: object) -> Keeper:
        """Return a keeper with a canary, as a process that has just begun to lead has it."""
        config = replace(CONFIG, **changes)
        asking = Canary(self.site.controller, config, doors=self.doors, clock=SystemClock())

        async def told(found: Standing) -> None:
            self.site.said.append(found)

        return Keeper(
            self.site.controller,
            config,
            report=told,
            proof=Proof(asking, config, heard=self.heard.append),
        )

    async def settled(self, keeping: Keeper) -> Standing:
        """Do rounds as `run` does, the waiting left out where nothing has to come into force."""
        before = len(self.heard)
        while True:
            wait = await keeping.once()
            if len(self.heard) > before and self.heard[-1].proved:
                return self.site.said[-1]
            if wait == SETTLE:
                await asyncio.sleep(1.2)  # policies are compiled once a second

    async def is_refused(self, name: str, resource: str) -> bool:
        """Ask one API server, as the administrator, for a pod that names a resource."""
        access = self.site.admin.access.at(f"https://{name}", endpoints.SERVER_NAME)
        async with Client(access) as admin:
            said = await refused(admin.create(kinds.PODS, pod(resource), dry_run=True))
        return "raw GPU resource names are denied here" in (said or "")

    async def until_all(self, resource: str, *, denied: bool) -> None:
        """Wait until both API servers deny, or allow, a resource."""

        async def so() -> bool:
            answers = [await self.is_refused(name, resource) for name in (self.first, self.second)]
            return answers == [denied, denied]

        await eventually(so)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(fresh_plane: ControlPlane) -> AsyncIterator[Pair]:
    async with policy_site.prepared(fresh_plane) as site:
        found = Pair(site, urlsplit(fresh_plane.server).netloc)
        found.second = await freezing.start_second(fresh_plane)
        yield found


async def frozen_first(pair: Pair) -> None:
    """Freeze both, and start the second anew."""
    await freezing.freeze(pair.site.admin)
    await pair.site.plane.stop_process(freezing.SECOND)
    pair.second = await freezing.start_second(pair.site.plane)
    await pair.until_all(RAW, denied=True)


async def bound_names(pair: Pair) -> set[str]:
    found = (await pair.site.admin.list(kinds.POLICY_BINDINGS)).items
    return {
        item["spec"]["paramRef"]["name"]
        for item in found
        if (item["spec"].get("paramRef") or {}).get("namespace") == keys.SETTINGS_NAMESPACE
    }


async def copies(pair: Pair) -> set[str]:
    found = await pair.site.admin.list_all(kinds.CONFIG_MAPS, keys.SETTINGS_NAMESPACE)
    names = {item["metadata"]["name"] for item in found.items}
    return {name for name in names if revisions.number_of(name)}


async def test_both_api_servers_prove_that_they_use_the_current_settings(pair: Pair):
    found = await pair.settled(pair.leader())
    assert found.reason is Reason.CURRENT
    assert found.message.endswith(f"in force at {pair.first}, {pair.second}")
    assert {item.finding for item in pair.heard[-1].verdicts.values()} == {Finding.PROVED}


async def test_the_canary_is_answered_in_these_words(pair: Pair):
    stored = await pair.site.admin.get(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, "cozy-system")
    version = stored["metadata"]["resourceVersion"]
    ask = canary.question(CONFIG, version)
    assert await refused(pair.site.controller.create(kinds.CONFIG_MAPS, ask, dry_run=True)) is None
    wrong = canary.question(CONFIG, "0")
    assert await refused(pair.site.controller.create(kinds.CONFIG_MAPS, wrong, dry_run=True)) == (
        f"configmaps \"cozystack-gpu-canary\" is forbidden: ValidatingAdmissionPolicy '{CANARY}' "
        f"with binding '{CANARY}' denied request: configmap cozy-system/cozystack-gpu-canary: "
        f"policies {bundle.digest()} read cozystack-gpu-settings at version {version}, not 0"
    )


async def test_the_canary_is_never_stored_whoever_wants_to(pair: Pair):
    stored = await pair.site.admin.get(kinds.CONFIG_MAPS, keys.SETTINGS_NAME, "cozy-system")
    ask = canary.question(CONFIG, stored["metadata"]["resourceVersion"])
    for who in (pair.site.controller, pair.site.admin):
        said = await refused(who.create(kinds.CONFIG_MAPS, ask))
        assert "asked for by dry run, never stored" in (said or "")
    with pytest.raises(errors.NotFound):
        await pair.site.admin.get(kinds.CONFIG_MAPS, keys.CANARY_NAME, "cozy-system")


@pytest.mark.parametrize(
    ("name", "namespace"),
    [("other", "cozy-system"), (keys.CANARY_NAME, policy_site.TENANT)],
)
async def test_no_other_config_map_is_judged(pair: Pair, name: str, namespace: str):
    body = {"metadata": {"name": name, "namespace": namespace}, "data": {"a": "b"}}
    await pair.site.admin.create(kinds.CONFIG_MAPS, body, dry_run=True)


async def test_the_controller_may_ask_where_each_api_server_is(pair: Pair):
    """None is known here: an EndpointSlice names no loopback address."""
    async with endpoints.doors(pair.site.controller) as doors:
        assert (doors.each, doors.usual_name) == ({}, pair.first)
    meta = {"name": "kubernetes", "namespace": "default"}
    body = {
        "metadata": meta | {"labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"]}, {"addresses": ["192.0.2.2"]}],
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
    }
    await pair.site.admin.create(kinds.ENDPOINT_SLICES, body)
    try:
        async with endpoints.doors(pair.site.controller) as doors:
            assert list(doors.each) == ["192.0.2.1:6443", "192.0.2.2:6443"]
    finally:
        await pair.site.admin.delete(kinds.ENDPOINT_SLICES, "kubernetes", "default")


async def test_settings_follow_at_both_while_nothing_is_frozen(pair: Pair):
    for raw_names in (RawNames.ALLOWED, RawNames.DENIED):
        await pair.site.write_settings(raw_names)
        await pair.until_all(RAW, denied=raw_names is RawNames.DENIED)


async def test_an_api_server_without_the_binding_is_not_in_force(pair: Pair):
    """As in the second before it is compiled: nothing is refused, which is no proof."""
    await pair.site.admin.delete(kinds.POLICY_BINDINGS, CANARY)
    asking = Canary(pair.site.controller, CONFIG, doors=pair.doors, clock=SystemClock())

    async def noticed() -> bool:
        report = await asking.ask(keys.SETTINGS_NAME)
        return set(report.those(Finding.NOT_IN_FORCE)) == {pair.first, pair.second}

    await eventually(noticed, 30)
    assert (await pair.settled(pair.leader())).reason is Reason.CURRENT


async def test_a_frozen_api_server_is_seen_and_named(pair: Pair):
    """Seen before any change of the settings; what it would do after one is the next test."""
    await frozen_first(pair)
    keeping = pair.leader(policies=PolicyMode.RENDERED)  # which only looks
    found = None
    while found is None or found.reason is not Reason.SETTINGS_STALE:
        await keeping.once()
        found = pair.site.said[-1]
    assert found.message.startswith(f"stale settings: {pair.first} reads {keys.SETTINGS_NAME} at ")
    assert pair.second not in found.message
    assert pair.heard[-1].verdicts[pair.second].finding is Finding.PROVED


async def test_frozen_parameters_are_judged_by_for_ever(pair: Pair):
    """The trap as it is: the policies go on with what they saw last."""
    await pair.site.write_settings(RawNames.DENIED, (*policy_site.NAMES, NEW))
    await eventually(lambda: pair.is_refused(pair.second, NEW))
    assert not await pair.is_refused(pair.first, NEW)
    assert await pair.is_refused(pair.first, RAW)


async def test_the_leader_gets_out_of_it_without_a_restart(pair: Pair):
    found = await pair.settled(pair.leader())
    assert Reason.SETTINGS_STALE in {one.reason for one in pair.site.said}
    assert found.message == (
        "stored as this version means it, and the current settings, read from "
        f"cozystack-gpu-settings-1, are in force at {pair.first}, {pair.second}"
    )
    assert await bound_names(pair) == await copies(pair) == {"cozystack-gpu-settings-1"}
    binder = await pair.site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
    assert binder["status"]["settings"]["configMap"] == "cozystack-gpu-settings-1"
    await pair.until_all(NEW, denied=True)


async def test_changes_reach_the_policies_through_the_copy(pair: Pair):
    keeping = pair.leader()
    for raw_names in (RawNames.ALLOWED, RawNames.DENIED):
        await pair.site.write_settings(raw_names)
        await policy_site.finished(keeping, pair.site.said)
        await pair.until_all(RAW, denied=raw_names is RawNames.DENIED)
    await pair.until_all(NEW, denied=False)


async def test_the_copy_is_guarded_as_the_settings_are(pair: Pair):
    patch = {"data": {"rawResourceNames": "allowed"}}
    said = await refused(
        pair.site.admin.patch(
            kinds.CONFIG_MAPS, "cozystack-gpu-settings-1", patch, "cozy-system", dry_run=True
        )
    )
    assert "only the GPU controller" in (said or "")


async def test_the_next_leader_goes_on_with_the_copy(pair: Pair):
    found = await pair.settled(pair.leader())
    assert "read from cozystack-gpu-settings-1" in found.message
    assert await bound_names(pair) == {"cozystack-gpu-settings-1"}


async def test_frozen_again_it_moves_on_and_leaves_nothing_behind(pair: Pair):
    """Now the copy's name is known to a server that was started since, and that freezes too."""
    await freezing.freeze(pair.site.admin)
    await pair.until_all(RAW, denied=True)
    found = await pair.settled(pair.leader())
    assert "read from cozystack-gpu-settings-2" in found.message
    await pair.settled(pair.leader())
    assert await bound_names(pair) == await copies(pair) == {"cozystack-gpu-settings-2"}
