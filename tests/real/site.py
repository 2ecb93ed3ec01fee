"""A site: a control plane with the product on it, nodes, classes and tenants, for whole stories."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from devcluster import control_plane, probes, product, simulator, tenants
from devcluster.plane import ControlPlane
from gpu import keys
from gpu.cluster import errors
from gpu.cluster.client import Client
from gpu.config import Config
from gpu.objects import kinds
from policies import users

H100 = "nvidia.com/GH100_H100"
UNCURED = "--resync=600"
"""The leader's look at everything every 30 s cures a missed event before a story would see it: here it never comes."""
FAST = (
    UNCURED,
    "--lease-duration=4",
    "--renew-deadline=3",
    "--retry-period=0.5",
    "--fence-wait=0.5",
    "--shutdown-delay=0.2",
)
"""Timing for tests that are not about how long a takeover or a shutdown takes."""
STEADY = (
    UNCURED,
    "--lease-duration=15",
    "--renew-deadline=10",
    "--retry-period=0.5",
    "--fence-wait=0.5",
    "--shutdown-delay=0.2",
)
"""For tests that count on Events, and kill nobody: on a busy machine a leader of 3 s renews too late now and
then, and one that stops leading between a write and its Event tells of it never."""
BEFORE_RESYNC = 25.0
"""Seconds for what must come by a watch: as shipped the leader looks at everything every 30 s, and cures what it missed."""
LATE = 60.0
"""Seconds that a story waits unless it says less: reached by failures alone, on however busy a machine."""
RIGHTS = {
    "view": ("list", keys.CATALOG_GROUP, "gpuoffers"),
    "admin": ("create", keys.GROUP, "gpuclaims"),
    "super-admin": ("create", tenants.TENANTS.group, tenants.TENANTS.plural),
}
"""What each level has before those below it; each is bound, and put together, by an object of its own."""
CATALOG = "/apis/catalog.gpu.cozystack.io/v1alpha1"


