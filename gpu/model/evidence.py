"""Evidence: whether all pods that used some claims have ended, or what is lacking (domain contract 6).

A pod object that is gone proves nothing: a force delete takes away the object and lets the guest of
a dead node run on. What proves an end is one of `signs.Sign`.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gpu.model import attaching, bind_requests, coverage, pod_ends, sightings
from gpu.model.pod_ends import Used
from gpu.model.signs import Found, Lack, Missing, Proof, Sign
from gpu.model.snapshot import Snapshot
from gpu.model.witness import Witness
from gpu.objects import meta
from gpu.objects.claims import AttachedPod, Attachment, GPUClaim
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.units import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What is known of the pods of some claims of one namespace."""

    namespace: str
    found: tuple[Found, ...]
    missing: tuple[Missing, ...]
    vmis: frozenset[tuple[ObjectKey, str]]
    unnoted: frozenset[tuple[str, str]] = frozenset()

    @property
    def ended(self) -> frozenset[str]:
        """Pods that are known to have ended."""
        open_pods = {missing.pod for missing in self.missing}
        return frozenset(found.pod for found in self.found) - open_pods

    @property
    def proof(self) -> Proof | None:
        """The proof that all of them ended and no other came; None while one lacks evidence."""
        if self.missing:
            return None
        return replace(self.proof_of(self.ended), vmis=self.vmis, unnoted=self.unnoted)

    def proof_of(self, pods: Iterable[str]) -> Proof:
        """Return the proof for some of the pods that ended; it does not rule out others."""
        wanted = frozenset(pods)
        signs = [found for found in self.found if found.pod in wanted]
        looked: dict[NodeName, tuple[datetime, datetime]] = {}
        for found in signs:
            if found.sign is Sign.NODE_LOOKED and found.node and found.since and found.at:
                since, until = looked.get(found.node, (found.since, found.at))
                looked[found.node] = (min(since, found.since), max(until, found.at))
        absent = {Sign.NEVER_PLACED, Sign.NOT_HELD, Sign.NODE_LOOKED}
        return Proof(
            words=tuple(found.words for found in signs),
            namespace=self.namespace,
            ended=frozenset(found.pod for found in signs if found.sign is Sign.ENDED),
            gone=frozenset(found.pod for found in signs if found.sign in absent),
            off=frozenset(f.node for f in signs if f.sign is Sign.NODE_OFF and f.node),
            looked=looked or None,
            known=wanted,
        )


def judge(looking: Witness, claims: Iterable[GPUClaim]) -> Proof | None:
    """Return the proof that no pod uses the claims any more, or None; claims of one namespace.

    Claims attached to nothing need no evidence. An attachment whose VMI may still come has none.
    """
    return look(looking, claims).proof


def look(looking: Witness, claims: Iterable[GPUClaim]) -> Look:
    """Return what is known of every pod that an attachment records or its VMI lists."""
    there = (sightings.known(looking.sightings, claim) for claim in claims)
    users = [claim for claim in there if claim.attached_to is not None]
    found: list[Found] = []
    missing: list[Missing] = []
    vmis: set[tuple[ObjectKey, str]] = set()
    for claim in users:
        vmi = vmi_of(looking.snapshot, claim)
        uid = vmi.meta.uid if vmi else claim.attached_to.uid if claim.attached_to else ""
        if uid:
            vmis.add((_key(claim), uid))
        elif claim.attached_to and may_come(looking, claim.attached_to):
            seconds = int(looking.grace.attachment)
            vm = _key(claim).name
            missing.append(Missing(lack=Lack.START_PENDING, vm=vm, seconds=seconds))
    pods = _pods(looking, users)
    over = tuple(_over(looking.snapshot, users))
    missing += [lack for one in over for lack in _unnoted(looking.snapshot, *one, pods)]
    for uid in sorted(pods):
        for sign in pod_ends.signs(looking, pods[uid], users):
            if isinstance(sign, Found):
                found.append(sign)
            else:
                missing.append(sign)
    if not missing:
        missing += _promised(looking.snapshot, users)
    return Look(
        namespace=users[0].meta.namespace if users else "",
        found=tuple(found),
        missing=tuple(sorted(set(missing), key=lambda item: (_RANK[item.lack], item.pod))),
        vmis=frozenset(vmis),
        unnoted=frozenset(
            (attachment.vmi, attachment.uid)
            for claim, attachment in over
            if _lacks_launcher(looking.snapshot, claim)
        ),
    )


