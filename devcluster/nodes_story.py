"""The story that `make demo-story` tells: a cordon, a drain, a lost node and its return.

It plays beside what `make demo` left, with nodes, a class and tenants of its own. The hoster and
the tenants act with their own rights; nodes with what runs on them are simulated, all else is real.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import rich.markup

from devcluster import cleanup, errors, progress, simulator, story, tables, tenants, vms
from gpu import keys
from gpu.cluster import client
from gpu.cluster import errors as api
from gpu.objects import kinds
from gpu.objects.kinds import Kind

MARK: Final = "devcluster.cozystack.io/demo-story"
CLASS: Final = "story-a100"
RESOURCE: Final = "nvidia.com/GA100_A100_SXM4_80GB"
FIRST: Final = "story-gpu-1"
SECOND: Final = "story-gpu-2"
INITECH: Final = "tenant-initech"
HOOLI: Final = "tenant-hooli"
_UNITS: Final = 4
_WITHIN: Final = 30.0
_LOOK: Final = 3.0
"""Seconds in which something that must not happen is given the time to happen."""
_POLL: Final = 0.05
_CORE_EVENTS: Final = Kind("", "v1", "events", "Event")
"""As a tenant's role grants them; the same objects as in events.k8s.io."""


async def tell(admin: client.Client) -> None:
    """Tell the story on a cluster with the product up; what it makes carries MARK."""
    with progress.step("removing what an earlier telling left"):
        await cleanup.remove(admin, MARK)
    teller = _Teller(admin)
    await teller.stage()
    await teller.cordon()
    await teller.drain()
    await teller.loss()
    await teller.come_back()
    progress.say("\n[bold]Try next[/bold]")
    progress.say(f"  kubectl get gpuclaims -n {INITECH} -w")
    progress.say(f"  kubectl cordon {FIRST}; kubectl uncordon {FIRST}")
    progress.say(f"  kubectl events -n {INITECH} --for gpuclaim/train-a")


