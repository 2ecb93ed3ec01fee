"""Whether holds are enforced: GPUBinder and classes say it as soon as the webhooks of VMs are touched."""

import pytest
import pytest_asyncio

from gpu import keys
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import start_site as starts

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONDITION = "HoldsNotEnforced"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with starts.opened(tmp_path_factory.mktemp("holds")) as opened:
        yield opened


async def said(site):
    """What each says: reason of the condition, by object."""
    found = {"binder": await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)}
    for name in ("h100", "l40s"):
        found[name] = await site.admin.get(kinds.GPU_CLASSES, name)
    return {
        name: next(
            (
                (one["status"], one["reason"])
                for one in (raw.get("status") or {}).get("conditions", ())
                if one["type"] == CONDITION
            ),
            None,
        )
        for name, raw in found.items()
    }


async def settled(site, *expected):
    async def same():
        return set((await said(site)).values()) == {expected}

    await sites.until(same, 25, f"all say {expected}")


async def test_it_is_said_of_webhooks_that_are_changed_or_gone_until_they_are_back(site):
    await settled(site, "False", "Enforced")
    stored = await site.admin.get(kinds.MUTATING_WEBHOOKS, keys.WEBHOOKS_NAME)
    loose = [one | {"failurePolicy": "Ignore"} for one in stored["webhooks"]]
    await site.admin.patch(kinds.MUTATING_WEBHOOKS, keys.WEBHOOKS_NAME, {"webhooks": loose})
    await settled(site, "True", "WebhooksChanged")
    await site.admin.delete(kinds.MUTATING_WEBHOOKS, keys.WEBHOOKS_NAME)
    await settled(site, "True", "WebhooksMissing")
    meta = {"name": keys.WEBHOOKS_NAME}
    await site.admin.create(
        kinds.MUTATING_WEBHOOKS, {"metadata": meta, "webhooks": stored["webhooks"]}
    )
    await settled(site, "False", "Enforced")
