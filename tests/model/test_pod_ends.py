"""The end of one pod: each sign of it, and each way to have none."""

from dataclasses import replace

import pytest

from gpu.model.sightings import Sightings
from gpu.model.signs import Found, Lack, Sign
from tests.builders import L40, a_node, a_pod, a_vmi, an_inventory
from tests.model.witnessed import JUST_GONE, OUT, PINNED, a_lack, a_user, at, look

SIGNS = {
    "recorded as ended": (
        {"claim": a_user(ended=["p"]), "seen": Sightings()},
        Found(pod="p", sign=Sign.ENDED, node="n1"),
    ),
    "recorded as ended, its node dead since": (
        {"claim": a_user(ended=["p"]), "nodes": [a_node(ready=False)]},
        Found(pod="p", sign=Sign.ENDED, node="n1"),
    ),
    "its object is Succeeded": (
        {"seen": Sightings(), "pods": [a_pod(uid="p", on="n1", phase="Succeeded")]},
        Found(pod="p", sign=Sign.ENDED, node="n1"),
    ),
    "its object is Failed": (
        {"seen": Sightings(), "pods": [a_pod(uid="p", on="n1", phase="Failed")]},
        Found(pod="p", sign=Sign.ENDED, node="n1"),
    ),
    "gone from the gate": (
        {"claim": a_user(pods={"p": ""}), "seen": replace(JUST_GONE, unplaced=frozenset({"p"}))},
        Found(pod="p", sign=Sign.NEVER_PLACED),
    ),
    "gone from the gate, noted with a node by this leader, which sent no pin": (
        {
            "seen": replace(
                JUST_GONE, unplaced=frozenset({"p"}), prepared=frozenset({("tenant-a", "p")})
            )
        },
        Found(pod="p", sign=Sign.NEVER_PLACED),
    ),
    "gone, of an order that never had a node": (
        {"claim": a_user(on=None, pods={"p": ""}), "seen": JUST_GONE},
        Found(pod="p", sign=Sign.NEVER_PLACED),
    ),
    "its node is gone": (
        {"seen": Sightings(), "nodes": []},
        Found(pod="p", sign=Sign.NODE_OFF, node="n1"),
    ),
    "its node is gone and its object is not": (
        {"seen": Sightings(), "nodes": [], "pods": [a_pod(uid="p", on="n1")]},
        Found(pod="p", sign=Sign.NODE_OFF, node="n1"),
    ),
    "its node is out of service": (
        {"seen": Sightings(), "nodes": [a_node(ready=False, taints=[OUT])]},
        Found(pod="p", sign=Sign.NODE_OFF, node="n1"),
    ),
    "nobody knows its node, and that of the claim is gone": (
        {"claim": a_user(pods={"p": ""}), "nodes": []},
        Found(pod="p", sign=Sign.NODE_OFF, node="n1"),
    ),
    "the agent looked after it went": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=911, held_by=["another"])]},
        Found(pod="p", sign=Sign.NOT_HELD, node="n1", at=at(911)),
    ),
    "the agent of a node that is not Ready looked": (
        {
            "seen": JUST_GONE,
            "nodes": [a_node(ready=False)],
            "inventory": [an_inventory(observed=911)],
        },
        Found(pod="p", sign=Sign.NOT_HELD, node="n1", at=at(911)),
    ),
    "its node was Ready for long enough": (
        {"seen": Sightings(absent={"p": at(820)})},
        Found(pod="p", sign=Sign.NODE_LOOKED, node="n1", at=at(1000), since=at(820)),
    ),
    "its node came back, and was Ready for long enough": (
        {"nodes": [a_node(ready_since=815)]},
        Found(pod="p", sign=Sign.NODE_LOOKED, node="n1", at=at(995), since=at(815)),
    ),
}


@pytest.mark.parametrize(("given", "found"), SIGNS.values(), ids=SIGNS)
def test_a_pod_is_known_to_have_ended(given, found):
    seen = look(**given)
    assert (seen.found, seen.missing) == ((found,), ())


