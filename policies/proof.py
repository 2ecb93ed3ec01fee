"""Proof: when the API servers are asked, what their answers mean, and the way out of stale settings.

Asked is every minute, at once after the settings changed, and as soon as what was written can be in
force. Where an API server has stopped following the settings, they are copied to a new name, which
the keeper then binds.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from gpu import keys
from gpu.config import Config, PolicyMode
from policies.asking import Canary, Heard, Report
from policies.canary import Finding
from policies.revisions import Revisions
from policies.shapes import Document
from policies.standing import Reason, Standing

DOUBT: Final = 10.0
"""Seconds at most until the API servers are asked again after one of them gave no proof."""
MOVES_APART: Final = 300.0
"""Seconds between two moves to a copy of the settings: what a copy does not mend, ten do not."""


class Proof:
    """What is known of the policies in force; one for each time of leading."""

    def __init__(
        self, canary: Canary, config: Config, *, heard: Heard = lambda _report: None
    ) -> None:
        self._canary = canary
        self._config = config
        self._heard = heard
        self._settings: Document | None = None
        self._last: Standing | None = None
        self._ask_at = 0.0
        self._move_at = 0.0

    @property
    def due_in(self) -> float:
        """Seconds until the API servers are asked again."""
        return max(self._ask_at - _now(), 0.0)

    def look_at(self, settings: Document | None) -> None:
        """Ask at once when the settings have changed since the last look."""
        data = None if settings is None else dict(settings.get("data") or {})
        if data != self._settings:
            self._settings = data
            self._ask_at = 0.0

    async def of(
        self, found: Standing, *, name: str, wrote: bool, revisions: Revisions
    ) -> Standing:
        """Return what the last answers showed, asking anew when that is due.

        `found` is what is stored, and all there is to tell before the first answer. What was just
        written cannot be in force yet: then nothing is asked, and the next time is due at once.
        """
        if wrote:
            self._ask_at = 0.0
        elif self.due_in == 0:
            report = await self._canary.ask(name)
            self._heard(report)
            self._last = standing_of(report, self._config)
            every = self._config.pace.canary
            self._ask_at = _now() + (every if report.proved else min(every, DOUBT))
            if report.those(Finding.STALE):
                await self._move(name, revisions)
        return self._last or found

    async def _move(self, name: str, revisions: Revisions) -> None:
        if self._config.policies is not PolicyMode.MANAGED or _now() < self._move_at:
            return
        if await revisions.move(name) is not None:
            self._move_at = _now() + MOVES_APART
            self._ask_at = 0.0


def standing_of(report: Report, config: Config) -> Standing:
    """Return what a report means for the policies as a whole, worst first; each server by name."""
    stale = report.those(Finding.STALE)
    if stale:
        return Standing(
            reason=Reason.SETTINGS_STALE,
            message=f"stale settings: {_some(stale)}; {_way_out(config)}",
        )
    old = report.those(Finding.NOT_IN_FORCE)
    if old:
        return Standing(
            reason=Reason.NOT_IN_FORCE,
            message=f"stored, but not in force: {_some(old)}; asked again soon, restart that "
            "kube-apiserver if it stays so",
        )
    if not report.proved:
        others = {name: item.words for name, item in report.verdicts.items() if item.words}
        return Standing(
            reason=Reason.NOT_PROVED,
            message=f"not known whether the current settings are in force: {_some(others)}",
        )
    return _proved(report, config)


def _proved(report: Report, config: Config) -> Standing:
    where = _names(report.verdicts)
    if report.hidden:
        where += f"; {_names(report.hidden)} cannot be asked one by one from here"
    reading = ""
    if report.settings != keys.SETTINGS_NAME:
        reading = f", read from {report.settings},"
    rendered = config.policies is PolicyMode.RENDERED
    return Standing(
        reason=Reason.RENDERED if rendered else Reason.CURRENT,
        message=f"stored as this version means it, and the current settings{reading} are in force "
        f"at {where}",
    )


def _way_out(config: Config) -> str:
    if config.policies is PolicyMode.RENDERED:
        return "restart that kube-apiserver, or set policies.mode to managed until it was restarted"
    return "the leader binds the policies to a copy under a new name"


def _some(found: Mapping[str, str], at_most: int = 5) -> str:
    told = "; ".join(f"{name} {words}" for name, words in list(found.items())[:at_most])
    more = len(found) - at_most
    return told + (f"; and {more} more" if more > 0 else "")


def _names(names: Iterable[str], at_most: int = 5) -> str:
    found = list(names)
    more = len(found) - at_most
    return ", ".join(found[:at_most]) + (f" and {more} more" if more > 0 else "")


def _now() -> float:
    return asyncio.get_running_loop().time()
