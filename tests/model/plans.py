"""Plans to be judged: a cluster in which claims stand, and claims as a plan leaves them."""

from dataclasses import replace

from gpu.model import invariants
from gpu.model.naive import Cluster
from gpu.objects.claims import Phase
from tests.builders import a_claim, a_class, a_node


def a_cluster(*claims, **objects):
    keyed = {claim.key: claim for claim in claims}
    good = {"classes": [a_class()], "nodes": [a_node(), a_node("n2")], "stood": keyed}
    given = {**good, "claims": keyed, **objects}
    return Cluster(
        **{name: tuple(part) if isinstance(part, list) else part for name, part in given.items()}
    )


def on(claim, node="n1"):
    return replace(claim, phase=Phase.BOUND, node=node)


def lost(claim):
    return replace(claim, phase=Phase.LOST)


def broken(cluster, *planned):
    """The rules a plan breaks, each once, sorted."""
    return sorted({found.rule for found in invariants.judge(cluster, planned)})


def order(name="new", **more):
    return a_claim(name, at=9, **more)


def placing(*others, new=None, **objects):
    """What is broken by binding a new order on n1 beside other claims."""
    new = new or order()
    return broken(a_cluster(new, *others, **objects), on(new))
