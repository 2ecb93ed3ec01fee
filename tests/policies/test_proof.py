"""The keeper with a canary over API servers in memory: what is told, and the way out."""

import contextlib
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pytest

from gpu import keys
from gpu.cluster import errors
from gpu.config import Config, PolicyMode
from gpu.objects import kinds
from policies import asking, keeper
from policies.asking import Canary, Report
from policies.canary import Finding
from policies.keeper import Keeper
from policies.proof import MOVES_APART, Proof
from policies.standing import Reason, Standing
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster
from tests.policies import servers
from tests.policies.servers import CANARY, NAMESPACE, Server
from tests.policies.test_keeper import CONFIG, OURS, put_binder, serve

pytestmark = pytest.mark.looptime
NAME = keys.SETTINGS_NAME
FIRST, SECOND = "10.0.0.1:6443", "10.0.0.2:6443"
DENIED = {"resourceNames": "nvidia.com/x", "rawResourceNames": "denied"}
ALLOWED = DENIED | {"rawResourceNames": "allowed"}


class Ticking(FakeClock):
    """A clock that never tells the same time twice."""

    def now(self) -> datetime:
        self.advance(1)
        return super().now()


@dataclass
class Site:
    """A cluster with two API servers, and leaders that come and go."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    said: list[Standing] = field(default_factory=list)
    heard: list[Report] = field(default_factory=list)
    leads: bool = True
    clock: FakeClock = field(default_factory=Ticking)

    def __post_init__(self) -> None:
        serve(self.cluster, *OURS)
        put_binder(self.cluster)
        self.put_settings(DENIED)
        self.one, self.two = Server(self.cluster), Server(self.cluster)
        self.usual = Server(self.cluster)
        self.each: dict[str, Any] = {FIRST: self.one, SECOND: self.two}

    def put_settings(self, data: dict[str, str]) -> None:
        meta = {"name": NAME, "namespace": NAMESPACE}
        self.cluster.put(kinds.CONFIG_MAPS, {"metadata": meta, "data": data})

    def leader(self, **changes: Any) -> Keeper:
        async def told(found: Standing) -> None:
            self.said.append(found)

        config: Config = replace(CONFIG, **changes)
        opened = servers.doors(self.usual, **self.each)
        canary = Canary(self.cluster, config, doors=opened, clock=self.clock)
        return Keeper(
            self.cluster,
            config,
            report=told,
            leading=lambda: self.leads,
            proof=Proof(canary, config, heard=self.heard.append),
        )

    async def settled(self, keeping: Keeper, rounds: int = 6) -> Standing:
        """Do rounds, as `run` would, until one has nothing to write and nothing to ask."""
        for _ in range(rounds):
            if await keeping.once() > keeper.SETTLE:
                return self.said[-1]
        raise AssertionError(f"not settled after {rounds} rounds: {self.said[-1]}")

    async def params(self) -> set[str]:
        """Return the ConfigMaps that live bindings name."""
        found = (await self.cluster.list_all(kinds.POLICY_BINDINGS)).items
        refs = [item["spec"].get("paramRef", {}).get("name", "") for item in found]
        return {name for name in refs if name.startswith(NAME)}


@pytest.fixture
def site() -> Site:
    return Site()


async def test_what_was_just_written_is_asked_about_in_the_next_round(site: Site):
    keeping = site.leader()
    assert await keeping.once() == keeper.SETTLE
    assert (site.one.asked, site.said[-1].reason) == ([], Reason.CURRENT)
    assert await keeping.once() == keeper.CHECK
    assert len(site.one.asked) == len(site.two.asked) == 2
    assert site.said[-1] == Standing(
        reason=Reason.CURRENT,
        message="stored as this version means it, and the current settings are in force at "
        f"{FIRST}, {SECOND}",
    )


async def test_each_round_of_questions_is_about_a_new_version(site: Site):
    keeping = site.leader()
    await site.settled(keeping)
    stored = await site.cluster.get(kinds.CONFIG_MAPS, NAME, NAMESPACE)
    assert site.one.asked == [stored["metadata"]["resourceVersion"], "0"]
    assert (stored["data"], set(stored["binaryData"])) == (DENIED, {asking.HEARTBEAT})
    assert {write.key.name for write in site.cluster.writes if write.verb == "create"} == set()


async def test_it_asks_every_minute_and_when_the_settings_have_changed(site: Site):
    keeping = site.leader()
    await site.settled(keeping)
    await keeping.once()
    assert len(site.heard) == 1
    site.put_settings(ALLOWED)
    await keeping.once()
    assert len(site.heard) == 2


DOUBTS: list[Any] = [
    pytest.param(
        {"deaf": True},
        Reason.NOT_IN_FORCE,
        f"stored, but not in force: {FIRST} accepts what the canary policy refuses",
        id="it passes what must be refused",
    ),
    pytest.param(
        {"refusal": "quota says no"},
        Reason.NOT_PROVED,
        "not known whether the current settings are in force: "
        f"{FIRST} something else refuses the question: 403 Forbidden: quota says no",
        id="something else refuses",
    ),
    pytest.param(
        {"down": True},
        Reason.NOT_PROVED,
        f"not known whether the current settings are in force: {FIRST} 0",
        id="it does not answer",
    ),
]


@pytest.mark.parametrize(("state", "reason", "words"), DOUBTS)
async def test_an_api_server_in_doubt_is_named(
    site: Site, state: dict[str, Any], reason: Reason, words: str
):
    for name, value in state.items():
        setattr(site.one, name, value)
    keeping = site.leader()
    await keeping.once()
    assert 0 < await keeping.once() <= 10
    assert (site.said[-1].reason, site.said[-1].current) == (reason, False)
    assert site.said[-1].message.startswith(words)
    assert SECOND not in site.said[-1].message
    assert site.heard[-1].verdicts[SECOND].finding is Finding.PROVED
    assert await site.params() == {NAME}


async def test_a_doubt_stays_told_until_a_proof(site: Site):
    site.one.deaf = True
    keeping = site.leader()
    await keeping.once()
    await keeping.once()
    await keeping.once()
    assert (len(site.heard), site.said[-1].reason) == (1, Reason.NOT_IN_FORCE)


async def test_older_policies_are_asked_about_again_before_they_count(site: Site):
    keeping = site.leader()
    await keeping.once()
    site.one.policy = {"spec": {"validations": [{"messageExpression": "'policies 0ld read '"}]}}
    await keeping.once()
    assert site.said[-1].message.startswith(
        f"stored, but not in force: {FIRST} knows policies 0ld, stored are "
    )
    assert len(site.one.asked) == 2 * (1 + len(asking.PAUSES))
    assert len(site.two.asked) == 2


async def test_one_silence_is_no_finding(site: Site):
    site.one.silences = 1
    assert (await site.settled(site.leader())).reason is Reason.CURRENT


async def test_addresses_that_nobody_can_reach_do_not_count_where_the_usual_way_answers(site: Site):
    site.one.down = site.two.down = True
    found = await site.settled(site.leader())
    assert found == Standing(
        reason=Reason.CURRENT,
        message="stored as this version means it, and the current settings are in force at "
        f"usual:443; {FIRST}, {SECOND} cannot be asked one by one from here",
    )


async def test_where_no_address_is_known_the_usual_way_is_asked(site: Site):
    site.each = {}
    assert (await site.settled(site.leader())).message.endswith("in force at usual:443")


async def test_a_replica_that_does_not_lead_asks_nothing(site: Site):
    site.leads = False
    keeping = site.leader()
    await keeping.once()
    await keeping.once()
    assert (site.one.asked, site.said, site.cluster.writes) == ([], [], [])


async def test_with_policies_off_nothing_is_asked(site: Site):
    keeping = site.leader(policies=PolicyMode.OFF)
    for _ in range(3):
        await keeping.once()
    assert (site.one.asked, site.said[-1].reason) == ([], Reason.OFF)
    assert await keeping.once() == keeper.CHECK


async def test_a_frozen_api_server_is_seen_before_the_settings_change(site: Site):
    """The version is new each time, so that a stop shows while old and new say the same."""
    await site.settled(site.leader())
    await site.one.freeze()
    keeping = site.leader()
    await keeping.once()
    assert site.said[-1].reason is Reason.SETTINGS_STALE
    assert site.said[-1].message.startswith(f"stale settings: {FIRST} reads {NAME} at version ")
    assert site.said[-1].message.endswith("binds the policies to a copy under a new name")


async def test_the_leader_gets_out_of_frozen_parameters(site: Site):
    await site.settled(site.leader())
    await site.one.freeze()
    keeping = site.leader()
    found = await site.settled(keeping)
    assert [one.reason for one in site.said[-3:]] == [
        Reason.SETTINGS_STALE,
        Reason.SETTINGS_STALE,
        Reason.CURRENT,
    ]
    assert found.message == (
        "stored as this version means it, and the current settings, read from "
        f"{NAME}-1, are in force at {FIRST}, {SECOND}"
    )
    assert await site.params() == {f"{NAME}-1"}
    site.put_settings(ALLOWED)
    await site.settled(keeping)
    copy = await site.cluster.get(kinds.CONFIG_MAPS, f"{NAME}-1", NAMESPACE)
    assert copy["data"] == ALLOWED


@pytest.mark.parametrize("rounds", [1, 2])
async def test_the_next_leader_goes_on_with_a_move(site: Site, rounds: int):
    await site.settled(site.leader())
    await site.one.freeze()
    first = site.leader()
    for _ in range(rounds):
        await first.once()
    found = await site.settled(site.leader())
    assert (found.reason, await site.params()) == (Reason.CURRENT, {f"{NAME}-1"})
    assert site.one.asked[-1] == "0"


async def test_a_second_freeze_moves_on_and_the_copy_before_goes(site: Site):
    await site.settled(site.leader())
    await site.one.freeze()
    await site.settled(site.leader())
    await site.one.freeze()
    await site.settled(site.leader())
    assert await site.params() == {f"{NAME}-2"}
    left = (await site.cluster.list_all(kinds.CONFIG_MAPS, NAMESPACE)).items
    assert [item["metadata"]["name"] for item in left] == [NAME, f"{NAME}-2"]


async def test_one_leader_does_not_move_over_and_over(site: Site):
    """What a new name does not mend is told, and left."""
    await site.settled(site.leader())
    keeping = site.leader()
    await site.one.freeze()
    await site.settled(keeping)
    await site.one.freeze()
    site.put_settings(ALLOWED)
    for _ in range(3):
        await keeping.once()
    assert await site.params() == {f"{NAME}-1"}
    assert site.said[-1].reason is Reason.SETTINGS_STALE
    assert MOVES_APART > 60


async def test_rendered_bindings_are_left_where_they_are(site: Site):
    await site.settled(site.leader())
    await site.one.freeze()
    keeping = site.leader(policies=PolicyMode.RENDERED)
    await keeping.once()
    assert (site.said[-1].reason, await site.params()) == (Reason.SETTINGS_STALE, {NAME})
    assert "restart that kube-apiserver" in site.said[-1].message


async def test_proved_is_also_what_others_keep(site: Site):
    await site.settled(site.leader())
    found = await site.settled(site.leader(policies=PolicyMode.RENDERED))
    assert (found.reason, "in force at" in found.message) == (Reason.RENDERED, True)


async def test_a_stored_configmap_of_the_canarys_name_hides_nothing(site: Site):
    """From before the policy: it exists, so a question that passed admission ends in a conflict."""
    await site.settled(site.leader())
    meta = {"name": keys.CANARY_NAME, "namespace": NAMESPACE}
    site.cluster.put(kinds.CONFIG_MAPS, {"metadata": meta})
    site.each = {FIRST: site.cluster}
    await site.leader().once()
    assert site.said[-1].reason is Reason.NOT_IN_FORCE


async def test_settings_that_go_while_it_asks_are_no_proof_and_no_bug(site: Site):
    await site.settled(site.leader())
    site.one.deaf = True
    ask = site.one.create

    async def and_go(*args: Any, **how: Any) -> Any:
        with contextlib.suppress(errors.NotFound):
            await site.cluster.delete(kinds.CONFIG_MAPS, NAME, NAMESPACE)
        return await ask(*args, **how)

    site.one.create = and_go  # type: ignore[method-assign] # in the middle of its questions
    keeping = site.leader()
    await keeping.once()
    assert site.said[-1].reason is Reason.NOT_PROVED
    assert "the settings cannot be read" in site.said[-1].message
    await keeping.once()
    assert site.said[-1].reason is Reason.PARAMETER_MISSING


async def test_the_canarys_policy_is_healed_before_anybody_is_asked(site: Site):
    await site.settled(site.leader())
    await site.cluster.delete(kinds.POLICY_BINDINGS, CANARY)
    found = await site.settled(site.leader())
    assert found.reason is Reason.CURRENT
    assert {one.reason for one in site.said} == {Reason.CURRENT}
