"""Every counter, gauge and histogram, declared once, and the text exposition; those of requests are apart."""

from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from apiserver import request_metrics
from apiserver.claim_times import ClaimTimes
from apiserver.request_metrics import RequestMetrics

_PASS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_ADMISSION: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 10.0,
)  # fmt: skip
_LAG: Final = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class Metrics:
    """The product's metrics over one registry; build it with `create`."""

    registry: CollectorRegistry
    served: RequestMetrics
    admissions: Counter
    admission_seconds: Histogram
    tls_reload_errors: Counter
    trust_errors: Counter
    client_requests: Counter
    client_seconds: Histogram
    leader: Gauge
    pass_seconds: Histogram
    loop_lag: Histogram
    claims: Gauge
    units: Gauge
    write_refusals: Counter
    quarantined_sets: Gauge
    unanswered_sets: Gauge
    malformed_objects: Gauge
    unreadable_kinds: Gauge
    host_away: Gauge
    host_failures: Counter
    unreadable_quotas: Gauge
    holds_not_enforced: Gauge
    pods_at_gate: Gauge
    sets_held_back: Gauge
    starts_demoted: Gauge
    rejections: Gauge
    launchers_refused: Counter
    usage_records: Counter
    claim_times: ClaimTimes
    settings_valid: Gauge
    settings_writes: Counter
    policies_current: Gauge
    canary_proved: Gauge
    canary_answers: Counter
    canary_last_proof: Gauge
    plans_refused: Counter
    starts_answered: Counter
    events: Counter


