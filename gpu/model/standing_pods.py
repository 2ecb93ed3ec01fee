"""Standing pods: live pods that count on a node, by node and by namespace; what changed is followed.

Of 10,000 pods a few change from one pass to the next, and a launcher is judged beside all of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpu.model import ordered, pod_units, weight
from gpu.model.pod_units import PodId
from gpu.objects.pod_needs import PodTerm
from gpu.objects.pods import Pod
from gpu.units import NodeName

Seat = tuple[Pod, NodeName]


@dataclass(slots=True, eq=False)
class StandingPods:
    """Who asks about them next has them follow anew; what was put or taken since is undone then."""

    on: dict[NodeName, dict[PodId, Pod]] = field(default_factory=dict)
    within: dict[str, dict[PodId, Seat]] = field(default_factory=dict)
    """The same by namespace."""
    wary: dict[PodId, tuple[Pod, NodeName, tuple[PodTerm, ...]]] = field(default_factory=dict)
    """Those with an anti-affinity, and as much of it as is looked at."""
    _shown: tuple[Pod, ...] = ()
    _seats: dict[PodId, Seat] = field(default_factory=dict)
    """Where those stand that were shown."""
    _moved: dict[PodId, set[NodeName]] = field(default_factory=dict)
    """Nodes on which a pod was put, or from which it was taken, since they were followed."""

    def follow(self, pods: Iterable[Pod]) -> "StandingPods":
        """Have it be what these pods make it, and nothing else; returns it.

        A pod that is not bound counts where the leader has pinned it. A pin of somebody else does not:
        anybody may name a node in a pod that never runs.
        """
        self._undo()
        shown = tuple(pods)
        gone, come = ordered.changes(self._shown, shown)
        for pod in gone:
            key = pod_units.id_of(pod)
            seat = self._seats.pop(key, None)
            if seat is not None:
                self._take(key, seat[1])
        for pod in come:
            place = pod.node or (pod.pinned if pod.term is not None and not pod.gates else None)
            if place is not None and pod.live:
                self._seats[pod_units.id_of(pod)] = (pod, place)
                self._put(pod, place)
        self._shown = shown
        return self

    def put(self, pod: Pod, node: NodeName) -> None:
        """Have a pod count on a node until pods are followed again."""
        self._moved.setdefault(pod_units.id_of(pod), set()).add(node)
        self._put(pod, node)

    def take(self, pod: Pod, node: NodeName) -> None:
        """Have a pod not count on a node until pods are followed again."""
        key = pod_units.id_of(pod)
        self._moved.setdefault(key, set()).add(node)
        self._take(key, node)

    def _undo(self) -> None:
        for key, nodes in self._moved.items():
            for node in nodes:
                self._take(key, node)
            if key in self._seats:
                self._put(*self._seats[key])
        self._moved.clear()

    def _put(self, pod: Pod, node: NodeName) -> None:
        key = pod_units.id_of(pod)
        self.on.setdefault(node, {})[key] = pod
        self.within.setdefault(pod.meta.namespace, {})[key] = (pod, node)
        if pod.needs.anti_affinity:
            self.wary[key] = (pod, node, weight.light(pod.needs.anti_affinity))

    def _take(self, key: PodId, node: NodeName) -> None:
        self.on.get(node, {}).pop(key, None)
        self.within.get(key[0], {}).pop(key, None)
        self.wary.pop(key, None)