@dataclass
class Site:
    """What a story works with; every write is the administrator's unless said otherwise."""

    cp: ControlPlane
    product: product.Product
    admin: Client
    nodes: simulator.Simulator

    async def node(self, name: str, units: int, resource: str = H100) -> None:
        """Make a ready node that serves units of a resource."""
        await self.nodes.add(simulator.Simulated(name=name, resources={resource: units}))

    async def offer(self, name: str, resource: str = H100, **spec: Any) -> None:
        """Publish a passthrough class."""
        source = {"devicePlugin": {"resourceName": resource}}
        body = {
            "metadata": {"name": name},
            "spec": {"mode": "passthrough", "source": source, **spec},
        }
        await self.admin.create(kinds.GPU_CLASSES, body)

    async def tenant(self, name: str, **quotas: int) -> None:
        """Make a tenant; `total=4` or `h100=2` are its budgets, none leaves it unbounded."""
        declared = {f"{keys.QUOTA_PREFIX}{key}": units for key, units in quotas.items()}
        await judged(lambda: tenants.add(self.admin, name, declared or None), or_not_at_all=True)
        for level, (verb, group, resource) in RIGHTS.items():
            somebody = (f"somebody@{name}", (tenants.group(name, level),))
            await self.may(*somebody, verb=verb, group=group, resource=resource, at=name)

    async def may(
        self, user: str, groups: Sequence[str], *, verb: str, group: str, resource: str, at: str
    ) -> None:
        """Wait until the API server knows of a right it was given: its authorizer lags a little."""
        asked = {"verb": verb, "group": group, "resource": resource, "namespace": at}
        told = f"{user} may {verb} {resource} in {at}"
        await until(lambda: allowed(self.admin, user, groups, asked), LATE, told)

    def person(self, tenant: str, level: str = "admin") -> Client:
        """Return a client with the rights of a person of the tenant."""
        return tenants.acting(self.admin, tenant, level)

    def controller(self) -> Client:
        """Return a client with the controller's name: for writes refused to everybody else."""
        return self.admin.acting_as(Config().controller_user, ("system:masters",))

    def host(self) -> Client:
        """Return a client with the name of the host's controller, which may delete records."""
        return self.admin.acting_as(users.HOST_CONTROLLER, ("system:masters",))

    async def order(self, tenant: str, name: str, class_name: str, count: int = 1) -> None:
        """Order as a person of the tenant."""
        body = {
            "metadata": {"name": name, "namespace": tenant},
            "spec": {"className": class_name, "count": count},
        }
        await judged(lambda: self.person(tenant).create(kinds.GPU_CLAIMS, body))

    async def claim(self, tenant: str, name: str) -> dict[str, Any]:
        """Return a claim as stored."""
        return await self.admin.get(kinds.GPU_CLAIMS, name, tenant)

    async def claims(self) -> list[dict[str, Any]]:
        """Return every claim as stored."""
        return list((await self.admin.list_all(kinds.GPU_CLAIMS)).items)

    async def bound(self, tenant: str, name: str, within: float = LATE) -> str:
        """Wait until a claim is Bound; return its node."""
        seen: dict[str, Any] = {}

        async def node() -> str:
            status = (await self.claim(tenant, name)).get("status") or {}
            seen.update(status)
            return status["nodeName"] if status.get("phase") == "Bound" else ""

        what = f"{tenant}/{name} Bound"
        return await until(node, within, lambda: f"{what}, its status is {seen}")

    async def waits(self, tenant: str, name: str, code: str, within: float = LATE) -> str:
        """Wait until a claim is Pending for a reason; return what it says."""
        seen: dict[str, Any] = {}

        async def message() -> str:
            status = (await self.claim(tenant, name)).get("status") or {}
            seen.update(status)
            if code not in status.get("reasons", []):
                return ""
            assert status["phase"] == "Pending", status
            found = [c for c in status["conditions"] if c["type"] == "Waiting"]
            assert [c["status"] for c in found] == ["True"], status
            return str(found[0]["message"])

        what = f"{tenant}/{name} waiting for {code}"
        return await until(message, within, lambda: f"{what}, its status is {seen}")

    async def gone(self, tenant: str, name: str, within: float = LATE) -> None:
        """Wait until a claim is not there any more."""

        async def absent() -> bool:
            try:
                await self.claim(tenant, name)
            except errors.NotFound:
                return True
            return False

        await until(absent, within, f"{tenant}/{name} gone")

    async def served(self, tenant: str, path: str) -> dict[str, Any]:
        """Return `resource` or `resource/name` of the aggregated API, as the tenant sees it."""
        full = f"{CATALOG}/namespaces/{tenant}/{path}"
        answer = await self.person(tenant).raw("GET", full)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise errors.from_answer(answer.status, answer.body, None)
        return dict(json.loads(answer.body))

    async def shown(self, tenant: str, *classes: str, **quotas: int) -> None:
        """Wait until the aggregated API shows a tenant, its offers of these classes, and these budgets."""
        budgets = {f"{keys.QUOTA_PREFIX}{key}": units for key, units in quotas.items()}

        async def there() -> bool:
            offers = (await self.served(tenant, "gpuoffers"))["items"]
            gates = (await self.served(tenant, "quotagates"))["items"] if budgets else ()
            hard = {gate["spec"]["key"]: gate["spec"].get("hard") for gate in gates}
            known = {offer["metadata"]["name"] for offer in offers}
            return set(classes) <= known and budgets.items() <= hard.items()

        await until(there, LATE, f"offers {classes} and budgets {budgets} shown to {tenant}")

    async def class_says(self, name: str, reason: str) -> None:
        """Wait until the leader says of a class why it is Ready or not: orders after it are judged so."""

        async def said() -> bool:
            status = (await self.admin.get(kinds.GPU_CLASSES, name)).get("status") or {}
            found = {one["type"]: one["reason"] for one in status.get("conditions", ())}
            return found.get("Ready") == reason

        await until(said, LATE, f"class {name} Ready for {reason}")

    async def class_has(self, name: str, units: int) -> None:
        """Wait until the leader counts so many units on nodes that a class may be placed on."""

        async def counted() -> bool:
            status = (await self.admin.get(kinds.GPU_CLASSES, name)).get("status") or {}
            return status.get("allocatable") == units

        await until(counted, LATE, f"class {name} of {units} units")

    async def ready(self, identity: str) -> bool:
        """Ask a replica itself whether it is ready."""
        replica = self.product.replicas[identity]
        return await probes.answers_ok(f"{replica.url}/readyz", self.cp.pki.ext_ca.crt)()

    async def booked(self) -> dict[str, int]:
        """Return units held per node, from the claims alone; fails when a node is over-booked."""
        held: dict[str, int] = {}
        for claim in await self.claims():
            status = claim.get("status") or {}
            if status.get("phase") == "Bound":
                node = status["nodeName"]
                held[node] = held.get(node, 0) + claim["spec"]["count"]
        for name, units in held.items():
            node = await self.admin.get(kinds.NODES, name)
            served = sum(
                int(amount)
                for resource, amount in node["status"]["allocatable"].items()
                if "/" in resource and not resource.startswith("devices.kubevirt.io/")
            )
            assert units <= served, f"{name} serves {served} units and holds {units}"
        return held


