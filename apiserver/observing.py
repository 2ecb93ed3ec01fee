"""What the binder, the client and the caches report, as metrics and log lines."""

import asyncio
from collections import Counter
from datetime import datetime

import structlog

from apiserver.metrics import Metrics
from gpu.binder.changes import DropRecord, WriteRecord
from gpu.binder.report import PassReport
from gpu.cluster.caches import Caches
from gpu.cluster.http import Observation
from gpu.cluster.recorder import Recorder
from gpu.config import Config
from gpu.errors import DecodeError
from gpu.model import coverage, holds, tenancy
from gpu.objects.claims import GPUClaim, Phase
from gpu.objects.classes import GPUClass
from gpu.objects.config_maps import ConfigMap
from gpu.objects.kinds import Kind
from gpu.objects.meta import ObjectKey
from gpu.objects.pods import Pod
from gpu.objects.tenants import TenantQuota, TenantRelease
from gpu.objects.webhooks import Webhooks
from gpu.ports import Clock, Outcome
from gpu.reading import InThread
from gpu.settings import Settings
from gpu.units import ClassName
from gpu.world import served_settings
from policies.asking import Report as CanaryReport
from policies.canary import Finding
from policies.standing import Report, Standing

log = structlog.get_logger(__name__)

_LAG_STEP = 0.02
_GAUGES_EVERY = 5.0


