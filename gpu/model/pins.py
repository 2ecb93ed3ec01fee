"""Pin: a required node affinity narrowed to one node, for whoever writes one on a pod or a VMI.

Terms are ORed: each of them is narrowed, since one more would widen them.
"""

from typing import Final

from gpu.objects.decode import Fields, Raw
from gpu.units import NodeName

Term = dict[str, object]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PATH: Final = ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
"""Where the terms are, of a pod as of a VMI."""


def terms(body: Raw) -> list[Term]:
    """Return the terms of a pod or VMI; one that is empty where there is none. Raises DecodeError."""
    found = Fields(body)
    for name in PATH[:-1]:
        found = found.child(name)
    listed: list[Term] = [*found.dicts(PATH[-1])]
    for term in listed:
        Fields(term, found.at(PATH[-1])).dicts("matchFields")
    return listed or [{}]


def narrowed(listed: list[Term], node: NodeName) -> list[Term]:
    """Return terms, each of which names the node; one that does already stays as it is."""
    return [_narrowed(term, node) for term in listed]


def _narrowed(term: Term, node: NodeName) -> Term:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    fields = Fields(term).dicts("matchFields")
    return term if field in fields else {**term, "matchFields": [*fields, field]}
