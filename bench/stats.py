"""Spread of measured values: percentiles by nearest rank, and a bound from histogram buckets."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What a row of the report shows of many values; `middle` is the median."""

    count: int
    middle: float
    p99: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Describe at least one value. Raises ValueError for none: nothing was measured."""
        if not values:
            raise ValueError("no values: nothing was measured")
        return cls(
            count=len(values),
            middle=statistics.median(values),
            p99=percentile(values, 0.99),
            low=min(values),
            high=max(values),
        )


def ms(seconds: Sequence[float]) -> list[float]:
    """Return seconds as milliseconds."""
    return [1000 * value for value in seconds]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0 < share <= 1) of the values do not exceed."""
    if not values or not 0 < share <= 1:
        raise ValueError(f"no {share:g} percentile of {len(values)} values")
    return sorted(values)[math.ceil(share * len(values)) - 1]


def bucket_bound(buckets: Mapping[float, float], share: float) -> float | None:
    """Return the upper bound of the histogram bucket that holds the percentile; None when empty.

    `buckets` maps upper bounds to cumulative counts, as Prometheus does; the true value is at most
    the bound, and above the bound below it.
    """
    total = max(buckets.values(), default=0)
    if total <= 0:
        return None
    return min(bound for bound, count in buckets.items() if count >= share * total)


def difference(after: Mapping[float, float], before: Mapping[float, float]) -> dict[float, float]:
    """Return what a cumulative histogram gained between two readings."""
    return {bound: count - before.get(bound, 0.0) for bound, count in after.items()}


def added(one: Mapping[float, float], other: Mapping[float, float]) -> dict[float, float]:
    """Return two cumulative histograms of the same bounds as one."""
    return {bound: count + other.get(bound, 0.0) for bound, count in one.items()}
