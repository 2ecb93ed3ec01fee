"""A site whose quota gate is answered by two replicas: the second one is asked about even names."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
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

    async def create(self, namespace: str, name: str, quotas: object, **how: Any) -> Json:
        """Create a Tenant."""
        meta = {"name": name, "namespace": namespace}
        body = {"metadata": meta, "spec": {"resourceQuotas": quotas}}
        return await self.site.admin.create(TENANTS, body, **how)

    async def update(self, namespace: str, name: str, quotas: object, **how: Any) -> Json:
        """Change a Tenant's quotas by merge patch."""
        patch = {"spec": {"resourceQuotas": quotas}}
        return await self.site.admin.patch(TENANTS, name, patch, namespace, **how)

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
        return await self.site.admin.create(kinds.HELM_RELEASES, body)

    async def warned(self, path: str, patch: Mapping[str, Any]) -> str:
        """Merge-patch and return the warnings that came with the answer."""
        answer = await self.site.admin.raw(
            "PATCH",
            path,
            body=json.dumps(patch).encode(),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.status == 200, answer.body
        return answer.headers.get("Warning", "")

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
        await sites.until(self._is_shared, 20, "the gate shared by two replicas")

    async def _is_shared(self) -> bool:
        told = [await self._refused(name) for name in ("probe1", "probe2")]
        return f'"{GATE}"' in told[0] and f'"second.{GATE}"' in told[1]

    async def _refused(self, name: str) -> str:
        """Return in which words a Tenant with a negative quota is refused; empty if it is not."""
        try:
            await self.create("tenant-root", name, {KEY: -1}, dry_run=True)
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
