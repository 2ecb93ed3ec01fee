"""Launcher create: tolerations, and the gate or the node that its claims are on, once.

Asked are launchers that KubeVirt makes of a VMI which the VMI webhook has looked at, the temporary pod
for a volume that waits for its first consumer too. Nothing is decided by an annotation of KubeVirt: a
tenant can set those. A target of a migration is left alone, KubeVirt deletes one that stays pending.

Under `binding: request` the claims are placed before the VMI is there, and it is pinned to their node.
KubeVirt may take that pin off again before it makes the pod (it has a VMI follow its VM's affinity), so
the pod is pinned here too; one whose claims are not known to be on one node waits at the gate.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gpu import keys
from gpu.admission import review
from gpu.admission.jsonpatch import Editor
from gpu.admission.review import Allowed, Answer, Denied, Review
from gpu.config import Binding, Config, RawPlacement
from gpu.errors import DecodeError
from gpu.model import pins
from gpu.model.premises import NOTHING, Premises, of_object
from gpu.objects import kubevirt, pod_needs, pods
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass, Toleration
from gpu.objects.decode import Fields
from gpu.objects.kinds import PODS
from gpu.objects.meta import ObjectKey
from gpu.units import ClaimName, NodeName
from gpu.world import World


def answer(asked: Review, world: World, config: Config) -> Answer:
    """Gate or pin a launcher, and let it tolerate what its classes do. Anything else passes as it is.

    It is one or the other whatever the record says: without either it would start past every hold.
    """
    if not _is_pod(asked) or asked.user != config.kubevirt_controller_user:
        return Allowed()
    try:
        fields = Fields(asked.object)
        meta = fields.child("metadata")
        labels, annotations = meta.text_map("labels"), meta.text_map("annotations")
        if not _is_launcher(labels) or keys.RESOLVED_CLAIMS_ANNOTATION not in annotations:
            return Allowed()
        spec = fields.child("spec")
        gates = [one.text_or("name") for one in spec.children("schedulingGates")]
        present = [_normal(one) for one in spec.children("tolerations")]
        record = annotations[keys.RESOLVED_CLAIMS_ANNOTATION]
        is_requested = config.binding is Binding.REQUEST
        node = _home(asked, world, record) if is_requested else None
        terms = pins.terms(asked.object or {}) if is_requested else []
    except DecodeError as error:
        return Denied(code=review.INVALID, reason="Invalid", message=f"pod {asked.title}: {error}")
    if config.raw_placement is RawPlacement.SCHEDULER and _is_raw(record):
        return Allowed()
    editor = Editor(asked.object or {})
    if node is not None:
        editor.put(pins.PATH, pins.narrowed(terms, node))
    elif keys.PLACEMENT_GATE not in gates:
        before = spec.raw.get("schedulingGates") or []
        editor.put(("spec", "schedulingGates"), [*before, {"name": keys.PLACEMENT_GATE}])
    offers, missing = _classes(asked, world, record)
    added = [one for one in _tolerations(offers) if one not in present]
    if added:
        before = spec.raw.get("tolerations") or []
        editor.put(("spec", "tolerations"), [*before, *added])
    # Tolerations come now or never.
    return Allowed(patch=tuple(editor.operations), rests_on=missing)


def _is_pod(asked: Review) -> bool:
    kind = (asked.group, asked.plural, asked.subresource)
    return asked.operation == review.CREATE and kind == (PODS.group, PODS.plural, "")


def _is_launcher(labels: Mapping[str, str]) -> bool:
    is_target = pods.MIGRATION_LABEL in labels
    return labels.get(pods.LAUNCHER_LABEL) == pods.LAUNCHER_VALUE and not is_target


def _is_raw(record: str) -> bool:
    return kubevirt.parse_resolved(record) == ({}, {})


def _home(asked: Review, world: World, record: str) -> NodeName | None:
    """Return the one node that holds all the units a launcher asks for; None where that is not known."""
    held, template = kubevirt.parse_resolved(record) or ({}, {})
    there = [world.snapshot.claim(ObjectKey(asked.namespace, name)) for name in held]
    units: Counter[str] = Counter()
    made: Counter[str] = Counter()
    nodes: set[NodeName | None] = set()
    for claim in filter(None, there):
        offer = world.snapshot.classes.get(claim.class_name)
        attached = claim.attached_to.admission if claim.attached_to else ""
        if offer is None or attached != held[ClaimName(claim.meta.name)]:
            return None
        nodes.add(claim.node if claim.phase is Phase.BOUND and not claim.meta.deleting else None)
        units[offer.resource] += claim.count
        if claim.is_template:
            made[claim.class_name] += claim.count
    if None in there or len(nodes) != 1 or made != Counter(template):
        return None
    asks = pod_needs.needs(asked.object or {}).amounts
    names = {offer.resource for offer in world.snapshot.classes.values()}
    is_covered = all(asks.get(name, 0) <= units[name] for name in names)
    return nodes.pop() if is_covered else None


def _classes(asked: Review, world: World, record: str) -> tuple[list[GPUClass], Premises]:
    """Return the classes of what the record names, by name, and the objects that are not known."""
    held, template = kubevirt.parse_resolved(record) or ({}, {})
    claims = {name: world.snapshot.claim(ObjectKey(asked.namespace, name)) for name in held}
    names = {claim.class_name for claim in claims.values() if claim is not None} | template.keys()
    offers = {name: world.snapshot.classes.get(name) for name in sorted(names)}
    missing = [
        *(of_object(GPUClaim, name, asked.namespace) for name, it in claims.items() if it is None),
        *(of_object(GPUClass, name) for name, it in offers.items() if it is None),
    ]
    return [one for one in offers.values() if one is not None], NOTHING.union(*missing)


def _tolerations(offers: list[GPUClass]) -> Iterator[dict[str, Any]]:
    """Yield those of the classes as the API writes them, each once."""
    told: list[dict[str, Any]] = []
    for offer in offers:
        for one in map(_written, offer.tolerations):
            if one not in told:
                told.append(one)
                yield one


def _written(toleration: Toleration) -> dict[str, Any]:
    seconds = toleration.seconds
    members = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    written: dict[str, Any] = {name: value for name, value in members.items() if value}
    return written if seconds is None else written | {"tolerationSeconds": seconds}


def _normal(fields: Fields) -> dict[str, Any]:
    """Return a pod's toleration with what it leaves out, so that equal ones look alike."""
    return _written(
        Toleration(
            key=fields.text_or("key"),
            operator=fields.text_or("operator") or "Equal",
            value=fields.text_or("value"),
            effect=fields.text_or("effect"),
            seconds=fields.whole("tolerationSeconds") if fields.has("tolerationSeconds") else None,
        )
    )
