"""Composition root: the only file that builds things; wiring, TaskGroup, shutdown order.

Start: the listener first, since discovery must answer before anything is synced; then trust, caches
and projection; leadership last. Stop: readiness turns red and the lease is given up at once, a while
later the listener closes, caches last.
"""

import asyncio
import contextlib
import functools
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

import policies.keeper
from apiserver import admissions, app, appkeys, authn, authz, logs, memory, metrics, tls, trust
from apiserver import teardown as _teardown
from apiserver.checks import Health, unreachable
from apiserver.clock import SystemClock
from apiserver.computing import Computing
from apiserver.facade import opening
from apiserver.facade.serving import Facade
from apiserver.flags import LogFormat, ServeConfig
from apiserver.observing import Observing
from apiserver.projection import Projection
from apiserver.resources import served
from apiserver.source import CachesSource
from apiserver.views import Views
from gpu import keys
from gpu.admission.reserving import RENEWED, Gate
from gpu.admission.sightings import Sightings
from gpu.admission.starting import Starts
from gpu.binder.lead import Binder
from gpu.binder.replaying import Saves
from gpu.cluster import credentials, endpoints, lease, recorder
from gpu.cluster.caches import Caches
from gpu.cluster.client import Client
from gpu.config import Config
from gpu.objects import kinds
from policies import standing
from policies.asking import Canary
from policies.proof import Proof

log = structlog.get_logger(__name__)

SWITCH_INTERVAL: Final = 0.0005
"""Seconds: the pass runs in a thread, and the event loop must get the interpreter back soon."""
FAILING: Final = 5.0
"""Seconds all watches may be broken before readiness turns red."""
TORN_DOWN: Final = 5.0
"""Seconds between looks at whether the release is still being torn down."""
CONTEND_AGAIN: Final = 1.0
"""Seconds a deposed leader waits before it contends again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Everything one process consists of."""

    serve: ServeConfig
    clock: SystemClock
    client: Client
    caches: Caches
    source: CachesSource
    projection: Projection
    views: Views
    trust: trust.Keeper
    serving: tls.Serving
    health: Health
    observing: Observing
    computing: Computing
    recorder: recorder.Recorder
    binder: Binder
    leadership: lease.Leadership
    facade: Facade | None
    runner: web.AppRunner

    async def lead(self, hold: lease.Hold) -> None:
        """Bind and keep the policies while the lease is held."""
        await self.caches.wait_synced()
        while await _teardown.still_torn_down(self.client, self.serve.config):
            log.warning("torn down: nothing is done until a new install", again_s=TORN_DOWN)
            await asyncio.sleep(TORN_DOWN)
        keeper = self._keeper(hold)
        with contextlib.ExitStack() as ends:
            ends.callback(self.caches.subscribe_served(keeper.wake))
            ends.callback(self.caches[kinds.CONFIG_MAPS].subscribe(keeper.wake))
            host = opening.keep_api(self.client, self.facade, hold.valid)
            marked = _teardown.until_marked(self.caches)
            await _until_first(self.binder.lead(hold), keeper.run(), host, marked)

    def _keeper(self, hold: lease.Hold) -> policies.keeper.Keeper:
        config, told = self.serve.config, self.observing.told
        doors = functools.partial(endpoints.doors, self.client, observe=self.observing.requested)
        canary = Canary(self.client, config, doors=doors, clock=self.clock)
        return policies.keeper.Keeper(
            self.client,
            config,
            report=told(standing.on_binder(self.client, self.clock, self.recorder)),
            leading=hold.valid,
            proof=Proof(canary, config, heard=self.observing.heard),
        )

    async def contend(self) -> None:
        """Contend for the lease for ever; a leader that was deposed starts over as a follower."""
        while True:
            await self.leadership.run(self.lead)
            await asyncio.sleep(CONTEND_AGAIN)


async def _until_first(*works: Coroutine[Any, Any, None]) -> None:
    """Run all of them until one returns or raises; the others are cancelled and waited for."""
    ended = asyncio.Event()

    async def until_end(work: Coroutine[Any, Any, None]) -> None:
        await work
        ended.set()

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(until_end(work)) for work in works]
        await ended.wait()
        for task in running:
            task.cancel()


