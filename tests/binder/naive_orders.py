"""Phase orders as one would write it first: every order is judged by itself, nothing is remembered."""

from gpu.binder import changes, conditions
from gpu.binder.changes import Explain, How, Place
from gpu.model import budgets, cases, coverage, entry, mates, orders, placement, refusals, turns
from gpu.model.mates import Spot
from gpu.objects.claims import Cause, Displaced
from gpu.objects.kinds import GPU_CLAIMS
from gpu.units import Units


def changes_of(scene):
    """What `orders.changes_of` yields, the slow way."""
    if scene.world.unreadable_claims:
        return
    draft = scene.draft
    turns.keep_turns(draft, scene.later)
    refused, again = [], 0
    for claim in orders.waiting(draft):
        if set_id(scene, claim) in scene.skip:
            continue
        spot, why = judge(draft, orders.of(claim, mates.of(draft, claim)))
        if set_id(scene, claim) in scene.later:
            if not why:
                resource = draft.snapshot.classes[claim.class_name].resource
                draft.ledger.reserve(spot.node, resource, claim.count)
        elif not why:
            yield from placed(scene, claim, spot)
            again = len(refused)
        else:
            refused.append((claim, why))
    for at, (claim, reasons) in enumerate(refused):
        why = reasons
        if at < again:
            _, why = judge(draft, orders.of(claim, mates.of(draft, claim)))
        if why:
            yield from told(scene, claim, why)


def judge(draft, order):
    """Where the order can go, and why it cannot."""
    turns.serve_lost(draft)
    draft.count_older(order.age)
    offer = draft.snapshot.classes.get(order.class_name)
    if offer is None:
        return None, (*cases.no_tenant(order.tenant), refusals.NoSuchClass(order.class_name))
    spot = None
    asked = {order.class_name: order.count}
    if order.count > 0 and order.mates:
        spot = mates.spot(draft, order.mates, asked)
    elif order.count > 0:
        node = placement.choose(draft, asked)
        spot = Spot(node) if node else None
    return spot, tuple(reasons(draft, order, offer, spot))


def reasons(draft, order, offer, spot):
    """Everything that is wrong with it, in the order it is told."""
    snapshot = draft.snapshot
    yield from cases.no_tenant(order.tenant)
    yield from entry.class_bars(snapshot, offer)
    if not 0 < order.count <= cases.MOST_COUNT:
        yield refusals.BadCount(order.count, cases.MOST_COUNT)
    if order.count > 0:
        wanted, allowed = Units(order.count), cases.max_count(offer)
        if allowed is not None and wanted > allowed:
            yield refusals.OverMaxCount(offer.name, wanted, allowed)
        if spot is None and order.mates:
            units = mates.together(order.mates, {offer.name: wanted})
            yield refusals.NoNodeForSet(len(order.mates) + 1, tuple(sorted(units.items())))
        elif spot is None:
            yield placement.why_not(draft, offer.name, wanted)
        yield from budgets.over(draft.ledger, order.tenant, snapshot.quota_keys(offer.name), wanted)
    if not entry.is_entitled(snapshot, order.tenant, offer):
        yield refusals.NotEntitled(offer.name, order.tenant)


def placed(scene, claim, spot):
    """The placement, behind those of the claims that make room for it beside them."""
    for mate in spot.gathered:
        left = coverage.node_held(mate)
        yield scene.plan(
            Place(
                claim=mate,
                node=spot.node,
                at=scene.now,
                set_id=set_id(scene, claim),
                how=How.GATHERED,
                displaced=Displaced(at=scene.now, node=left, cause=Cause.SET_TORN),
            )
        )
    yield scene.plan(Place(claim=claim, node=spot.node, at=scene.now, set_id=set_id(scene, claim)))


def told(scene, claim, refused):
    """What it says, unless the whole story is stored already."""
    why = conditions.steady(claim, refused)
    story = conditions.waiting(claim, why, scene.now)
    if not claim.has_status or not conditions.says(claim, story):
        yield scene.plan(
            Explain(claim=claim, refusals=why, at=scene.now, set_id=set_id(scene, claim))
        )


def set_id(scene, claim):
    found = mates.set_of(scene.draft, claim)
    return found.id if found else changes.object_set(GPU_CLAIMS, claim.key)
