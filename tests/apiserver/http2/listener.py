"""The application behind TLS, as the process runs it; requests that say so are held at a gate."""

import asyncio
import contextlib
from dataclasses import dataclass, field

from apiserver import app, connections
from apiserver.appkeys import Limits
from apiserver.identity import MASTERS, User
from gpu import keys
from tests.apiserver import certificates, fakes
from tests.apiserver.http2 import client

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
HELD = [("x-hold", "1")]
"""With it, a request waits until the gate is opened."""
SERVING_CA = certificates.authority("serving-ca")


@dataclass
class Gate:
    """Authentication that keeps who says so waiting."""

    waiting: int = 0
    left: int = 0
    """How many were cancelled while they waited."""
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def identify(self, headers, connection):  # noqa: ARG002 -- the port's shape
        if "X-Hold" in headers:
            self.waiting += 1
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.left += 1
                raise
            finally:
                self.waiting -= 1
        return User("admin", groups=(MASTERS,))


async def echo(request):
    return {"allowed": True, "warnings": [str(request.get("text", ""))]}


class Listener:
    """The application on a port."""

    def __init__(self, serving, *, limits=None, authenticator=None, **settings):
        self.face = fakes.a_face(fakes.words_world(tenant_a={"a": "x", "b": "y"}))
        self.gate = self.face.identity = Gate()
        self._changes = {"limits": limits or Limits()}
        if authenticator is not None:
            self._changes["authenticator"] = authenticator
        self._settings = {**app.RUNNER, **settings}
        self._serving = serving

    async def start(self):
        application = self.face.build(
            admission={"echo": echo}, admission_callers=frozenset({"admin"}), **self._changes
        )
        self.runner = connections.Runner(application, self.served, **self._settings)
        await self.runner.setup()
        await app.site(self.runner, "127.0.0.1", 0, self._serving.context).start()
        self.port = self.runner.addresses[0][1]

    @property
    def served(self):
        return self.face.services.metrics.served

    def opened(self, *, certificate=None, **how):
        return client.opened(
            self.port, client.secure(SERVING_CA.pem, certificate=certificate), **how
        )

    def total(self, name, **labels):
        """The sum of a metric's samples with these labels."""
        return sum(
            sample.value
            for metric in self.face.services.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def counted(self, code):
        """How many requests ended so."""
        return self.total("apiserver_request_total", code=str(code))

    def refused(self, code=400):
        """How many were no request."""
        return self.total("apiserver_request_total", verb="other", code=str(code))

    @property
    def connections(self):
        return tuple(self.runner.server.connections) if self.runner.server else ()


async def soon(true, seconds=client.SECONDS):
    """Wait for what nothing tells of."""
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 -- nothing tells
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def listening(serving, **how):
    """Serve for the length of a block; the projection runs."""
    one = Listener(serving, **how)
    await one.start()
    projecting = asyncio.ensure_future(one.face.projection.run())
    try:
        yield one
    finally:
        one.gate.opened.set()
        await one.runner.cleanup()
        projecting.cancel()
