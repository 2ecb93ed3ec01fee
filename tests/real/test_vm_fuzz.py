"""VMIs as KubeVirt's schema has them, put to the real KubeVirt with our webhook and without our names.

What KubeVirt takes without them it takes with them too, resolved; or we refuse it, and say why.
"""

from collections import Counter
from typing import Any

import pytest
import pytest_asyncio

from gpu import keys
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real import vm_site
from tests.real.start_site import VMIS_SAY
from tests.real.vm_site import ACME, VmSite, held
from tests.real.vmi_schema import Drawn

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

FEW, MANY = 150, 3_000
FORMS = (
    pytest.param([held("training")], 2, id="held claim"),
    pytest.param([{"name": "mine", "deviceName": "gpu.cozystack.io/h100"}], 1, id="class"),
    pytest.param(
        [held("training"), {"name": "x", "deviceName": "gpu.cozystack.io/l40s"}], 3, id="both"
    ),
)
LATE = ("could not judge it in time", "context deadline exceeded")
"""What our webhook says of itself, and kube-apiserver of one that did not answer."""
BASE: dict[str, Any] = {
    "domain": {"devices": {}, "memory": {"guest": "64Mi"}},
    "terminationGracePeriodSeconds": 0,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory):
    async with vm_site.opened(tmp_path_factory.mktemp("fuzz")) as opened:
        await opened.hold("training", "h100", 2)
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def schema(site):
    crd = await site.admin.get(kinds.CRDS, "virtualmachineinstances.kubevirt.io")
    served = next(one for one in crd["spec"]["versions"] if one["name"] == kinds.VMIS.version)
    return served["schema"]["openAPIV3Schema"]["properties"]["spec"]


async def put(site: VmSite, spec: dict[str, Any]) -> dict[str, Any] | errors.ApiError:
    """Return the VMI as it would be stored, or why it would not; again where nobody had time to judge it."""
    body = {"metadata": {"name": "drawn", "namespace": ACME}, "spec": spec}

    async def judged() -> dict[str, Any] | errors.ApiError | None:
        try:
            return dict(await site.admin.create(kinds.VMIS, body, dry_run=True))
        except errors.ApiError as error:
            return None if any(words in error.message for words in LATE) else error

    found: dict[str, Any] | errors.ApiError = await sites.until(judged, 60, "a VMI judged in time")
    return found


@pytest.fixture(scope="module")
def drawn(schema, seed, full):
    """Specs that the schema allows; which ones, the printed seed says."""
    draw = Drawn(seed)
    return [draw.spec(schema, BASE) for _ in range(MANY if full else FEW)]


@pytest.mark.parametrize(("gpus", "units"), FORMS)
async def test_what_kubevirt_takes_without_our_names_it_takes_with_them(site, drawn, gpus, units):
    told: Counter[str] = Counter()
    for spec in drawn:
        without = await put(site, spec)
        devices = {**spec["domain"].get("devices", {}), "gpus": gpus}
        found = await put(site, {**spec, "domain": {**spec["domain"], "devices": devices}})
        if isinstance(found, errors.ApiError):
            assert 400 <= found.status < 500, f"{found} of {spec}"
            assert "failed calling webhook" not in found.message, f"{found} of {spec}"
            is_ours = found.message.startswith(VMIS_SAY)
            assert isinstance(without, errors.ApiError) or is_ours, f"{found} of {spec}"
            told["refused by us" if is_ours else "refused by KubeVirt"] += 1
            continue
        names = [one["deviceName"] for one in found["spec"]["domain"]["devices"]["gpus"]]
        assert len(names) == units
        assert not [name for name in names if keys.DOMAIN in name], names
        assert not isinstance(without, errors.ApiError), f"{without} of {spec}"
        told["taken"] += 1
    assert told["taken"] >= 10, told
    assert told["refused by KubeVirt"] >= 10, told
