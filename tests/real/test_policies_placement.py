"""Who may write a placement, and the fence of the leader's term."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from devcluster.plane import ControlPlane
from gpu import keys
from gpu.objects import kinds
from tests.real import policy_site
from tests.real.policy_site import CONFIG, TENANT, Site, eventually, refused

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTROLLER = CONFIG.controller_user
AT = "2026-01-01T00:00:00Z"
LEADING = 7
Json = dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(fresh_plane: ControlPlane) -> AsyncIterator[Site]:
    async with policy_site.prepared(fresh_plane) as found:
        await found.raise_term(LEADING)
        await policy_site.in_force(found)
        yield found


def bound(term: int | None, node: str = "n1", at: str = AT) -> Json:
    return {"phase": "Bound", "nodeName": node, "boundAt": at, "term": term}


async def ordered(site: Site, name: str, status: Json | None = None) -> None:
    body = {
        "metadata": {"name": name, "namespace": TENANT},
        "spec": {"className": "h100", "count": 1},
    }
    await site.admin.create(kinds.GPU_CLAIMS, body)
    if status:
        await write(site.controller, name, status)


async def write(them: Any, name: str, status: Json, *, dry_run: bool = False) -> None:
    await them.patch(
        kinds.GPU_CLAIMS, name, {"status": status}, TENANT, subresource="status", dry_run=dry_run
    )


def says(name: str, policy: str, words: str) -> str:
    return (
        f'gpuclaims.gpu.cozystack.io "{name}" is forbidden: ValidatingAdmissionPolicy '
        f"'cozystack-gpu-{policy}-policy' with binding 'cozystack-gpu-{policy}-policy' denied "
        f"request: gpuclaim {TENANT}/{name}: {words}"
    )


def term_no(name: str, term: int, leading: int = LEADING) -> str:
    return says(
        name,
        "term",
        f"its placement was decided in term {term}, but the leader of term {leading} places now; "
        "nothing was written, that leader decides anew",
    )


@pytest.mark.parametrize(
    ("name", "before", "after", "words"),
    [
        ("lower", None, bound(LEADING - 1), term_no("lower", LEADING - 1)),
        ("same", None, bound(LEADING), None),
        ("higher", None, bound(LEADING + 1), None),
        ("none", None, {"phase": "Pending"}, term_no("none", 0)),
        ("pending", None, {"phase": "Pending", "term": LEADING}, None),
        ("moves", bound(7), {"nodeName": "n2"}, None),
        ("term-back", bound(8), {"term": 6}, term_no("term-back", 6)),
        ("reason", bound(7), {"reasons": ["NoFreeUnits"]}, None),
        ("nothing", bound(7), {}, None),
    ],
)
async def test_a_placement_of_an_earlier_term_is_refused(
    site: Site, name: str, before: Json | None, after: Json, words: str | None
):
    await ordered(site, name, before)
    assert await refused(write(site.controller, name, after)) == words


async def test_a_claim_of_an_earlier_term_moves_only_under_the_term_that_leads(site: Site):
    await ordered(site, "old", bound(LEADING))
    await site.raise_term(LEADING + 2)
    moved = {"nodeName": "n2"}
    said = await eventually(lambda: refused(write(site.controller, "old", moved, dry_run=True)))
    assert said == term_no("old", LEADING, LEADING + 2)
    assert await refused(write(site.controller, "old", {"phase": "Lost"})) == said
    assert await refused(write(site.controller, "old", {"reasons": ["NoFreeUnits"]})) is None
    await write(site.controller, "old", {**moved, "term": LEADING + 2})


WHO = (
    "status.phase, status.nodeName, status.boundAt, status.term are written by the GPU controller "
    f"({CONTROLLER}) alone; delete the claim to give its units back, order another to get more"
)


@pytest.mark.parametrize(
    ("who", "groups"),
    [
        ("admin", ("system:masters",)),
        ("hoster", ("cozystack-cluster-admin",)),
        ("alice", ("tenant-a-super-admin",)),
        ("system:serviceaccount:tenant-a:cozystack-gpu", ("tenant-a-super-admin",)),
    ],
)
async def test_nobody_else_writes_a_placement(site: Site, who: str, groups: tuple[str, ...]):
    name = f"forged-{groups[0].replace(':', '-')}-{len(who)}"
    await ordered(site, name)
    them = site.as_user(who, (*groups, "system:authenticated"))
    assert await refused(write(them, name, bound(99))) == says(name, "placement", WHO)


async def test_a_status_that_changes_no_placement_passes_for_whoever_may_write_it(site: Site):
    await ordered(site, "attached")
    status = {"attachedTo": {"name": "vm", "admission": "id", "since": AT}}
    assert await refused(write(site.admin, "attached", status)) is None


async def test_without_a_gpubinder_no_status_is_written(site: Site):
    await ordered(site, "unfenced")
    stored = await site.admin.get(kinds.GPU_BINDERS, keys.BINDER_NAME)
    await site.admin.delete(kinds.GPU_BINDERS, keys.BINDER_NAME)
    said = await eventually(
        lambda: refused(write(site.controller, "unfenced", bound(99), dry_run=True))
    )
    assert "no params found for policy binding with `Deny` parameterNotFoundAction" in said
    await site.controller.create(kinds.GPU_BINDERS, {"metadata": {"name": keys.BINDER_NAME}})
    await site.raise_term(stored["status"]["term"])

    async def passes() -> bool:
        return await refused(write(site.controller, "unfenced", bound(99), dry_run=True)) is None

    await eventually(passes)
