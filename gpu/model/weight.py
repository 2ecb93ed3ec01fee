"""Weight: how many parts the rules of a pod have, and up to how many anybody looks at them.

A tenant writes them into a VM, thousands of them if it likes, and each is asked of every node or of every
pod: what is heavier than any rule that makes sense must not make the starts of others wait.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from gpu.objects.pod_needs import Needs, PodTerm, Selector

OF_PODS: Final = 128
"""Parts of a pod's affinity and anti-affinity; each is asked of every pod."""
OF_NODES: Final = 1024
"""Parts of what it says of nodes; each is asked of every node."""


def is_heavy(needs: Needs) -> bool:
    """Say whether a pod's rules have more parts than are looked at."""
    return _exceeds(_parts_of_nodes(needs), OF_NODES) or _exceeds(
        _parts((*needs.affinity[: OF_PODS + 1], *needs.anti_affinity[: OF_PODS + 1])), OF_PODS
    )


def light(terms: tuple[PodTerm, ...]) -> tuple[PodTerm, ...]:
    """Return the first of the terms, as many as are looked at."""
    kept = terms[:OF_PODS]
    while kept and _exceeds(_parts(kept), OF_PODS):
        kept = kept[: len(kept) // 2]
    return kept


def _exceeds(parts: Iterator[object], most: int) -> bool:
    return next(islice(parts, most, None), None) is not None


def _parts(terms: Iterable[PodTerm]) -> Iterator[object]:
    for term in terms:
        yield term
        yield from term.namespaces
        yield from _of(term.selector or ())
        yield from _of(term.namespace_selector or ())


def _parts_of_nodes(needs: Needs) -> Iterator[object]:
    for term in needs.node_terms or ():
        yield term
        yield from _of(term.labels)
        yield from _of(term.fields)
    yield from needs.tolerations


def _of(selector: Selector) -> Iterator[object]:
    for requirement in selector:
        yield requirement
        yield from requirement.values