UNKNOWN = a_lack(Lack.NODE_UNKNOWN, seconds=180)
SETTLING = a_lack(Lack.NODE_SETTLING, seconds=180)
UNPLACED = Sightings(unplaced=frozenset({"p"}))
GATED = a_pod(uid="p", phase="Pending", gates=["g"])
LACKS = {
    "it runs": (
        {"seen": Sightings(), "pods": [a_pod(uid="p", on="n1")]},
        a_lack(Lack.POD_NOT_ENDED),
    ),
    "it runs on a node that is not Ready": (
        {"seen": Sightings(), "pods": [a_pod(uid="p", on="n1")], "nodes": [a_node(ready=False)]},
        a_lack(Lack.NODE_UNKNOWN),
    ),
    "it waits at the gate, though the node of its claim is gone": (
        {"claim": a_user(pods={"p": ""}), "seen": UNPLACED, "pods": [GATED], "nodes": []},
        a_lack(Lack.POD_NOT_ENDED, None),
    ),
    "pinned to a node that is gone, and not bound to it: the node may come back": (
        {"seen": Sightings(), "pods": [PINNED], "nodes": []},
        a_lack(Lack.POD_NOT_ENDED),
    ),
    "force-deleted on a node that is dead": ({"nodes": [a_node(ready=False)]}, UNKNOWN),
    "force-deleted on a dead node whose agent was heard last before that": (
        {"nodes": [a_node(ready=False)], "inventory": [an_inventory(observed=690)]},
        UNKNOWN,
    ),
    "its node has not been Ready for long enough": (
        {"seen": Sightings(absent={"p": at(821)})},
        SETTLING,
    ),
    "its node came back a short while ago": ({"nodes": [a_node(ready_since=830)]}, SETTLING),
    "since when its node is Ready nobody knows": (
        {"nodes": [replace(a_node(), ready_since=None)]},
        SETTLING,
    ),
    "a new leader has not looked yet": ({"seen": Sightings()}, SETTLING),
    "a new leader saw it for the first time just now": (
        {"seen": Sightings(absent={"p": at(1000)})},
        SETTLING,
    ),
    "the inventory is stale": (
        {
            "seen": Sightings(absent={"p": at(500)}),
            "nodes": [a_node(ready=False)],
            "inventory": [an_inventory(observed=819)],
        },
        UNKNOWN,
    ),
    "the inventory is older than the disappearance": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=899)]},
        SETTLING,
    ),
    "the inventory is no newer than clocks are apart": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=909)]},
        SETTLING,
    ),
    "the inventory is from the future": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=1011)]},
        SETTLING,
    ),
    "the inventory is empty": (
        {"seen": JUST_GONE, "inventory": [an_inventory(healthy=0, observed=950)]},
        SETTLING,
    ),
    "the inventory has no device of the resource": (
        {"seen": JUST_GONE, "inventory": [an_inventory(resource=L40, observed=950)]},
        SETTLING,
    ),
    "the inventory is of another node": (
        {"seen": JUST_GONE, "inventory": [an_inventory("n2", observed=950)]},
        SETTLING,
    ),
    "the agent saw that it holds a device": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=950, held_by=["p"])]},
        SETTLING,
    ),
    "nobody knows what the class is made of": (
        {"seen": JUST_GONE, "inventory": [an_inventory(observed=950)], "classes": []},
        SETTLING,
    ),
    "gone without a node, and nobody saw it at a gate": (
        {"claim": a_user(pods={"p": ""}), "seen": JUST_GONE},
        SETTLING,
    ),
    "gone, once at the gate, and noted with a node by another leader or with its pin": (
        {"seen": replace(JUST_GONE, unplaced=frozenset({"p"}))},
        SETTLING,
    ),
    "gone, and only a pod of that uid elsewhere is known not to be let through": (
        {
            "seen": replace(
                JUST_GONE, unplaced=frozenset({"p"}), prepared=frozenset({("tenant-b", "p")})
            )
        },
        SETTLING,
    ),
    "gone, noted with a node by this leader, and last seen past the gate": (
        {"seen": replace(JUST_GONE, prepared=frozenset({("tenant-a", "p")}))},
        SETTLING,
    ),
    "its VMI lists it, and it is not to be seen": (
        {
            "claim": a_user(pods={}),
            "seen": Sightings(),
            "vmis": [a_vmi(uid="vmi-1", active={"p": "n1"})],
        },
        SETTLING,
    ),
    "its VMI lists it, and it runs": (
        {
            "claim": a_user(pods={}),
            "seen": Sightings(),
            "vmis": [a_vmi(uid="vmi-1", active={"p": ""})],
            "pods": [a_pod(uid="p", on="n1")],
        },
        a_lack(Lack.POD_NOT_ENDED),
    ),
    "its VMI may still come": (
        {"claim": a_user(uid="", since=941, pods={})},
        a_lack(Lack.START_PENDING, None, 60, pod=""),
    ),
}


@pytest.mark.parametrize(("given", "missing"), LACKS.values(), ids=LACKS)
def test_nobody_knows_that_a_pod_has_ended(given, missing):
    seen = look(**given)
    assert (seen.missing, seen.proof) == ((missing,), None)
