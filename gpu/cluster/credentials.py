"""In-cluster or kubeconfig login; the only importer of kubernetes.*.

An `Access` is where the API server is and who we are there. What it was read from may change while
the process runs (a projected token is rotated every hour, an exec plugin's answer expires, a
kubeconfig is replaced): files are looked at again every few seconds, and at once after a 401.

`kubernetes.aio.config` costs 0.6 s and 56 MB to import, so it is imported by the function that
needs it, in a worker thread: the import, the reading of files and an exec plugin never hold the
event loop.
"""

import asyncio
import hashlib
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

IN_CLUSTER_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LOOK_AGAIN: Final = 5.0
"""Seconds between two looks at the files of a login."""
EXEC_DEADLINE: Final = 30.0
"""Seconds an exec plugin may take."""
EXPIRY_SKEW: Final = 60.0
"""Seconds before its expiry at which an exec credential is asked for anew."""
_FILE_FIELDS: Final = ("tokenFile", "client-certificate", "client-key", "certificate-authority")


class LoginError(Exception):
    """There are no usable credentials: no file, no in-cluster environment, a plugin that failed."""


Stamps = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """One reading of the credentials; `expires` is wall time, `files` are what it was read from.

    Two readings of the same credentials are equal: `certificates` is a digest of what `tls` holds.
    """

    server: str
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = field(default=None, compare=False)
    certificates: str = ""
    server_hostname: str | None = None
    proxy: str | None = None
    expires: datetime | None = None
    files: tuple[Path, ...] = field(default=(), compare=False)
    stamps: Stamps = field(default=(), compare=False)
    """How the files looked when they were read; a failed look is None."""


Source = Callable[[], Login]
"""Reads the credentials; blocks, so it is called in a worker thread."""


def _wall_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 -- an exec credential's expiry is wall time


