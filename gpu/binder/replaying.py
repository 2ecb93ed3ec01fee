"""Save what a pass was given and what it decided; decide it again from the file, byte for byte.

A file holds typed views, not objects as stored: no pod's environment, no HelmRelease's values but
declared units, and of annotations those of our own domain only. So it carries no secret and can be
handed on. Which writes failed is in it, so that a pass that met failures is decided alike.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec

from gpu import keys
from gpu.binder import changes, phases
from gpu.binder.beside import Beside
from gpu.binder.changes import Change
from gpu.binder.course import Course, Fate, Leg
from gpu.binder.phase import Phase, Scene
from gpu.config import Config
from gpu.errors import UnitsError
from gpu.model.draft import Draft
from gpu.model.sightings import Sightings
from gpu.objects.meta import ObjectKey
from gpu.units import Units, plain
from gpu.world import World

FORMAT: Final = 1
KEPT: Final = 20
"""Files of a directory that stay, the newest ones."""
MOST: Final = 512 * 1024 * 1024
"""Bytes of them; the newest stays whatever its size."""
EVERY: Final = 30.0
"""Seconds between files that nobody asked for."""
_OURS: Final = f"{keys.DOMAIN}/"


class ReplayError(Exception):
    """The file cannot be replayed; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """One pass as it is in a file."""

    format: int = FORMAT
    term: int = 0
    now: datetime
    """The instant the pass decided by."""
    config: Config
    sightings: Sightings
    skip: frozenset[str] = frozenset()
    """Sets that were in quarantine when it began."""
    silent: frozenset[str] = frozenset()
    """Sets of which it was told that their writes get no answer."""
    world: World
    table: tuple[str, ...] = ()
    """The phases it was to run, in order."""
    fates: Mapping[str, tuple[Fate, ...]] = field(default_factory=dict)
    """By phase, the sets whose changes were not all stored."""
    beside: Mapping[str, tuple[Beside, ...]] = field(default_factory=dict)
    """By phase, what another pass had planned that it counted."""
    aborted: str = ""
    """The phase in which a write was contended or unknown."""
    decisions: tuple[str, ...] = ()


def of(began: Scene, legs: Sequence[Leg], *, term: int, table: Sequence[Phase]) -> Saved:
    """Return what is saved of a pass that began with a scene and ran so far."""
    return Saved(
        term=term,
        now=began.now,
        config=began.config,
        sightings=began.sightings,
        skip=began.skip,
        silent=began.silent,
        world=_bare(began.world),
        table=tuple(phase.name for phase in table),
        fates={leg.phase: leg.fates for leg in legs if leg.fates},
        beside={leg.phase: tuple(map(_bare_beside, leg.beside)) for leg in legs if leg.beside},
        aborted=next((leg.phase for leg in legs if leg.aborted), ""),
        decisions=tuple(told(legs)),
    )


def encode(saved: Saved) -> bytes:
    """Return the file's content: one JSON object, the same for the same pass."""
    return msgspec.json.encode(saved, enc_hook=plain, order="deterministic") + b"\n"


def decode(data: bytes) -> Saved:
    """Read a file's content. Raises ReplayError for another format and for what is no such file."""
    try:
        head = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        number = msgspec.json.decode(head["format"]) if "format" in head else None
    except msgspec.MsgspecError as error:
        raise ReplayError(f"not a saved pass: {error}") from error
    if number != FORMAT:
        raise ReplayError(f"format {number} is not the {FORMAT} that this version reads")
    try:
        return msgspec.json.decode(data, type=Saved, dec_hook=_made)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise ReplayError(f"not a saved pass: {error}") from error


def decide(saved: Saved, table: Sequence[Phase] = phases.PASS) -> tuple[str, ...]:
    """Run the phases over a saved pass without any IO; return its decisions, one a line."""
    course = Course(
        scene=Scene(
            world=saved.world,
            draft=Draft.of(saved.world.snapshot),
            config=saved.config,
            now=saved.now,
            skip=saved.skip,
            silent=saved.silent,
            sightings=saved.sightings,
        )
    )
    for phase in table:
        if phase.name in saved.table and course.wants(phase):
            course.arrivals.extend(saved.beside.get(phase.name, ()))
            wanted = course.plan(phase)
            fates = saved.fates.get(phase.name, ())
            course.settle(wanted, fates, aborted=phase.name == saved.aborted)
    return tuple(told(course.legs))


