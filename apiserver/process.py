"""One process from its start to its end: what runs, what runs while it leads, in what order it stops.

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
from pathlib import Path
from typing import Any, Final

import structlog

import policies.keeper
from apiserver import app, logs, memory, metrics, tls, wiring
from apiserver import teardown as _teardown
from apiserver.facade import opening
from apiserver.flags import LogFormat, ServeConfig
from apiserver.observing import Observing
from apiserver.wiring import Process
from gpu.cluster import credentials, endpoints, lease
from gpu.cluster.client import Client
from gpu.config import Config
from gpu.objects import kinds
from policies import standing
from policies.asking import Canary
from policies.proof import Proof

log = structlog.get_logger(__name__)

SWITCH_INTERVAL: Final = 0.0005
"""Seconds: the pass runs in a thread, and the event loop must get the interpreter back soon."""
TORN_DOWN: Final = 5.0
"""Seconds between looks at whether the release is still being torn down."""
CONTEND_AGAIN: Final = 1.0
"""Seconds a deposed leader waits before it contends again."""


async def serve(settings: ServeConfig) -> int:
    """Run until SIGTERM or SIGINT; returns the exit status."""
    logs.configure(settings.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        access = await credentials.load(settings.kubeconfig)
        made = metrics.create()
        certificate = tls.Serving(
            settings.tls_cert_file,
            settings.tls_private_key_file,
            made.tls_reload_errors,
            http2=settings.http2,
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
        process = wiring.build(settings, made, observing, certificate, client, reviewer, facade)
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


async def _run(process: Process) -> int:
    async with _listening(process), asyncio.TaskGroup() as tasks:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _save_next, process)
        await process.trust.refresh()
        background = [
            tasks.create_task(work, name=name) for name, work in _background(process).items()
        ]
        leading = tasks.create_task(_contend(process), name="leadership")
        await _asked_to_stop()
        log.info("stopping", delay_s=process.serve.shutdown_delay)
        process.health.draining = True
        process.runner.take_leave()
        leading.cancel()
        await asyncio.wait([leading])
        await asyncio.sleep(process.serve.shutdown_delay)
        process.projection.close()
        await process.runner.cleanup()
        for task in background:
            task.cancel()
    return 0


async def _lead(process: Process, hold: lease.Hold) -> None:
    """Bind and keep the policies while the lease is held."""
    await process.caches.wait_synced()
    while await _teardown.still_torn_down(process.client, process.serve.config):
        log.warning("torn down: nothing is done until a new install", again_s=TORN_DOWN)
        await asyncio.sleep(TORN_DOWN)
    keeper = _keeper(process, hold)
    with contextlib.ExitStack() as ends:
        ends.callback(process.caches.subscribe_served(keeper.wake))
        ends.callback(process.caches[kinds.CONFIG_MAPS].subscribe(keeper.wake))
        host = opening.keep_api(process.client, process.facade, hold.valid)
        marked = _teardown.until_marked(process.caches)
        await _until_first(process.binder.lead(hold), keeper.run(), host, marked)


def _keeper(process: Process, hold: lease.Hold) -> policies.keeper.Keeper:
    config, told = process.serve.config, process.observing.told
    doors = functools.partial(endpoints.doors, process.client, observe=process.observing.requested)
    canary = Canary(process.client, config, doors=doors, clock=process.clock)
    return policies.keeper.Keeper(
        process.client,
        config,
        report=told(standing.on_binder(process.client, process.clock, process.recorder)),
        leading=hold.valid,
        proof=Proof(canary, config, heard=process.observing.heard),
    )


async def _contend(process: Process) -> None:
    """Contend for the lease for ever; a leader that was deposed starts over as a follower."""
    while True:
        await process.leadership.run(functools.partial(_lead, process))
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
