"""The real virt-api and virt-controller beside the control plane.

    async with kubevirt.running(cp) as kv:          # kinds, roles, both processes, webhooks
        await kv.stop(kubevirt.API)                 # KubeVirt's webhooks and `start` do not answer
        await kv.start(kubevirt.API)
        handler = kv.handler()                      # virt-handler's name: may write a VMI's status

Each process logs in as its own ServiceAccount with the shipped roles. What KubeVirt has on a node
(kubelet, virt-handler) does not run: VMs get their VMI and launcher pod, and no guest comes up until
somebody plays those two. The namespace is compiled in (see recipes.PATCHES).
"""

import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from devcluster import (
    chart,
    clock,
    components,
    errors,
    kubevirt_objects,
    plane,
    probes,
    processes,
    progress,
    recipes,
)
from gpu.cluster import client
from gpu.cluster import errors as api
from gpu.objects import kinds

API: Final = "virt-api"
CONTROLLER: Final = "virt-controller"
NAMESPACE: Final = kubevirt_objects.NAMESPACE
PERMITTED: Final = kubevirt_objects.PERMITTED
VERSION: Final = recipes.version_of(recipes.MODULES / "kubevirt", "kubevirt.io/kubevirt")
HANDLER: Final = "kubevirt-handler"
HANDLER_USER: Final = f"system:serviceaccount:{NAMESPACE}:{HANDLER}"

NODE_LABELS: Final[Mapping[str, str]] = {
    "kubernetes.io/arch": "amd64",
    "kubevirt.io/schedulable": "true",
    "machine-type.node.kubevirt.io/q35": "true",
    # The rest is asked for by targets of a migration.
    "machine-type.node.kubevirt.io/pc-q35-rhel9.6.0": "true",
    "host-model-cpu.node.kubevirt.io/Skylake-Server": "true",
    "cpu-model-migration.node.kubevirt.io/Skylake-Server": "true",
    "cpu-vendor.node.kubevirt.io/Intel": "true",
}
"""What virt-handler's labeller writes on a node, and launcher pods select by."""

NODE_RESOURCES: Final[Mapping[str, int]] = {
    "ephemeral-storage": 500 * 2**30,
    "devices.kubevirt.io/kvm": 1000,
    "devices.kubevirt.io/tun": 1000,
    "devices.kubevirt.io/vhost-net": 1000,
}
"""What a node serves to launcher pods besides its GPUs."""

_HANDLER_GROUPS = (
    "system:serviceaccounts",
    f"system:serviceaccounts:{NAMESPACE}",
    "system:authenticated",
)
_ACCOUNTS: Mapping[str, str] = {API: "kubevirt-apiserver", CONTROLLER: "kubevirt-controller"}
_API_SERVICE = "v1.subresources.kubevirt.io"
_SUBRESOURCES = "/apis/subresources.kubevirt.io/v1"
_GONE = 60.0
"""Seconds until a process has noticed that a kind it depends on has come."""


