"""An order that a VM names is bound beside the VM's other claims, or together with them."""

from gpu.model import mates, orders
from gpu.model.draft import Draft
from gpu.model.orders import Accepted, Refused
from gpu.model.refusals import NoNodeForSet
from tests.builders import a_claim, a_node, a_snapshot, a_vm


def verdict(*held, nodes=(("n1", 8), ("n2", 8)), order=None):
    """What becomes of an order that a VM names beside the claims given."""
    order = order or a_claim("order", count=2, at=9)
    names = [claim.meta.name for claim in (*held, order)]
    snapshot = a_snapshot(
        nodes=[a_node(name, units=units) for name, units in nodes],
        claims=[*held, order],
        vms=[a_vm(claims=names)],
    )
    draft = Draft.of(snapshot)
    return orders.check(draft, orders.of(order, mates.of(draft, order)))


def test_it_goes_where_the_others_are_though_another_node_is_fuller():
    assert verdict(a_claim("a", on="n1"), nodes=(("n1", 8), ("n2", 2))) == Accepted("n1")


def test_it_takes_the_others_along_where_their_node_has_no_room():
    held = a_claim("a", on="n1", count=7)
    assert verdict(held, nodes=(("n1", 8), ("n2", 9))) == Accepted("n2", (held,))


def test_claims_in_use_are_not_taken_along():
    held = a_claim("a", on="n1", count=7, vm="vm")
    assert verdict(held, nodes=(("n1", 8), ("n2", 9))) == Refused(
        (NoNodeForSet(2, (("h100", 9),)),), 9
    )


def test_it_waits_where_no_node_has_room_for_all():
    held = a_claim("a", on="n1", count=7)
    assert verdict(held) == Refused((NoNodeForSet(2, (("h100", 9),)),), 8)


def test_it_waits_while_another_is_lost():
    """Nothing is said of the units it could have alone: its VM could not use them."""
    lost = a_claim("a", lost="n1", count=8)
    assert verdict(lost, nodes=(("n1", 4), ("n2", 4))) == Refused(
        (NoNodeForSet(2, (("h100", 10),)),), 4
    )


def test_another_that_waits_or_goes_is_none_of_it():
    waiting = a_claim("a", count=1, at=10)
    going = a_claim("b", on="n1", count=7, deleting=True)
    assert verdict(waiting, going, nodes=(("n1", 8), ("n2", 8))) == Accepted("n2")


def test_answers_about_free_units_reckon_with_it():
    held, order = a_claim("a", on="n1", count=7), a_claim("order", count=2, at=9)
    snapshot = a_snapshot(
        nodes=[a_node("n1"), a_node("n2", units=9)],
        claims=[held, order],
        vms=[a_vm(claims=["a", "order"])],
    )
    assert orders.most(snapshot, "tenant-a", "h100") == 8
    assert orders.queued(snapshot).claim(held.key).node == "n2"
