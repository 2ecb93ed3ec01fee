"""Release against the truth: machines, guests and clocks that the leader sees only through objects.

Guests run on machines. A machine that is cut off goes on running them, its Node shows Ready for up
to 40 s more, and nobody hears its agent. kubelet of a machine that is not kills a guest whose pod is
gone within 30 s. Whatever happens in whatever order, nothing is let go of that a guest still uses.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu.binder import results
from gpu.binder.changes import DropFinalizer, Place
from gpu.binder.confirms import NodeLooked
from gpu.binder.phase import Scene
from gpu.binder.phases import attachments, release
from gpu.config import Config
from gpu.model import sightings
from gpu.model.draft import Draft
from gpu.model.sightings import Sightings
from gpu.objects.nodes import decode_inventory
from tests import sampling
from tests.builders import (
    H100,
    START,
    a_claim,
    a_node,
    a_pod,
    a_taint,
    a_vmi,
    a_world,
    attachment,
    raw_inventory,
)

pytestmark = pytest.mark.long  # machines as they are, beside what is told of them

quick = sampling.examples(60, 5_000)
NODES = ("n1", "n2")
UNREADY_AFTER, KILLED_WITHIN = 40, 30


@dataclass
class Machine:
    """A machine and what its Node shows."""

    name: str
    cut_at: float | None = None
    ready_since: float = 0
    is_listed: bool = True
    is_vouched_off: bool = False
    inventory: dict | None = None

    def shows_ready(self, now):
        return self.cut_at is None or now < self.cut_at + UNREADY_AFTER

    def became(self, now):
        return self.ready_since if self.shows_ready(now) else self.cut_at + UNREADY_AFTER


@dataclass
class Guest:
    """A guest: where it runs, and its pod's object."""

    uid: str
    node: str
    runs: bool = True
    phase: str = "Running"
    gone_at: float | None = None


@dataclass
class Truth:
    """What really is, and what the leader makes of it."""

    now: float = 1000
    machines: dict = field(default_factory=lambda: {name: Machine(name) for name in NODES})
    guests: dict = field(default_factory=lambda: {"p0": Guest("p0", "n1")})
    is_vmi_there: bool = True
    migrated_to: str = ""
    claim: object = None
    seen: Sightings = field(default_factory=Sightings)
    done: list = field(default_factory=list)

    def __post_init__(self):
        found = attachment("vm", uid="vmi-1", pods={"p0": "n1"})
        self.claim = a_claim("c", on="n1", count=2, attached=found)

    def at(self, seconds) -> datetime:
        return START + timedelta(seconds=seconds)

    # What happens.

    def wait(self, seconds):
        self.now += seconds
        for guest in self.guests.values():
            machine = self.machines[guest.node]
            is_free = guest.gone_at is not None and machine.cut_at is None
            if is_free and self.now >= max(guest.gone_at, machine.ready_since) + KILLED_WITHIN:
                guest.runs = False

    def cut(self, name):
        machine = self.machines[name]
        machine.cut_at = self.now if machine.cut_at is None else machine.cut_at

    def mend(self, name):
        machine = self.machines[name]
        if machine.cut_at is not None and not machine.is_vouched_off and machine.is_listed:
            machine.cut_at, machine.ready_since = None, self.now

    def switch_off(self, name, *, delete):
        """A hoster who vouches has switched it off."""
        machine = self.machines[name]
        self.cut(name)
        machine.is_listed, machine.is_vouched_off = not delete and machine.is_listed, True
        for guest in self.guests.values():
            guest.runs = guest.runs and guest.node != name

    def look(self, name):
        machine = self.machines[name]
        if machine.cut_at is None:
            holders = [g.uid for g in self.guests.values() if g.runs and g.node == name]
            machine.inventory = raw_inventory(name, observed=self.now, held_by=holders)

    def end(self, uid):
        guest = self.guests.get(uid)
        if guest and guest.gone_at is None and self.machines[guest.node].cut_at is None:
            guest.runs, guest.phase = False, "Succeeded"

    def force_delete(self, uid):
        guest = self.guests.get(uid)
        if guest and guest.gone_at is None:
            guest.gone_at = self.now

    def drop_vmi(self):
        self.is_vmi_there = False

    def migrate(self):
        if self.is_vmi_there and "p1" not in self.guests and self.machines["n2"].cut_at is None:
            self.guests["p1"] = Guest("p1", "n2")
            self.migrated_to = "n2"

    def delete_claim(self):
        if self.claim is not None:
            self.claim = replace(self.claim, meta=replace(self.claim.meta, deleting=True))

    def change_leader(self):
        self.seen = Sightings()

    # What the leader sees and does.

    def world(self):
        machines = [machine for machine in self.machines.values() if machine.is_listed]
        out = [a_taint("node.kubernetes.io/out-of-service", effect="NoExecute")]
        there = [guest for guest in self.guests.values() if guest.gone_at is None]
        active = {guest.uid: guest.node for guest in there}
        vmi = a_vmi(uid="vmi-1", active=active, node=self.migrated_to, migrated_to=self.migrated_to)
        fresh = [machine.inventory for machine in machines if machine.inventory is not None]
        return a_world(
            claims=[self.claim] if self.claim else [],
            nodes=[
                a_node(
                    machine.name,
                    ready=machine.shows_ready(self.now),
                    ready_since=machine.became(self.now),
                    taints=out if machine.is_vouched_off else [],
                )
                for machine in machines
            ],
            inventory=[decode_inventory(raw) for raw in fresh],
            pods=[a_pod(g.uid, uid=g.uid, on=g.node, units=2, phase=g.phase) for g in there],
            vmis=[vmi] if self.is_vmi_there else [],
        )

    def look_and_act(self):
        world = self.world()
        snapshot = world.snapshot
        for name in NODES:
            running = sum(2 for g in self.guests.values() if g.runs and g.node == name)
            if name in snapshot.nodes and self.claim is not None and self.claim.attached_to:
                free = snapshot.ledger.free(name, H100)
                recorded = {pod.uid for pod in self.claim.attached_to.pods}
                if all(g.uid in recorded for g in self.guests.values()):
                    assert free <= 8 - running, (name, free, self)
        self.seen = sightings.observe(
            self.seen, snapshot.attached, snapshot.pods, self.at(self.now)
        )
        for phase in (attachments, release):
            scene = Scene(
                world=world,
                draft=Draft.of(snapshot),
                config=Config(),
                now=self.at(self.now),
                sightings=self.seen,
            )
            for change in list(phase.changes_of(scene)):
                if self.is_confirmed(change):
                    self.store(change)

    def is_confirmed(self, change):
        """As the writer reads it past the cache; here only Leases tell more than the world."""
        for confirm in getattr(change, "confirm", ()):
            if isinstance(confirm, NodeLooked):
                cut_at = self.machines[confirm.node].cut_at
                renewed = self.at(self.now if cut_at is None else cut_at)
                if renewed < confirm.at_or_after - timedelta(seconds=10):
                    return False
        return True

    def store(self, change):
        self.done.append(type(change).__name__)
        if isinstance(change, DropFinalizer) or (
            not isinstance(change, Place) and results.after(change).attached_to is None
        ):
            running = [guest for guest in self.guests.values() if guest.runs]
            assert not running, (change, running)
        if isinstance(change, DropFinalizer):
            self.claim = None
        elif self.claim is not None and change.claim == self.claim:
            self.claim = results.after(change)


