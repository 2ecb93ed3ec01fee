"""The story of VMs that `make demo` ends with: started through a held claim, stopped, started again.

It plays on what story.py left: acme holds `training`, and its budget of that class is used up by it.
A person of acme acts, with the rights of a tenant's super-admin. KubeVirt's controllers are the real
ones; kubelet and virt-handler of the nodes are simulated (simulated.py).
"""

from typing import Any, Final

import rich.markup

from devcluster import progress, story, tables, tenants, vms
from gpu import keys
from gpu.cluster import client
from gpu.objects import kinds

ACME: Final = "tenant-acme"
CLAIM: Final = "training"
FIRST: Final = "trainer"
SECOND: Final = "notebook"
_CLASS: Final = "h100"
_LABELS: Final = {story.MARK: "true"}


async def tell(admin: client.Client) -> None:
    """Tell the story on a cluster where KubeVirt runs and the simulated nodes are served."""
    acme = tenants.acting(admin, ACME, "super-admin")
    node = await _start(admin, acme)
    await _stop(admin, acme)
    await _start_again(admin, acme, node)
    await _wait(acme)
    await _give_back(admin, acme)


async def end(admin: client.Client) -> None:
    """Delete the story's VMs: where nobody goes on serving their nodes, none may be left running."""
    acme = tenants.acting(admin, ACME, "super-admin")
    for name in (FIRST, SECOND):
        await acme.delete(kinds.VMS, name, ACME)
        await vms.stopped(admin, ACME, name)


async def _start(admin: client.Client, acme: client.Client) -> str:
    device = vms.claim(CLAIM)
    _say(f"makes a VM, [bold]{FIRST}[/bold], that names its claim (deviceName: {device}):")
    await acme.create(kinds.VMS, _vm(FIRST, device))
    node = await vms.runs(admin, ACME, FIRST)
    progress.say(f"  {FIRST} [green]Running[/green] on {node}, where {CLAIM} is held")
    return node


async def _stop(admin: client.Client, acme: client.Client) -> None:
    _say(f"stops {FIRST}:")
    await vms.switch(acme, ACME, FIRST, running=False)
    await vms.stopped(admin, ACME, FIRST)
    status = await _status(acme)
    progress.say(
        f"  {FIRST} is off; {CLAIM} is still [green]{status['phase']}[/green] on {status['nodeName']}"
    )
    path = f"/apis/{keys.GROUP}/{keys.VERSION}/namespaces/{ACME}/gpuclaims"
    progress.say(await tables.fetch(acme, path, "What acme holds while its VM is off (gpuclaims)"))


async def _start_again(admin: client.Client, acme: client.Client, before: str) -> None:
    _say(f"starts {FIRST} again:")
    await vms.switch(acme, ACME, FIRST, running=True)
    node = await vms.runs(admin, ACME, FIRST)
    where = "the same node" if node == before else f"another node than {before}"
    progress.say(f"  {FIRST} [green]Running[/green] on {node}, {where}")


async def _wait(acme: client.Client) -> None:
    device = vms.unit(_CLASS)
    _say(f"makes a second VM, [bold]{SECOND}[/bold], that names a class (deviceName: {device}):")
    await acme.create(kinds.VMS, _vm(SECOND, device))
    reason, words = await vms.waits(acme, ACME, SECOND)
    shown = rich.markup.escape(f"{reason}: {words}")
    progress.say(f"  {SECOND} [yellow]waits[/yellow]: {shown}")


async def _give_back(admin: client.Client, acme: client.Client) -> None:
    _say(f"stops {FIRST} for good and gives {CLAIM} back:")
    await vms.switch(acme, ACME, FIRST, running=False)
    await vms.stopped(admin, ACME, FIRST)
    await acme.delete(kinds.GPU_CLAIMS, CLAIM, ACME)
    node = await vms.runs(admin, ACME, SECOND)
    progress.say(f"  {SECOND} [green]Running[/green] on {node}, by itself")
    path = f"/apis/{keys.GROUP}/{keys.VERSION}/namespaces/{ACME}/gpuclaims"
    progress.say(await tables.fetch(acme, path, f"{SECOND} has a claim while it runs (gpuclaims)"))


async def _status(acme: client.Client) -> dict[str, Any]:
    meta = {"name": CLAIM, "namespace": ACME}
    claim = await story.until_claim(acme, meta, "Bound", lambda s: s.get("phase") == "Bound")
    return dict(claim["status"])


def _vm(name: str, device: str) -> dict[str, Any]:
    return vms.body(ACME, name, [device], running=True, labels=_LABELS)


def _say(what: str) -> None:
    progress.say(f"\n[bold]acme[/bold] {what}")
