"""Launcher create: gate and tolerations, once.

Asked are launchers that KubeVirt makes of a VMI which the VMI webhook has looked at, the temporary pod
for a volume that waits for its first consumer too. Nothing is decided by an annotation of KubeVirt: a
tenant can set those. A target of a migration is left alone, KubeVirt deletes one that stays pending.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpu import keys
from gpu.admission import review
from gpu.admission.jsonpatch import Editor
from gpu.admission.review import Allowed, Answer, Denied, Review
from gpu.config import Config, RawPlacement
from gpu.errors import DecodeError
from gpu.model.premises import NOTHING, Premises, of_object
from gpu.objects import kubevirt, pods
from gpu.objects.claims import GPUClaim
from gpu.objects.classes import GPUClass, Toleration
from gpu.objects.decode import Fields
from gpu.objects.kinds import PODS
from gpu.objects.meta import ObjectKey
from gpu.world import World


def answer(asked: Review, world: World, config: Config) -> Answer:
    """Gate a launcher, and let it tolerate what its classes do. Anything else passes as it is.

    The gate is put on whatever the record says: a launcher without it would start past every hold.
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
    except DecodeError as error:
        return Denied(code=review.INVALID, reason="Invalid", message=f"pod {asked.title}: {error}")
    record = annotations[keys.RESOLVED_CLAIMS_ANNOTATION]
    if config.raw_placement is RawPlacement.SCHEDULER and _is_raw(record):
        return Allowed()
    editor = Editor(asked.object or {})
    if keys.PLACEMENT_GATE not in gates:
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
