"""The story that `make demo` tells: a hoster offers GPUs, two tenants order them.

Whoever acts does so with their own rights: the hoster and each tenant by impersonation, under the
RBAC that the chart and the host grant them. Only nodes and tenants are made by the administrator,
as the host makes them.
"""

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import rich.markup

from devcluster import errors, examples, kubevirt, progress, simulator, tables, tenants
from gpu import keys
from gpu.cluster import client
from gpu.cluster import errors as api
from gpu.objects import kinds

HOSTER_GROUP: Final = "cozystack-cluster-admin"
MARK: Final = "devcluster.cozystack.io/demo"
"""Label on everything the demo makes, so that it can be found and removed again."""
NODES: Final = (
    simulator.Simulated(name="demo-gpu-1", resources={"nvidia.com/GH100_H100_PCIE": 8}),
    simulator.Simulated(name="demo-gpu-2", resources={"nvidia.com/GH100_H100_PCIE": 4}),
    simulator.Simulated(name="demo-gpu-3", resources={"nvidia.com/AD102GL_L40S": 8}),
    simulator.Simulated(name="demo-gpu-4", resources={"nvidia.com/NVIDIA_L40S-12Q": 16}),
)
_AWAY: Final = simulator.Taint(key=simulator.LABEL, value="true")
_MANAGER: Final = "devcluster-demo"
_POLL: Final = 0.03
_BOUND_WITHIN: Final = 30.0
_CATALOG: Final = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"


@dataclass(frozen=True, slots=True)
class Ending:
    """What came of it: the monotonic time at which the first claim was seen Bound."""

    first_bound: float


def hoster_of(admin: client.Client) -> client.Client:
    """Return a client that acts as the hoster."""
    return admin.acting_as("hoster", [HOSTER_GROUP, "system:authenticated"])


async def tell(admin: client.Client) -> Ending:
    """Tell the story on a cluster with the product up; everything it makes carries MARK."""
    hoster = hoster_of(admin)
    await _set_the_stage(admin, hoster)
    acme, globex = (tenants.acting(admin, tenant) for tenant in examples.TENANTS)
    await _look(acme, "acme")
    first_bound = await _order(acme, "acme", "orders/acme.yaml")
    await _look(globex, "globex")
    await _order(globex, "globex", "orders/globex.yaml")
    await _order_too_much(globex)
    await _promise_too_much(admin)
    await _show_the_end(hoster, {"tenant-acme": acme, "tenant-globex": globex})
    return Ending(first_bound)


async def _set_the_stage(admin: client.Client, hoster: client.Client) -> None:
    with progress.step(f"{len(NODES)} simulated nodes with GPUs"):
        nodes = simulator.Simulator(admin)
        for node in NODES:
            await nodes.add(marked_node(node))
    with progress.step("the hoster publishes a catalogue (examples/catalogue.yaml)"):
        for body in examples.load("catalogue.yaml"):
            await put(hoster, tolerant(body))
    with progress.step("the host makes tenants acme and globex (examples/tenants)"):
        for name in ("root", "acme", "globex"):
            for body in examples.load(f"tenants/{name}.yaml"):
                await put(admin, body)
        await _offered(tenants.acting(admin, "tenant-acme"))


async def _offered(acme: client.Client) -> None:
    """Wait until the API shows the catalogue: it learns of it by watching, like anyone."""
    wanted = {body["metadata"]["name"] for body in examples.load("catalogue.yaml")}
    path = f"{_CATALOG}/namespaces/tenant-acme/gpuoffers"
    said = ""
    try:
        async with asyncio.timeout(_BOUND_WITHIN):
            while not all(f'"name":"{name}"' in said for name in wanted):
                await asyncio.sleep(_POLL)
                answer = await acme.raw("GET", path)
                said = answer.body.decode(errors="replace")
    except TimeoutError as error:
        raise errors.NotReadyError(
            f"The catalogue does not show in gpuoffers after {_BOUND_WITHIN:.0f} s; "
            f"the last answer was: {said[:400].strip() or 'none'}"
        ) from error


