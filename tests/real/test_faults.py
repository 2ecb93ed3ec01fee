"""The soak's faults, fewer steps, against the real API server: orders, guests, nodes, cut lines, kills.

What really runs is known to the test, which plays KubeVirt and kubelet. After each step nothing may be
booked twice; at the end, with the faults over, all that fits is Bound and all that was deleted is gone.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from devcluster import chart, guests
from gpu.cluster import errors
from gpu.objects import kinds
from tests.real import site as sites
from tests.real.cutting_proxy import CuttingProxy, When, between
from tests.real.site import H100, Site

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

TENANT = "tenant-a"
NODES = {"gpu-1": 4, "gpu-2": 4, "gpu-3": 2}
STEPS = 30
"""Of a sampled run; `--full` takes ten times as many."""
FLAGS = (*sites.FAST, "--guard-at-least=1000")


@dataclass
class Guest:
    """A guest that really runs: its start, its claim, its units."""

    start: guests.Start
    claim: str
    units: int


@dataclass
class Player:
    """Plays tenants, hoster, KubeVirt, kubelet and bad luck by a seeded generator."""

    site: Site
    proxy: CuttingProxy
    dice: random.Random
    made: int = 0
    running: dict[str, Guest] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vms = guests.Guests(self.site.admin, TENANT)

    async def step(self) -> None:
        """Do one thing at random."""
        acts: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (5, self.order),
            (2, self.delete),
            (3, self.start),
            (3, self.stop),
            (1, self.force),
            (2, self.cordon),
            (1, self.lose),
            (2, self.come_back),
            (3, self.cut),
            (2, self.kill),
        ]
        weights, what = zip(*acts, strict=True)
        (act,) = self.dice.choices(what, weights)
        self.done.append(act.__name__)
        await act()

    async def order(self) -> None:
        self.made += 1
        await self.site.order(TENANT, f"c{self.made}", "h100", self.dice.choice((1, 1, 2)))

    async def delete(self) -> None:
        claims = await self.site.claims()
        if claims:
            name = self.dice.choice(claims)["metadata"]["name"]
            with contextlib.suppress(errors.NotFound):  # the leader may just have let it go
                await self.site.person(TENANT).delete(kinds.GPU_CLAIMS, name, TENANT)

    async def start(self) -> None:
        """Start a VM with a Bound claim on its node; the webhook's read and write are one."""
        for claim in await self.site.claims():
            meta, status = claim["metadata"], claim.get("status") or {}
            free = status.get("phase") == "Bound" and not status.get("attachedTo")
            node = status.get("nodeName", "")
            if not free or "deletionTimestamp" in meta or node in self.gone:
                continue
            name, units = meta["name"], claim["spec"]["count"]
            try:
                start = await self.vms.start(
                    f"vm-{name}-{self.made}", node=node, claims=[name], units={H100: units}
                )
            except errors.Conflict:
                return  # it was moved meanwhile: that start stays at its gate
            self.running[start.name] = Guest(start, name, units)
            return

    async def stop(self) -> None:
        """End a guest on its node; one whose objects were forced away has nobody left to tell."""
        if guest := self._pick():
            if await there(self.site, guest):
                await self.vms.stop(guest.start)
            del self.running[guest.start.name]

    async def force(self) -> None:
        """Remove pod and VMI objects while the guest runs on: nobody asked the node."""
        if guest := self._pick():
            await self.vms.remove_pod(guest.start)
            await self.vms.remove_vmi(guest.start)

    async def cordon(self) -> None:
        node = self.dice.choice([name for name in NODES if name not in self.gone] or ["gpu-1"])
        if node not in self.gone:
            await self.dice.choice((self.site.nodes.cordon, self.site.nodes.uncordon))(node)

    async def lose(self) -> None:
        """A node leaves the cluster for good, and every guest on it is over."""
        node = self.dice.choice(list(NODES))
        if node not in self.gone:
            await self.site.nodes.remove(node)
            self.gone.add(node)
            for name in [n for n, guest in self.running.items() if guest.start.node == node]:
                del self.running[name]

    async def come_back(self) -> None:
        for name in sorted(self.gone)[:1]:
            await self.site.node(name, NODES[name])
            self.gone.discard(name)

    async def cut(self) -> None:
        """Cut the line at one of the product's next writes, before or after it is executed."""
        self.proxy.cut(self.dice.randint(1, 4), self.dice.choice(list(When)))

    async def kill(self) -> None:
        self.site.product.kill()
        await self.site.product.start(flags=FLAGS, login=self.proxy.login)

    def _pick(self) -> Guest | None:
        return self.dice.choice(sorted(self.running.values(), key=repr)) if self.running else None

    async def judge(self) -> None:
        """No node holds and runs more than it serves; a claim covers its own guest where it is."""
        taken: dict[str, int] = dict.fromkeys(NODES, 0)
        cover: dict[tuple[str, str], int] = {}
        for claim in await self.site.claims():
            status = claim.get("status") or {}
            if status.get("phase") == "Bound":
                place = (claim["metadata"]["name"], status["nodeName"])
                cover[place] = claim["spec"]["count"]
        for guest in self.running.values():
            place = (guest.claim, guest.start.node)
            cover[place] = max(cover.get(place, 0), guest.units)
        for (_, node), units in cover.items():
            taken[node] += units
        over = {node: units for node, units in taken.items() if units > NODES[node]}
        assert over == {}, f"after {self.done}: {taken} of {NODES}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(binaries_built, tmp_path_factory) -> AsyncIterator[Site]:
    async with sites.opened(
        tmp_path_factory.mktemp("faults"), start=False, values=chart.ORDERS_WAIT
    ) as opened:
        await opened.offer("h100")
        await opened.tenant(TENANT)
        await opened.cp.namespace_ready(TENANT)
        yield opened


async def test_no_unit_is_booked_twice_whatever_fails_and_in_the_end_all_that_fits_is_bound(
    site, seed, full
):
    for name, units in NODES.items():
        await site.node(name, units)
    async with between(site) as proxy:
        await site.product.start(flags=FLAGS, login=proxy.login)
        player = Player(site, proxy, random.Random(seed))
        for _ in range(STEPS * (10 if full else 1)):
            await player.step()
            await player.judge()
        await settled(site, player)


async def settled(site: Site, player: Player) -> None:
    """End all faults and guests; then what is left fits as well as it can."""
    player.proxy.cut_at = None
    for guest in list(player.running.values()):
        if await there(site, guest):
            await player.vms.end_pod(guest.start)
    player.running.clear()
    while player.gone:
        await player.come_back()
    for name in NODES:
        await site.nodes.uncordon(name)

    async def whole() -> bool:
        await player.judge()
        waiting = [c for c in await site.claims() if phase(c) != "Bound" and not going(c)]
        room = {name: units - (await site.booked()).get(name, 0) for name, units in NODES.items()}
        return all(c["spec"]["count"] > max(room.values()) for c in waiting)

    await sites.until(whole, 60, f"all that fits Bound after {player.done}")


async def there(site: Site, guest: Guest) -> bool:
    try:
        await site.admin.get(kinds.PODS, guest.start.pod, TENANT)
    except errors.NotFound:
        return False
    return True


def going(claim) -> bool:
    return "deletionTimestamp" in claim["metadata"]


def phase(claim) -> str:
    return str((claim.get("status") or {}).get("phase", "Pending"))
