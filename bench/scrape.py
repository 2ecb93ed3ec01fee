"""Counters of processes: Prometheus text to numbers, CPU seconds and memory from /proc."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

_UTIME, _STIME = 11, 12  # of /proc/PID/stat, counted after the command's closing parenthesis
_MIB = 1024.0


@dataclass(frozen=True, slots=True)
class Counters:
    """One reading of a /metrics page: (sample name, labels) to value."""

    samples: tuple[tuple[str, dict[str, str], float], ...]

    def total(self, name: str, **labels: str) -> float:
        """Add up the samples of a name whose labels include those given."""
        return sum(value for _, value in self._matching(name, labels))

    def buckets(self, name: str, **labels: str) -> dict[float, float]:
        """Return upper bound to cumulative count of a histogram, added over its other labels."""
        found: dict[float, float] = {}
        for own, value in self._matching(f"{name}_bucket", labels):
            bound = float(own["le"])
            found[bound] = found.get(bound, 0.0) + value
        return found

    def values_of(self, name: str, label: str) -> frozenset[str]:
        """Return every value a label of a sample has."""
        return frozenset(own[label] for own, _ in self._matching(name, {}) if label in own)

    def _matching(
        self, name: str, labels: dict[str, str]
    ) -> Iterator[tuple[dict[str, str], float]]:
        for sample, own, value in self.samples:
            if sample == name and labels.items() <= own.items():
                yield own, value


def parse(text: str, *prefixes: str) -> Counters:
    """Read the samples of a Prometheus text page whose names begin with one of the prefixes.

    kube-apiserver's page has 3 MB: reading all of it takes seconds.
    """
    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(prefixes))
    return Counters(
        tuple(
            (sample.name, dict(sample.labels), float(sample.value))
            for family in text_string_to_metric_families(lines)
            for sample in family.samples
        )
    )


def gained_by(
    name: str, label: str, before: Counters, after: Counters
) -> dict[str, tuple[float, float]]:
    """Return what a histogram gained, count and sum, by the values of one label; idle ones left out."""
    found = {}
    for value in sorted(after.values_of(f"{name}_count", label)):
        count, total = (
            after.total(f"{name}_{part}", **{label: value})
            - before.total(f"{name}_{part}", **{label: value})
            for part in ("count", "sum")
        )
        if count:
            found[value] = (count, total)
    return found


def cpu_seconds(pid: int) -> float:
    """Return how long a process has computed, user and system together."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[2].split()
    ticks = int(fields[_UTIME]) + int(fields[_STIME])
    return ticks / os.sysconf("SC_CLK_TCK")


def machine_cpu_seconds() -> float:
    """Return how long all CPUs together were busy since the start of the machine."""
    user, nice, system, _, _, irq, softirq = map(
        int, Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=8)[1:8]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int, line: str = "VmRSS") -> float:
    """Return resident memory (`VmRSS`) or its highest so far (`VmHWM`), in MiB."""
    for text in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if text.startswith(f"{line}:"):
            return int(text.split()[1]) / _MIB
    raise ValueError(f"process {pid} has no {line}")
