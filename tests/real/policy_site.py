"""A control plane with chart, host and tenants, on which the keeper, as the controller, has applied the policies."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from devcluster import chart, tenants
from devcluster.plane import ControlPlane
from gpu import keys, settings
from gpu.cluster import client, credentials, errors
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from gpu.settings import RawNames, Settings
from gpu.units import ResourceName
from policies import bundle, keeper
from policies.standing import Reason, Standing
from tests.real import installed

CONFIG: Final = Config(vm_webhooks=False)
"""As the chart is installed here: nobody answers for VMs."""
RAW: Final = "nvidia.com/GH100_H100"
NAMES: Final = (RAW, "nvidia.com/NVIDIA_L40S-24C")
TENANT: Final = "tenant-a"
PRETENDER: Final = f"system:serviceaccount:{TENANT}:kubevirt-controller"
TENANT_LABELS: Final = tenants.labels(TENANT)
NAMESPACES: Final[dict[str, dict[str, str]]] = {
    TENANT: TENANT_LABELS,
    keys.TENANT_ROOT: {},
    "cozy-other": TENANT_LABELS,
    "team-x": {},
}
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "admin": ("system:masters", "system:authenticated"),
    "hoster": ("cozystack-cluster-admin", "system:authenticated"),
}
Json = dict[str, Any]
T = TypeVar("T")
ROLE_BINDINGS: Final = Kind(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterrolebindings",
    "ClusterRoleBinding",
    namespaced=False,
)


@dataclass(slots=True)
class Site:
    """Clients of a prepared plane; `said` is what the keeper reported."""

    plane: ControlPlane
    admin: client.Client
    controller: client.Client
    said: list[Standing] = field(default_factory=list)

    def as_user(
        self, user: str, groups: Sequence[str] = ("system:authenticated",)
    ) -> client.Client:
        """Return a client that acts as a user; RBAC and policies see that user."""
        return self.admin.acting_as(user, groups)

    def keeper(self, **changes: Any) -> keeper.Keeper:
        """Return a keeper that acts as the controller's service account."""

        async def told(found: Standing) -> None:
            self.said.append(found)

        return keeper.Keeper(self.controller, replace(CONFIG, **changes), report=told)

    async def keep(self, **changes: Any) -> Standing:
        """Do rounds until one finds nothing to write; return its standing."""
        return await settled(self.keeper(**changes), self.said)

    async def write_settings(self, raw_names: RawNames, names: Sequence[str] = NAMES) -> None:
        """Write the settings object as the leader does."""
        data = settings.format_data(Settings.of(map(ResourceName, names), raw_names))
        await self.controller.apply(
            kinds.CONFIG_MAPS,
            keys.SETTINGS_NAME,
            {"metadata": {"name": keys.SETTINGS_NAME}, "data": data},
            keys.SETTINGS_NAMESPACE,
            field_manager=keys.BINDER_MANAGER,
        )

    async def raise_term(self, term: int) -> None:
        """Make GPUBinder carry a term, as a new leader does."""
        await self.controller.patch(
            kinds.GPU_BINDERS, keys.BINDER_NAME, {"status": {"term": term}}, subresource="status"
        )


@asynccontextmanager
async def logged_in(login: Path) -> AsyncIterator[client.Client]:
    """Return a client of a kubeconfig."""
    async with client.Client(await credentials.load(login)) as found:
        yield found


