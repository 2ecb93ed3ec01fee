"""The example tenant chart by real helm on a real API server, with the product there to be asked, and away."""

import json

import pytest
import pytest_asyncio

from devcluster import chart
from devcluster.errors import CommandError
from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds, tenants
from tests.charts import quota_twin
from tests.charts.libraries import EXAMPLE
from tests.charts.quota_rows import FORMS
from tests.real import site as sites
from tests.real.site import H100

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUOTA = (kinds.RESOURCE_QUOTAS, keys.TENANT_QUOTA_NAME, "tenant-acme")
L40S = "nvidia.com/AD102GL_L40S"
TENANT = "tenant-acme"
NOBODY = ("--kube-as-user=nobody", "--kube-as-group=system:authenticated")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    flags = (*sites.FAST, "--raw-resource-names=allowed")
    async with sites.opened(tmp_path_factory.mktemp("gpu-quota"), flags=flags) as opened:
        await opened.tenant(TENANT)
        await opened.node("gpu-1", 8)
        await opened.offer("h100")
        await listed(opened, H100)
        yield opened


async def listed(site, name):
    """Wait until the aggregated API names a GPU where the tenant's release lies."""

    async def there():
        option = await site.admin.raw(
            "GET", f"{sites.CATALOG}/namespaces/{keys.TENANT_ROOT}/options/gpuquotakey"
        )
        return name in option.body.decode()

    await sites.until(there, 25, f"{name} in gpuquotakey")


async def rendered(site, quotas, *args, verb=("upgrade", "--install"), **gpu):
    """Install or upgrade the tenant's release; return what the API server stored, or what helm said."""
    file = site.cp.directory / "tenant-values.json"
    file.write_text(json.dumps({"resourceQuotas": quotas, "gpu": gpu}), encoding="utf-8")
    release = (TENANT, str(EXAMPLE), f"--namespace={keys.TENANT_ROOT}", f"--values={file}")
    await site.cp.helm(*verb, *release, *args)
    stored = await site.admin.get(*QUOTA)
    return stored["spec"].get("hard", {})


async def test_the_lookup_finds_a_name_and_one_that_becomes_a_gpu_later_at_the_next_render(site):
    quotas = {H100: "4", L40S: 2, "gpu.cozystack.io/h100": 3, "cpu": "10"}
    cpu = {"limits.cpu": "10", "requests.cpu": "1"}
    before = {f"requests.{H100}": "4", f"requests.{L40S}": "2", f"limits.{L40S}": "2", **cpu}
    assert await rendered(site, quotas) == before

    await site.offer("l40s", L40S)
    await listed(site, L40S)
    stored = await site.admin.get(*QUOTA)
    assert stored["spec"]["hard"] == before
    assert await rendered(site, quotas) == {f"requests.{H100}": "4", f"requests.{L40S}": "2", **cpu}

    stored = await site.admin.get(*QUOTA)
    assert tenants.decode_quota(stored).declared.units == {H100: 4, L40S: 2}


async def test_pods_are_counted_and_bounded_under_requests(site):
    await site.cp.namespace_ready(TENANT)
    await rendered(site, {H100: 4})

    async def used():
        quota = await site.admin.get(*QUOTA)
        return quota.get("status", {}).get("used", {}).get(f"requests.{H100}")

    async def counted(units):
        async def same():
            return await used() == units

        await sites.until(same, 60, f"{units} units of {H100} used")

    await counted("0")
    await site.admin.create(kinds.PODS, pod("three", 3))
    await counted("3")
    with pytest.raises(errors.Forbidden) as caught:
        await site.admin.create(kinds.PODS, pod("two", 2))
    assert (
        f"exceeded quota: tenant-quota, requested: requests.{H100}=2, "
        f"used: requests.{H100}=3, limited: requests.{H100}=4"
    ) in str(caught.value)
    await site.admin.delete(kinds.PODS, "three", TENANT)


def pod(name, units):
    container = {"name": "a", "image": "a", "resources": {"limits": {H100: units}}}
    gates = [{"name": "example.com/never"}]
    return {
        "metadata": {"name": name, "namespace": TENANT},
        "spec": {"containers": [container], "schedulingGates": gates},
    }


async def test_the_api_server_takes_every_form_of_an_amount_and_stores_its_units(site):
    texts = [form for form in FORMS if isinstance(form, str | int) and not isinstance(form, bool)]
    quotas = {f"example.com/form-{number}": text for number, text in enumerate(texts)}
    args = ("--skip-schema-validation",)
    hard = await rendered(site, quotas, *args, resourceNames=list(quotas), lookup=False)
    declared = quota_twin.hard(quotas, set(quotas))
    read = tenants.declared({key.removeprefix("requests."): hard[key] for key in declared})
    assert read.unreadable == {}
    assert {f"requests.{key}": str(int(units)) for key, units in read.units.items()} == declared


async def test_a_quota_of_budgets_alone_is_taken_and_bounds_nothing(site):
    assert await rendered(site, {"gpu.cozystack.io/total": 4, "gpu.cozystack.io/h100": 2}) == {}


async def test_without_quotas_nothing_of_them_is_left(site):
    await rendered(site, {"pods": 4})
    with pytest.raises(errors.NotFound):
        await rendered(site, {})


async def test_who_may_not_read_options_renders_with_the_lookup_off(site):
    asking = (*NOBODY, "--dry-run=server")
    with pytest.raises(CommandError, match='User "nobody" cannot get resource "options"'):
        await rendered(site, {H100: 4}, *asking, verb=("template",))
    # Rendered, and then looked for in the cluster, which this account may not either.
    with pytest.raises(CommandError, match='resourcequotas "tenant-quota" is forbidden'):
        await rendered(site, {H100: 4}, *asking, verb=("template",), lookup=False)


async def test_while_the_product_is_away_the_list_is_all_there_is(site):
    """The last of this module: the product does not come back."""
    both = {f"limits.{H100}": "4", f"requests.{H100}": "4"}
    await site.product.stop()

    async def away():
        found = await site.admin.get(kinds.API_SERVICES, chart.API_SERVICE)
        return [
            one
            for one in found["status"]["conditions"]
            if one["type"] == "Available" and one["status"] == "False"
        ]

    await sites.until(away, 60, "the API unavailable")
    assert await rendered(site, {H100: 4}) == both
    assert await rendered(site, {H100: 4}, resourceNames=[H100]) == {f"requests.{H100}": "4"}