async def _look(who: client.Client, name: str) -> None:
    tenant = f"tenant-{name}"
    path = f"{_CATALOG}/namespaces/{tenant}/gpuoffers"
    progress.say(f"\n[bold]{name}[/bold] looks at what it can order:")
    progress.say(await tables.fetch(who, path, f"Offers to {tenant} (gpuoffers)"))


async def _order(who: client.Client, name: str, file: str) -> float:
    """Make the orders of a file as a tenant, see each Bound; return when the first was."""
    orders = examples.load(file)
    progress.say(f"\n[bold]{name}[/bold] orders (examples/{file}):")
    begun = time.monotonic()
    for body in orders:
        await who.create(kinds.GPU_CLAIMS, marked(body))
    seen = [await _bound(who, body, begun) for body in orders]
    return min(seen)


async def _bound(who: client.Client, order: Mapping[str, Any], begun: float) -> float:
    meta, spec = order["metadata"], order["spec"]
    claim = await until_claim(who, meta, "Bound", lambda status: status.get("phase") == "Bound")
    seen = time.monotonic()
    node = claim["status"]["nodeName"]
    progress.say(
        f"  {meta['name']}: {spec['count']} x {spec['className']} [green]Bound[/green] on {node}"
        f" [dim](after {seen - begun:.2f} s)[/dim]"
    )
    return seen


async def _order_too_much(globex: client.Client) -> None:
    (order,) = examples.load("orders/too-much.yaml")
    meta, spec = order["metadata"], order["spec"]
    progress.say(
        "\n[bold]globex[/bold] orders more than its budget (examples/orders/too-much.yaml):"
    )
    refused = await refusal(globex, marked(order))
    if refused:
        progress.say(f"  [yellow]{refused}[/yellow]")
        return
    # A hoster may have orders wait instead (orderWebhook.enabled=false).
    claim = await until_claim(globex, meta, "given a reason", lambda s: waiting(s) is not None)
    words = rich.markup.escape(waiting(claim["status"]) or "")
    progress.say(
        f"  {meta['name']}: {spec['count']} x {spec['className']}"
        f" [yellow]{claim['status'].get('phase', 'Pending')}[/yellow]: {words}"
    )


async def _promise_too_much(admin: client.Client) -> None:
    """Have acme's owner grant a child more than acme has left; asked by dry run, so nothing is left of it."""
    (tenant,) = examples.load("tenants/too-much.yaml")
    meta, quotas = tenant["metadata"], tenant["spec"]["resourceQuotas"]
    granted = ", ".join(f"{units} x {key}" for key, units in quotas.items())
    progress.say(
        f"\n[bold]acme[/bold] grants a child more than it has left (examples/tenants/too-much.yaml):"
        f"\n  {meta['name']}: {granted}"
    )
    owner = tenants.acting(admin, meta["namespace"], "super-admin")
    try:
        await owner.create(tenants.TENANTS, marked(tenant), dry_run=True)
    except api.Invalid as error:
        (cause, *_) = error.details.causes
        said = f'The Tenant "{meta["name"]}" is invalid: {cause.field}: {cause.message}'
        progress.say(f"  [yellow]{rich.markup.escape(said)}[/yellow]")
    except api.NotFound:
        progress.say("  nobody serves Tenants here")
    else:
        progress.say("  it passes: this hoster has the quota gate off (quotaGate.enabled=false)")
        with contextlib.suppress(api.NotFound):  # some hosts store what is asked by dry run
            await owner.delete(tenants.TENANTS, meta["name"], meta["namespace"])


async def refusal(who: client.Client, order: Mapping[str, Any]) -> str:
    """Order; return what kubectl prints of a refusal, and nothing where it was taken."""
    try:
        await who.create(kinds.GPU_CLAIMS, order)
    except api.Forbidden as error:
        return rich.markup.escape(f"Error from server (Forbidden): {error.message}")
    return ""


