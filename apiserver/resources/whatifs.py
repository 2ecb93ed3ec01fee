"""What would one change come to? For hosters: who would be over budget, Lost, moved, stuck or let in."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from apiserver.identity import User
from apiserver.resources import base
from apiserver.resources.base import Said
from apiserver.wire import status
from apiserver.wire.status import Cause, StatusError
from apiserver.wire.table import Column
from apiserver.wire.values import Json, JsonObject
from gpu.config import Config
from gpu.model import quota_keys, tenancy, what_if, what_if_budgets
from gpu.model.drain_plan import Circumstances
from gpu.model.what_if import Answer, Fate, StartFate
from gpu.model.what_if_budgets import Budget
from gpu.objects.decode import Fields
from gpu.units import ClassName, NodeName, QuotaKey, TenantName
from gpu.world import World

MOST_TOLD: Final = 100
"""Claims or VMs of one kind that are named; of the others only the number is told."""
_FIELDS: Final = ("over", "lost", "movable", "stuck", "letIn")

_Asks = Callable[[World, Circumstances, Fields], JsonObject]


def answer(config: Config, world: World, body: JsonObject) -> Said:
    """Return the change as asked, and what it comes to. Raises Invalid for one that cannot be made."""
    spec = Fields(body["spec"], "spec")
    asked = [name for name in CHANGES if spec.has(name)]
    if len(asked) != 1:
        told = f"name exactly one change: {', '.join(CHANGES)}"
        raise _invalid(Cause("FieldValueRequired", f"Required value: {told}", "spec"))
    if world.unreadable_claims:
        raise status.try_later(
            f"{len(world.unreadable_claims)} claims cannot be read: nobody knows what they hold", 30
        )
    (name,) = asked
    about = Circumstances(
        guard=config.guard,
        running=config.running_guests,
        binders=world.binders,
        facts=world.fit_facts,
    )
    change = spec.child(name)
    found = CHANGES[name](world, about, change)
    spoken: JsonObject = {name: dict(change.raw)}
    cells = (base.text(found, "message"),)
    return Said({"spec": spoken, "status": found}, cells=cells)


def _set_budget(world: World, about: Circumstances, asked: Fields) -> JsonObject:
    tenant, key = TenantName(asked.text("tenant")), QuotaKey(asked.text("key"))
    if not tenancy.is_tenant(tenant) or base.namespace(world, tenant) is None:
        raise _wrong(asked, "tenant", tenant, "there is no such tenant: name its namespace")
    valid = quota_keys.known(world.snapshot).valid
    if key not in valid:
        raise _wrong(asked, "key", key, f"no GPU quota key: one of {', '.join(valid)}")
    to = asked.units("to")
    budget, found = what_if_budgets.set_budget(world.snapshot, about, tenant, key, to)
    return {**_status(found, _of_budget(budget, found)), "budget": _budget(budget)}


def _retire_class(world: World, _about: Circumstances, asked: Fields) -> JsonObject:
    name = ClassName(asked.text("className"))
    if name not in world.snapshot.classes:
        raise _wrong(asked, "className", name, "no such class: kubectl get gpuclasses lists them")
    found = what_if.retire_class(world.snapshot, name)
    waits = _count(len(found.stuck), "waiting claim is", "waiting claims are")
    parts = [f"{waits} not bound any more"]
    if found.starts_stuck:
        waits = _count(len(found.starts_stuck), "waiting VM is", "waiting VMs are")
        parts.append(f"{waits} not let in any more")
    return _status(found, "; ".join((*parts, "what holds units keeps them")))


def _lose_node(world: World, about: Circumstances, asked: Fields) -> JsonObject:
    found = what_if.lose_node(world.snapshot, about, _node(world, asked, "nodeName"))
    return _status(found, _of_nodes(found))


def _cordon_node(world: World, about: Circumstances, asked: Fields) -> JsonObject:
    found = what_if.cordon_node(world.snapshot, about, _node(world, asked, "nodeName"))
    return _status(found, _of_nodes(found))


def _add_nodes(world: World, about: Circumstances, asked: Fields) -> JsonObject:
    like = _node(world, asked, "like")
    found = what_if.add_nodes(world.snapshot, about, like, asked.units("count"))
    return _status(found, _of_nodes(found))


CHANGES: Final[Mapping[str, _Asks]] = {
    "setBudget": _set_budget,
    "retireClass": _retire_class,
    "loseNode": _lose_node,
    "cordonNode": _cordon_node,
    "addNodes": _add_nodes,
}


def _node(world: World, asked: Fields, field: str) -> NodeName:
    name = NodeName(asked.text(field))
    if name not in what_if.nodes(world.snapshot):
        raise _wrong(asked, field, name, "no such GPU node: kubectl get drainplans lists them")
    return name


def _wrong(asked: Fields, field: str, value: str, why: str) -> StatusError:
    return _invalid(Cause("FieldValueInvalid", f'Invalid value: "{value}": {why}', asked.at(field)))


def _invalid(cause: Cause) -> StatusError:
    return status.invalid(WHAT_IFS.group, WHAT_IFS.kind, "", [cause])


def _status(found: Answer, message: str) -> JsonObject:
    kinds = (found.over, found.lost, found.movable, found.stuck, found.let_in)
    told: dict[str, Json] = dict(zip(_FIELDS, map(_claims, kinds), strict=True))
    told["vmsLetIn"] = _vms(found.starts_let_in)
    told["vmsStuck"] = _vms(found.starts_stuck)
    return {"message": message, **told, "heldBack": found.held_back}


def _claims(found: tuple[Fate, ...]) -> JsonObject:
    units = sum(fate.claim.count for fate in found)
    return _told("claims", len(found), units, map(_claim, found[:MOST_TOLD]))


def _vms(found: tuple[StartFate, ...]) -> JsonObject:
    units = sum(fate.start.units for fate in found)
    return _told("vms", len(found), units, map(_vm, found[:MOST_TOLD]))


def _told(noun: str, count: int, units: int, first: Iterable[JsonObject]) -> JsonObject:
    items: list[Json] = [*first]
    return {noun: count, "units": units, "items": items, "more": count - len(items)}


def _claim(fate: Fate) -> JsonObject:
    claim = fate.claim
    return base.filled(
        {
            "tenant": claim.meta.namespace,
            "name": claim.meta.name,
            "className": claim.class_name,
            "units": claim.count,
            "phase": claim.phase.value,
            "nodeName": claim.node,
            "to": fate.to,
            "reason": fate.why.value,
        }
    )


def _vm(fate: StartFate) -> JsonObject:
    start = fate.start
    return base.filled(
        {
            "tenant": start.tenant,
            "name": start.key.name,
            "units": start.units,
            "to": fate.to,
            "reason": fate.why.value,
        }
    )


def _budget(budget: Budget) -> JsonObject:
    return base.filled(
        {"was": budget.was, "to": budget.to, "used": budget.used, "excess": budget.excess}
    )


def _of_budget(budget: Budget, found: Answer) -> str:
    parts = [f"{budget.used} used of {budget.to}"]
    if budget.excess:
        one, several = (
            "claim is over it, keeps what it holds",
            "claims are over it, keep what they hold",
        )
        parts.append(f"{_count(len(found.over), one, several)}, and nothing more is bound under it")
    if found.let_in:
        parts.append(
            f"{_count(len(found.let_in), 'waiting claim is', 'waiting claims are')} let in"
        )
    if found.starts_let_in:
        waits = _count(len(found.starts_let_in), "waiting VM is", "waiting VMs are")
        parts.append(f"{waits} let in")
    return "; ".join(parts)


def _of_nodes(found: Answer) -> str:
    parts = [
        f"{_count(len(fates), 'claim', 'claims')} {words}"
        for fates, words in (
            (found.lost, "Lost"),
            (found.movable, "to another node"),
            (found.stuck, "stuck"),
            (found.let_in, "let in"),
        )
        if fates
    ]
    if found.starts_let_in:
        parts.append(f"{_count(len(found.starts_let_in), 'waiting VM', 'waiting VMs')} let in")
    if found.held_back:
        parts.append(f"the guard holds back {found.held_back} sets until a person acknowledges it")
    return "; ".join(parts) or "nothing changes for any claim or waiting VM"


def _count(count: int, one: str, several: str) -> str:
    return f"1 {one}" if count == 1 else f"{count} {several}"


def resource(config: Config) -> base.Resource:
    """Return the resource as a process with this configuration serves it."""

    def of(world: World, namespace: str, body: JsonObject, user: User) -> Said:
        del namespace, user
        return answer(config, world, body)

    return base.Resource(
        plural="whatifs",
        singular="whatif",
        kind="WhatIf",
        namespaced=False,
        description="Questions what one change would come to: a budget, a class, a node.",
        verbs=base.ASK,
        columns=(Column(name="Tells", description="What it comes to, in words."),),
        answer=of,
    )


WHAT_IFS: Final = resource(Config())
