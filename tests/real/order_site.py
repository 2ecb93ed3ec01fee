"""Orders that a webhook judges: made, refused, taken at once, given back."""

from typing import Any, Final

import pytest

from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real.told import unproved

Json = dict[str, Any]

A: Final = "tenant-a"
UNITS: Final = {"h100": 8, "l40s": 16, "raced": 10}
"""Of each class when nothing is ordered."""


def a_claim(
    name: str = "big", class_name: str = "h100", count: int = 9, tenant: str = A, **meta: Any
) -> Json:
    """Return an order."""
    return {
        "apiVersion": kinds.GPU_CLAIMS.api_version,
        "kind": kinds.GPU_CLAIMS.kind,
        "metadata": {"name": name, "namespace": tenant, **meta},
        "spec": {"className": class_name, "count": count},
    }


async def refused(site: sites.Site, body: Json, **how: Any) -> errors.Forbidden:
    """Order as a person of the tenant, and see it refused; return the refusal."""
    with pytest.raises(errors.Forbidden) as caught:
        await site.person(body["metadata"]["namespace"]).create(kinds.GPU_CLAIMS, body, **how)
    return caught.value


async def says(site: sites.Site, body: Json, words: str) -> bool:
    """Tell whether an order is refused by now, in these words: one that is taken is judged by the binder again."""
    try:
        await site.person(body["metadata"]["namespace"]).create(
            kinds.GPU_CLAIMS, body, dry_run=True
        )
    except errors.Forbidden as refusal:
        return words in refusal.message
    return False


async def taken_at_once(site: sites.Site, body: Json, **how: Any) -> Json:
    """Order; again only where the replica says that it could not prove its refusal in time."""
    person = site.person(body["metadata"]["namespace"])
    while True:
        before = unproved(site.product)
        try:
            return await person.create(kinds.GPU_CLAIMS, body, **how)
        except errors.Forbidden:
            if unproved(site.product) == before:
                raise


async def all_free(site: sites.Site) -> None:
    """Wait until the replica counts all units and no order: so it judges what comes next."""

    async def free() -> bool:
        offers = (await site.served(A, "gpuoffers"))["items"]
        shown = {it["metadata"]["name"]: it["status"].get("free") for it in offers}
        return UNITS.items() <= shown.items()

    await sites.until(free, 25, f"{UNITS} free")


async def given_back(site: sites.Site, *orders: str, at_once: bool = False) -> None:
    """Delete orders of A, and see the replica count them no more; or, `at_once`, see them gone."""
    for name in orders:
        await site.person(A).delete(kinds.GPU_CLAIMS, name, A)
    for name in orders:
        await site.gone(A, name)
    if not at_once:
        await all_free(site)
