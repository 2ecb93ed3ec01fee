"""The API server of a soak: FakeCluster with the policies of placement and pin and the claim's CRD rules.

Also gives objects their times, and counts changes by kind, so that watches need not look at what did not change.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from gpu import keys
from gpu.cluster import errors
from gpu.objects import claims, kinds
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey
from tests.fakes import merging, rules
from tests.fakes.cluster import CREATED, FakeCluster

Raw = dict[str, Any]
PLACEMENT = ("phase", "nodeName", "boundAt", "term")
BINDER = ObjectKey("", keys.BINDER_NAME)


class Api(FakeCluster):
    """Reads of the simulator are direct; a stored dict is never changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[Kind] = Counter()
        self.illegal: list[str] = []
        """Writes of a leader that the CRD's rules refuse, or the contract: always a bug of the binder."""
        self.decoded: dict[tuple[str, str], Any] = {}
        """Typed views by uid and version, which never change; for all watches."""
        self.fenced = 0
        """Placements and pins of an earlier term that were refused."""
        self.now: Callable[[], str] = lambda: CREATED
        """The time here, as objects carry it."""

    # The simulator's side: direct, in no time.

    def all(self, kind: Kind) -> list[Raw]:
        """Every object of a kind, by key."""
        found = self._objects.get(kind, {})
        return [found[key] for key in sorted(found)]

    def find(self, kind: Kind, key: ObjectKey) -> Raw | None:
        return self._objects.get(kind, {}).get(key)

    def edit(self, kind: Kind, raw: Raw, change: Callable[[Raw], None]) -> Raw | None:
        """Store the object changed; None when it is not there any more."""
        live = self.find(kind, rules.key_of(raw))
        if live is None or live["metadata"]["uid"] != raw["metadata"]["uid"]:
            return None
        fresh = merging.fresh(live)
        change(fresh)
        if rules.spec_of(fresh) != rules.spec_of(live):
            fresh["metadata"]["generation"] = live["metadata"].get("generation", 0) + 1
        return self._store(kind, rules.key_of(raw), fresh)

    def remove(self, kind: Kind, raw: Raw, at: str) -> None:
        """Delete an object as somebody would: finalizers keep it."""
        self.edit(kind, raw, lambda it: it["metadata"].setdefault("deletionTimestamp", at))

    def erase(self, kind: Kind, raw: Raw) -> None:
        """Have the object be gone, finalizers or not: grace period 0, or their owner is done."""

        def gone(it: Raw) -> None:
            it["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []}

        self.edit(kind, raw, gone)

    # What a real API server does beside FakeCluster.

    def _store(self, kind: Kind, key: ObjectKey, made: Raw) -> Raw:
        self.counts[kind] += 1
        for name in ("creationTimestamp", "deletionTimestamp"):
            known = self._objects.get(kind, {}).get(key)
            if made["metadata"].get(name) == CREATED and known is None:
                made["metadata"][name] = self.now()
        stored = super()._store(kind, key, made)
        self._history.clear()
        return stored

    def _next(self, kind: Kind, live: Raw, wanted: Raw, sub: str | None) -> Raw:
        made = super()._next(kind, live, wanted, sub)
        if kind == kinds.GPU_CLAIMS:
            self._admit(live, made)
        elif kind == kinds.PODS:
            self._admit_pin(live, made)
        return made

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, **how: Any) -> None:
        """Delete as a leader does: never what waits at the gate, nor a launcher that runs."""
        found = self.find(kind, ObjectKey(namespace or "", name))
        meta = found["metadata"] if found is not None else {}
        asked = {"uid": how.get("uid"), "resourceVersion": how.get("resource_version")}
        if found is not None and all(value in {None, meta[name]} for name, value in asked.items()):
            self.illegal += _ended(kind, found, self.all(kinds.PODS))
        await super().delete(kind, name, namespace, **how)

    def _admit_pin(self, old: Raw, new: Raw) -> None:
        """Refuse a pin of an earlier term: it cannot be undone."""
        if old["spec"].get("schedulingGates") == new["spec"].get("schedulingGates"):
            return
        term = int((new["metadata"].get("annotations") or {}).get(keys.TERM_ANNOTATION, 0))
        self._fence(f"pod {new['metadata']['name']}", term)

    def _admit(self, old: Raw, new: Raw) -> None:
        before, after = old.get("status") or {}, new.get("status") or {}
        if all(before.get(field) == after.get(field) for field in PLACEMENT):
            return
        meta = new["metadata"]
        self._fence(f"gpuclaim {meta['name']}", after.get("term", 0))
        if wrong := _illegal(before, after):
            self.illegal.append(f"{meta['namespace']}/{meta['name']}: {wrong}")
            raise errors.from_status({"code": 422, "reason": "Invalid", "message": wrong})

    def _fence(self, what: str, term: int) -> None:
        binder = self.find(kinds.GPU_BINDERS, BINDER)
        leading = ((binder or {}).get("status") or {}).get("term", 0)
        if binder is None or term < leading:
            self.fenced += 1
            message = f"{what}: term {term}, {leading} places now"
            raise errors.from_status({"code": 422, "reason": "Invalid", "message": message})


def _ended(kind: Kind, found: Raw, pods: list[Raw]) -> list[str]:
    """Return why a leader may not delete an object."""
    name = f"{found['metadata'].get('namespace', '')}/{found['metadata']['name']}"
    if kind == kinds.PODS:
        if found["spec"].get("schedulingGates"):
            return [f"deleted pod {name}, which waits at the gate"]
        return [f"deleted pod {name}, which runs"] if _runs(found) else []
    listed = (found.get("status") or {}).get("activePods") or {}
    mine = [pod for pod in pods if pod["metadata"]["uid"] in listed]
    is_gated = mine and all(pod["spec"].get("schedulingGates") for pod in mine)
    if kind == kinds.VMIS and is_gated:
        return [f"deleted VMI {name}, whose launcher waits at the gate"]
    return []


def _runs(pod: Raw) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] not in {
        "Succeeded",
        "Failed",
    }


def _illegal(before: Raw, after: Raw) -> str:
    """Return which rule of the claim's CRD a status breaks."""
    was, now = before.get("phase", "Pending"), after.get("phase")
    if now is None or ("term" in before and "term" not in after):
        return "status, phase and term may not be removed"
    if claims.Phase(now) not in claims.TRANSITIONS[claims.Phase(was)]:
        return f"phase goes from {was} to {now}"
    if now == "Bound" and not (after.get("nodeName") and after.get("boundAt") and "term" in after):
        return "a Bound claim has nodeName, boundAt and term"
    if now == "Pending" and (after.get("nodeName") or after.get("boundAt")):
        return "a Pending claim has neither nodeName nor boundAt"
    return ""
