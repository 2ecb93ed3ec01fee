"""KubeVirt comes after the product: its policies are in force within seconds, without a restart."""

import pytest

from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from policies import keeper
from tests.real import policy_site
from tests.real import site as sites
from tests.real.policy_site import refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITHIN = 14.0
"""Seconds: a kind that is not served is asked for every 5 s, a policy is compiled within one."""
TENANT = "tenant-a"


async def test_a_kind_that_is_served_later_gets_its_policy_at_once(binaries_built, tmp_path):
    assert WITHIN < keeper.CHECK / 2
    vmis = kinds.VMIS.resource
    async with sites.opened(tmp_path, start=False) as site:
        definition = await site.admin.get(kinds.CRDS, vmis)
        await site.admin.delete(kinds.CRDS, vmis)
        await site.product.start(flags=sites.FAST)
        await site.offer("h100")
        await site.tenant(TENANT)

        async def current() -> bool:
            binder = await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
            told = (binder.get("status") or {}).get("conditions", [])
            return any(c["type"] == "PoliciesCurrent" and c["status"] == "True" for c in told)

        await sites.until(current, 60, "PoliciesCurrent")
        body = {"metadata": {"name": vmis}, "spec": definition["spec"]}
        await site.admin.create(kinds.CRDS, body)

        async def no() -> bool:
            asked = policy_site.vmi(sites.H100, TENANT)
            try:
                said = await refused(site.admin.create(kinds.VMIS, asked, dry_run=True))
            except errors.NotFound:
                return False
            return "cozystack-gpu-vmi-raw-names-policy" in (said or "")

        await sites.until(no, WITHIN, "a VMI that names a raw GPU is refused")
