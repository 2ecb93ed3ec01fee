"""Drain plans for hosters: per GPU node what each set on it would do if the node were cordoned now."""

from collections.abc import Iterable, Iterator
from typing import Final

from apiserver.resources import base
from apiserver.wire.items import Row
from apiserver.wire.table import Column
from apiserver.wire.values import Json, JsonObject
from gpu.config import Config
from gpu.model import drain_plan
from gpu.model.drain_plan import Circumstances, Outcome, Plan, Planned
from gpu.world import World

_FIELDS: Final = {
    Outcome.MOVE: "move",
    Outcome.MOVE_WHEN_STOPPED: "moveWhenStopped",
    Outcome.STAY: "stay",
    Outcome.NO_ROOM: "noRoom",
    Outcome.RELEASE: "release",
}


def rows(config: Config, world: World, namespace: str) -> Iterator[Row]:
    """Yield the plan of every GPU node, by the guard and the rules that this process runs with."""
    del namespace
    if world.unreadable_claims:  # nothing is placed meanwhile: any of them may belong to any set
        return
    about = Circumstances(guard=config.guard, running=config.running_guests, binders=world.binders)
    yield from map(_row, drain_plan.plans(world.snapshot, about))


def _row(plan: Plan) -> Row:
    by = {outcome: [one for one in plan.sets if one.outcome is outcome] for outcome in Outcome}
    held_back = sum(one.held_back for one in plan.sets)
    message = _words(plan, by, held_back)
    spec: JsonObject = {
        "nodeName": plan.node.name,
        "cordoned": plan.node.cordoned,
        "ready": plan.node.ready,
    }
    status: JsonObject = {
        "message": message,
        "total": _sum(plan.sets),
        **{field: _sum(by[outcome]) for outcome, field in _FIELDS.items()},
        "guard": {"limit": plan.guard_limit, "heldBack": held_back, "id": plan.guard_id},
        "sets": [_set(one) for one in plan.sets],
    }
    return Row(
        namespace="",
        name=plan.node.name,
        uid=base.uid("drainplans", "", plan.node.name),
        created=plan.node.meta.created,
        body={"spec": spec, "status": status},
        cells=(
            len(plan.sets),
            len(by[Outcome.MOVE]),
            len(by[Outcome.MOVE_WHEN_STOPPED]),
            len(by[Outcome.STAY]),
            len(by[Outcome.NO_ROOM]),
            message,
            held_back,
            sum(one.units for one in plan.sets),
            str(plan.node.cordoned).lower(),
        ),
    )


def _sum(found: Iterable[Planned]) -> JsonObject:
    found = tuple(found)
    return {"sets": len(found), "units": sum(one.units for one in found)}


def _set(one: Planned) -> JsonObject:
    claims: list[Json] = [
        {"name": claim.meta.name, "className": claim.class_name, "units": claim.count}
        for claim in one.claims
    ]
    shown: dict[str, Json] = {
        "tenant": one.claims[0].meta.namespace,
        "vmName": one.vm.name if one.vm else "",
        "guest": one.guest.value,
        "outcome": one.outcome.value,
        "to": one.to,
        "atOnce": one.at_once,
        "heldBack": one.held_back,
        "units": one.units,
        "claims": claims,
    }
    return base.filled(shown)


def _words(plan: Plan, by: dict[Outcome, list[Planned]], held_back: int) -> str:
    """Say in one sentence what comes of a cordon, and what a person has to do for the rest."""
    if not plan.sets:
        return "nothing is held on it"
    told = "; ".join(_parts(by, held_back))
    lead = "it is cordoned: " if plan.node.cordoned else ""
    return f"{lead}{told}"


def _parts(by: dict[Outcome, list[Planned]], held_back: int) -> Iterator[str]:
    count = {outcome: len(found) for outcome, found in by.items()}
    if count[Outcome.MOVE]:
        yield f"{_sets(count[Outcome.MOVE], 'moves', 'move')} to another node"
    if stopped := count[Outcome.MOVE_WHEN_STOPPED]:
        vms = "the VM is" if stopped == 1 else "the VMs are"
        yield f"{_sets(stopped, 'moves', 'move')} once {vms} stopped, as a cordon ends no guest"
    if count[Outcome.STAY]:
        yield f"{_sets(count[Outcome.STAY], 'stays', 'stay')}, as its class says"
    if count[Outcome.NO_ROOM]:
        yield f"{_sets(count[Outcome.NO_ROOM], 'stays', 'stay')}, as no other node has room"
    if count[Outcome.RELEASE]:
        yield f"{_sets(count[Outcome.RELEASE], 'is', 'are')} being deleted"
    if held_back:
        yield f"the guard holds back {held_back} until a person acknowledges it"


def _sets(count: int, one: str, several: str) -> str:
    return f"1 set {one}" if count == 1 else f"{count} sets {several}"


def resource(config: Config) -> base.Resource:
    """Return the resource as a process with this configuration serves it."""

    def of(world: World, namespace: str) -> Iterator[Row]:
        return rows(config, world, namespace)

    return base.Resource(
        plural="drainplans",
        singular="drainplan",
        kind="DrainPlan",
        namespaced=False,
        verbs=("get", "list"),
        description="What each set on a GPU node would do if the node were cordoned now.",
        columns=(
            Column(name="Sets", type="integer", description="Sets of claims held on the node."),
            Column(name="Moves", type="integer", description="Of them, those that would move."),
            Column(
                name="When-Stopped",
                type="integer",
                description="Those that would move once their VM is stopped.",
            ),
            Column(
                name="Stay", type="integer", description="Those that stay: their class says so."
            ),
            Column(
                name="No-Room",
                type="integer",
                description="Those that no other node has room for.",
            ),
            Column(name="Tells", description="It all in one sentence.", priority=1),
            Column(
                name="Held-Back",
                type="integer",
                description="Those that the guard would ask a person about.",
                priority=1,
            ),
            Column(name="Units", type="integer", description="Units held on it.", priority=1),
            Column(name="Cordoned", description="Whether it is cordoned already.", priority=1),
        ),
        rows=of,
    )


DRAIN_PLANS: Final = resource(Config())