class KubeVirt:
    """KubeVirt as installed: its two processes by name, and where they listen."""

    def __init__(
        self, cp: plane.ControlPlane, admin: client.Client, found: kubevirt_objects.Shipped
    ) -> None:
        self._found = found
        self.cp = cp
        self.admin = admin
        self.ports: Mapping[str, int] = {
            API: cp.reserve_port(),
            CONTROLLER: cp.reserve_port(),
        }
        self._serving = cp.pki.sign_server(
            "virt-api", names=(f"virt-api.{NAMESPACE}.svc",), now=clock.now()
        )

    async def settle(self, permitted: Mapping[str, Any] | None) -> None:
        """Install kinds, settings, and the webhooks and APIServices that call virt-api."""
        found, write = self._found, kubevirt_objects.write
        await write(self.admin, found.crds)
        await kubevirt_objects.served(self.admin, found.crds)
        await write(self.admin, [kubevirt_objects.settings(permitted)])
        status = {"status": kubevirt_objects.STATUS}
        await self.admin.patch(kinds.KUBEVIRTS, "kubevirt", status, NAMESPACE, subresource="status")
        routed = kubevirt_objects.routed(
            (*found.webhooks, *found.api_services),
            ca=self.cp.pki.ext_ca.crt,
            port=self.ports[API],
        )
        await write(self.admin, routed)

    async def start(self, name: str) -> None:
        """Start one of the two processes and wait until it serves; virt-controller: until it leads."""
        if name == CONTROLLER:
            await self._forget_leader()
        account = _ACCOUNTS[name]
        login = await self.cp.service_account_kubeconfig(NAMESPACE, account)
        command = processes.Command(
            name=name,
            argv=(str(self.cp.site.binaries[name]), *self._flags(name, login)),
            log=self.cp.site.log(name),
            env={**components.ENVIRONMENT, **os.environ},
        )
        await self.cp.run(command, self._probe(name))

    async def start_both(self) -> None:
        """Start both processes at once, then send kube-apiserver to virt-api."""
        await kubevirt_objects.at_once(self.start(name) for name in (API, CONTROLLER))
        await self.available()

    async def stop(self, name: str) -> None:
        """Stop a process as a rollout does: SIGTERM; virt-api takes 5 s over it."""
        await self.cp.stop_process(name)

    async def end(self) -> None:
        """End both processes at once, whether they run or not: neither has anything to lose."""
        for name in (CONTROLLER, API):
            if self.cp.is_running(name):
                self.kill(name)
            await self.cp.stop_process(name)

    def kill(self, name: str) -> None:
        """End a process as a crash does: SIGKILL, at once."""
        processes.kill(self.cp.record(name))

    async def available(self) -> None:
        """Wait until kube-apiserver reaches virt-api for `start` and `stop` of VMs."""
        await chart.available(self.admin, _API_SERVICE)

    async def permit(self, permitted: Mapping[str, Any] | None) -> None:
        """Replace the devices that VMs may use; None takes the list away, and any may be asked for."""
        patch = {"spec": {"configuration": {"permittedHostDevices": permitted}}}
        # A merge patch keeps keys it does not name, such as the mediated devices of before.
        for change in ({"spec": {"configuration": {"permittedHostDevices": None}}}, patch):
            await self.admin.patch(kinds.KUBEVIRTS, "kubevirt", change, NAMESPACE)

    async def import_volumes(self) -> None:
        """Install CDI's kinds; both processes end to read their set-up anew and are started again."""
        running = [name for name in (API, CONTROLLER) if self.cp.is_running(name)]
        found = kubevirt_objects.cdi_kinds()
        await kubevirt_objects.write(self.admin, found)
        for name in running:
            try:
                await processes.gone(self.cp.record(name), within=_GONE)
            except TimeoutError as error:
                message = f"{name} did not end {_GONE:.0f} s after CDI's kinds came."
                raise errors.NotReadyError(message, log=self.cp.site.log(name)) from error
        await kubevirt_objects.at_once(self.start(name) for name in running)
        if API in running:
            await self.available()

    def handler(self) -> client.Client:
        """Return a client with virt-handler's name and rights, over the administrator's session."""
        return handler(self.admin)

    async def handler_kubeconfig(self) -> Path:
        """Return a kubeconfig of virt-handler's ServiceAccount, for a process of its own."""
        return await self.cp.service_account_kubeconfig(NAMESPACE, HANDLER)

    def _flags(self, name: str, login: Path) -> tuple[str, ...]:
        listen = (f"--kubeconfig={login}", "--listen=127.0.0.1", f"--port={self.ports[name]}")
        crt, key = self._serving.crt, self._serving.key
        if name == API:
            return (
                *listen,
                "--subresources-only",
                f"--tls-cert-file={crt}",
                f"--tls-key-file={key}",
                f"--handler-cert-file={crt}",
                f"--handler-key-file={key}",
            )
        return (
            *listen,
            # Written into launcher pods; nothing pulls them.
            f"--launcher-image=virt-launcher:{VERSION}",
            f"--exporter-image=virt-exportserver:{VERSION}",
            f"--prom-cert-file={crt}",
            f"--prom-key-file={key}",
        )

    def _probe(self, name: str) -> probes.Probe:
        url = f"https://127.0.0.1:{self.ports[name]}"
        ca = self.cp.pki.ext_ca.crt
        if name == API:
            return probes.answers_ok(f"{url}/healthz", ca)
        return probes.answers_ok(f"{url}/leader", ca, saying='"true"')

    async def _forget_leader(self) -> None:
        """Delete the Lease of a virt-controller that is gone: the next one need not wait it out."""
        with contextlib.suppress(api.NotFound):
            await self.admin.delete(kinds.LEASES, CONTROLLER, NAMESPACE)


