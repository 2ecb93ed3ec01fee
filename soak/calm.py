"""What must be so when nothing disturbs: whole sets, passes that write nothing, everything placed."""

from typing import Final

from gpu.binder import phases
from gpu.binder.report import PassReport
from gpu.objects import kinds
from gpu.ports import Outcome
from soak import answering, asking, closely, events, migrations, requests
from soak import kubevirt as virt
from soak.judge import Judge
from soak.leading import Leaders
from soak.site import Raw, Site

BUILT: Final = frozenset(phase.name for phase in phases.PASS)
STILL: Final = 12
"""Undisturbed passes after which one must have written nothing."""
ROUNDS: Final = 60
MOVES_ON: Final = {"EndGuest", "DeleteClaim", "DropRecord"}
"""Writes after which the cluster changes by itself."""


async def one_pass(leaders: Leaders, judge: Judge) -> tuple[PassReport | None, list[str]]:
    """Run an undisturbed pass and judge it closely."""
    before = dict(judge.stands)
    ended = len(leaders.site.ended)
    refused, due = judge.refusals.unseen(), requests.whole(leaders.site)
    report, wrong = await leaders.undisturbed()
    wrong += judge.look()
    leader = leaders.site.leader
    if report is not None and leader is not None and not wrong:
        if leader.config.enabled and not report.quarantined:
            judge.refusals.note(refused, leader)
        wrong += closely.look(leaders.site, judge, before, report)
        if leader.config.enabled:
            wrong += closely.guests(leaders.site, leaders.site.ended[ended:])
            if not report.failed and not report.quarantined:
                wrong += requests.unanswered(leaders.site, due) + requests.stuck(leaders.site)
    return report, wrong


async def one_answer(leaders: Leaders, judge: Judge) -> list[str]:
    """Run an undisturbed pass that only answers starts, and judge it closely."""
    site = leaders.site
    before, stood = dict(judge.stands), requests.by_uid(site)
    due = requests.whole(site) - requests.unguarded(site)
    report, wrong = await answering.undisturbed(leaders)
    wrong += judge.look()
    leader = site.leader
    if wrong or report is None or leader is None or leader.passes is None or report.failed:
        return wrong
    wrong += requests.answered(site, stood)
    if leader.config.enabled and not leader.passes.quarantine.count(leader.clock.monotonic()):
        wrong += requests.unanswered(site, due)
    return (
        wrong
        if report.skipped
        else wrong + closely.look(site, judge, before, report, is_full=False)
    )


async def look(leaders: Leaders, judge: Judge) -> list[str]:
    """Run undisturbed passes until one writes nothing; returns what is wrong then."""
    last: PassReport | None = None
    for _ in range(STILL):
        report, wrong = await one_pass(leaders, judge)
        if wrong:
            return wrong
        if report is None:
            last = None  # it was deposed by a leader that no longer is, or its term was raised
            continue
        if not report.written and all(it.outcome is Outcome.STALE for it in report.failed):
            is_judged = leaders.enabled and not report.quarantined
            return judge.torn(BUILT) + judge.unfollowed(BUILT) if is_judged else []
        if last is not None and _is_done(last) and report.written:
            words = f"wrote {dict(report.written)}, the one before wrote {dict(last.written)}"
            return [f"not still: an undisturbed pass {words} and left nothing undone"]
        last = report
    return [f"still writing after {STILL} undisturbed passes: {last}"]


async def settle(site: Site, leaders: Leaders, judge: Judge) -> list[str]:
    """End all faults, let time pass and guests run or end; then everything that fits is placed."""
    # What one that was frozen writes, or lands late, is no deed of the pass after it, which is judged by what stood before.
    wrong = await _calm_down(site, leaders) or judge.look()
    for turn in range(ROUNDS):
        if wrong:
            return wrong
        site.begin(f"{site.seed}/settle/{turn}")
        before = _moved(site)
        site.host_deletes_records = False
        events.controllers(site)
        for vmi in filter(virt.is_migrating, site.api.all(kinds.VMIS)):
            migrations.get_on(site, vmi)
        asking.calm(site)
        wrong = await asking.get_on(site)
        if wrong:
            return wrong
        site.pass_time(45)
        _, wrong = await one_pass(leaders, judge)
        if before == _moved(site) and not _is_under_way(site) and not site.webhooks.calls:
            break
    site.pass_time(620)
    wrong = wrong or await look(leaders, judge)
    if not wrong and any("deletionTimestamp" in it["metadata"] for it in site.claims()):
        # A start that was found over only now is let go by evidence, which takes its time from now on.
        site.pass_time(620)
        wrong = await look(leaders, judge)
    return wrong or judge.finished(BUILT)


async def _calm_down(site: Site, leaders: Leaders) -> list[str]:
    wrong: list[str] = []
    while site.old:
        wrong += await leaders.steps()["thaw"]()
    asking.calm(site)
    wrong += await asking.get_on(site)
    while site.late:
        await leaders.steps()["land"]()
    leaders.enabled, site.leader = True, None
    _mend(site)
    for vmi in site.api.all(kinds.VMIS):
        if site.chance(0.5, vmi):
            site.api.remove(kinds.VMIS, vmi, site.now())
    site.tick()
    return wrong


def _mend(site: Site) -> None:
    """Have every machine that is on be connected and honest; mostly all are well again."""
    all_well = site.chance(0.8, "all nodes are well again")
    if all_well:
        for node in site.api.all(kinds.NODES):
            site.api.edit(kinds.NODES, node, lambda it: it.update(spec={}))
    for machine in site.machines.values():
        machine.agent, machine.refuses = "honest", False
        machine.down.clear()
        if machine.on and not machine.connected:
            machine.connected, machine.since = True, site.clock.monotonic()
    for machine in tuple(site.machines.values()):
        if all_well or site.chance(0.5, machine):
            events.power_on(site)


def _is_done(report: PassReport) -> bool:
    return not (report.again or report.failed or MOVES_ON & report.written.keys())


def _moved(site: Site) -> tuple[int, ...]:
    return tuple(site.api.counts[kind] for kind in (kinds.GPU_CLAIMS, kinds.PODS, kinds.VMIS))


def _is_under_way(site: Site) -> bool:
    return any(
        "deletionTimestamp" in raw["metadata"]
        or (raw["status"]["phase"] != "Running" and not _is_gated(site, raw))
        for raw in site.api.all(kinds.VMIS)
    )


def _is_gated(site: Site, vmi: Raw) -> bool:
    pods = virt.pods_of(site, vmi)
    return bool(pods) and all(pod["spec"].get("schedulingGates") for pod in pods)