@asynccontextmanager
async def prepared(cp: ControlPlane) -> AsyncIterator[Site]:
    """Install the chart, host kinds and tenants, settings (denied) and GPUBinder; no policy yet."""
    await chart.install_host(cp)
    async with logged_in(cp.kubeconfig) as admin:
        await installed.install(cp, admin)
    login = await cp.service_account_kubeconfig(CONFIG.namespace, CONFIG.service_account)
    async with logged_in(cp.kubeconfig) as admin, logged_in(login) as controller:
        site = Site(cp, admin, controller)
        for name, labels in NAMESPACES.items():
            await admin.create(kinds.NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        await _grant(admin)
        await _default_accounts(admin)
        await controller.create(kinds.GPU_BINDERS, {"metadata": {"name": keys.BINDER_NAME}})
        await site.write_settings(RawNames.DENIED)
        yield site


async def in_force(site: Site) -> None:
    """Apply the policies and wait until one of each bundle refuses: they compile once a second."""
    await site.keep()
    await eventually(lambda: refused(site.admin.create(kinds.PODS, pod(), dry_run=True)))
    await eventually(lambda: refused(site.admin.create(kinds.VMIS, vmi(), dry_run=True)))
    await eventually(
        lambda: refused(
            site.admin.patch(
                kinds.CONFIG_MAPS,
                keys.SETTINGS_NAME,
                {"data": {"a": "b"}},
                keys.SETTINGS_NAMESPACE,
                dry_run=True,
            )
        )
    )


async def settled(keeping: keeper.Keeper, said: Sequence[Standing]) -> Standing:
    """Do rounds until one finds nothing to write; return its standing, the last of `said`."""
    async with asyncio.timeout(60):
        while await finished(keeping, said) == keeper.SETTLE:
            pass
    return said[-1]


async def finished(keeping: keeper.Keeper, said: Sequence[Standing]) -> float:
    """Do one round; one that could not finish is followed by another, as in `run`."""
    async with asyncio.timeout(60):
        while True:
            wait = await keeping.once()
            if said[-1].reason is not Reason.WRITE_FAILED:
                return wait
            await asyncio.sleep(wait)


async def refused(write: Awaitable[object]) -> str | None:
    """Return the words of a refusal, None when the write passed."""
    try:
        await write
    except (errors.Forbidden, errors.Invalid) as error:
        return error.message
    return None


async def eventually(ask: Callable[[], Awaitable[T]], seconds: float = 30.0) -> T:
    """Ask until the answer is true."""
    async with asyncio.timeout(seconds):
        while True:
            found = await ask()
            if found:
                return found
            await asyncio.sleep(0.05)


def pod(
    resource: str = RAW, namespace: str = TENANT, *, init: bool = False, name: str = "p"
) -> Json:
    """Return a pod that asks for one unit of a resource, in a container or an init container."""
    plain = {"name": "main", "image": "i"}
    asking = {**plain, "resources": {"limits": {resource: "1"}}} if resource else plain
    spec: Json = {"containers": [plain if init else asking]}
    if init:
        spec["initContainers"] = [{**asking, "name": "first"}]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def vmi(resource: str = RAW, namespace: str = TENANT, *, name: str = "vm") -> Json:
    """Return a VMI with one GPU of a resource."""
    devices = {"gpus": [{"name": "gpu0", "deviceName": resource}]}
    meta = {"name": name, "namespace": namespace}
    return {"metadata": meta, "spec": {"domain": {"devices": devices}}}


async def _grant(admin: client.Client) -> None:
    """Let KubeVirt's controller and the hosters do everything: what refuses them is a policy."""
    role_ref = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "cluster-admin",
    }
    kubevirt = {"kind": "User", "name": CONFIG.kubevirt_controller_user}
    pretender = {"kind": "User", "name": PRETENDER}
    hosters = {"kind": "Group", "name": "cozystack-cluster-admin"}
    tenants = {"kind": "Group", "name": "tenant-a-super-admin"}
    await admin.create(
        ROLE_BINDINGS,
        {
            "metadata": {"name": "all-may"},
            "roleRef": role_ref,
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", **subject}
                for subject in (kubevirt, pretender, hosters, tenants)
            ],
        },
    )


async def _default_accounts(admin: client.Client) -> None:
    accounts = Kind("", "v1", "serviceaccounts", "ServiceAccount")
    for namespace in (*NAMESPACES, "default"):
        await eventually(lambda namespace=namespace: _there(admin, accounts, namespace))


async def _there(admin: client.Client, kind: Kind, namespace: str) -> bool:
    try:
        await admin.get(kind, "default", namespace)
    except errors.NotFound:
        return False
    return True


def names_of(**changes: Any) -> tuple[set[str], set[str]]:
    """Return the names of all policies and of all bindings that the leader keeps with a config."""
    config = replace(CONFIG, **changes)
    policies = bundle.kept(config)
    return (
        {policy.name for policy in policies},
        {
            policy.binding_name(binding)
            for policy in policies
            for binding in bundle.wanted_bindings(policy, enabled=config.enabled)
        },
    )


def time_of(text: str) -> datetime:
    """Read an RFC 3339 time."""
    return datetime.fromisoformat(text)