def _over(snapshot: Snapshot, claims: Iterable[GPUClaim]) -> Iterator[tuple[GPUClaim, Attachment]]:
    """Yield claims whose VMI is over."""
    for claim in claims:
        attachment, vmi = claim.attached_to, vmi_of(snapshot, claim)
        if attachment is not None and (vmi is None or vmi.ended or vmi.meta.deleting):
            yield claim, attachment


def _lacks_launcher(snapshot: Snapshot, claim: GPUClaim) -> bool:
    """Say whether a claim was promised to a start, and no launcher of that was ever noted."""
    vmi = vmi_of(snapshot, claim)
    return bind_requests.is_promised(claim) and not attaching.has_launched(claim, vmi)


def _unnoted(
    snapshot: Snapshot, claim: GPUClaim, attachment: Attachment, listed: Container[str]
) -> Iterator[Missing]:
    for pod in attaching.unnoted(snapshot, claim):
        if pod.meta.uid not in listed:
            node, uid = pod.node or pod.pinned, pod.meta.uid
            yield Missing(lack=Lack.POD_NOT_ENDED, vm=attachment.vmi, pod=uid, node=node)


_RANK: Final = {lack: rank for rank, lack in enumerate(Lack)}


def vmi_of(snapshot: Snapshot, claim: GPUClaim) -> VMI | None:
    """Return the VMI that uses the claim, as `coverage.is_user` has it."""
    vmi = snapshot.vmis.get(_key(claim)) if claim.attached_to else None
    return vmi if vmi is not None and coverage.is_user(claim, vmi) else None


def is_over(looking: Witness, claim: GPUClaim, vmi: VMI | None) -> bool:
    """Say whether nobody uses a claim by its attachment any more; `vmi` is its user."""
    claim = sightings.known(looking.sightings, claim)
    return attaching.use(claim, vmi, looking.now, looking.grace.attachment) is attaching.Use.OVER


def may_come(looking: Witness, attachment: Attachment) -> bool:
    """Say whether the VMI of an attachment that has no uid may still come."""
    waited = looking.now - (attachment.since or meta.EPOCH)
    return waited < timedelta(seconds=looking.grace.attachment)


def _promised(snapshot: Snapshot, claims: Iterable[GPUClaim]) -> Iterator[Missing]:
    """Yield the start that was promised its node and whose launcher, pod or no pod so far, is still to come.

    A webhook pins that launcher to the node by what its cache shows, and asks no leader (decision 26).
    """
    for claim in claims:
        vmi = vmi_of(snapshot, claim)
        if vmi is None or vmi.ended or vmi.started or vmi.meta.deleting:
            continue
        if bind_requests.is_promised(claim):
            yield Missing(lack=Lack.START_PENDING, vm=vmi.meta.name, node=claim.node)


def _pods(looking: Witness, claims: Iterable[GPUClaim]) -> dict[str, Used]:
    """Return the pods recorded and listed; of a start that is over without a trace the one that may run."""
    pods: dict[str, Used] = {}
    for claim in claims:
        vm = _key(claim).name
        vmi = vmi_of(looking.snapshot, claim)
        listed = vmi.active_pods if vmi else {}
        recorded = claim.attached_to.pods if claim.attached_to else ()
        seen = (AttachedPod(uid=uid, node=node) for uid, node in listed.items())
        hidden = attaching.unseen(claim, vmi) if is_over(looking, claim, vmi) else None
        for pod in (*recorded, *seen, *((hidden,) if hidden else ())):
            old = pods[pod.uid].pod if pod.uid in pods else pod
            both = AttachedPod(uid=pod.uid, node=old.node or pod.node, ended=old.ended or pod.ended)
            pods[pod.uid] = Used(both, vm)
    return pods


def _key(claim: GPUClaim) -> ObjectKey:
    name = claim.attached_to.vmi if claim.attached_to else ""
    return ObjectKey(claim.meta.namespace, name)