ONE = st.sampled_from
WAITS = st.tuples(st.just("wait"), ONE([1, 5, 12, 29, 60, 181]))
EVENTS = st.one_of(
    WAITS,
    WAITS,
    st.tuples(ONE(["cut", "mend", "look"]), ONE(NODES)),
    st.tuples(ONE(["end", "force_delete"]), ONE(["p0", "p1"])),
    st.tuples(ONE(["migrate", "delete_claim", "drop_vmi", "change_leader"])),
    st.tuples(st.just("switch_off"), ONE(NODES), st.booleans()),
)
BEGINNINGS = ONE(
    [
        [("drop_vmi",), ("force_delete", "p0")],
        [("cut", "n1"), ("drop_vmi",), ("force_delete", "p0")],
        [("migrate",), ("delete_claim",)],
        [("delete_claim",)],
        [],
    ]
)
"""What leads to where something may go wrong; the events then do their worst."""
HISTORIES = st.builds(
    lambda begins, events: [*begins, *events], BEGINNINGS, st.lists(EVENTS, max_size=15)
)


def play(events, truth=None):
    truth = truth or Truth()
    for name, *args in events:
        if name == "switch_off":
            truth.switch_off(args[0], delete=args[1])
        else:
            getattr(truth, name)(*args)
        truth.look_and_act()
    return truth


@quick
@given(HISTORIES)
def test_nothing_is_let_go_of_that_a_guest_still_uses(events):
    play(events)


@quick
@given(HISTORIES)
def test_and_in_the_end_everything_is_once_the_machines_are_back_or_off(events):
    truth = play(events)
    for name in NODES:
        truth.mend(name)
    for uid in ("p0", "p1"):
        truth.force_delete(uid)
    truth.drop_vmi()
    truth.delete_claim()
    truth.look_and_act()
    for _ in range(4):
        truth.wait(185)
        truth.look_and_act()
    assert truth.claim is None


def test_the_play_finds_a_release_that_comes_too_early():
    """A leader that believed a force delete would be caught here."""
    events = [("cut", "n1"), ("force_delete", "p0"), ("drop_vmi",), ("delete_claim",)]
    truth = play(events)
    assert truth.claim is not None
    assert truth.guests["p0"].runs
    truth.claim = replace(
        truth.claim,
        attached_to=replace(
            truth.claim.attached_to,
            pods=tuple(replace(pod, ended=True) for pod in truth.claim.attached_to.pods),
        ),
    )
    try:
        truth.look_and_act()
    except AssertionError:
        return
    raise AssertionError("a claim was let go under a guest, and nobody noticed")
