"""How long claims waited, were held, used, Lost and degraded, as metrics by tenant and class.

Sums over the claims that are there, up to now: gauges, since a claim's seconds go with it. They are
counted in a worker thread and shown whole; what a claim itself says of its times is in its status.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpu.model import spent
from gpu.objects.claims import GPUClaim, Phase

STATES: Final = ("waiting", "held", "in_use", "lost", "degraded")
"""What claims were, in the order of `spent.seconds`."""
_NONE: Final = (0,) * len(STATES)


class ClaimTimes(Collector):
    """A collector of what `count` last counted; nothing is counted while metrics are read."""

    def __init__(self) -> None:
        self._shown = _families({}, {})

    def count(self, claims: Iterable[GPUClaim], now: datetime) -> None:
        """Count anew; runs in a worker thread."""
        sums: dict[tuple[str, str], tuple[int, ...]] = {}
        oldest: dict[str, float] = {}
        for claim in claims:
            key = (claim.meta.namespace, claim.class_name)
            times = spent.seconds(claim, now)
            before = sums.get(key, _NONE)
            sums[key] = tuple(a + b * claim.count for a, b in zip(before, times, strict=True))
            if claim.phase is not Phase.BOUND:
                age = max((now - claim.meta.created).total_seconds(), 0.0)
                oldest[claim.class_name] = max(age, oldest.get(claim.class_name, 0.0))
        self._shown = _families(sums, oldest)

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted last."""
        yield from self._shown


def _families(
    sums: Mapping[tuple[str, str], tuple[int, ...]], oldest: Mapping[str, float]
) -> tuple[Metric, ...]:
    seconds = GaugeMetricFamily(
        "cozystack_gpu_unit_seconds",
        "Seconds times units of the claims there are, by what they were in that time.",
        labels=("namespace", "class", "state"),
    )
    for labels, values in sorted(sums.items()):
        for state, value in zip(STATES, values, strict=True):
            seconds.add_metric((*labels, state), value)
    waiting = GaugeMetricFamily(
        "cozystack_gpu_oldest_waiting_seconds",
        "Age of the oldest claim that is Pending or Lost, by class.",
        labels=("class",),
    )
    for name, age in sorted(oldest.items()):
        waiting.add_metric((name,), age)
    return seconds, waiting
