"""Demotions: VMs whose starts fail again and again take their turn at the gate after all others, ever later.

A start fails when its VMI is Failed, or KubeVirt says that it never ran, after its launcher had been let
through and before its guest ran for a while. One whose node refused its launcher has not failed: that
is the node's fault. The first failure costs nothing.

It is what one leader has seen. The next one knows no failure but those that KubeVirt counts in the VM's
status, and begins its delays anew.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from gpu.model import coverage
from gpu.model.promises import Promises
from gpu.model.snapshot import Snapshot
from gpu.objects.kubevirt import VM, VMI
from gpu.objects.meta import ObjectKey

FIRST: Final = timedelta(seconds=10)
"""What the second failure in a row costs; each further one costs twice as much."""
LONGEST: Final = timedelta(minutes=5)
WELL: Final = timedelta(seconds=60)
"""A guest that ran for so long has started."""
FORGOTTEN: Final = timedelta(minutes=10)
"""After a failure and its delay; what fails later begins anew."""
_AWAITED: Final = timedelta(seconds=60)
"""How long the VM's status is waited for once the VMI of a start is gone."""
MOST: Final = 1024
"""VMs remembered; those that failed longest ago are forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A VM whose starts fail."""

    failures: int
    """In a row."""
    vmi: str
    """Uid of the last one's VMI."""
    until: datetime
    """Its next start waits at the gate until then."""
    is_counted: bool = False
    """KubeVirt counts it in the VM's status; it forgets when the VM is stopped, and so do we."""

    @property
    def is_demoted(self) -> bool:
        """Say whether its next start comes after those of others."""
        return self.failures > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A start whose launcher was let through."""

    vmi: str
    seen: datetime
    """When it was last there."""
    up: datetime | None = None
    """Since when its guest is seen to run."""
    stopped: bool = False
    """It was told to end before it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demotions:
    """What one leader knows of them, by `namespace/name` of the VM; `observe` makes the next."""

    failing: Mapping[str, Failing] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    """Starts of which it is not known yet whether they are well."""
    began: bool = False
    """Some world was looked at."""

    def of(self, vm: ObjectKey) -> Failing | None:
        """Return what makes the next start of a VM come last, if anything does."""
        found = self.failing.get(str(vm))
        return found if found is not None and found.is_demoted else None

    def due(self, now: datetime) -> datetime | None:
        """Return when the next delay is over."""
        ends = (one.until for one in self.failing.values() if one.is_demoted)
        return min((at for at in ends if at > now), default=None)


def delay(failures: int) -> timedelta:
    """Return how long the next start waits after so many failures in a row."""
    if failures < 2:  # noqa: PLR2004 -- the first costs nothing
        return timedelta(0)
    return min(FIRST * int(2 ** min(failures - 2, 10)), LONGEST)


def observe(
    old: Demotions, snapshot: Snapshot, rejected: Container[str], now: datetime
) -> Demotions:
    """Return what is known after one more look. `rejected` are uids of VMIs whose node refused them."""
    failing = dict(old.failing) if old.began else dict(_counted(snapshot.given.vms, now))
    runs = dict(old.runs)
    promises = Promises(snapshot.attached)
    watched = {_key(name) for name in (*runs, *failing)}
    vms = {vm.meta.key: vm for vm in snapshot.given.vms if vm.meta.key in watched}
    for vmi in snapshot.given.vmis:
        if not vmi.is_resolved or vmi.ended:
            continue
        if vmi.meta.key in watched or _is_new(snapshot, vmi, now, promises):
            _look(vmi, runs, failing, now)
    for name, run in tuple(runs.items()):
        if _has_failed(snapshot, name, run, vms.get(_key(name))):
            del runs[name]
            if run.vmi not in rejected:
                failing[name] = _failed(failing.get(name), run.vmi, now)
        elif now - run.seen > _AWAITED or (run.stopped and run.seen != now):
            del runs[name]  # nothing that is told of it later makes it one that failed
    kept = {
        name: one
        for name, known in failing.items()
        if (one := _again(known, vms.get(_key(name)), rejected, now)) is not None
        and not _is_stopped(snapshot, name, one, vms.get(_key(name)))
    }
    return Demotions(failing=_capped(kept), runs=runs, began=True)