async def until_claim(
    who: client.Client,
    meta: Mapping[str, Any],
    what: str,
    holds: Callable[[Mapping[str, Any]], bool],
) -> dict[str, Any]:
    """Wait until a claim's status is as asked; the error carries what the status says instead."""
    claim: dict[str, Any] = {}
    try:
        async with asyncio.timeout(_BOUND_WITHIN):
            while not holds(claim.get("status", {})):
                await asyncio.sleep(_POLL)
                claim = await who.get(kinds.GPU_CLAIMS, meta["name"], meta["namespace"])
    except TimeoutError as error:
        why = waiting(claim.get("status", {})) or "its status does not say why"
        raise errors.NotReadyError(
            f"Claim {meta['name']} of {meta['namespace']} is not {what} "
            f"after {_BOUND_WITHIN:.0f} s: {why}."
        ) from error
    return claim


def waiting(status: Mapping[str, Any]) -> str | None:
    """Return why a claim waits, in its own words; None when it does not."""
    for condition in status.get("conditions", []):
        if condition["type"] == "Waiting" and condition["status"] == "True":
            message: str = condition["message"]
            return message
    return None


async def _show_the_end(hoster: client.Client, people: Mapping[str, client.Client]) -> None:
    progress.say("")
    classes = f"/apis/{keys.GROUP}/{keys.VERSION}/gpuclasses"
    progress.say(await tables.fetch(hoster, classes, "What the hoster offers (gpuclasses)"))
    claims = f"/apis/{keys.GROUP}/{keys.VERSION}/gpuclaims"
    progress.say(await tables.fetch(hoster, claims, "Who ordered what (gpuclaims -A)"))
    for tenant, person in people.items():
        path = f"{_CATALOG}/namespaces/{tenant}/quotagates"
        progress.say(await tables.fetch(person, path, f"Budget of {tenant} (quotagates)"))


async def put(who: client.Client, body: Mapping[str, Any]) -> None:
    """Make or update an object of the demo as `who`; one that is somebody else's is an error."""
    kind = examples.kind_of(body)
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
    if name == keys.TENANT_ROOT:
        if await _exists(who, name):
            return  # the host's own, on a real one
    else:
        await _refuse_foreign(who, body)
    await who.apply(kind, name, marked(body), namespace, field_manager=_MANAGER)


async def _exists(who: client.Client, namespace: str) -> bool:
    try:
        await who.get(kinds.NAMESPACES, namespace)
    except api.NotFound:
        return False
    return True


async def _refuse_foreign(who: client.Client, body: Mapping[str, Any]) -> None:
    kind = examples.kind_of(body)
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
    try:
        found = await who.get(kind, name, namespace)
    except api.NotFound:
        return
    if MARK not in found["metadata"].get("labels", {}):
        raise errors.DevclusterError(
            f"{kind.kind} {name} is there already and not the demo's: it was left as it is."
        )


def marked_node(
    node: simulator.Simulated, labels: Mapping[str, str] | None = None
) -> simulator.Simulated:
    """Return the node as launchers want it, with the demo's mark and a taint against other people's pods."""
    marks = {**kubevirt.NODE_LABELS, MARK: "true", **(labels or {})}
    amounts = {**kubevirt.NODE_RESOURCES, **node.resources}
    return dataclasses.replace(node, resources=amounts, labels=marks, taints=(_AWAY,))


def marked(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the demo's mark."""
    labels = {**body["metadata"].get("labels", {}), MARK: "true"}
    return {**body, "metadata": {**body["metadata"], "labels": labels}}


def tolerant(one: Mapping[str, Any]) -> dict[str, Any]:
    """Let a class use the simulated nodes, which are tainted."""
    toleration = {"key": _AWAY.key, "operator": "Exists", "effect": _AWAY.effect}
    return {**one, "spec": {**one["spec"], "tolerations": [toleration]}}
