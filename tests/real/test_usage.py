"""Usage records on a real control plane: made, owned, collected, kept; also against a host that deletes them."""

import asyncio
import contextlib
from typing import Any

import pytest
import pytest_asyncio

from devcluster import chart
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

MONITOR = keys.WORKLOAD_MONITOR_LABEL


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    directory, values = tmp_path_factory.mktemp("usage"), chart.ORDERS_WAIT
    async with sites.opened(directory, values=values, guarded_owners=True) as opened:
        await opened.node("gpu-1", 32)
        await opened.offer("h100")
        yield opened


async def records(site, tenant) -> dict[str, dict[str, Any]]:
    page = await site.admin.list_all(kinds.WORKLOADS, tenant)
    return {item["metadata"]["name"]: item for item in page.items}


async def recorded(site, tenant, *names, monitor: str | None = None):
    """Wait until exactly these claims have records, under the monitor given."""
    wanted = {f"gpuclaim-{name}": monitor for name in names}

    async def there():
        found = await records(site, tenant)
        seen = {
            name: item["metadata"].get("labels", {}).get(MONITOR) for name, item in found.items()
        }
        there.last = seen
        return seen == wanted

    what = f"records {wanted}"
    await sites.until(there, sites.LATE, lambda: f"{what}, there are {there.last}")
    return await records(site, tenant)


async def kept(site) -> tuple[str, str]:
    """RecordsKept of GPUBinder: status and reason; the end of a leader's first pass says it."""

    async def said():
        binder = await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
        found = {item["type"]: item for item in binder["status"].get("conditions", [])}
        return found.get("RecordsKept")

    condition = await sites.until(said, sites.LATE, "RecordsKept is told")
    return condition["status"], condition["reason"]


class Host:
    """Cozystack's workload controller: one without a monitor that is there is deleted at once."""

    def __init__(self, site) -> None:
        self._admin = site.host()
        self.deleted: list[str] = []
        self.rounds = 0

    async def run(self) -> None:
        while True:
            page = await self._admin.list_all(kinds.WORKLOADS)
            monitors = {
                (item["metadata"]["namespace"], item["metadata"]["name"])
                for item in (await self._admin.list_all(kinds.WORKLOAD_MONITORS)).items
            }
            for item in page.items:
                meta = item["metadata"]
                if (meta["namespace"], meta.get("labels", {}).get(MONITOR)) in monitors:
                    continue
                with contextlib.suppress(errors.NotFound, errors.Conflict):
                    await self._admin.delete(
                        kinds.WORKLOADS, meta["name"], meta["namespace"], uid=meta["uid"]
                    )
                    self.deleted.append(f"{meta['namespace']}/{meta['name']}")
            self.rounds += 1
            await asyncio.sleep(0.05)

    async def looked(self) -> None:
        """Wait until it has acted on what is there now: a round under way began with what was before."""
        wanted = self.rounds + 2

        async def done() -> bool:
            return self.rounds >= wanted

        await sites.until(done, sites.LATE, "a round of the host")


async def test_a_hold_has_a_record_that_goes_with_its_claim(site):
    await site.tenant("tenant-a")
    await site.order("tenant-a", "held", "h100", 4)
    await site.order("tenant-a", "waiting", "h100", 99)
    await site.bound("tenant-a", "held")
    claim = await site.claim("tenant-a", "held")
    (record,) = (await recorded(site, "tenant-a", "held")).values()
    (owner,) = record["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("GPUClaim", claim["metadata"]["uid"])
    assert record["status"] == {
        "kind": "gpuclaim",
        "type": "h100",
        "operational": True,
        "resources": {"gpu.cozystack.io/h100": "4"},
    }
    await site.waits("tenant-a", "waiting", "NoFreeUnits")
    assert await kept(site) == ("True", "NoMonitor")
    await site.admin.delete(kinds.GPU_CLAIMS, "held", "tenant-a")
    await site.gone("tenant-a", "held")
    await recorded(site, "tenant-a")


async def test_no_tenant_writes_records(site):
    await site.tenant("tenant-c")
    body = {"metadata": {"name": "gpuclaim-x", "namespace": "tenant-c"}, "status": {"kind": "x"}}
    person = site.person("tenant-c")
    with pytest.raises(errors.Forbidden):
        await person.create(kinds.WORKLOADS, body)
    assert (await person.list_all(kinds.WORKLOADS, "tenant-c")).items == ()


async def test_the_conditions_of_both_writers_stand_side_by_side(site):
    async def shown():
        binder = await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
        return {item["type"] for item in binder["status"]["conditions"]}

    wanted = {
        "Leading",
        "SettingsCurrent",
        "PoliciesCurrent",
        "LossesHeldBack",
        "PlansChecked",
        "WritesAnswered",
        "RecordsKept",
        "Enabled",
        "HoldsNotEnforced",
    }

    async def all_there():
        return await shown() == wanted

    await sites.until(all_there, sites.LATE, "every condition of GPUBinder")


async def test_a_host_that_deletes_records_makes_them_be_kept_under_a_monitor_once(site):
    names = [f"c{number}" for number in range(4)]
    await site.tenant("tenant-h")
    host = Host(site)
    running = asyncio.ensure_future(host.run())
    try:
        for name in names:
            await site.order("tenant-h", name, "h100")
        for name in names:
            await site.bound("tenant-h", name)
        await recorded(site, "tenant-h", *names, monitor=keys.USAGE_MONITOR_NAME)
        monitor = await site.admin.get(kinds.WORKLOAD_MONITORS, keys.USAGE_MONITOR_NAME, "tenant-h")
        assert monitor["spec"]["selector"] == {keys.USAGE_MONITOR_SELECTOR_LABEL: "true"}

        async def told():
            return await kept(site) == ("True", "HostDeletesRecords")

        await sites.until(told, sites.LATE, "RecordsKept tells of the host")
        await host.looked()
        most = 2 * len(names) + 2
        assert len(host.deleted) <= most, host.deleted
        before = len(host.deleted)
        await site.product.stop()
        await site.product.start(flags=sites.FAST)
        await site.order("tenant-h", "late", "h100")
        await site.bound("tenant-h", "late")
        await recorded(site, "tenant-h", *names, "late", monitor=keys.USAGE_MONITOR_NAME)
        await host.looked()
        assert host.deleted[before:] == []
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_with_the_feature_off_records_are_kept(site):
    await site.tenant("tenant-b")
    await site.order("tenant-b", "held", "h100", 2)
    await site.bound("tenant-b", "held")
    await recorded(site, "tenant-b", "held", monitor=keys.USAGE_MONITOR_NAME)
    await site.product.stop()
    wrong = {"status": {"operational": False}}
    await site.controller().patch(kinds.WORKLOADS, "gpuclaim-held", wrong, "tenant-b")
    await site.product.start(flags=(*sites.FAST, "--no-enabled"))

    async def healed():
        return (await records(site, "tenant-b"))["gpuclaim-held"]["status"]["operational"]

    await sites.until(healed, sites.LATE, "the record healed")
    await site.host().delete(kinds.WORKLOADS, "gpuclaim-held", "tenant-b")
    await recorded(site, "tenant-b", "held", monitor=keys.USAGE_MONITOR_NAME)
