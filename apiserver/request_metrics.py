"""What dashboards expect of any API server, under upstream's names and labels: requests, watches, who asked.

No label holds a user, a name or a namespace. What upstream counts and cannot happen here is not
declared; docs/api.md says which and why.
"""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

M = TypeVar("M", Counter, Gauge, Histogram)

LATENCY: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0,
    8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
)  # fmt: skip
_REVIEW: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_FILTER: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0)
_BYTES: Final = tuple(1000.0 * 10**power for power in range(7))
_EVENT_BYTES: Final = tuple(1024.0 * 2**power for power in range(8))
_CERTIFICATE: Final = (
    0, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 604800, 2592000, 7776000, 15552000,
    31104000,
)  # fmt: skip
_RESOURCE: Final = ("group", "version", "resource")
_REQUEST: Final = ("verb", *_RESOURCE, "subresource", "scope", "component")


@dataclass(frozen=True, slots=True)
class Labelled(Generic[M]):
    """A metric with labels, none of which is ever taken away again.

    The library makes a text of each value and takes a lock to find what is counted under them; with a dozen
    to be found for each request, that took longer than the counting.
    """

    _metric: M
    _found: dict[tuple[str, ...], M] = field(default_factory=dict)

    def labels(self, *values: str) -> M:
        """Return what is counted under these values, in the order of the labels."""
        found = self._found.get(values)
        if found is None:
            found = self._found[values] = self._metric.labels(*values)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMetrics:
    """Metrics of the HTTP face over one registry; build it with `create`."""

    requests: Labelled[Counter]
    request_seconds: Labelled[Histogram]
    sli_seconds: Labelled[Histogram]
    response_sizes: Labelled[Histogram]
    long_running: Labelled[Gauge]
    in_flight: Labelled[Gauge]
    watch_events: Labelled[Counter]
    watch_event_sizes: Labelled[Histogram]
    watch_list_seconds: Labelled[Histogram]
    terminations: Labelled[Counter]
    aborts: Labelled[Counter]
    filter_seconds: Labelled[Histogram]
    authentications: Labelled[Gauge]
    authentication_seconds: Labelled[Histogram]
    authenticated: Labelled[Gauge]
    authorizations: Labelled[Counter]
    authorization_seconds: Labelled[Histogram]
    token_reviews: Labelled[Counter]
    token_review_seconds: Labelled[Histogram]
    access_reviews: Labelled[Counter]
    access_review_seconds: Labelled[Histogram]
    client_certificates: Histogram
    checks: Labelled[Gauge]
    checks_made: Labelled[Counter]


def create(registry: CollectorRegistry) -> RequestMetrics:
    """Declare everything over a registry."""

    def counter(name: str, words: str, labels: tuple[str, ...]) -> Labelled[Counter]:
        return Labelled(Counter(name, words, labels, registry=registry))

    def gauge(name: str, words: str, labels: tuple[str, ...]) -> Labelled[Gauge]:
        return Labelled(Gauge(name, words, labels, registry=registry))

    def seconds(
        name: str,
        words: str,
        labels: tuple[str, ...],
        buckets: tuple[float, ...] = LATENCY,
    ) -> Labelled[Histogram]:
        return Labelled(Histogram(name, words, labels, registry=registry, buckets=buckets))

    waiting = gauge(
        "apiserver_current_inqueue_requests",
        "Requests that wait to be answered: always 0, what is too much is sent away.",
        ("request_kind",),
    )
    for kind in ("readOnly", "mutating"):
        waiting.labels(kind).set(0)
    return RequestMetrics(
        requests=counter(
            "apiserver_request_total",
            "Requests by verb, resource, scope and code.",
            (*_REQUEST, "dry_run", "code"),
        ),
        request_seconds=seconds(
            "apiserver_request_duration_seconds",
            "Response latency of requests that are not long-running, in seconds.",
            (*_REQUEST, "dry_run"),
        ),
        sli_seconds=seconds(
            "apiserver_request_sli_duration_seconds",
            "The same without time spent in queues and webhooks of others: there are none.",
            (*_REQUEST, "dry_run"),
        ),
        response_sizes=seconds(
            "apiserver_response_sizes",
            "Bytes of bodies answered to GET and LIST.",
            _REQUEST,
            _BYTES,
        ),
        long_running=gauge("apiserver_longrunning_requests", "Open watches.", _REQUEST),
        in_flight=gauge(
            "apiserver_current_inflight_requests",
            "Requests being answered, without watches.",
            ("request_kind",),
        ),
        watch_events=counter("apiserver_watch_events_total", "Watch events sent.", _RESOURCE),
        watch_event_sizes=seconds(
            "apiserver_watch_events_sizes",
            "Bytes of watch events sent; those that are told together count as one.",
            _RESOURCE,
            _EVENT_BYTES,
        ),
        watch_list_seconds=seconds(
            "apiserver_watch_list_duration_seconds",
            "Seconds until a watch that asked for it had all objects there were.",
            (*_RESOURCE, "scope"),
            _REVIEW,
        ),
        terminations=counter(
            "apiserver_request_terminations_total",
            "Requests ended by the server itself: too many (429), or too slow a reader (slow).",
            (*_REQUEST, "code"),
        ),
        aborts=counter(
            "apiserver_request_aborts_total",
            "Requests whose client left before it was answered.",
            _REQUEST,
        ),
        filter_seconds=seconds(
            "apiserver_request_filter_duration_seconds",
            "Seconds spent in authentication and in authorization.",
            ("filter",),
            _FILTER,
        ),
        # Gauges that only grow: upstream's counters of these two names have no `_total`.
        authentications=gauge(
            "authentication_attempts", "Authentications by result, ever growing.", ("result",)
        ),
        authenticated=gauge(
            "authenticated_user_requests",
            "Requests by kind of caller, ever growing.",
            ("username",),
        ),
        authentication_seconds=seconds(
            "authentication_duration_seconds", "Seconds by result.", ("result",), _FILTER
        ),
        authorizations=counter(
            "authorization_attempts_total",
            "Authorizations by result: allowed, denied or error.",
            ("result",),
        ),
        authorization_seconds=seconds(
            "authorization_duration_seconds", "Seconds by result.", ("result",), _FILTER
        ),
        token_reviews=counter(
            "apiserver_delegated_authn_request_total", "TokenReviews by code.", ("code",)
        ),
        token_review_seconds=seconds(
            "apiserver_delegated_authn_request_duration_seconds",
            "Seconds a TokenReview took.",
            ("code",),
            _REVIEW,
        ),
        access_reviews=counter(
            "apiserver_delegated_authz_request_total", "SubjectAccessReviews by code.", ("code",)
        ),
        access_review_seconds=seconds(
            "apiserver_delegated_authz_request_duration_seconds",
            "Seconds a SubjectAccessReview took.",
            ("code",),
            _REVIEW,
        ),
        client_certificates=Histogram(
            "apiserver_client_certificate_expiration_seconds",
            "Seconds that client certificates of callers had left.",
            registry=registry,
            buckets=_CERTIFICATE,
        ),
        checks=gauge("kubernetes_healthcheck", "1 while a health check passes.", ("name", "type")),
        checks_made=counter(
            "kubernetes_healthchecks_total",
            "Health checks made, by outcome.",
            ("name", "type", "status"),
        ),
    )