def _again(one: Failing, vm: VM | None, rejected: Container[str], now: datetime) -> Failing | None:
    """Return what is left of a VM's failures: none when they are long ago, or were its node's fault."""
    if now > one.until + FORGOTTEN:
        return None
    if one.vmi in rejected:  # the pod's end was seen after its VMI's
        one = replace(one, failures=one.failures - 1, vmi="", until=now)
    if vm is not None and one.vmi and vm.failed_vmi == one.vmi:
        one = replace(one, is_counted=True)
    return one if one.failures else None


def _is_new(snapshot: Snapshot, vmi: VMI, now: datetime, promises: Promises) -> bool:
    """Say whether a launcher of a VMI was let through, and bound no longer ago than a guest takes to be well.

    One that a webhook pinned where its start was promised never was at the gate.
    """
    for uid in vmi.active_pods:
        pod = snapshot.pods.get((vmi.meta.namespace, uid))
        if pod is None or coverage.is_at_gate(pod):
            continue
        told = pod.scheduled
        is_long_bound = told is not None and told.since is not None and now - told.since >= WELL
        if pod.node is not None and is_long_bound:
            continue
        if pod.term is not None or promises.is_kept(pod, vmi.meta.key):
            return True
    return False


def _look(vmi: VMI, runs: dict[str, Run], failing: dict[str, Failing], now: datetime) -> None:
    """Note what the VMI of a start does."""
    name = str(vmi.meta.key)
    known = runs.get(name)
    run = known if known is not None and known.vmi == vmi.meta.uid else None
    if run is None:
        run = Run(vmi=vmi.meta.uid, seen=now)
    up = (run.up or now) if vmi.started else None
    if up is not None and now - up >= WELL:
        runs.pop(name, None)
        failing.pop(name, None)
        return
    runs[name] = replace(run, seen=now, up=up, stopped=run.stopped or vmi.meta.deleting)


def _has_failed(snapshot: Snapshot, name: str, run: Run, vm: VM | None) -> bool:
    if run.stopped:
        return False
    vmi = snapshot.vmis.get(_key(name))
    if vmi is not None and vmi.meta.uid == run.vmi:
        return vmi.phase == "Failed"
    return vm is not None and vm.failed_vmi == run.vmi


def _failed(before: Failing | None, vmi: str, now: datetime) -> Failing:
    failures = before.failures + 1 if before else 1
    return Failing(
        failures=failures,
        vmi=vmi,
        until=now + delay(failures),
        is_counted=before is not None and before.is_counted,
    )


def _counted(vms: Iterable[VM], now: datetime) -> Iterator[tuple[str, Failing]]:
    """Yield what KubeVirt tells a new leader: those come last, and have waited long enough."""
    for vm in vms:
        if vm.failed_vmi:
            failures = max(vm.failures, 1)
            known = Failing(failures=failures, vmi=vm.failed_vmi, until=now, is_counted=True)
            yield str(vm.meta.key), known


def _is_stopped(snapshot: Snapshot, name: str, one: Failing, vm: VM | None) -> bool:
    """Say whether KubeVirt has forgotten the failures of a VM that has no VMI: it was stopped."""
    if not one.is_counted or snapshot.vmis.get(_key(name)) is not None:
        return False
    return vm is None or not vm.failed_vmi


def _capped(failing: dict[str, Failing]) -> dict[str, Failing]:
    if len(failing) <= MOST:
        return failing
    newest = sorted(failing, key=lambda name: (failing[name].until, name))[-MOST:]
    return {name: failing[name] for name in newest}


def _key(name: str) -> ObjectKey:
    namespace, _, rest = name.partition("/")
    return ObjectKey(namespace, rest)
