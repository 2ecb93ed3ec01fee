"""A site whose quota gate is answered by two replicas: the second one is asked about even names."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from tests.real import site as sites

Json = dict[str, Any]
TENANTS = Kind("apps.cozystack.io", "v1alpha1", "tenants", "Tenant")
GATE = "tenants.gpu.cozystack.io"
RELEASES = "tenant-releases.gpu.cozystack.io"
KEY = "gpu.cozystack.io/h100"
SECOND = "replica-2"
CLASSES = ("gold", "h100")
PROBES = ("probe1", "probe2")
"""Names of which the first and the second replica are asked."""
SEEN = 25.0
"""Seconds until a child is seen by both replicas; what is reserved for it expires after thirty."""
_CHART = "cozystack-gpu"
_SECONDS = "request.name.matches('[02468]$')"


@dataclass
class GateSite:
    """Tenants as the host's API would have them; every write is the administrator's."""

    site: sites.Site

    async def parent(self, tenant: str, units: int | None = None, **more: int) -> None:
        """Make a tenant with a budget of h100, and wait until both replicas know of it."""
        wanted = {**more, **({} if units is None else {"h100": units})}
        await self.site.tenant(tenant, **wanted)
        await self.site.shown(tenant, "h100", "gold", **wanted)

        async def known() -> bool:
            told = [await self._refused(name, {KEY: 10**6}, tenant) for name in PROBES]
            return all(f"(parent allows {units}," in words for words in told)

        if units is not None:
            await sites.until(known, sites.LATE, f"the budget of {tenant} known to both replicas")

    async def grantable(self, tenant: str, units: int) -> None:
        """Wait until both replicas would grant a child so many units.

        What is reserved for a child is counted until that is seen, or for half a minute: this waits for less.
        """

        async def passes() -> bool:
            return not any([await self._refused(name, {KEY: units}, tenant) for name in PROBES])

        await sites.until(passes, SEEN, f"{units} of {tenant} to be granted by both replicas")

    async def create(self, namespace: str, name: str, quotas: object, **how: Any) -> Json:
        """Create a Tenant."""
        meta = {"name": name, "namespace": namespace}
        body = {"metadata": meta, "spec": {"resourceQuotas": quotas}}
        return dict(await sites.judged(lambda: self.site.admin.create(TENANTS, body, **how)))

    async def update(self, namespace: str, name: str, quotas: object, **how: Any) -> Json:
        """Change a Tenant's quotas by merge patch."""
        patch = {"spec": {"resourceQuotas": quotas}}
        admin = self.site.admin
        return dict(await sites.judged(lambda: admin.patch(TENANTS, name, patch, namespace, **how)))

    async def release(
        self, namespace: str, name: str, quotas: object, *, kind: str = "Tenant"
    ) -> Json:
        """Create the HelmRelease of a Tenant, as the host does after it."""
        labels = {keys.APPLICATION_KIND_LABEL: kind}
        meta = {"name": f"tenant-{name}", "namespace": namespace, "labels": labels}
        body = {
            "metadata": meta,
            "spec": {"interval": "5m", "values": {"resourceQuotas": quotas}},
        }
        return dict(await sites.judged(lambda: self.site.admin.create(kinds.HELM_RELEASES, body)))

    async def warned(self, path: str, patch: Mapping[str, Any]) -> str:
        """Merge-patch and return the warnings that came with the answer."""
        headers = {"Content-Type": "application/merge-patch+json"}
        body = json.dumps(patch).encode()

        async def patched() -> str:
            answer = await self.site.admin.raw("PATCH", path, body=body, headers=headers)
            if answer.status != HTTPStatus.OK:
                raise errors.from_answer(answer.status, answer.body, None)
            return answer.headers.get("Warning", "")

        return str(await sites.judged(patched))

    async def reserved(self, tenant: str) -> dict[str, Any]:
        """Return what is reserved of a tenant's budgets, by child; nothing where no ConfigMap is."""
        try:
            found = await self.site.admin.get(
                kinds.CONFIG_MAPS, f"{keys.RESERVED_PREFIX}{tenant}", keys.SETTINGS_NAMESPACE
            )
        except errors.NotFound:
            return {}
        data = found.get("data") or {}
        return {child: json.loads(text)["units"] for child, text in data.items()}

    async def share(self) -> None:
        """Have the second replica asked about names that end in an even digit, the first about all others."""
        admin = self.site.admin
        found = await admin.get(kinds.VALIDATING_WEBHOOKS, _CHART)
        url = f"{self.site.product.replicas[SECOND].url}/admission/tenants"
        both = []
        for one in found["webhooks"]:
            if not one["clientConfig"]["service"]["path"].endswith("tenants"):
                both.append(one)
                continue
            ca = one["clientConfig"]["caBundle"]
            both.append(_asked(one, f"!{_SECONDS}"))
            second = {"name": f"second.{one['name']}", "clientConfig": {"url": url, "caBundle": ca}}
            both.append({**_asked(one, _SECONDS), **second})
        await admin.patch(kinds.VALIDATING_WEBHOOKS, _CHART, {"webhooks": both})
        await sites.until(
            self._is_shared,
            sites.LATE,
            "the gate shared by two replicas, and both know the classes",
        )

    async def _is_shared(self) -> bool:
        told = [await self._refused(name, {"gpu.cozystack.io/none": 1}) for name in PROBES]
        keys_known = all(f"gpu.cozystack.io/{name}" in one for name in CLASSES for one in told)
        return keys_known and f'"{GATE}"' in told[0] and f'"second.{GATE}"' in told[1]

    async def _refused(self, name: str, quotas: Json, parent: str = keys.TENANT_ROOT) -> str:
        """Return in which words a Tenant with these quotas is refused; empty if it is not."""
        try:
            await self.create(parent, name, quotas, dry_run=True)
        except errors.ApiError as error:
            return error.message
        return ""


def _asked(webhook: Json, expression: str) -> Json:
    condition = {"name": "share", "expression": expression}
    return {**webhook, "matchConditions": [*webhook["matchConditions"], condition]}


@contextlib.asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[GateSite]:
    """Bring up a plane with two replicas that share the gate, a class and a budgeted tenant."""
    async with sites.opened(directory) as site:
        await site.product.start(SECOND, flags=sites.FAST)
        await site.node("gpu-1", 8)
        await site.offer("h100")
        await site.offer("gold", "nvidia.com/GOLD")
        await site.tenant("tenant-root")
        gate = GateSite(site)
        await gate.share()
        yield gate


async def at_once(*writes: Any) -> list[Json | errors.ApiError]:
    """Make writes at once; each comes to its answer or to its error."""
    found = await asyncio.gather(*writes, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException) and not isinstance(one, errors.ApiError):
            raise one
    return [one for one in found if isinstance(one, dict | errors.ApiError)]
