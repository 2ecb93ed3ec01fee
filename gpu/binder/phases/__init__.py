"""PASS: the ordered table of phases and when each runs; the order is the design (domain contract 6)."""

from typing import Final

from gpu.binder.phase import Phase
from gpu.binder.phases import (
    attachments,
    finalizers,
    gates,
    launchers,
    lost,
    moves,
    off,
    orders,
    owners,
    rejections,
    release,
    requests,
    sets,
    status,
    usage,
)

PASS: Final = (
    Phase(name="finalizers", changes=finalizers.changes_of, when_disabled=True),
    # Before a claim forgets whose launcher it was that its node refused.
    Phase(name="rejections", changes=rejections.changes_of),
    # With the feature off it only notes: a claim that is deleted then is let go by what is noted.
    Phase(name="attachments", changes=attachments.changes_of, when_disabled=True),
    Phase(name="sets", changes=sets.changes_of),
    Phase(name="requests", changes=requests.changes_of),
    Phase(name="gates", changes=gates.changes_of),
    Phase(name="launchers", changes=launchers.changes_of),
    Phase(name="moves", changes=moves.changes_of),
    Phase(name="lost", changes=lost.changes_of),
    Phase(name="orders", changes=orders.changes_of),
    Phase(name="release", changes=release.changes_of, when_disabled=True, after_failed_write=True),
    Phase(name="owners", changes=owners.changes_of, after_refused_plan=True, may_wait=True),
    Phase(
        name="usage",
        changes=usage.changes_of,
        when_disabled=True,
        after_refused_plan=True,
        may_wait=True,
    ),
    Phase(name="off", changes=off.changes_of, when_disabled=True, after_failed_write=True),
    Phase(name="status", changes=status.changes_of, after_refused_plan=True, may_wait=True),
)

ANSWERS: Final = tuple(phase for phase in PASS if phase.name == "requests")
"""What a pass does that only answers bind requests, beside whatever pass is under way."""