def handler(admin: client.Client) -> client.Client:
    """Return a client with virt-handler's name and rights: status of a VMI by others is not kept."""
    return admin.acting_as(HANDLER_USER, _HANDLER_GROUPS)


async def command(person: client.Client, verb: str, name: str, namespace: str) -> None:
    """Do what `virtctl start`, `stop` or `restart` does, in a person's name; ApiError says why not."""
    path = f"{_SUBRESOURCES}/namespaces/{namespace}/virtualmachines/{name}/{verb}"
    # virt-api's answer has no body, and it refuses whoever insists on JSON.
    answer = await person.raw("PUT", path, body=b"{}", headers={"Accept": "*/*"})
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise api.from_answer(answer.status, answer.body, None)


async def install_kinds(cp: plane.ControlPlane, admin: client.Client, *, cdi: bool = False) -> None:
    """Install KubeVirt's kinds alone, and CDI's where asked for; returns once all are served."""
    found = await kubevirt_objects.shipped(cp.site.binaries["kubevirt-objects"])
    wanted = [*found.crds, *_cdi_kinds(cdi=cdi)]
    await kubevirt_objects.write(admin, wanted)
    await kubevirt_objects.served(admin, wanted)


async def install(
    cp: plane.ControlPlane,
    admin: client.Client,
    *,
    permitted: Mapping[str, Any] | None = PERMITTED,
    cdi: bool = False,
) -> KubeVirt:
    """Install all of KubeVirt's objects; neither process runs yet, and its webhooks refuse.

    `cdi` adds CDI's kinds, without CDI: then virt-controller looks for volumes that are imported.
    """
    made = await _begin(cp, admin, cdi=cdi)
    await made.settle(permitted)
    return made


async def start(
    cp: plane.ControlPlane,
    admin: client.Client,
    *,
    permitted: Mapping[str, Any] | None = PERMITTED,
    cdi: bool = False,
) -> KubeVirt:
    """Install KubeVirt and start both processes as part of the plane, which also stops them."""
    with progress.step(f"KubeVirt {VERSION}: its kinds and roles, virt-api and virt-controller"):
        made = await _begin(cp, admin, cdi=cdi)
        await _finish(made, permitted)
    return made


@contextlib.asynccontextmanager
async def running(
    cp: plane.ControlPlane,
    *,
    permitted: Mapping[str, Any] | None = PERMITTED,
    cdi: bool = False,
) -> AsyncIterator[KubeVirt]:
    """Install KubeVirt, start both processes, and end them at the end of the block.

    The objects stay, and the webhooks refuse from then on: the plane goes with them.
    """
    async with cp.admin() as admin:
        made = await _begin(cp, admin, cdi=cdi)
        try:
            await _finish(made, permitted)
            yield made
        finally:
            await made.end()


async def _begin(cp: plane.ControlPlane, admin: client.Client, *, cdi: bool) -> KubeVirt:
    """Install what a process needs to log in, and kinds that it looks for only once."""
    if cp.site.options.aggregator_routing:
        raise errors.DevclusterError(
            "KubeVirt cannot be reached on a plane with aggregator routing: start one without."
        )
    found = await kubevirt_objects.shipped(cp.site.binaries["kubevirt-objects"])
    await kubevirt_objects.write(admin, [kubevirt_objects.namespace()])
    ca = cp.pki.ext_ca.crt
    ground = [*found.rbac, *kubevirt_objects.certificates(ca), kubevirt_objects.service()]
    await kubevirt_objects.write(admin, [*ground, *_cdi_kinds(cdi=cdi)])
    return KubeVirt(cp, admin, found)


async def _finish(made: KubeVirt, permitted: Mapping[str, Any] | None) -> None:
    """Install the rest and start both processes.

    virt-api computes for six seconds before it asks kube-apiserver anything; that computes as
    long over the new kinds. So they do it side by side.
    """

    async def controlled() -> None:
        await made.settle(permitted)
        await made.start(CONTROLLER)

    await kubevirt_objects.at_once((made.start(API), controlled()))
    await made.available()


def _cdi_kinds(*, cdi: bool) -> list[kubevirt_objects.Object]:
    return kubevirt_objects.cdi_kinds() if cdi else []