class _Teller:
    """Who acts, and what the chapters hand on to each other."""

    def __init__(self, admin: client.Client) -> None:
        self._admin = admin
        self._hoster = story.hoster_of(admin)
        self._initech = tenants.acting(admin, INITECH)
        self._hooli = tenants.acting(admin, HOOLI)
        self._nodes = simulator.Simulator(admin)
        self._owner = tenants.acting(admin, INITECH, "super-admin")

    async def stage(self) -> None:
        """Make two nodes of four units; a VM that is off holds three, one that runs the fourth."""
        with progress.step(f"two simulated nodes of {_UNITS} units, a class, two tenants"):
            for name in (FIRST, SECOND):
                await self._node(name)
            await self._hoster.apply(
                kinds.GPU_CLASSES, CLASS, _offer(), field_manager="devcluster-demo"
            )
            for tenant in (INITECH, HOOLI):
                for body in tenants.objects(tenant):
                    await story.put(self._admin, _marked(body))
        progress.say(
            "\n[bold]initech[/bold] orders GPUs for two VMs: [bold]train[/bold] (2 + 1 units, off)"
            " and [bold]serve[/bold] (1 unit, running)"
        )
        await self._vm("train", "train-a", "train-b", running=False)
        for name, count in (("train-a", 2), ("train-b", 1), ("serve", 1)):
            await self._order(self._initech, INITECH, name, count)
            await self._on(INITECH, name, FIRST)
        await self._vm("serve", "serve", running=True)
        await vms.runs(self._admin, INITECH, "serve")
        await self._show("Both VMs' holds are on the fullest node that had room")

    async def cordon(self) -> None:
        """Show that a cordon moves what does not run, whole sets only, and no running guest."""
        _chapter("A cordon", f"the hoster cordons {FIRST}, to look at a fan")
        await self._nodes.cordon(FIRST)
        await self._on(INITECH, "train-a", SECOND)
        await self._on(INITECH, "train-b", SECOND)
        await self._stays(INITECH, "serve", FIRST)
        await self._show("train moved as a set; serve's guest runs, so it stayed where it runs")

    async def drain(self) -> None:
        """Show that a hold moves once its guest stopped and its pod is known to have ended."""
        _chapter("A drain", "initech stops its VM serve; its hold follows")
        await vms.switch(self._owner, INITECH, "serve", running=False)
        await self._on(INITECH, "serve", SECOND)
        await self._show(f"{FIRST} is empty, nothing was given away")
        await self._nodes.uncordon(FIRST)
        progress.say(f"The hoster uncordons {FIRST}.")

    async def loss(self) -> None:
        """Show that what fits elsewhere moves, and what does not is Lost and comes before others."""
        _chapter(
            "A lost node", f"hooli fills up {FIRST}; then {SECOND} leaves the cluster for good"
        )
        await self._order(self._hooli, HOOLI, "render", 2)
        await self._on(HOOLI, "render", FIRST)
        await self._nodes.remove(SECOND)
        await self._on(INITECH, "serve", FIRST)
        for name in ("train-a", "train-b"):
            await self._until(INITECH, name, "Lost", lambda s: s.get("phase") == "Lost")
        refused = await story.refusal(self._hooli, _claim(HOOLI, "late", 1))
        if refused:
            progress.say(f"  hooli's younger order is refused: {refused}")
        else:  # a hoster may have orders wait instead
            late = await self._until(HOOLI, "late", "told why", lambda s: bool(story.waiting(s)))
            progress.say(f"  hooli's younger order waits: {_words(late)}")
        claim = await self._until(INITECH, "train-a", "told why", lambda s: bool(story.waiting(s)))
        progress.say(f"  train-a says: {_words(claim)}")
        await self._show("serve found room; train did not, it is Lost as a whole and comes first")

    async def come_back(self) -> None:
        """Show that a Lost set is bound when its node returns, and then others get what is left."""
        _chapter("Its return", f"{SECOND} comes back")
        await self._node(SECOND)
        await self._on(INITECH, "train-a", SECOND)
        await self._on(INITECH, "train-b", SECOND)
        if await self._was_refused("late"):
            await self._order(self._hooli, HOOLI, "late", 1)
        await self._until(HOOLI, "late", "Bound", lambda s: s.get("phase") == "Bound")
        await self._show("train is whole again; now hooli's order is taken, and Bound")
        await self._events("train-a")

    async def _node(self, name: str) -> None:
        node = simulator.Simulated(name=name, resources={RESOURCE: _UNITS})
        await self._nodes.add(story.marked_node(node, {MARK: "true"}))

    async def _vm(self, name: str, *claims: str, running: bool) -> None:
        devices = [vms.claim(claim) for claim in claims]
        labels = {MARK: "true"}
        body = vms.body(INITECH, name, devices, running=running, labels=labels)
        await self._owner.create(kinds.VMS, body)

    async def _order(self, who: client.Client, tenant: str, name: str, count: int) -> None:
        await who.create(kinds.GPU_CLAIMS, _claim(tenant, name, count))

    async def _was_refused(self, name: str) -> bool:
        try:
            await self._admin.get(kinds.GPU_CLAIMS, name, HOOLI)
        except api.NotFound:
            return True
        return False

    async def _on(self, tenant: str, name: str, node: str) -> None:
        def there(status: Mapping[str, Any]) -> bool:
            return status.get("phase") == "Bound" and status.get("nodeName") == node

        await self._until(tenant, name, f"Bound on {node}", there)

    async def _stays(self, tenant: str, name: str, node: str) -> None:
        with progress.step(f"waiting whether {name} would move, too"):
            await asyncio.sleep(_LOOK)
        await self._on(tenant, name, node)

    async def _until(
        self, tenant: str, name: str, what: str, holds: Callable[[Mapping[str, Any]], bool]
    ) -> dict[str, Any]:
        meta = {"name": name, "namespace": tenant}
        return await story.until_claim(self._admin, meta, what, holds)

    async def _show(self, title: str) -> None:
        path = f"/apis/{keys.GROUP}/{keys.VERSION}/gpuclaims?labelSelector={MARK}"
        progress.say(await tables.fetch(self._hoster, path, title))

    async def _events(self, claim: str) -> None:
        async with asyncio.timeout(_WITHIN):
            while not (told := await self._told(claim)):  # noqa: ASYNC110 - one cannot await it
                await asyncio.sleep(_POLL)
        progress.say(f"\nEvents on {claim}, as initech reads them:")
        for reason, note in told:
            progress.say(f"  [bold]{reason}[/bold]  {rich.markup.escape(note)}")

    async def _told(self, claim: str) -> list[tuple[str, str]]:
        page = await self._initech.list(_CORE_EVENTS, INITECH)
        return [(item["reason"], item.get("message", "")) for item in _of(claim, page.items)]


def _of(claim: str, events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found = [item for item in events if item["involvedObject"]["name"] == claim]
    return sorted(found, key=lambda item: item.get("eventTime") or "")


def _claim(tenant: str, name: str, count: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": tenant, "labels": {MARK: "true"}},
        "spec": {"className": CLASS, "count": count},
    }


def _chapter(title: str, what: str) -> None:
    progress.say(f"\n[bold]{title}[/bold]: {what}")


def _words(claim: Mapping[str, Any]) -> str:
    words = story.waiting(claim["status"])
    if words is None:
        raise errors.NotReadyError(
            f"Claim {claim['metadata']['name']} no longer says why it waits."
        )
    return rich.markup.escape(words)


def _marked(body: Mapping[str, Any]) -> dict[str, Any]:
    labels = {**body["metadata"].get("labels", {}), MARK: "true"}
    return {**body, "metadata": {**body["metadata"], "labels": labels}}


def _offer() -> dict[str, Any]:
    body = {
        "apiVersion": kinds.GPU_CLASSES.api_version,
        "kind": kinds.GPU_CLASSES.kind,
        "metadata": {"name": CLASS},
        "spec": {
            "mode": "passthrough",
            "source": {"devicePlugin": {"resourceName": RESOURCE}},
            "displayName": "A100 of the story",
        },
    }
    return _marked(story.tolerant(body))
