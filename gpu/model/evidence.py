"""How each pod that used a claim is known to have ended, or what is lacking (domain contract 6).

A pod object that is gone proves nothing: a force delete takes away the object and lets the guest of
a dead node run on. What proves an end is one of `signs.Sign`.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gpu.config import Grace
from gpu.model import attaching, bind_requests, coverage
from gpu.model.sightings import Sightings
from gpu.model.signs import UNSEEN, Found, Lack, Missing, Proof, Sign
from gpu.model.snapshot import Snapshot
from gpu.objects import meta
from gpu.objects.claims import AttachedPod, Attachment, GPUClaim
from gpu.objects.kubevirt import VMI
from gpu.objects.meta import ObjectKey
from gpu.objects.nodes import GPUNode, Node
from gpu.objects.pods import Pod
from gpu.units import NodeName, ResourceName

APART: Final = timedelta(seconds=10)
"""How far clocks of leader and node may be apart; also what kubelet takes to see that a pod went."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What a judgement looks at. Build it with `witness`."""

    snapshot: Snapshot
    inventory: Mapping[NodeName, GPUNode]
    sightings: Sightings
    grace: Grace
    now: datetime


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


def witness(
    snapshot: Snapshot,
    inventory: Iterable[GPUNode],
    sightings: Sightings,
    grace: Grace,
    now: datetime,
) -> Witness:
    """Return what the judgements of one pass look at."""
    return Witness(
        snapshot=snapshot,
        inventory={item.name: item for item in inventory},
        sightings=sightings,
        grace=grace,
        now=now,
    )


def judge(looking: Witness, claims: Iterable[GPUClaim]) -> Proof | None:
    """Return the proof that no pod uses the claims any more, or None; claims of one namespace.

    Claims attached to nothing need no evidence. An attachment whose VMI may still come has none.
    """
    return look(looking, claims).proof


def look(looking: Witness, claims: Iterable[GPUClaim]) -> Look:
    """Return what is known of every pod that an attachment records or its VMI lists."""
    users = [claim for claim in claims if claim.attached_to is not None]
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
    podless = tuple(_without_launcher(looking.snapshot, users))
    missing += [lack for one in podless for lack in _unnoted(looking.snapshot, *one, pods)]
    for uid in sorted(pods):
        for sign in _signs(looking, pods[uid], users):
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
        unnoted=frozenset((attachment.vmi, attachment.uid) for _, attachment in podless),
    )


def _without_launcher(
    snapshot: Snapshot, claims: Iterable[GPUClaim]
) -> Iterator[tuple[GPUClaim, Attachment]]:
    """Yield claims that were promised to a VMI which is over, and for which no launcher was ever noted."""
    for claim in claims:
        attachment, vmi = claim.attached_to, vmi_of(snapshot, claim)
        has_ended = vmi is None or vmi.ended or vmi.meta.deleting
        if attachment is None or not has_ended or not bind_requests.is_promised(claim):
            continue
        if not attaching.has_launched(claim, vmi):
            yield claim, attachment


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


@dataclass(frozen=True, slots=True)
class _Used:
    """A pod that used some claims, as far as attachments and VMI know it."""

    pod: AttachedPod
    vm: str


def _pods(looking: Witness, claims: Iterable[GPUClaim]) -> dict[str, _Used]:
    """Return the pods recorded and listed; of a start that is over without a trace the one that may run."""
    pods: dict[str, _Used] = {}
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
            pods[pod.uid] = _Used(both, vm)
    return pods


def _signs(looking: Witness, used: _Used, claims: Iterable[GPUClaim]) -> Iterator[Found | Missing]:
    """Yield what is known of one pod; of one that is gone, for each node where it may have been."""
    pod = used.pod
    namespace = next(iter(claims)).meta.namespace
    seen = looking.snapshot.pods.get((namespace, pod.uid))
    if pod.ended or (seen is not None and not seen.live):
        yield Found(pod=pod.uid, sign=Sign.ENDED, node=pod.node or None)
        return
    if seen is not None:
        yield _alive(looking, used, seen)
        return
    resources = _resources(looking.snapshot, claims)
    if pod.node:
        nodes = {pod.node}
    elif pod.uid in looking.sightings.unplaced:
        nodes = set()
    else:  # nobody knows where it was; what it may have used of the claims is where they are
        nodes = {claim.node for claim in claims if claim.node}
    for node in sorted(nodes):
        yield _gone(looking, used, node, resources)
    if not nodes:
        yield Found(pod=pod.uid, sign=Sign.NEVER_PLACED)


