"""When the VMI of the start's own name is read past the cache, and what holds where it is not."""

import pytest

from gpu.cluster import errors
from gpu.objects import kinds
from tests.admission.attaching_site import Site, ids
from tests.builders import attachment

pytestmark = pytest.mark.looptime


class Reads(Site):
    """`reads`: what was read past the cache, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        get = self.api.get

        async def read(kind, name, *where):
            self.reads.append(f"{kind.kind} {name}")
            return await get(kind, name, *where)

        self.api.get = read


VMI_READ = "VirtualMachineInstance vm"


@pytest.fixture
def site():
    found = Reads()
    found.claim()
    return found


def status_of(response):
    return response.get("status", {}).get("code", 200)


async def test_claims_that_nobody_has_take_no_read_for_a_name_that_is_new(site):
    site.claim("d")
    assert ids(await site.start("vm", "c", "d")) == {"c": "id-0", "d": "id-0"}
    assert (await site.start("vm2", "d", dry_run=True))["allowed"] is False
    assert VMI_READ not in site.reads


async def test_a_dry_run_of_it_reads_and_writes_nothing(site):
    assert (await site.start(dry_run=True))["allowed"]
    assert (site.reads, site.api.writes) == ([], [])


@pytest.mark.parametrize("dry_run", [False, True])
async def test_where_a_vmi_of_the_name_is_seen_it_is_read_whoever_has_the_claims(site, dry_run):
    """It lives, and uses other claims or none."""
    site.vmi(uid="u")
    response = await site.start(dry_run=dry_run)
    assert (status_of(response), site.reads, site.api.writes) == (409, [VMI_READ], [])


async def test_one_that_is_seen_going_is_read(site):
    site.vmi(uid="u", deleting=True)
    assert (await site.start())["allowed"]
    assert site.reads == [VMI_READ]


async def test_one_claim_that_somebody_had_is_enough_for_the_read(site):
    site.claim("a", attached=attachment("vm", uid="u-old", pods={"p": "n1"}))
    assert (await site.start("vm", "a", "c"))["allowed"]
    assert site.reads == [VMI_READ]


async def test_while_vmis_are_not_watched_every_start_is_read_for(site):
    site.unserved = frozenset({"vmis"})
    assert (await site.start())["allowed"]
    assert site.reads == [VMI_READ]


async def test_a_vmi_that_is_not_seen_yet_and_has_the_claim_keeps_it(site):
    """Neither the claim's attachment nor its VMI has come to the cache."""
    site.stale["c"] = site.raw(kinds.GPU_CLAIMS)[0]
    site.stale_vmis = []
    await site.create()
    before = site.attached()
    response = await site.start()
    assert (status_of(response), site.attached()) == (409, before)
    assert site.reads == ["GPUClaim c", VMI_READ]


async def test_a_call_that_is_made_again_before_the_cache_shows_the_first_has_its_id(site):
    site.stale["c"] = site.raw(kinds.GPU_CLAIMS)[0]
    first = await site.start()
    assert ids(await site.start()) == ids(first)


async def test_a_vmi_that_is_not_seen_yet_and_has_it_not_is_kept_by_the_api_server(site):
    """The attachment is nobody's: no VMI ever carries its id, and phase `attachments` takes it back."""
    site.vmi(uid="u")
    site.stale_vmis = []
    with pytest.raises(errors.AlreadyExists):
        await site.create()
    (vmi,) = site.raw(kinds.VMIS)
    assert vmi["metadata"]["uid"] == "u"
    assert site.attached().keys() == {"name", "admission", "since", "pods"}