class Observing:
    """Metrics and logs of one process. Its methods never raise and never wait."""

    def __init__(self, metrics: Metrics, identity: str) -> None:
        self._metrics = metrics
        self._identity = identity
        self._last_errors: frozenset[str] = frozenset()
        self._last_answer_errors: frozenset[str] = frozenset()
        self._events: Counter[str] = Counter()
        self._held_back = ""
        self._plan_problem = ""

    # gpu.binder.report.Observer

    def passed(self, report: PassReport) -> None:
        """Count one pass; a failure is logged when it is new, not once a pass."""
        if not report.skipped:
            self._metrics.pass_seconds.labels(phase="reading").observe(report.reading)
        for phase, spent in report.phases.items():
            self._metrics.pass_seconds.labels(phase=phase).observe(spent.deciding + spent.writing)
        refused = [item for item in report.failed if item.outcome is Outcome.REFUSED]
        self._metrics.write_refusals.inc(len(refused))
        self._metrics.quarantined_sets.set(report.quarantined)
        self._metrics.unanswered_sets.set(report.unanswered)
        self._metrics.sets_held_back.set(report.sets_held_back)
        self._metrics.starts_demoted.set(report.starts_demoted)
        self._metrics.rejections.set(report.rejections)
        self._metrics.launchers_refused.inc(report.launchers_refused)
        self._recorded(report)
        self._answered(report)
        if report.settings_healed:
            self._metrics.settings_writes.inc()
            log.info("settings written", why=report.settings_healed)
        self._checked(report)
        if report.held_back != self._held_back:
            self._held_back = report.held_back
            log.warning(
                "nothing is placed" if report.held_back else "placing again", why=report.held_back
            )
        self._last_errors = self._told(report, self._last_errors)

    def answered(self, report: PassReport) -> None:
        """Count one pass that only answered starts; it says nothing of the cluster as a whole."""
        seconds = report.reading + sum(it.deciding + it.writing for it in report.phases.values())
        self._metrics.pass_seconds.labels(phase="answers").observe(seconds)
        refused = [item for item in report.failed if item.outcome is Outcome.REFUSED]
        self._metrics.write_refusals.inc(len(refused))
        self._answered(report)
        if report.plan_problem:
            self._metrics.plans_refused.inc()
            log.error("plan refused, no start is answered by it", why=report.plan_problem)
        self._last_answer_errors = self._told(report, self._last_answer_errors)

    def _answered(self, report: PassReport) -> None:
        for result, number in report.answers.items():
            self._metrics.starts_answered.labels(result).inc(number)

    def _told(self, report: PassReport, before: frozenset[str]) -> frozenset[str]:
        """Log failures that the pass before did not have; return those of this one."""
        for item in report.failed:
            if f"{item.object}: {item.words}" not in before:
                log.warning(
                    "write failed",
                    change=item.change,
                    object=item.object,
                    outcome=item.outcome.value,
                    error=item.words,
                )
        return frozenset(f"{item.object}: {item.words}" for item in report.failed)

    def _recorded(self, report: PassReport) -> None:
        for event, number in (
            ("written", report.written.get(WriteRecord.__name__, 0)),
            ("dropped", report.written.get(DropRecord.__name__, 0)),
            ("deleted_by_others", report.records_deleted),
        ):
            self._metrics.usage_records.labels(event).inc(number)
        if report.records_deleted:
            log.warning("usage records were deleted by others", number=report.records_deleted)

    def _checked(self, report: PassReport) -> None:
        """Count a refused plan each time, say it when it is new; say where a pass was saved."""
        if report.plan_problem:
            self._metrics.plans_refused.inc()
        if report.plan_problem != self._plan_problem:
            self._plan_problem = report.plan_problem
            if report.plan_problem:
                log.error("plan refused, nothing is placed", why=report.plan_problem)
            else:
                log.info("plans are well again")
        if report.saved:
            log.info("pass saved", path=report.saved)
        if report.not_saved:
            log.warning("pass not saved", error=report.not_saved)

    def crashed(self, error: Exception) -> None:
        """Log a pass that ended by an exception."""
        log.error("pass ended early", error=f"{type(error).__name__}: {error}")

    def leading(self, term: int | None) -> None:
        """Note that leadership began with a term, or ended."""
        self._metrics.leader.labels(name=self._identity).set(0 if term is None else 1)
        if term is None:
            self._metrics.canary_proved.clear()
            log.info("no longer placing", identity=self._identity)
        else:
            log.info("placing", identity=self._identity, term=term)

    # policies.standing

    def told(self, report: Report) -> Report:
        """Return a report of the policies' standing that sets the metric first."""

        async def both(found: Standing) -> None:
            self._metrics.policies_current.set(1 if found.current else 0)
            await report(found)

        return both

    # policies.asking

    def heard(self, report: CanaryReport) -> None:
        """Show what each API server has proved, and forget those that are not there any more."""
        self._metrics.canary_proved.clear()
        for server, verdict in report.verdicts.items():
            is_proved = verdict.finding is Finding.PROVED
            self._metrics.canary_proved.labels(server).set(1 if is_proved else 0)
            self._metrics.canary_answers.labels(verdict.finding.value).inc()
        if report.proved:
            self._metrics.canary_last_proof.set_to_current_time()

    # gpu.cluster

    def requested(self, seen: Observation) -> None:
        """Count one request to kube-apiserver."""
        self._metrics.client_requests.labels(
            code=str(seen.code or "<error>"), method=seen.verb, host="kube-apiserver"
        ).inc()
        self._metrics.client_seconds.labels(verb=seen.verb, host="kube-apiserver").observe(
            seen.seconds
        )

    def malformed(self, kind: Kind, key: ObjectKey, error: DecodeError) -> None:
        """Log an object that cannot be read."""
        log.warning("object not readable", kind=kind.kind, object=str(key), error=str(error))

    async def gauges(
        self,
        caches: Caches,
        recorder: Recorder,
        clock: Clock,
        config: Config,
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        """Set the gauges that follow the stores, and count Events, until cancelled."""
        while True:
            await asyncio.sleep(_GAUGES_EVERY)
            await in_thread(lambda: self._count(caches, clock.now(), config))
            self._count_events(recorder)

    def _count_events(self, recorder: Recorder) -> None:
        for result, total in (("written", recorder.written), ("dropped", recorder.dropped)):
            self._metrics.events.labels(result).inc(total - self._events[result])
            self._events[result] = total

    def _count(self, caches: Caches, now: datetime, config: Config) -> None:
        claims = caches.items(GPUClaim)
        self._metrics.claim_times.count(claims, now)
        phases = Counter(claim.phase for claim in claims)
        for phase in Phase:
            self._metrics.claims.labels(phase=phase.value).set(phases[phase])
        lost: Counter[ClassName] = Counter()
        for claim in claims:
            if claim.phase is Phase.LOST:
                lost[claim.class_name] += claim.count
        for offer in caches.items(GPUClass):
            states = {
                "held": offer.status.held,
                "free": offer.status.free,
                "lost": lost[offer.name],
            }
            for state, units in states.items():
                self._metrics.units.labels(offer.name, state).set(units)
        for kind in caches.reflectors:
            self._metrics.malformed_objects.labels(kind=kind.kind).set(len(caches[kind].malformed))
            is_failing = kind.resource in caches.failing
            self._metrics.unreadable_kinds.labels(kind=kind.kind).set(1 if is_failing else 0)
        stored = next(iter(caches.items(ConfigMap)), None)
        settings, problem = served_settings(stored, Settings())
        self._metrics.settings_valid.set(0 if problem else 1)
        declared = tenancy.declaring(caches.items(TenantRelease), caches.items(TenantQuota))
        unreadable = tenancy.unreadable(declared, settings.resource_names)
        self._metrics.unreadable_quotas.set(sum(len(bad) for _, bad in unreadable))
        gaps = holds.gaps(config, caches.items(Webhooks)) if config.enabled else ()
        self._metrics.holds_not_enforced.set(1 if gaps else 0)
        gated = sum(1 for pod in caches.items(Pod) if pod.live and coverage.is_at_gate(pod))
        self._metrics.pods_at_gate.set(gated)

    async def loop_lag(self) -> None:
        """Measure how late the event loop wakes from a short sleep, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_STEP
            await asyncio.sleep(_LAG_STEP)
            self._metrics.loop_lag.observe(max(0.0, loop.time() - due))