async def allowed(
    api: Client, user: str, groups: Sequence[str], attributes: Mapping[str, str]
) -> bool:
    """Ask the API server whether somebody may do something."""
    review = {"spec": {"user": user, "groups": [*groups], "resourceAttributes": {**attributes}}}
    answer = await api.create(kinds.SUBJECT_ACCESS_REVIEWS, review)
    return bool(answer["status"]["allowed"])


async def judged(write: Callable[[], Awaitable[Any]], *, or_not_at_all: bool = False) -> Any:
    """Make a write; again, as its author would, while a webhook of ours could not judge it in time and says so.

    `or_not_at_all`: also where it gave kube-apiserver no answer in 3 s, as a replica that is stopped or
    has just started. For what a site begins with; in a story that may be the product's fault.
    """
    end = asyncio.get_running_loop().time() + LATE
    while True:
        try:
            return await write()
        except errors.ServerFault as error:
            is_late = "denied the request" in error.message and "try again" in error.message
            is_late |= or_not_at_all and "context deadline exceeded" in error.message
            if not is_late or asyncio.get_running_loop().time() > end:
                raise
        await asyncio.sleep(0.1)


_NO_ANSWER = (errors.Unreachable, errors.ServerFault, errors.Throttled, errors.NotFound)


async def until(
    found: Callable[[], Awaitable[Any]], within: float, what: str | Callable[[], str]
) -> Any:
    """Ask again until the answer is true; fails with the last answer after `within` seconds.

    What is not there is no answer yet: our lists are made anew a moment after what they tell of.
    """
    answer: Any = None
    try:
        async with asyncio.timeout(within):
            while True:
                with contextlib.suppress(*_NO_ANSWER):
                    answer = await found()
                    if answer:
                        return answer
                await asyncio.sleep(0.05)
    except TimeoutError:
        told = what if isinstance(what, str) else what()
        raise AssertionError(f"not after {within:g} s: {told} (last answer: {answer!r})") from None


@contextlib.asynccontextmanager
async def opened(
    directory: Path,
    *,
    flags: Sequence[str] = FAST,
    start: bool = True,
    values: Mapping[str, Any] | None = None,
    guarded_owners: bool = False,
) -> AsyncIterator[Site]:
    """Bring up a plane of one's own with the product installed, and running unless told not to.

    `values` are of the chart: `chart.ORDERS_WAIT` for a story of orders that wait, or that are made
    while nobody is up to judge them.
    """
    made = control_plane.control_plane(directory, guarded_owners=guarded_owners)
    async with made as cp, cp.admin() as admin:
        found = await product.install(cp, admin, values=values)
        site = Site(cp, found, admin, simulator.Simulator(admin))
        if start:
            await found.start(flags=flags)
            await found.available()
        yield site


def now() -> datetime:
    """Return the wall time: certificates begin when they are made."""
    return datetime.now(UTC)  # noqa: TID251 -- as it says
