"""Facts: what pods and volumes say of nodes at one instant, and what is pinned since; `fit` goes by them."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from gpu.model import pod_units
from gpu.model.matching import Labels
from gpu.model.pod_units import PodId
from gpu.model.standing_pods import StandingPods
from gpu.model.storage import Attached, Storage
from gpu.objects.nodes import Node
from gpu.objects.pod_needs import PodTerm
from gpu.objects.pods import Pod
from gpu.objects.tenants import Namespace
from gpu.units import NodeName

PODS: Final = "pods"
"""What a pod's place among the pods of a node is counted under."""
_NONE: Final = Storage()


@dataclass(slots=True, kw_only=True, eq=False)
class Facts:
    """What is known of one instant, and what is pinned since; of one pass."""

    nodes: Mapping[NodeName, Node]
    namespaces: Mapping[str, Labels]
    storage: Storage
    elsewhere: frozenset[str]
    """Amounts that are counted elsewhere: units of GPUs, by the ledger."""
    edits: int = 0
    """Counts pins; what was found out before one is not true any more."""
    _pods: StandingPods
    """Nobody else's as long as this is asked."""
    _used: dict[NodeName, dict[str, int]] = field(default_factory=dict)
    _attached: dict[NodeName, frozenset[Attached]] = field(default_factory=dict)

    def pin(self, pod: Pod, node: NodeName) -> None:
        """Have a pod count on a node from now on, as one that was let through a moment ago."""
        self._pods.put(pod, node)
        self._used.pop(node, None)
        self._attached.pop(node, None)
        self.edits += 1

    def unpin(self, pod: Pod, node: NodeName) -> None:
        """Undo a pin."""
        self._pods.take(pod, node)
        self._used.pop(node, None)
        self._attached.pop(node, None)
        self.edits += 1

    def on(self, node: NodeName) -> Mapping[PodId, Pod]:
        """Return the live pods on a node, and those pinned to it."""
        return self._pods.on.get(node, {})

    def near(self, terms: tuple[PodTerm, ...], own: str) -> Iterator[tuple[Pod, NodeName]]:
        """Yield the live pods that have a node, of the namespaces that terms may be about."""
        names = {name for term in terms for name in (term.namespaces or (own,))}
        if any(term.namespace_selector is not None for term in terms):
            names = set(self._pods.within)
        for name in names:
            yield from self._pods.within.get(name, {}).values()

    def within(self, namespace: str) -> Iterable[tuple[Pod, NodeName]]:
        """Return the live pods of a namespace that have a node."""
        return self._pods.within.get(namespace, {}).values()

    def node_of(self, pod: Pod) -> NodeName | None:
        """Return where a pod counts, if it does."""
        found = self._pods.within.get(pod.meta.namespace, {}).get(pod_units.id_of(pod))
        return found[1] if found else None

    def wary(self) -> Iterable[tuple[Pod, NodeName, tuple[PodTerm, ...]]]:
        """Return those that must not be beside some others, and which."""
        return self._pods.wary.values()

    def used(self, node: NodeName) -> Mapping[str, int]:
        """Return what the pods of a node ask for together, their number too."""
        found = self._used.get(node)
        if found is None:
            pods = self.on(node)
            found = {PODS: len(pods)}
            for pod in pods.values():
                for name, amount in pod.needs.amounts.items():
                    found[name] = found.get(name, 0) + amount
            self._used[node] = found
        return found

    def attached(self, node: NodeName) -> AbstractSet[Attached]:
        """Return the volumes that the pods of a node use there."""
        found = self._attached.get(node)
        if found is None:
            pods = self.on(node).values()
            found = frozenset(one for pod in pods for one in self.storage.attached(pod))
            self._attached[node] = found
        return found


def of(
    *,
    nodes: Mapping[NodeName, Node],
    pods: Iterable[Pod],
    namespaces: Iterable[Namespace] = (),
    storage: Storage = _NONE,
    elsewhere: Iterable[str] = (),
    promised: Iterable[Pod] = (),
    known: StandingPods | None = None,
) -> Facts:
    """Look at one instant. A pod that is not bound counts where the leader has pinned it, or promised it.

    `known` are the pods as they stood when it was last asked, so that it costs what changed; what was
    made of it before is not to be asked any more.
    """
    standing = (StandingPods() if known is None else known).follow(pods)
    for pod in promised:
        if pod.pinned is not None and pod.live and not pod.gates:
            standing.put(pod, pod.pinned)
    return Facts(
        nodes=nodes,
        namespaces={item.meta.name: item.meta.labels for item in namespaces},
        storage=storage,
        elsewhere=frozenset(elsewhere),
        _pods=standing,
    )
