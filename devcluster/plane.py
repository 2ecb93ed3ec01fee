"""A control plane as a value to work with: log in, run kubectl and helm, stop and start its parts."""

import ssl
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from devcluster import (
    clock,
    commands,
    components,
    errors,
    kubeconfig,
    pki,
    ports,
    probes,
    processes,
    state,
)
from devcluster.kubeconfig import Endpoint
from gpu.cluster import client, credentials

ADMIN = "admin"
_YEAR = 365 * 24 * 3600


class ControlPlane:
    """One control plane on this machine and all that was started in it."""

    def __init__(
        self,
        site: components.Site,
        records: dict[str, processes.Record],
        *,
        tethered: bool,
    ) -> None:
        self.site = site
        self._records = records
        self._tethered = tethered
        self._reserved: list[ports.Reservation] = []

    @property
    def directory(self) -> Path:
        """Folder of everything that belongs to this plane: etcd, logs, pki, kubeconfigs."""
        return self.site.directory

    @property
    def pki(self) -> pki.Authorities:
        """Its certificates and the authorities to sign more."""
        return self.site.pki

    @property
    def endpoint(self) -> Endpoint:
        """Where kube-apiserver answers, and the CA that signed its certificate."""
        return Endpoint(self.server, self.pki.serving_ca.crt)

    @property
    def server(self) -> str:
        """URL of kube-apiserver, `https://127.0.0.1:PORT`."""
        return f"https://127.0.0.1:{self.site.ports.api_server}"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator (group system:masters)."""
        return self.site.kubeconfig(ADMIN)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig that logs in as `user` in `groups` by a client certificate."""
        name = user.replace(":", "-").replace("/", "-")
        pair = self.pki.sign_client(f"user-{name}", user=user, groups=groups, now=clock.now())
        return kubeconfig.write_certificate(self.site.kubeconfig(name), self.endpoint, pair)

    def admin(self) -> client.Client:
        """Return a client of the administrator; use it as `async with`."""
        made = self.pki.pair(ADMIN)
        tls = ssl.create_default_context(cafile=str(self.pki.serving_ca.crt))
        tls.load_cert_chain(made.crt, made.key)
        return client.Client(credentials.fixed(self.server, tls=tls))

    async def service_account_kubeconfig(
        self, namespace: str, name: str, *, via: Endpoint | None = None
    ) -> Path:
        """Return a kubeconfig of a ServiceAccount, which must exist.

        It names a token file that is good for a year; calling again writes a fresh token there.
        `via` is where to send requests instead of to kube-apiserver: a proxy of a test.
        """
        user = f"{namespace}.{name}"
        token = await self.kubectl(
            "create", "token", name, f"--namespace={namespace}", f"--duration={_YEAR}s"
        )
        file = self.site.kubeconfig(user).with_suffix(".token")
        kubeconfig.write_private(file, token.strip())
        place = self.site.kubeconfig(user if via is None else f"{user}.via")
        return kubeconfig.write_token(place, via or self.endpoint, file)

    async def kubectl(self, *args: str, stdin: str | None = None, login: Path | None = None) -> str:
        """Run kubectl, as the administrator unless `login` names a kubeconfig; return its stdout.

        Nothing of the user's own kubectl is read or written.

        CommandError carries what it said on stderr.
        """
        login = self.kubeconfig if login is None else login
        cache = f"--cache-dir={self.directory / 'kubectl'}"
        argv = (str(self.site.binaries["kubectl"]), f"--kubeconfig={login}", cache, *args)
        return await commands.run(argv, stdin=stdin, env={"KUBERC": "off"})

    async def helm(self, *args: str) -> str:
        """Run helm as the administrator, with no repositories or plugins of the user; return its stdout."""
        own = str(self.directory / "helm")
        folders = {"HELM_CACHE_HOME": own, "HELM_CONFIG_HOME": own, "HELM_DATA_HOME": own}
        argv = (str(self.site.binaries["helm"]), f"--kubeconfig={self.kubeconfig}", *args)
        return await commands.run(argv, env=folders)

    def is_running(self, name: str) -> bool:
        """Tell whether the process `name` was started and still runs."""
        record = self._records.get(name)
        return record is not None and processes.is_running(record)

    def record(self, name: str) -> processes.Record:
        """Return the process `name` as it was started last; KeyError when it never was."""
        return self._records[name]

    async def run(self, command: processes.Command, probe: probes.Probe) -> processes.Record:
        """Start a process as part of this plane and wait until `probe` says it is ready."""
        record = processes.start(command, tethered=self._tethered)
        self._records[command.name] = record
        self._save()
        await processes.ready(record, probe)
        return record

    async def start_process(self, name: str, *, without: Sequence[str] = ()) -> None:
        """Start one of the four components and wait until it is ready; `without` leaves flags out."""
        command = self.site.command(name)
        unwanted = tuple(f"--{flag}=" for flag in without)
        argv = tuple(word for word in command.argv if not word.startswith(unwanted))
        await self.run(replace(command, argv=argv), self._probe(name))

    async def stop_process(self, name: str) -> None:
        """Stop the process `name` of this plane; nothing happens when it does not run."""
        record = self._records.pop(name, None)
        if record is not None:
            await processes.stop(record)
            self._save()

    async def start_api_server(self) -> None:
        """Start kube-apiserver again where it was, and wait until it is ready."""
        await self.start_process(components.API_SERVER)

    async def stop_api_server(self) -> None:
        """Stop kube-apiserver; everything else keeps running without it."""
        await self.stop_process(components.API_SERVER)

    async def namespace_ready(self, namespace: str, *, within: float = 60.0) -> None:
        """Wait until pods can be made in `namespace`: its ServiceAccount and root CA are there."""
        admin = self.pki.pair(ADMIN)
        core = f"{self.server}/api/v1/namespaces/{namespace}"
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            probe = probes.answers_ok(f"{core}/{path}", self.pki.serving_ca.crt, admin)
            if not await probes.until(probe, within=within):
                self.check()
                message = f"{path} of namespace {namespace} is not there after {within:.0f} s."
                raise errors.NotReadyError(
                    message, log=self.site.log(components.CONTROLLER_MANAGER)
                )

    def running(self) -> tuple[str, ...]:
        """Return the names of the processes of this plane that run."""
        return tuple(name for name in self._records if self.is_running(name))

    def reserve_port(self) -> int:
        """Return a free port that no other plane of this user takes while this one is up."""
        reservation = ports.reserve()
        self._reserved.append(reservation)
        return reservation.port

    async def stop(self) -> None:
        """Stop all that was started in this plane: first what runs on it, then the plane."""
        others = [name for name in self._records if name not in components.STOP_ORDER]
        for name in (*reversed(others), *components.STOP_ORDER):
            await self.stop_process(name)
        while self._reserved:
            self._reserved.pop().close()

    def check(self) -> None:
        """Raise ChildDiedError when something that was started here has ended by itself."""
        for record in self._records.values():
            if not processes.is_running(record):
                raise processes.died(record)

    def _probe(self, name: str) -> probes.Probe:
        at = self.site.ports
        url = {
            components.ETCD: f"http://127.0.0.1:{at.etcd}/health",
            components.API_SERVER: f"{self.server}/readyz",
            components.CONTROLLER_MANAGER: f"https://127.0.0.1:{at.controller_manager}/healthz",
            components.SCHEDULER: f"https://127.0.0.1:{at.scheduler}/readyz",
        }[name]
        return probes.answers_ok(url, self.pki.serving_ca.crt)

    def _save(self) -> None:
        written = state.State(
            ports=self.site.ports, options=self.site.options, processes=self._records
        )
        state.write(self.directory, written)
