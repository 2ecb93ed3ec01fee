"""What the checker asks of starts that are answered: a promise is kept on one node, a refusal moves nothing.

Part of `invariants`, and like it shares nothing with what plans: it reads objects only.
"""

from collections.abc import Iterator, Mapping

from gpu.model.naive import Claims, Cluster
from gpu.objects.claims import BindRequest, BindResult, GPUClaim, Phase
from gpu.objects.meta import ObjectKey


def astray(cluster: Cluster, after: Claims) -> Iterator[str]:
    """Yield in words what is wrong with each answer that is given, once claims are as `after` has them."""
    answered: dict[tuple[str, str], BindRequest] = {}
    for key, claim in after.items():
        before, request = cluster.claims.get(key), claim.bind_request
        if request is None or request.result is None:
            continue
        if before is None or before.bind_request != request:
            answered[key.namespace, request.id] = request
    for (namespace, _), request in answered.items():
        keys = [ObjectKey(namespace, name) for name in request.claims]
        now = {key: after.get(key) or cluster.claims.get(key) for key in keys}
        for words in _astray(cluster, request, now):
            yield f"start of VM {namespace}/{request.vmi}: {words}"


def _astray(
    cluster: Cluster, request: BindRequest, now: Mapping[ObjectKey, GPUClaim | None]
) -> Iterator[str]:
    for key, claim in now.items():
        told = claim.bind_request if claim else None
        if told != request:
            yield f"claim {key} is not told what the others are"
    if request.result is BindResult.REFUSED:
        for key, claim in now.items():
            old = cluster.claims.get(key)
            if claim and old and (claim.phase, claim.node) != (old.phase, old.node):
                yield f"it is refused, and claim {key} is placed"
        return
    nodes = {claim.node for claim in now.values() if claim and claim.phase is Phase.BOUND}
    if len(nodes) != 1:
        yield f"it is granted on {len(nodes)} nodes"
    for key, claim in now.items():
        found = claim.attached_to if claim else None
        if claim is None or claim.phase is not Phase.BOUND or claim.meta.deleting:
            yield f"it is granted, and claim {key} is not held"
        elif found is None or (found.vmi, found.uid) != (request.vmi, ""):
            yield f"it is granted, and claim {key} is not attached to it"