def create() -> Metrics:
    """Declare everything over a new registry; upstream's names where upstream has one."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # when a series began: as many series again, and nobody asks
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    times = ClaimTimes()
    registry.register(times)
    return Metrics(
        registry=registry,
        served=request_metrics.create(registry),
        admissions=Counter(
            "cozystack_gpu_admission_reviews_total",
            "Admission reviews by webhook and outcome: allowed, refused, unavailable, failed.",
            ("webhook", "outcome"),
            registry=registry,
        ),
        admission_seconds=Histogram(
            "cozystack_gpu_admission_duration_seconds",
            "Seconds an admission review took, by webhook.",
            ("webhook",),
            registry=registry,
            buckets=_ADMISSION,
        ),
        tls_reload_errors=Counter(
            "cozystack_gpu_serving_certificate_reload_errors_total",
            "Serving certificates that could not be read; the one before stays in use.",
            registry=registry,
        ),
        trust_errors=Counter(
            "cozystack_gpu_authentication_config_errors_total",
            "Reads of extension-apiserver-authentication that failed; the last good one stays.",
            registry=registry,
        ),
        client_requests=Counter(
            "rest_client_requests_total",
            "Requests to kube-apiserver by code, method and host.",
            ("code", "method", "host"),
            registry=registry,
        ),
        client_seconds=Histogram(
            "rest_client_request_duration_seconds",
            "Latency of requests to kube-apiserver, in seconds.",
            ("verb", "host"),
            registry=registry,
            buckets=request_metrics.LATENCY,
        ),
        leader=Gauge(
            "leader_election_master_status",
            "1 while this replica holds the lease.",
            ("name",),
            registry=registry,
        ),
        pass_seconds=Histogram(
            "cozystack_gpu_pass_duration_seconds",
            "Seconds a phase of a pass took, deciding and writing; `reading` is before the first.",
            ("phase",),
            registry=registry,
            buckets=_PASS,
        ),
        loop_lag=Histogram(
            "cozystack_gpu_event_loop_lag_seconds",
            "How late the event loop woke from a short sleep, in seconds.",
            registry=registry,
            buckets=_LAG,
        ),
        claims=Gauge(
            "cozystack_gpu_claims",
            "Claims by phase.",
            ("phase",),
            registry=registry,
        ),
        units=Gauge(
            "cozystack_gpu_units",
            "Units of a class by state: held, free, lost.",
            ("class", "state"),
            registry=registry,
        ),
        write_refusals=Counter(
            "cozystack_gpu_write_refusals_total",
            "Writes of the binder the API server refused for good.",
            registry=registry,
        ),
        quarantined_sets=Gauge(
            "cozystack_gpu_quarantined_sets",
            "Sets left alone for a while because their writes were refused.",
            registry=registry,
        ),
        unreadable_kinds=Gauge(
            "cozystack_gpu_unreadable_kinds",
            "1 for each kind that kube-apiserver does not let us list or watch now.",
            ("kind",),
            registry=registry,
        ),
        host_away=Gauge(
            "cozystack_gpu_host_away",
            "1 while the host's API server, asked of its documents, does not answer (host options).",
            registry=registry,
        ),
        host_failures=Counter(
            "cozystack_gpu_host_failures_total",
            "What the host's API server left without an answer: request, list or stream (host options).",
            ("of",),
            registry=registry,
        ),
        unanswered_sets=Gauge(
            "cozystack_gpu_unanswered_sets",
            "Sets left alone for a while because their writes got no answer, pass after pass.",
            registry=registry,
        ),
        malformed_objects=Gauge(
            "cozystack_gpu_malformed_objects",
            "Stored objects that could not be read, by kind.",
            ("kind",),
            registry=registry,
        ),
        unreadable_quotas=Gauge(
            "cozystack_gpu_unreadable_quotas",
            "GPU quotas of tenants that are no whole number of units and count as 0.",
            registry=registry,
        ),
        holds_not_enforced=Gauge(
            "cozystack_gpu_holds_not_enforced",
            "1 while launchers can take held units past the gate.",
            registry=registry,
        ),
        pods_at_gate=Gauge(
            "cozystack_gpu_pods_at_gate",
            "Pods that wait at the scheduling gate.",
            registry=registry,
        ),
        sets_held_back=Gauge(
            "cozystack_gpu_sets_held_back",
            "Sets whose move or loss the guard holds back until acknowledged.",
            registry=registry,
        ),
        starts_demoted=Gauge(
            "cozystack_gpu_starts_demoted",
            "VMs at the gate that come after others, since their starts fail.",
            registry=registry,
        ),
        rejections=Gauge(
            "cozystack_gpu_rejections",
            "Pairs of VM and node that are skipped, since the node refused the VM's launcher.",
            registry=registry,
        ),
        launchers_refused=Counter(
            "cozystack_gpu_launchers_refused_total",
            "Launchers that the node they were pinned to did not take, or that were not bound in time.",
            registry=registry,
        ),
        usage_records=Counter(
            "cozystack_gpu_usage_records_total",
            "Usage records by what became of them: written, dropped, deleted_by_others.",
            ("event",),
            registry=registry,
        ),
        claim_times=times,
        settings_valid=Gauge(
            "cozystack_gpu_settings_valid",
            "1 while the settings ConfigMap is served well-formed.",
            registry=registry,
        ),
        settings_writes=Counter(
            "cozystack_gpu_settings_writes_total",
            "Times the settings ConfigMap was written, since it was not as it should be.",
            registry=registry,
        ),
        policies_current=Gauge(
            "cozystack_gpu_policies_current",
            "1 while the policies in the cluster are those of this version.",
            registry=registry,
        ),
        canary_proved=Gauge(
            "cozystack_gpu_policy_canary_proved",
            "1 while the policies of an API server use the current settings; on the leader.",
            ("server",),
            registry=registry,
        ),
        canary_answers=Counter(
            "cozystack_gpu_policy_canary_answers_total",
            "API servers asked whether their policies use the current settings, by finding.",
            ("finding",),
            registry=registry,
        ),
        canary_last_proof=Gauge(
            "cozystack_gpu_policy_canary_last_proof_timestamp_seconds",
            "When all API servers last proved to use the current settings; 0 before that.",
            registry=registry,
        ),
        starts_answered=Counter(
            "cozystack_gpu_starts_answered_total",
            "Starts that asked the leader before their VMI was there (binding: request), by result.",
            ("result",),
            registry=registry,
        ),
        plans_refused=Counter(
            "cozystack_gpu_plans_refused_total",
            "Plans of the binder that broke a rule of the independent checker; none was written.",
            registry=registry,
        ),
        events=Counter(
            "cozystack_gpu_events_total",
            "Kubernetes Events by what became of them: written or dropped.",
            ("result",),
            registry=registry,
        ),
    )


def exposition(metrics: Metrics, accept: str | None) -> tuple[bytes, str]:
    """Return the text of all metrics and its content type, OpenMetrics where asked for."""
    encoder, content_type = choose_encoder(accept or "")
    return encoder(metrics.registry), content_type
