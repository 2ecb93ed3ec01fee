"""Wiring: the composition root, which builds all parts of one process and hands each what it needs.

What has to be closed again, clients and the facade, `process` opens and hands in.
"""

import asyncio
from dataclasses import dataclass
from importlib import metadata
from typing import Final

from apiserver import admissions, app, appkeys, authn, authz, metrics, tls, trust
from apiserver.checks import Health, unreachable
from apiserver.clock import SystemClock
from apiserver.computing import Computing
from apiserver.connections import Runner
from apiserver.facade import opening
from apiserver.facade.serving import Facade
from apiserver.flags import ServeConfig
from apiserver.observing import Observing
from apiserver.projection import Projection
from apiserver.resources import served
from apiserver.source import CachesSource
from apiserver.views import Views
from gpu import keys
from gpu.admission.reserving import RENEWED, Gate
from gpu.admission.sightings import Sightings
from gpu.admission.starting import Starts
from gpu.binder.lead import Awaited, Binder
from gpu.binder.replaying import Saves
from gpu.cluster import lease, recorder
from gpu.cluster.caches import Caches
from gpu.cluster.client import Client
from gpu.objects import kinds

FAILING: Final = 5.0
"""Seconds all watches may be broken before readiness turns red."""


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
    runner: Runner


def build(  # noqa: PLR0917 -- what `serve` opened, handed on once
    settings: ServeConfig,
    made: metrics.Metrics,
    observing: Observing,
    certificate: tls.Serving,
    client: Client,
    reviewer: Client,
    facade: Facade | None,
) -> Process:
    """Build everything of one process; nothing runs yet."""
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
    awaited = Awaited()
    events = recorder.Recorder(
        client,
        recorder.Reporter(f"{keys.DOMAIN}/binder", settings.config.identity),
        clock=clock,
        waits=awaited,
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
            awaited=awaited,
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