async def serve(settings: ServeConfig) -> int:
    """Run until SIGTERM or SIGINT; returns the exit status."""
    logs.configure(settings.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        access = await credentials.load(settings.kubeconfig)
        made = metrics.create()
        certificate = tls.Serving(
            settings.tls_cert_file, settings.tls_private_key_file, made.tls_reload_errors
        )
    except (credentials.LoginError, OSError) as error:
        log.error("cannot start", error=f"{type(error).__name__}: {error}")  # noqa: TRY400 -- no bug
        return 1
    observing = Observing(made, settings.config.identity)
    async with (
        Client(access, observe=observing.requested) as client,
        # Access reviews have connections of their own: a burst of writes must not queue them.
        Client(access, observe=observing.requested, connections=16) as reviewer,
        opening.opened(settings, access, made) as facade,
    ):
        process = _build(settings, made, observing, certificate, client, reviewer, facade)
        return await _run(process)


async def teardown(kubeconfig: Path | None, config: Config, *, release_gates: bool) -> bool:
    """Do what the chart's pre-delete hook does; says what it did, True when all of it was done."""
    logs.configure(LogFormat.CONSOLE)
    try:
        access = await credentials.load(kubeconfig)
    except (credentials.LoginError, OSError) as error:
        log.error("cannot start", error=f"{type(error).__name__}: {error}")  # noqa: TRY400 -- no bug
        return False
    async with Client(access) as client:
        done = await _teardown.teardown(
            client,
            config,
            release_gates=release_gates,
            report=lambda line: print(line, flush=True),  # noqa: T201 -- the command's answer
        )
    return done.clean


def _build(  # noqa: PLR0917 -- what `serve` opened, handed on once
    settings: ServeConfig,
    made: metrics.Metrics,
    observing: Observing,
    certificate: tls.Serving,
    client: Client,
    reviewer: Client,
    facade: Facade | None,
) -> Process:
    clock = SystemClock()
    caches = Caches(client, report=observing.malformed)
    source = CachesSource(caches, client)
    computing = Computing()
    projection = Projection(source, enabled=settings.config.enabled, in_thread=computing)
    # A source of their own: a snapshot answers one thread, and lists are made in another.
    # A refused order is waited for: what it rests on is asked for all at once.
    views = Views(
        CachesSource(caches, client, in_flight=len(caches.reflectors)), in_thread=computing
    )
    keeper = trust.Keeper(
        reviewer,
        changed=lambda found: certificate.trust(found.authorities),
        failed=made.trust_errors.inc,
    )
    health = Health()
    events = recorder.Recorder(
        client,
        recorder.Reporter(f"{keys.DOMAIN}/binder", settings.config.identity),
        clock=clock,
    )
    services = appkeys.Services(
        authenticator=authn.Authenticator(
            lambda: keeper.trust, reviewer, clock.now, metrics=made.served
        ),
        authorizer=opening.judged(authz.Authorizer(reviewer, metrics=made.served), facade),
        facade=facade,
        projection=projection,
        views=views if settings.config.enabled else None,
        resources=served(settings.config),
        metrics=made,
        admission_callers=settings.admission_callers,
        admission=admissions.build(
            views,
            settings.config,
            _quota_gate(views, caches, reviewer, clock),
            Starts(
                ask=views.ask,
                seen=caches[kinds.GPU_CLAIMS],
                writer=reviewer,
                clock=clock,
                config=settings.config,
            ),
        ),
        health=health,
        build=appkeys.Build(version=metadata.version("cozystack-gpu")),
    )
    pace = settings.config.pace
    process = Process(
        serve=settings,
        clock=clock,
        client=client,
        caches=caches,
        source=source,
        projection=projection,
        views=views,
        trust=keeper,
        serving=certificate,
        health=health,
        observing=observing,
        computing=computing,
        recorder=events,
        binder=Binder(
            reader=caches,
            writer=client,
            config=settings.config,
            clock=clock,
            observer=observing,
            in_thread=computing,
            recorder=events,
            saves=Saves(directory=settings.replay_dir, asked=settings.save_first),
        ),
        leadership=lease.Leadership(
            reviewer,
            lease.Place(settings.config.namespace, keys.LEASE_NAME),
            settings.config.identity,
            clock=clock,
            timing=lease.Timing(
                lease_duration=pace.lease_duration,
                renew_deadline=pace.renew_deadline,
                retry=pace.retry_period,
            ),
        ),
        facade=facade,
        runner=app.runner(services),
    )
    _add_checks(process)
    return process


def _quota_gate(views: Views, caches: Caches, client: Client, clock: SystemClock) -> Gate:
    def is_behind() -> bool:
        since = caches.failing.get(kinds.HELM_RELEASES.resource)
        return since is not None and asyncio.get_running_loop().time() - since > FAILING

    return Gate(
        ask=views.ask,
        renew=lambda: caches.refresh(*RENEWED),
        is_behind=is_behind,
        sightings=Sightings(caches),
        writer=client,
        clock=clock,
    )


def _add_checks(process: Process) -> None:
    caches, health = process.caches, process.health

    def synced() -> str:
        waiting = caches.waiting_for
        return f"not listed yet: {', '.join(waiting)}" if waiting else ""

    def watched() -> str:
        kinds_ = [kind.resource for kind in caches.reflectors if caches[kind].served]
        now = asyncio.get_running_loop().time()
        return unreachable(kinds_, caches.failing, now, FAILING)

    def trusted() -> str:
        return "" if process.trust.loaded else "extension-apiserver-authentication is not read yet"

    def certified() -> str:
        left = process.serving.not_after() - process.clock.now()
        return "the serving certificate has ended" if left.total_seconds() < 0 else ""

    health.add("caches-synced", synced)
    health.add("kube-apiserver", watched)
    health.add("front-proxy-trust", trusted)
    health.add("serving-certificate", certified)


async def _run(process: Process) -> int:
    async with _listening(process), asyncio.TaskGroup() as tasks:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _save_next, process)
        await process.trust.refresh()
        background = [
            tasks.create_task(work, name=name) for name, work in _background(process).items()
        ]
        leading = tasks.create_task(process.contend(), name="leadership")
        await _asked_to_stop()
        log.info("stopping", delay_s=process.serve.shutdown_delay)
        process.health.draining = True
        leading.cancel()
        await asyncio.wait([leading])
        await asyncio.sleep(process.serve.shutdown_delay)
        process.projection.close()
        await process.runner.cleanup()
        for task in background:
            task.cancel()
    return 0