class Access:
    """A way in to one API server, kept fresh; `login` is the newest reading."""

    def __init__(
        self,
        login: Login,
        source: Source | None = None,
        *,
        look_again: float = LOOK_AGAIN,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.login = login
        self._source = source
        self._look_again = look_again
        self._monotonic = monotonic
        self._looked = monotonic()
        self._stamps = login.stamps
        self._lock = asyncio.Lock()

    @property
    def server(self) -> str:
        """Base URL, without a slash at the end."""
        return self.login.server

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """What to verify the server with, and our client certificate; None for plain HTTP."""
        return self.login.tls

    def at(self, server: str, hostname: str) -> "Access":
        """Return the same credentials for one API server; its certificate bears `hostname`."""

        def place(login: Login) -> Login:
            return replace(login, server=server, server_hostname=hostname)

        source = self._source
        return Access(
            place(self.login),
            None if source is None else lambda: place(source()),
            look_again=self._look_again,
            monotonic=self._monotonic,
        )

    async def headers(self) -> Mapping[str, str]:
        """Return the headers that authenticate a request; reads changed credentials first.

        Credentials that cannot be read now leave the last good ones in use.
        """
        if self._source is not None and self._monotonic() - self._looked >= self._look_again:
            async with self._lock:
                await self._look()
        return self.login.headers

    async def renew(self, used: Login) -> bool:
        """Read the credentials again after a 401; True when they differ from those that were used.

        Requests that fail together read once. Raises nothing: what cannot be read is not newer.
        """
        if self._source is None:
            return False
        async with self._lock:
            if self.login is used:
                await self._read()
            return self.login is not used

    async def _look(self) -> None:
        if self._monotonic() - self._looked < self._look_again:
            return  # another request looked while this one waited for the lock
        self._looked = self._monotonic()
        stamps = await asyncio.to_thread(_stamps, self.login.files)
        if stamps != self._stamps or self._expired():
            await self._read()

    async def _read(self) -> None:
        assert self._source is not None
        try:
            fresh = await asyncio.to_thread(self._source)
        except LoginError:
            return  # the stamps stay as they were, so the next look tries again
        self._stamps = fresh.stamps
        if fresh != self.login:  # equal ones keep the TLS context, and with it the connections
            self.login = fresh

    def _expired(self) -> bool:
        expires = self.login.expires
        return expires is not None and (expires - _wall_now()).total_seconds() < EXPIRY_SKEW


def fixed(server: str, *, token: str | None = None, tls: ssl.SSLContext | None = None) -> Access:
    """Return an Access whose credentials never change: tests, and devcluster's admin."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Access(Login(server=server.rstrip("/"), headers=headers, tls=tls))


async def load(kubeconfig: Path | None, *, context: str | None = None) -> Access:
    """Log in with a kubeconfig file, or as the pod's service account when there is none.

    Raises LoginError when neither can be read.
    """
    folder = IN_CLUSTER_FOLDER

    def source() -> Login:
        if kubeconfig is not None:
            return _from_kubeconfig(kubeconfig, context)
        return from_folder(folder)

    return Access(await asyncio.to_thread(source), source)


def from_folder(folder: Path, environ: Mapping[str, str] = os.environ) -> Login:
    """Read a service account's folder (`token`, `ca.crt`) and the in-cluster environment."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise LoginError("no kubeconfig given, and KUBERNETES_SERVICE_HOST and _PORT are not set")
    files = (folder / "token", folder / "ca.crt")
    stamps = _stamps(files)  # before reading: what is replaced meanwhile is then read once more
    try:
        token = (folder / "token").read_text(encoding="utf-8").strip()
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    except (OSError, ssl.SSLError) as error:
        raise LoginError(f"cannot read the service account in {folder}: {error}") from error
    if not token:
        raise LoginError(f"the token in {folder} is empty")
    return Login(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        headers={"Authorization": f"Bearer {token}"},
        tls=tls,
        certificates=_digest(folder / "ca.crt"),
        files=files,
        stamps=stamps,
    )


def _from_kubeconfig(path: Path, context: str | None) -> Login:
    import kubernetes.aio.client as kubernetes_client  # noqa: PLC0415 -- 0.6 s, see the top
    import kubernetes.aio.config as kubernetes_config  # noqa: PLC0415 -- 0.6 s, see the top

    if not path.is_file():
        raise LoginError(f"there is no kubeconfig at {path}")
    found = kubernetes_client.Configuration()

    async def read() -> Any:
        async with asyncio.timeout(EXEC_DEADLINE):
            return await kubernetes_config.load_kube_config(  # type: ignore[no-untyped-call] # it has no types
                config_file=str(path),
                context=context,
                client_configuration=found,
                persist_config=False,
            )

    try:
        loader = asyncio.run(read())
    # The library raises its own ConfigException, but also KeyError, yaml and ssl errors.
    except Exception as error:
        raise LoginError(f"cannot read the kubeconfig {path}: {error!r}") from error
    user = dict(loader._user.value) if loader._user else {}  # noqa: SLF001 -- no public name for it
    authorization = found.api_key.get("BearerToken", "").strip()
    if "exec" in user and not authorization and not found.cert_file:
        # The library logs a failed plugin and goes on as nobody.
        raise LoginError(f"the exec plugin of {path} gave no credentials")
    files = (path, *_files(path, user, dict(loader._cluster.value)))  # noqa: SLF001 -- as above
    return Login(
        server=found.host.rstrip("/"),
        headers={"Authorization": authorization} if authorization else {},
        tls=_tls(found) if found.host.startswith("https") else None,
        certificates=_digest(found.ssl_ca_cert, found.cert_file, found.key_file),
        server_hostname=getattr(found, "tls_server_name", None),
        proxy=getattr(found, "proxy", None),
        expires=getattr(loader, "exec_plugin_expiry", None),
        files=files,
        stamps=_stamps(files),
    )


def _tls(found: Any) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(cafile=found.ssl_ca_cert or None)
        if found.cert_file:
            tls.load_cert_chain(found.cert_file, found.key_file or None)
    except (OSError, ssl.SSLError) as error:
        raise LoginError(f"cannot use the certificates of the kubeconfig: {error}") from error
    if not found.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


def _files(kubeconfig: Path, *sections: Mapping[str, Any]) -> tuple[Path, ...]:
    named = [section[name] for section in sections for name in _FILE_FIELDS if section.get(name)]
    return tuple(kubeconfig.parent / name for name in named)


def _digest(*files: str | Path | None) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(Path(path).read_bytes() if path else b"-")
    return digest.hexdigest()


def _stamps(files: tuple[Path, ...]) -> Stamps:
    found: list[tuple[int, int, int] | None] = []
    for path in files:
        try:
            state = path.stat()
        except OSError:
            found.append(None)
        else:
            found.append((state.st_mtime_ns, state.st_size, state.st_ino))
    return tuple(found)
