"""Ground: claims and pods by where the checker looks for them, its own, carried from pass to pass.

It follows what changed, told by identity, and is made anew every so often, so that an error in it
would not stay. Nothing of what plans with its own indexes is used here.
"""

import operator
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.kubevirt import VM, VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.units import ClassName, NodeName, ResourceName

T = TypeVar("T")
K = TypeVar("K")
D = TypeVar("D", bound=Hashable)

_ANEW: Final = 256
"""Looks after which all is sorted anew."""


@dataclass(slots=True, eq=False)
class Ground:
    """What stands. Drawers are never empty; nothing in it may be changed by who reads it."""

    claims: dict[ObjectKey, GPUClaim] = field(default_factory=dict)
    in_namespace: dict[str, dict[ObjectKey, GPUClaim]] = field(default_factory=dict)
    on_node: dict[NodeName, dict[ObjectKey, GPUClaim]] = field(default_factory=dict)
    """Bound claims."""
    settled: dict[str, Counter[ClassName]] = field(default_factory=dict)
    """Units of claims that count for budgets, by namespace and class."""
    pods_on: dict[NodeName, dict[int, Pod]] = field(default_factory=dict)
    """Pods that have not ended, by the node they are on or pinned to, and identity."""
    pods_in: dict[str, dict[int, Pod]] = field(default_factory=dict)
    """The same by namespace, with those that have no node."""
    vmis_in: dict[str, dict[ObjectKey, VMI]] = field(default_factory=dict)
    owners: dict[str, dict[str, ObjectKey]] = field(default_factory=dict)
    """For `naive`: what it found of a namespace, until something in it changes."""
    noted: dict[str, dict[str, list[GPUClaim]]] = field(default_factory=dict)
    """The same: claims by pod."""
    raw: dict[str, Counter[ResourceName]] = field(default_factory=dict)
    """The same."""
    named: dict[ObjectKey, ObjectKey] | None = None
    """For `naive`: what it made of `vms`, until one of them changes."""
    _claims: tuple[GPUClaim, ...] = ()
    _pods: tuple[Pod, ...] = ()
    _vmis: tuple[VMI, ...] = ()
    _vms: tuple[VM, ...] = ()
    _frame: object = None
    _looks: int = 0

    def follow(
        self,
        *,
        claims: tuple[GPUClaim, ...],
        pods: tuple[Pod, ...] = (),
        vmis: tuple[VMI, ...] = (),
        vms: tuple[VM, ...] = (),
        frame: object = None,
    ) -> "Ground":
        """Take in what stands now; `frame` is what else a sum depends on. Returns itself."""
        self._looks += 1
        if self._looks % _ANEW == 0:
            self._forget()
        try:
            self._follow_claims(claims)
            self._follow_pods(pods)
            self._follow_vmis(vmis)
            if any(changes(self._vms, vms)):
                self.named = None
            self._vms = vms
            if frame != self._frame:
                self.raw.clear()
            self._frame = frame
        except BaseException:
            self._forget()
            raise
        return self

    def _follow_claims(self, claims: tuple[GPUClaim, ...]) -> None:
        gone, come = changes(self._claims, claims)
        for claim in gone:
            key = claim.key
            self.claims.pop(key, None)
            _take(self.in_namespace, claim.meta.namespace, key)
            if claim.phase is Phase.BOUND and claim.node is not None:
                _take(self.on_node, claim.node, key)
            self._settle(claim, -1)
        for claim in come:
            key = claim.key
            self.claims[key] = claim
            _lay(self.in_namespace, claim.meta.namespace, key, claim)
            if claim.phase is Phase.BOUND and claim.node is not None:
                _lay(self.on_node, claim.node, key, claim)
            self._settle(claim, +1)
        self._stale(claim.meta.namespace for claim in (*gone, *come))
        self._claims = claims

    def _settle(self, claim: GPUClaim, sign: int) -> None:
        if counts(claim):
            book = self.settled.setdefault(claim.meta.namespace, Counter())
            book[claim.class_name] += sign * claim.count
            if not book[claim.class_name]:
                del book[claim.class_name]
            if not book:
                del self.settled[claim.meta.namespace]

    def _follow_pods(self, pods: tuple[Pod, ...]) -> None:
        gone, come = changes(self._pods, pods)
        for pod in gone:
            if pod.live:
                _take(self.pods_in, pod.meta.namespace, id(pod))
                if (node := pod.node or pod.pinned) is not None:
                    _take(self.pods_on, node, id(pod))
        for pod in come:
            if pod.live:
                _lay(self.pods_in, pod.meta.namespace, id(pod), pod)
                if (node := pod.node or pod.pinned) is not None:
                    _lay(self.pods_on, node, id(pod), pod)
        self._stale(pod.meta.namespace for pod in (*gone, *come))
        self._pods = pods

    def _follow_vmis(self, vmis: tuple[VMI, ...]) -> None:
        gone, come = changes(self._vmis, vmis)
        for vmi in gone:
            _take(self.vmis_in, vmi.meta.namespace, vmi.meta.key)
        for vmi in come:
            _lay(self.vmis_in, vmi.meta.namespace, vmi.meta.key, vmi)
        self._stale(vmi.meta.namespace for vmi in (*gone, *come))
        self._vmis = vmis

    def _stale(self, namespaces: Iterable[str]) -> None:
        for name in set(namespaces):
            self.owners.pop(name, None)
            self.noted.pop(name, None)
            self.raw.pop(name, None)

    def _forget(self) -> None:
        for drawers in (
            self.claims,
            self.in_namespace,
            self.on_node,
            self.settled,
            self.pods_on,
            self.pods_in,
            self.vmis_in,
            self.owners,
            self.noted,
            self.raw,
        ):
            drawers.clear()
        self._claims, self._pods, self._vmis, self._vms = (), (), (), ()
        self.named = None


def counts(claim: GPUClaim) -> bool:
    """Say whether a claim counts for budgets: Bound, Lost, or being deleted."""
    return claim.phase is not Phase.PENDING or claim.meta.deleting


def changes(old: tuple[T, ...], new: tuple[T, ...]) -> tuple[list[T], list[T]]:
    """Return the items of each of two tuples that the other has not, told by identity."""
    begin = _alike(old, new)
    left, right = old[begin:], new[begin:]
    end = _alike(left[::-1], right[::-1])
    left, right = left[: len(left) - end], right[: len(right) - end]
    had, has = set(map(id, left)), set(map(id, right))
    return (
        [item for item in left if id(item) not in has],
        [item for item in right if id(item) not in had],
    )


def _alike(one: tuple[T, ...], other: tuple[T, ...]) -> int:
    """Return how many items at the beginning of both are the same objects."""
    try:
        return operator.indexOf(map(operator.is_, one, other), False)  # noqa: FBT003 - the one looked for
    except ValueError:
        return min(len(one), len(other))


def _lay(drawers: dict[D, dict[K, T]], name: D, key: K, item: T) -> None:
    drawers.setdefault(name, {})[key] = item


def _take(drawers: dict[D, dict[K, T]], name: D, key: K) -> None:
    drawer = drawers.get(name)
    if drawer is not None:
        drawer.pop(key, None)
        if not drawer:
            del drawers[name]


def of(drawers: Mapping[D, Mapping[K, T]], names: Iterable[D]) -> Iterable[tuple[K, T]]:
    """Yield everything in the drawers named, with its key."""
    for name in names:
        yield from drawers.get(name, {}).items()
