"""Rooms: which eligible node of one class is the fullest with room, kept up to date cheaply.

It follows the ledger's list of touched nodes, so a bind costs a few heap steps and not a scan of
all nodes; undoing touches nodes too. Nodes of equal room come by name.
"""

import heapq
from collections.abc import Set as AbstractSet

from gpu.model.ledger import Ledger
from gpu.units import NodeName, ResourceName


class Rooms:
    """Nodes of one class by room. It answers for the ledger as it is at each question."""

    __slots__ = (
        "_heaps",
        "_ledger",
        "_nodes",
        "_resource",
        "_rooms",
        "_seen",
        "_total",
        "_touched",
    )

    def __init__(self, book: Ledger, resource: ResourceName, nodes: AbstractSet[NodeName]) -> None:
        self._ledger = book
        self._resource = resource
        self._nodes = nodes
        self._rooms = {node: book.room(node, resource) for node in nodes}
        self._total = sum(room for room in self._rooms.values() if room > 0)
        self._heaps: dict[int, list[NodeName]] = {}
        for node in sorted(nodes):  # a sorted list is a heap
            self._heaps.setdefault(self._rooms[node], []).append(node)
        self._touched = book.touched.setdefault(resource, [])
        self._seen = len(self._touched)

    def fullest(self, units: int, without: AbstractSet[NodeName]) -> NodeName | None:
        """Return the node with the least room that is still enough."""
        self._follow()
        for room in sorted(self._heaps):
            if room >= units:
                node = self._first(room, without)
                if node is not None:
                    return node
        return None

    def largest(self, without: AbstractSet[NodeName]) -> int:
        """Return the most units that one node has room for."""
        self._follow()
        for room in sorted(self._heaps, reverse=True):
            if room > 0 and self._first(room, without) is not None:
                return room
        return 0

    def free(self, without: AbstractSet[NodeName]) -> int:
        """Return the room of all nodes together."""
        self._follow()
        return self._total - sum(max(0, self._rooms.get(node, 0)) for node in without)

    def _follow(self) -> None:
        touched = self._touched
        while self._seen < len(touched):
            node = touched[self._seen]
            self._seen += 1
            if node not in self._nodes:
                continue
            old, new = self._rooms[node], self._ledger.room(node, self._resource)
            if old != new:
                self._rooms[node] = new
                self._total += max(0, new) - max(0, old)
                heapq.heappush(self._heaps.setdefault(new, []), node)

    def _first(self, room: int, without: AbstractSet[NodeName]) -> NodeName | None:
        """Return the first node by name that has just this room; stale entries go on the way."""
        heap = self._heaps[room]
        passed: list[NodeName] = []
        found: NodeName | None = None
        while heap:
            node = heap[0]
            if self._rooms[node] != room:
                heapq.heappop(heap)
            elif node in without:
                passed.append(heapq.heappop(heap))
            else:
                found = node
                break
        for node in passed:
            heapq.heappush(heap, node)
        if not heap:
            del self._heaps[room]
        return found
