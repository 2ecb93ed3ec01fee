"""Ask each API server whether its policies use the current settings, and tell what that proves.

Two dry-run requests to each: one that must pass and one that must be refused, in the expected
words. Before them the settings are written anew with nothing changed but their version, so that an
API server that has stopped following them shows before they change. An answer that is not a proof
is asked for again: parameters take milliseconds, policies up to a second.
"""

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from gpu import keys, ports
from gpu.config import Config
from gpu.objects import kinds
from policies import bundle, canary
from policies.canary import Expected, Finding, Verdict
from policies.shapes import Document

PAUSES: Final = (0.2, 0.5, 1.0, 2.0)
"""Seconds before each time an API server is asked again."""
SILENCES: Final = 2
"""How often an API server may give no answer before it is left to the next round."""
DEADLINE: Final = 3.0
"""Seconds for the two questions together."""
HEARTBEAT: Final = "canary"
"""Key of the settings' binaryData that changes each time; nothing reads it, so no pass follows."""


class _SilentError(Exception):
    """The API server gave no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found, by API server; `hidden` are those that could not be told apart."""

    settings: str
    verdicts: Mapping[str, Verdict]
    hidden: tuple[str, ...] = ()

    def those(self, finding: Finding) -> dict[str, str]:
        """Return the API servers with a finding, and what they did."""
        return {
            name: verdict.words
            for name, verdict in self.verdicts.items()
            if verdict.finding is finding
        }

    @property
    def proved(self) -> bool:
        """Say whether every API server that was asked uses the current settings."""
        return all(item.finding is Finding.PROVED for item in self.verdicts.values())


Heard = Callable[[Report], None]
"""Told after each round of questions."""


class Canary:
    """Asks the API servers; writes nothing but the heartbeat of the settings."""

    def __init__(
        self, writer: ports.Writer, config: Config, *, doors: ports.OpenDoors, clock: ports.Clock
    ) -> None:
        self._writer = writer
        self._config = config
        self._doors = doors
        self._clock = clock

    async def ask(self, settings: str) -> Report:
        """Ask every API server until each has given a proof, or has been asked often enough.

        Raises what the usual way to the API server answers when the settings cannot be written.
        """
        version = await self._beat(settings)
        expected = Expected(digest=bundle.digest(), settings=settings, version=version)
        async with self._doors() as doors:
            usual = {doors.usual_name: doors.usual}
            verdicts = await self._all(doors.each or usual, expected)
            if doors.each and all(v.finding is Finding.UNANSWERED for v in verdicts.values()):
                alone = await self._all(usual, expected)
                return Report(settings=settings, verdicts=alone, hidden=tuple(doors.each))
        return Report(settings=settings, verdicts=verdicts)

    async def _all(
        self, doors: Mapping[str, ports.Writer], expected: Expected
    ) -> dict[str, Verdict]:
        async with asyncio.TaskGroup() as tasks:
            asked = {
                name: tasks.create_task(self._server(door, expected))
                for name, door in doors.items()
            }
        return {name: task.result() for name, task in asked.items()}

    async def _server(self, door: ports.Writer, expected: Expected) -> Verdict:
        verdict = await self._once(door, expected)
        silences = 0
        for pause in PAUSES:
            silences += verdict.finding is Finding.UNANSWERED
            if verdict.finding is Finding.PROVED or silences == SILENCES:
                break
            await asyncio.sleep(pause)
            # Whoever wrote the settings meanwhile is no fault of this API server.
            try:
                stored = await self._read(expected.settings)
            except Exception as error:
                if self._writer.outcome(error) is None:
                    raise
                return Verdict(Finding.UNANSWERED, f"the settings cannot be read: {error}")
            expected = replace(expected, version=stored["metadata"]["resourceVersion"])
            verdict = await self._once(door, expected)
        return verdict

    async def _once(self, door: ports.Writer, expected: Expected) -> Verdict:
        try:
            async with asyncio.timeout(DEADLINE):
                right = await self._refusal(door, expected.version)
                wrong = await self._refusal(door, canary.WRONG)
        except (_SilentError, TimeoutError) as error:
            return Verdict(Finding.UNANSWERED, str(error) or f"no answer in {DEADLINE:g} s")
        return canary.judge(expected, right=right, wrong=wrong)

    async def _refusal(self, door: ports.Writer, version: str) -> str | None:
        """Return the words of a refusal, None when the request passed."""
        try:
            await door.create(
                kinds.CONFIG_MAPS, canary.question(self._config, version), dry_run=True
            )
        except Exception as error:
            match door.outcome(error):
                case None:
                    raise
                case ports.Outcome.UNKNOWN:
                    raise _SilentError(str(error)) from error
                case ports.Outcome.CONFLICT:
                    return None  # one is stored, from before the policy: admission let this pass
                case _:
                    return str(error)
        return None

    async def _beat(self, settings: str) -> str:
        """Give the settings a new version with nothing changed that anybody reads; return it."""
        stored = await self._read(settings)
        version = stored["metadata"]["resourceVersion"]
        now = base64.b64encode(self._clock.now().isoformat().encode()).decode()
        beat = {"metadata": {"resourceVersion": version}, "binaryData": {HEARTBEAT: now}}
        try:
            stored = await self._writer.patch(
                kinds.CONFIG_MAPS,
                settings,
                beat,
                self._config.settings_namespace,
                field_manager=keys.POLICIES_MANAGER,
            )
        except Exception as error:
            if self._writer.outcome(error) is not ports.Outcome.CONFLICT:
                raise
            stored = await self._read(settings)  # somebody else gave it one
        return str(stored["metadata"]["resourceVersion"])

    async def _read(self, settings: str) -> Document:
        return await self._writer.get(kinds.CONFIG_MAPS, settings, self._config.settings_namespace)
