"""The site of attachments under `binding: request`, with a binder that answers as a test has it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu.config import Binding
from gpu.model import template_claims
from gpu.objects import kinds
from gpu.units import ClassName
from tests import builders
from tests.admission import starts
from tests.admission.attaching_site import CONFIG, Json, Site

REQUEST = replace(CONFIG, binding=Binding.REQUEST)


def made(vm: str = "vm", class_name: str = "h100", index: int = 0) -> str:
    """Name of a VM's template claim."""
    return template_claims.requested_name("tenant-a", vm, ClassName(class_name), index)


@dataclass
class RequestSite(Site):
    """`budget`: what the tenant may use, by key of its quotas."""

    config: Any = REQUEST
    budget: dict[str, Any] = field(default_factory=dict)
    answered: list[tuple[str, ...]] = field(default_factory=list)
    """Sets of claims that the binder has answered."""

    def claims(self) -> dict[str, Json]:
        return {it["metadata"]["name"]: it for it in self.raw(kinds.GPU_CLAIMS)}

    def asked_for(self, name: str = "c") -> Json | None:
        """The request on a claim."""
        return (self.claims()[name].get("status") or {}).get("bindRequest")

    def world(self) -> Any:
        return builders.a_world(
            classes=[builders.a_class(maxCount=4)],
            nodes=[builders.a_node("n1", units=8)],
            namespaces=[builders.a_namespace("tenant-a")],
            releases=[builders.a_release(quotas=builders.budget(**self.budget))]
            if self.budget
            else [],
            claims=self.seen_claims(),
            vmis=self.seen_vmis(),
        )

    async def start(self, name: str = "vm", *names: str, dry_run: bool = False) -> Json:
        return await self.begin(name, [starts.claim(it) for it in names or ("c",)], dry_run=dry_run)

    async def begin(
        self, name: str = "vm", gpus: Sequence[Json] = (), *, dry_run: bool = False, **spec: Any
    ) -> Json:
        """Put the CREATE of a VMI to the webhook; return the response."""
        body = starts.a_vmi(name, gpus=gpus)
        body["spec"] |= spec
        return dict(await self.webhook()(starts.request(body, dryRun=dry_run)))

    @contextlib.asynccontextmanager
    async def binder(
        self, node: str = "n1", refuse: str = "", after: float = 0.1
    ) -> AsyncIterator[None]:
        """Answer complete requests, `after` seconds later: placed on a node, or refused in words."""

        async def run() -> None:
            while True:
                # As soon as something has changed, and the answers are not on all of them yet.
                await asyncio.sleep(after)
                for names in self._unanswered():
                    for name in names:
                        await self._answer(name, node, refuse)
                    self.answered.append(names)

        task = asyncio.ensure_future(run())
        try:
            yield
        finally:
            task.cancel()

    def _unanswered(self) -> list[tuple[str, ...]]:
        found = {name: self.asked_for(name) for name in self.claims()}
        sets = {tuple(it["claims"]) for it in found.values() if it and not it.get("result")}
        return sorted(
            names
            for names in sets
            if len({(found.get(name) or {}).get("id", name) for name in names}) == 1
        )

    async def _answer(self, name: str, node: str, refuse: str) -> None:
        status: Json = {"bindRequest": {"result": "Refused", "message": refuse}}
        if not refuse:
            status = {
                "bindRequest": {"result": "Succeeded"},
                "phase": "Bound",
                "nodeName": node,
                "boundAt": builders.instant(),
            }
        await self.api.patch(
            kinds.GPU_CLAIMS, name, {"status": status}, "tenant-a", subresource="status"
        )