def told(legs: Sequence[Leg]) -> Iterator[str]:
    """Yield what was decided, one line for each change and each broken rule, the same every time."""
    for leg in legs:
        for change in leg.wanted:
            yield f"{leg.phase} {line(change)}"
        for violation in leg.violations:
            yield f"{leg.phase} refused {violation}"


def line(change: Change) -> str:
    """Return a change as one line: what it is, of what object, and each field it decides."""
    target = changes.target_of(change)
    decided = {name: value for name, value in _parts(change) if name not in {"kind", "key", "uid"}}
    text = json.dumps(decided, ensure_ascii=False, separators=(",", ":"))
    return f"{type(change).__name__} {target.kind.kind} {target.key} {text}"


@dataclass(slots=True, kw_only=True)
class Saves:
    """Where passes are saved, and whether the next one is to be; asked from the event loop alone."""

    directory: Path | None = None
    """None: nothing is ever saved."""
    asked: bool = False
    """By a signal or a flag: the next pass, whatever it decides."""
    wake: Callable[[], None] | None = None
    """Has a leader run a pass."""
    _problem: str = ""
    _not_before: float = 0.0

    def ask(self) -> bool:
        """Have the next pass saved; False when nothing is ever saved."""
        if self.directory is None:
            return False
        self.asked = True
        if self.wake is not None:
            self.wake()
        return True

    def wants(self, problem: str, now: float) -> bool:
        """Say whether the pass that ends now is to be saved: it was asked for, or met a problem.

        A problem that lasts is saved once, and one whose words change no more than once in EVERY.
        """
        is_asked, self.asked = self.asked, False
        is_new = bool(problem) and problem != self._problem and now >= self._not_before
        if not problem or is_new:
            self._problem = problem
        if is_new:
            self._not_before = now + EVERY
        return self.directory is not None and (is_asked or is_new)

    def write(self, saved: Saved) -> Path:
        """Write a file that nobody else reads, drop the oldest; runs in the thread.

        Raises OSError when it cannot be written.
        """
        assert self.directory is not None
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.directory / f"{saved.now:%Y%m%dT%H%M%S.%fZ}-term{saved.term}.json"
        part = path.with_suffix(".part")
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(encode(saved))
        part.replace(path)
        _thin_out(self.directory)
        return path


def _thin_out(directory: Path) -> None:
    room = MOST
    for rank, path in enumerate(sorted(directory.glob("*-term*.json"), reverse=True)):
        room -= path.stat().st_size
        if rank >= KEPT or (rank and room < 0):
            path.unlink(missing_ok=True)


def _bare(world: World) -> World:
    """Leave out objects as stored, and annotations that are not ours."""
    parts = {
        part.name: tuple(map(_stripped, value))
        for part in fields(world)
        if isinstance(value := getattr(world, part.name), tuple)
    }
    return replace(world, **parts)  # type: ignore[arg-type]  # each of its own type


def _bare_beside(met: Beside) -> Beside:
    return replace(
        met,
        claims=tuple(map(_stripped, met.claims)),
        seats=tuple(replace(seat, pod=_stripped(seat.pod)) for seat in met.seats),
        promised=tuple((_stripped(pod), node) for pod, node in met.promised),
    )


def _stripped(item: Any) -> Any:
    ours = {name: text for name, text in item.meta.annotations.items() if name.startswith(_OURS)}
    bare: dict[str, Any] = {"meta": replace(item.meta, annotations=ours)}
    return replace(item, **bare, **({"raw": {}} if hasattr(item, "raw") else {}))


def _made(kind: type, value: Any) -> Any:
    if kind is not Units:
        raise NotImplementedError(kind.__name__)
    try:
        return Units(value)
    except UnitsError as error:
        raise ValueError(str(error)) from error  # the decoder adds where


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    for part in fields(value):
        found = getattr(value, part.name)
        if not hasattr(found, "meta"):
            yield part.name, _plain(found)


def _plain(value: Any) -> Any:
    """Return what JSON can say, the same for equal values."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, ObjectKey):
        return str(value)
    if isinstance(value, tuple | AbstractSet):
        items = [_plain(item) for item in value]
        return items if isinstance(value, tuple) else sorted(items)
    return {"is": type(value).__name__, **dict(_parts(value))} if is_dataclass(value) else value