async def _views(process: Process) -> None:
    """Have views made once there is anything to show; with the feature off nobody asks for one."""
    await process.caches.wait_synced()
    if process.serve.config.enabled:
        await process.views.run()


def _background(process: Process) -> dict[str, Coroutine[Any, Any, None]]:
    return {
        "host": opening.reading(process.facade),
        "trust": process.trust.run(),
        "certificate": process.serving.watch(),
        "caches": process.caches.run(),
        "memory": memory.keep_small(process.caches.wait_synced),
        "projection": process.projection.run(),
        "views": _views(process),
        "gauges": process.observing.gauges(
            process.caches,
            process.recorder,
            process.clock,
            process.serve.config,
            process.computing,
        ),
        "events": process.recorder.run(),
        "loop lag": process.observing.loop_lag(),
    }


@contextlib.asynccontextmanager
async def _listening(process: Process) -> AsyncIterator[None]:
    runner = process.runner
    await runner.setup()
    try:
        at, port = process.serve.bind_address, process.serve.port
        site = app.site(runner, at, port, process.serving.context)
        await site.start()
        log.info(
            "serving",
            address=at,
            port=port,
            identity=process.serve.config.identity,
            enabled=process.serve.config.enabled,
        )
        yield
    finally:
        await runner.cleanup()


def _save_next(process: Process) -> None:
    """Have the next pass of this leader saved, as `kill -USR1` asks."""
    is_asked = process.binder.saves.ask()
    leads = process.binder.saves.wake is not None
    log.info("saving the next pass" if is_asked else "passes are never saved", leading=leads)


async def _asked_to_stop() -> None:
    stop = asyncio.Event()
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, stop.set)
    await stop.wait()
