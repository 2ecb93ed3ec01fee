"""Needs: what a pod asks of its node: selectors, affinities, tolerations and amounts, as the scheduler reads them."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from gpu.objects import nodes
from gpu.objects.classes import Toleration
from gpu.objects.decode import Fields, Raw
from gpu.units import MOST

EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 -- as the scheduler reads it where none is given
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_AFFINITIES: Final = ("nodeAffinity", "podAffinity", "podAntiAffinity")
_OF_POD: Final = ("cpu", "memory", "hugepages-")
"""What a pod as a whole may ask for in place of its containers (KEP-2837); a dash ends a prefix."""
_KEPT: Final = 4096
"""Different needs remembered: pods of one owner share theirs, and a cluster has few owners."""
_LONGEST: Final = 4096
"""Bytes of needs that are remembered: longer ones would fill the memory when their pods are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement on labels or fields: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


Selector = tuple[Requirement, ...]
"""All of them must be met; an empty one matches everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerm:
    """One term of a node affinity; terms are ORed, and an empty one matches no node."""

    labels: Selector = ()
    fields: Selector = ()
    """On `metadata.name`, the only field there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTerm:
    """One required term of a pod affinity or anti-affinity."""

    topology: str
    """Label of nodes: those of one value are one place."""
    selector: Selector | None = None
    """Which pods; None is no pod."""
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None
    """None adds no namespace; without names too the term is about the pod's own namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """A port of the node itself that a container takes for as long as the pod runs."""

    port: int
    protocol: str = "TCP"
    address: str = EVERY_ADDRESS
    """Of the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the spec of a pod requires of a node. Preferences and volumes are not in it."""

    selector: Mapping[str, str] = field(default_factory=dict)
    node_terms: tuple[NodeTerm, ...] | None = None
    """None: no required node affinity."""
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    amounts: Mapping[str, int] = field(default_factory=dict)
    """CPU in thousandths, anything else as it counts; the pod's own place among pods is not in it."""
    ports: tuple[HostPort, ...] = ()


def needs(raw: Raw) -> Needs:
    """Read a pod's needs; equal ones of a usual size are one object. Raises DecodeError where they are broken.

    `Pod.needs` is this: a saved pass has no raw pods.
    """
    spec = Fields(raw).child("spec")
    affinity = spec.child("affinity")
    asked: dict[str, Any] = {
        name: found
        for name in ("nodeSelector", "tolerations", "overhead", "resources")
        if (found := spec.raw.get(name))
    }
    for name in affinity.raw:
        if name in _AFFINITIES and (found := affinity.child(name).raw.get(_REQUIRED)) is not None:
            asked[name] = found
    for name in ("containers", "initContainers"):
        asked[name] = [(one.get("resources"), one.get("restartPolicy")) for one in spec.dicts(name)]
    if found := list(_host_ports(spec)):
        asked["ports"] = found
    encoded = msgspec.json.encode(asked)
    return _read(encoded) if len(encoded) <= _LONGEST else _read.__wrapped__(encoded)


def node_terms(required: Fields) -> tuple[NodeTerm, ...]:
    """Read the terms of a node selector, a pod's or a volume's."""
    return tuple(
        NodeTerm(
            labels=_requirements(term, "matchExpressions"),
            fields=_requirements(term, "matchFields"),
        )
        for term in required.children("nodeSelectorTerms")
    )


@functools.lru_cache(maxsize=_KEPT)
def _read(asked: bytes) -> Needs:
    spec = Fields(msgspec.json.decode(asked), "spec")
    return Needs(
        selector=spec.text_map("nodeSelector"),
        node_terms=node_terms(spec.child("nodeAffinity")) if spec.has("nodeAffinity") else None,
        affinity=tuple(map(_pod_term, spec.children("podAffinity"))),
        anti_affinity=tuple(map(_pod_term, spec.children("podAntiAffinity"))),
        tolerations=tuple(
            Toleration(
                key=item.text_or("key"),
                operator=item.text_or("operator") or "Equal",
                value=item.text_or("value"),
                effect=item.text_or("effect"),
                seconds=item.whole("tolerationSeconds") if item.has("tolerationSeconds") else None,
            )
            for item in spec.children("tolerations")
        ),
        amounts=_amounts(spec),
        ports=tuple(
            HostPort(
                port=item.whole("hostPort"),
                protocol=item.text_or("protocol") or "TCP",
                address=item.text_or("hostIP") or EVERY_ADDRESS,
            )
            for item in spec.children("ports")
        ),
    )


def _host_ports(spec: Fields) -> Iterator[Raw]:
    """Yield ports of the node, of whatever runs as long as the pod: an init container does not."""
    for name in ("initContainers", "containers"):
        for container in spec.dicts(name):
            if container.get("ports") and (
                name == "containers" or container.get("restartPolicy") == "Always"
            ):
                ports = Fields(container, spec.at(name)).dicts("ports")
                yield from (port for port in ports if port.get("hostPort"))


def _pod_term(term: Fields) -> PodTerm:
    return PodTerm(
        topology=term.text_or("topologyKey"),
        selector=_selector(term, "labelSelector"),
        namespaces=term.texts("namespaces"),
        namespace_selector=_selector(term, "namespaceSelector"),
    )


def _selector(owner: Fields, name: str) -> Selector | None:
    if not owner.has(name):
        return None
    found = owner.child(name)
    labels = found.text_map("matchLabels")
    equal = (Requirement(key=key, operator="In", values=(labels[key],)) for key in labels)
    return (*equal, *_requirements(found, "matchExpressions"))


def _requirements(owner: Fields, name: str) -> Selector:
    return tuple(
        Requirement(
            key=item.text_or("key"), operator=item.text_or("operator"), values=item.texts("values")
        )
        for item in owner.children(name)
    )


def _amounts(spec: Fields) -> dict[str, int]:
    """Sum as the scheduler does: containers and sidecars add up, an init container is a peak.

    Source: KEP-753 (sidecar containers), KEP-688 (overhead), KEP-2837 (resources of a pod).
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for wants, policy in _containers(spec, "initContainers"):
        sidecar = policy == "Always"
        for name, amount in wants.items():
            if sidecar:
                running[name] = running.get(name, 0) + amount
            peak[name] = max(peak.get(name, 0), running.get(name, 0) + (0 if sidecar else amount))
    for wants, _ in _containers(spec, "containers"):
        for name, amount in wants.items():
            running[name] = running.get(name, 0) + amount
    total = {
        name: max(running.get(name, 0), peak.get(name, 0)) for name in running.keys() | peak.keys()
    }
    whole = nodes.amounts(spec.child("resources").child("requests").raw)
    total |= {name: amount for name, amount in whole.items() if name.startswith(_OF_POD)}
    for name, amount in nodes.amounts(spec.child("overhead").raw).items():
        total[name] = total.get(name, 0) + amount
    return {name: min(total[name], MOST) for name in sorted(total)}


def _containers(spec: Fields, name: str) -> Iterator[tuple[dict[str, int], object]]:
    for resources, policy in spec.raw[name]:
        of = Fields(resources, spec.at(name))
        # An API server writes a limit without a request as a request too.
        limits = nodes.amounts(of.child("limits").raw)
        yield limits | nodes.amounts(of.child("requests").raw), policy
