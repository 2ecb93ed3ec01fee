"""What the leader says of the product as a whole, as conditions of GPUBinder.

Each says its good case too, so that a condition that is missing means that nobody looked.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gpu import keys
from gpu.binder import conditions
from gpu.binder.changes import SetId
from gpu.binder.phase import Findings
from gpu.model import guard, usage
from gpu.model.holds import Found
from gpu.model.usage import Kept, Standing
from gpu.objects.meta import Condition
from gpu.units import NodeName

LOSSES_HELD_BACK: Final = guard.CONDITION
RECORDS_KEPT: Final = "RecordsKept"
PLANS_CHECKED: Final = "PlansChecked"
WRITES_ANSWERED: Final = "WritesAnswered"
ENFORCED: Final = "Enforced"

_MESSAGE_CAP: Final = 8000
"""Room for ten nodes with the longest names; the schema takes four times as much."""
_NODES_TOLD: Final = 10
_SETS_TOLD: Final = 10


def of(findings: Findings, silent: Iterable[SetId] = ()) -> tuple[Condition, ...]:
    """Return the conditions that follow from what the phases of one pass found, and from sets left alone."""
    told = [losses(findings)] if findings.guard_looked else []
    told.append(plans(findings.plan_problem))
    told.append(writes(sorted(silent)))
    if findings.records is not None:
        told.append(records(findings.records))
    return tuple(told)


def switched_on() -> Condition:
    """Say that the feature is on."""
    return _is(conditions.ENABLED, "True", "SwitchedOn", "the feature is on")


def switched_off(waiting: int) -> Condition:
    """Say that the feature is off, and how many pods wait at the gate for it."""
    words = "the feature is off: nothing is placed, and what is held stays held"
    if waiting:
        pods = (
            "1 pod waits at the gate and stays"
            if waiting == 1
            else (f"{waiting} pods wait at the gate and stay")
        )
        words += (
            f". {pods} there: switch it on again, stop their VMs, or let them through to wherever the "
            "scheduler finds room, past every hold: cozystack-gpu teardown --release-gates"
        )
    return _is(conditions.ENABLED, "False", "SwitchedOff", words)


def enforced(gaps: Sequence[Found]) -> Condition:
    """Say how launchers may take held units past the gate, if they may."""
    if not gaps:
        words = "launchers that ask for units of a class are held at the gate"
        return _is(conditions.HOLDS_NOT_ENFORCED, "False", ENFORCED, words)
    words = "; ".join(found.words for found in gaps)
    return _is(
        conditions.HOLDS_NOT_ENFORCED,
        "True",
        gaps[0].gap.value,
        f"units of a claim may be in use by others when its VM starts: {words}",
    )


def losses(findings: Findings) -> Condition:
    """Say whether the guard holds losses back, of which nodes, and how they are let through."""
    if not findings.held_back:
        return _is(
            LOSSES_HELD_BACK,
            "False",
            "NothingHeldBack",
            "no set is held back from being moved or made Lost",
        )
    nodes = _few(findings.held_back)
    commands = "; ".join(
        guard.command(node, guard_ids, inventoried=node not in findings.without_inventory)
        for node, guard_ids in sorted(findings.held_back.items())[:_NODES_TOLD]
    )
    return _is(
        LOSSES_HELD_BACK,
        "True",
        "HeldBack",
        f"{_plural(findings.sets_held_back, 'set')} of {nodes} would be moved or made Lost, more "
        f"than the {findings.guard_limit} that the guard lets through in its window: they stay as "
        "they are. Look at the nodes first: losses end by themselves when the cause passes. To let "
        f"them through: {commands}",
    )


def plans(problem: str) -> Condition:
    """Say whether every plan of the pass passed the independent checker."""
    if not problem:
        return _is(PLANS_CHECKED, "True", "Checked", "every planned placement passed the checker")
    return _is(
        PLANS_CHECKED,
        "False",
        "PlanFailed",
        f"a planned placement failed the independent checker and was not written: {problem}",
    )


def writes(silent: Sequence[SetId]) -> Condition:
    """Say whether there are sets whose writes got no answer in several passes, and which."""
    if not silent:
        return _is(WRITES_ANSWERED, "True", "Answered", "no set waits for answers to its writes")
    names, rest = ", ".join(silent[:_SETS_TOLD]), len(silent) - _SETS_TOLD
    more = f" and {rest} more" if rest > 0 else ""
    words = (
        f"the API server answers others, and gave no answer to writes of {_plural(len(silent), 'set')}: "
        f"{names}{more}. They are left alone for a while that grows, so that others are served; look for "
        "an admission webhook that hangs in their namespaces"
    )
    return _is(WRITES_ANSWERED, "False", "NoAnswer", words)


def records(found: Standing) -> Condition:
    """Say whether every hold has its usage record, and under which monitor."""
    status, words = _of_records(found)
    return _is(RECORDS_KEPT, status, found.kept.value, words)


def _of_records(found: Standing) -> tuple[str, str]:
    under = f"under WorkloadMonitor {keys.USAGE_MONITOR_NAME} of their namespaces"
    match found.kept:
        case Kept.NOT_SERVED:
            words = "the cluster does not serve Workloads of cozystack.io: no usage is recorded"
            return "Unknown", words
        case Kept.NAME_TAKEN:
            names = ", ".join(found.taken)
            words = f"Workloads that are not ours bear the names of records: {names}: delete them, "
            return "False", f"{words}or these holds are not recorded"
        case Kept.HOST_DELETES if found.fought_over:
            many = f"{_plural(found.fought_over, 'record')} deleted {usage.STUBBORN} times or more"
            if found.anchored:
                words = f"although kept {under}: look who deletes Workloads"
            else:
                words = "being under no monitor: set usageRecordMonitor to auto or anchor"
            return "False", f"{many}, {words}. They are made anew ever more seldom"
        case Kept.HOST_DELETES:
            words = f"the host deletes Workloads without a monitor: records are kept {under}"
            return "True", words
        case Kept.UNDER_MONITOR:
            return "True", f"each hold has its record, {under}"
        case Kept.PLAIN:
            return "True", "each hold has its record, under no monitor"


def _few(nodes: Mapping[NodeName, str]) -> str:
    names = sorted(nodes)
    rest = len(names) - _NODES_TOLD
    told = ", ".join(names[:_NODES_TOLD])
    kind = "node" if len(names) == 1 else "nodes"
    return f"{kind} {told} and {rest} more" if rest > 0 else f"{kind} {told}"


def _plural(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _is(kind: str, status: str, reason: str, message: str) -> Condition:
    text = message if len(message) <= _MESSAGE_CAP else message[: _MESSAGE_CAP - 1] + "…"
    return Condition(type=kind, status=status, reason=reason, message=text)
