"""Words of a reason without the numbers that every bind of somebody else changes.

What is stored or watched must not change while the claim's own case does not: 2,000 waiting orders
would be written, and told to watchers, anew for each one bound. `gpuoffers` tells the numbers.
"""

from gpu.model import gate_reasons, refusals
from gpu.model.gate_reasons import GateReason, OfClaim, OfPod, PodFitsNowhere
from gpu.model.refusals import Refusal


def words(reason: GateReason) -> str:
    """Word a reason to wait, of an order or at the gate; no full stop at the end."""
    if isinstance(reason, PodFitsNowhere):
        return gate_reasons.steady(reason)
    if isinstance(reason, OfClaim | OfPod):
        return gate_reasons.words(reason)
    return _of_refusal(reason)


def _of_refusal(refusal: Refusal) -> str:
    match refusal:
        case refusals.NoFreeUnits(name, wanted):
            return (
                f"{refusals.plural(wanted)} of class {name} asked, fewer are free to order: "
                "wait until units are given back, or order no more than gpuoffers shows"
            )
        case refusals.NoNodeAccepts(name, wanted):
            return (
                f"{refusals.plural(wanted)} of class {name} asked on one node, no node has that "
                "many free: wait until one has, or order no more than gpuoffers shows"
            )
        case refusals.OverBudget() if refusal.unreadable:
            return refusals.words(refusal)
        case refusals.OverBudget(own=True):
            return (
                f"{refusals.plural(refusal.wanted)} asked, less is left of budget {refusal.key} "
                f"of {refusal.tenant}, which is {refusal.hard}: delete a claim or ask for a "
                "larger budget"
            )
        case refusals.OverBudget():
            return (
                f"{refusals.plural(refusal.wanted)} asked, the budget of {refusal.tenant} for "
                f"{refusal.key} leaves less to this tenant: order less, or ask its owner for more"
            )
        case _:
            return refusals.words(refusal)
