"""What webhooks add to a start: instances and launchers sent many at a time, none of them stored."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench import stats
from bench.admission import CROWD, SECONDS
from bench.flight import Job, in_flight
from bench.scrape import Counters
from bench.vm_stage import VMStage
from devcluster import chart, vms
from gpu import keys
from gpu.objects import kinds, kubevirt, pods
from gpu.objects.kinds import Kind
from gpu.units import ClassName, Units

BY_UNIT: Final = f"VMI by class, dry run, {CROWD} in flight"
BY_CLAIM: Final = f"VMI by held claim, dry run, {CROWD} in flight"
VMI_ANCHOR: Final = f"VMI where no webhook of ours is asked, dry run, {CROWD} in flight"
"""KubeVirt's own are asked there too; what the same request waits for without us."""
LAUNCHER: Final = f"launcher, dry run, {CROWD} in flight"
LAUNCHER_ANCHOR: Final = f"launcher where no webhook of ours is asked, dry run, {CROWD} in flight"
ANSWERED: Final[Mapping[str, str]] = {BY_UNIT: "vmis", BY_CLAIM: "vmis", LAUNCHER: "pods"}
"""By figure, the webhook of ours that is asked."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Many requests of one kind."""

    name: str
    seconds: Sequence[float]
    """As their sender saw each."""
    answered: Mapping[float, float]
    """What the webhook's own histogram gained, upper bounds to cumulative counts; empty without one."""


async def crowded(stage: VMStage, held: Sequence[str], count: int) -> list[Asked]:
    """Send `count` requests of each kind, many at a time, in KubeVirt's name."""
    found = []
    for name, jobs in _jobs(stage, held, count).items():
        before = await stage.base.product_counters()
        took = await in_flight(CROWD, jobs)
        after = await stage.base.product_counters()
        found.append(Asked(name, took, answered(name, before, after)))
    return found


def answered(name: str, before: Counters, after: Counters) -> dict[float, float]:
    """Return what the histogram of the webhook behind a figure gained; empty where none is asked."""
    webhook = ANSWERED.get(name)
    return gained(webhook, before, after) if webhook else {}


def gained(webhook: str, before: Counters, after: Counters) -> dict[float, float]:
    """Return what the histogram of a webhook's answers gained between two readings."""
    return stats.difference(
        *(counters.buckets(SECONDS, webhook=webhook) for counters in (after, before))
    )


def _jobs(stage: VMStage, held: Sequence[str], count: int) -> dict[str, Iterator[Job]]:
    base, numbers = stage.base, range(count)
    resource = stage.resource

    def vmi(number: int, device: str, place: str) -> Job:
        body = vms.instance(place, f"asked-{number:04d}", [device])
        return functools.partial(_ask, stage, kinds.VMIS, body)

    def launcher(number: int, place: str) -> Job:
        return functools.partial(_ask, stage, kinds.PODS, _launcher(stage, place, number))

    return {
        BY_UNIT: (vmi(n, vms.unit(base.class_name), base.namespace) for n in numbers),
        BY_CLAIM: (vmi(n, vms.claim(held[n % len(held)]), base.namespace) for n in numbers),
        VMI_ANCHOR: (vmi(n, resource, chart.NAMESPACE) for n in numbers),
        LAUNCHER: (launcher(n, base.namespace) for n in numbers),
        LAUNCHER_ANCHOR: (launcher(n, chart.NAMESPACE) for n in numbers),
    }


async def _ask(stage: VMStage, kind: Kind, body: dict[str, Any]) -> None:
    await stage.virt.create(kind, body, dry_run=True, deadline=30)


def _launcher(stage: VMStage, place: str, number: int) -> dict[str, Any]:
    """Return a launcher with one unit, as KubeVirt renders it as far as webhooks look."""
    amounts = {stage.resource: "1"}
    compute = {"name": "compute", "image": "none.invalid/none", "resources": {"limits": amounts}}
    record = kubevirt.format_resolved({}, {ClassName(stage.base.class_name): Units(1)})
    return {
        "metadata": {
            "generateName": f"virt-launcher-asked-{number:04d}-",
            "namespace": place,
            "labels": {pods.LAUNCHER_LABEL: pods.LAUNCHER_VALUE},
            "annotations": {keys.RESOLVED_CLAIMS_ANNOTATION: record},
        },
        "spec": {"containers": [compute]},
    }