def _alive(looking: Witness, used: _Used, seen: Pod) -> Found | Missing:
    """Judge a pod whose object lives. One that is pinned and not bound may start yet.

    Its node may come back: that it is off says something of pods that were bound to it only.
    """
    name = seen.node or used.pod.node or None
    node = looking.snapshot.nodes.get(name) if name else None
    if seen.node and _is_off(node):
        return Found(pod=used.pod.uid, sign=Sign.NODE_OFF, node=seen.node)
    lack = Lack.NODE_UNKNOWN if node and not node.ready else Lack.POD_NOT_ENDED
    return Missing(lack=lack, vm=used.vm, pod=used.pod.uid, node=name)


def _gone(
    looking: Witness, used: _Used, name: NodeName, resources: frozenset[ResourceName] | None
) -> Found | Missing:
    uid = used.pod.uid
    node = looking.snapshot.nodes.get(name)
    if node is None or node.out_of_service:
        return Found(pod=uid, sign=Sign.NODE_OFF, node=name)
    since = looking.sightings.absent.get(uid)
    if since is not None:
        at = _agent_looked(looking, uid, name, resources, since)
        if at is not None:
            return Found(pod=uid, sign=Sign.NOT_HELD, node=name, at=at)
        began = settles_from(node, since)
        if began is not None:
            until = began + timedelta(seconds=looking.grace.release_settle)
            if looking.now >= until:
                return Found(pod=uid, sign=Sign.NODE_LOOKED, node=name, at=until, since=began)
    seconds = int(looking.grace.release_settle)
    lack = Lack.NODE_SETTLING if node.ready else Lack.NODE_UNKNOWN
    return Missing(lack=lack, vm=used.vm, pod=uid, node=name, seconds=seconds)


def settles_from(node: Node, since: datetime) -> datetime | None:
    """Return from when on a node counts that lost a pod at `since`; None while it is not Ready."""
    if not node.ready or node.ready_since is None:
        return None
    return max(since, node.ready_since)


def _agent_looked(
    looking: Witness,
    uid: str,
    name: NodeName,
    resources: frozenset[ResourceName] | None,
    since: datetime,
) -> datetime | None:
    """Return when the agent saw the node's devices, none of them held by a pod gone since then.

    Stale inventory, one from the future, and one without a device of every resource prove nothing.
    """
    seen = looking.inventory.get(name)
    if seen is None or seen.observed_at is None or resources is None:
        return None
    at = seen.observed_at
    oldest = looking.now - timedelta(seconds=looking.grace.inventory_stale)
    if not max(since + APART, oldest) <= at <= looking.now + APART:
        return None
    if not resources <= {device.resource for device in seen.devices}:
        return None
    holders = {holder for device in seen.devices for holder in device.held_by}
    return None if _is_among(looking, uid, holders) else at


def _is_among(looking: Witness, uid: str, holders: AbstractSet[str]) -> bool:
    """Say whether a pod may be one of those; one that nobody saw may be any of which there is no object."""
    if not uid.startswith(UNSEEN):
        return uid in holders
    there = {pod for _, pod in looking.snapshot.pod_units.pods} if holders else set()
    return not holders <= there


def _resources(snapshot: Snapshot, claims: Iterable[GPUClaim]) -> frozenset[ResourceName] | None:
    """Return the resources of the claims; None when a class is not known."""
    offers = [snapshot.classes.get(claim.class_name) for claim in claims]
    known = frozenset(offer.resource for offer in offers if offer is not None)
    return known if None not in offers else None


def _is_off(node: Node | None) -> bool:
    return node is None or node.out_of_service


def _key(claim: GPUClaim) -> ObjectKey:
    name = claim.attached_to.vmi if claim.attached_to else ""
    return ObjectKey(claim.meta.namespace, name)
