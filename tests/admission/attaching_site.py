"""An API server in memory with claims and VMIs, and the VMI webhook before it."""

import asyncio
import base64
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from gpu import keys
from gpu.admission.starting import Limits, Starts
from gpu.config import Config
from gpu.objects import claims, kinds, kubevirt
from gpu.objects.claims import GPUClaim
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey
from tests import builders
from tests.admission import starts
from tests.fakes.cluster import FakeCluster

Json = dict[str, Any]
CONFIG = Config()


@dataclass
class FixedClock:
    """Seconds after START."""

    at: float = 0.0

    def now(self) -> Any:
        return builders.START + timedelta(seconds=self.at)

    def monotonic(self) -> float:
        return self.at


@dataclass
class Site:
    """`stale`: claims as the cache has them, where it lags behind the cluster."""

    api: FakeCluster = field(default_factory=FakeCluster)
    clock: FixedClock = field(default_factory=FixedClock)
    stale: dict[str, Json] = field(default_factory=dict)
    stale_vmis: list[Json] | None = None
    hidden: set[str] = field(default_factory=set)
    """Claims that have not come to the cache yet."""
    unserved: frozenset[str] = frozenset()
    limits: Limits | None = None
    config: Config = CONFIG
    _ids: Any = field(default_factory=itertools.count)

    def claim(self, name: str = "c", **more: Any) -> None:
        raw = builders.raw_claim(name, **{"on": "n1", **more})
        self.api.put(kinds.GPU_CLAIMS, raw)

    def vmi(self, name: str = "vm", **more: Any) -> Json:
        raw = builders.raw_vmi(name, **more)
        if more.get("deleting"):
            raw["metadata"]["finalizers"] = ["keeps"]
        return self.api.put(kinds.VMIS, raw)

    def raw(self, kind: Kind) -> list[Json]:
        found = self.api._objects.get(kind, {})
        return [body for _, body in sorted(found.items())]

    def attached(self, name: str = "c") -> Json | None:
        (found,) = [it for it in self.raw(kinds.GPU_CLAIMS) if it["metadata"]["name"] == name]
        return dict(found.get("status") or {}).get("attachedTo")

    def world(self) -> Any:
        return builders.a_world(
            classes=[builders.a_class()],
            claims=self.seen_claims(),
            vmis=self.seen_vmis(),
            unserved=self.unserved,
        )

    def seen_claims(self) -> list[GPUClaim]:
        """As the cache has them."""
        raw = ((it["metadata"]["name"], it) for it in self.raw(kinds.GPU_CLAIMS))
        return [
            claims.decode(self.stale.get(name, it)) for name, it in raw if name not in self.hidden
        ]

    def seen_vmis(self) -> list[kubevirt.VMI]:
        """As the cache has them."""
        raw = self.raw(kinds.VMIS) if self.stale_vmis is None else self.stale_vmis
        return [kubevirt.decode_vmi(it) for it in raw]

    async def ask(self, question: Any, *, rests_on: Any = None) -> Any:
        answer = question(self.world())
        if rests_on is not None and rests_on(answer):  # a denial: of caches that have caught up
            self.stale.clear()
            self.stale_vmis = None
            self.hidden.clear()
            answer = question(self.world())
        return answer

    def webhook(self) -> Starts:
        return Starts(
            ask=self.ask,
            seen=SeenClaims(self),
            writer=self.api,
            clock=self.clock,
            config=self.config,
            limits=self.limits,
            new_id=lambda: f"id-{next(self._ids)}",
        )

    async def start(self, name: str = "vm", *names: str, dry_run: bool = False) -> Json:
        """Put the CREATE of a VMI that names claims to the webhook; return the response."""
        body = starts.a_vmi(name, gpus=[starts.claim(it) for it in names or ("c",)])
        return dict(await self.webhook()(starts.request(body, dryRun=dry_run)))

    async def create(self, name: str = "vm", *names: str) -> Json:
        """Create a VMI as kube-apiserver does: admitted, then stored if the name is free."""
        body = starts.a_vmi(name, gpus=[starts.claim(it) for it in names or ("c",)])
        response = dict(await self.webhook()(starts.request(body)))
        if response["allowed"]:
            made = starts.answered(body, response)
            await self.api.create(kinds.VMIS, made)
        return response


@dataclass(frozen=True)
class SeenClaims:
    """Claims as a watch shows them that lags by nothing."""

    site: Site

    def get(self, key: ObjectKey) -> GPUClaim | None:
        found = [it for it in self.in_namespace(key.namespace) if it.key == key]
        return found[0] if found else None

    def in_namespace(self, namespace: str) -> tuple[GPUClaim, ...]:
        found = (claims.decode(it) for it in self.site.raw(kinds.GPU_CLAIMS))
        shown = (it for it in found if it.meta.name not in self.site.hidden)
        return tuple(it for it in shown if it.meta.namespace == namespace)

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        async def follow() -> None:
            while True:
                await self.site.api._changed.wait()
                changed()

        return asyncio.ensure_future(follow()).cancel


def codes(response: Json) -> list[str]:
    """Causes of a denial."""
    assert not response["allowed"], response
    return [cause["reason"] for cause in response["status"].get("details", {}).get("causes", [])]


def ids(response: Json) -> dict[str, str]:
    """What a VMI that was admitted carries: claim to id."""
    assert response["allowed"], response
    operations = json.loads(base64.b64decode(response["patch"]))
    (marks,) = [it["value"] for it in operations if it["path"] == "/metadata/annotations"]
    record = json.loads(marks[keys.RESOLVED_CLAIMS_ANNOTATION])
    return {it["claim"]: it["admission"] for it in record if "claim" in it}
