"""Processes that outlive a call: started apart, written down, stopped only if still the same.

A process is known by pid and start time (field 22 of `/proc/PID/stat`), so a pid that the kernel
gave to somebody else is never signalled. Everything here works for processes of an earlier run
too, given their Record.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster import errors

_GONE_POLL = 0.01
_READY_POLL = 0.05  # a probe costs a TLS handshake, of the very server that is busy starting
_STATE, _START_TIME = 0, 19  # of /proc/PID/stat, counted after the command's closing parenthesis
_GONE_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run: `argv[0]` is a path; both streams go to the end of `log`."""

    name: str
    argv: tuple[str, ...]
    log: Path
    env: Mapping[str, str] | None = None  # None: as ours


@dataclass(frozen=True, slots=True)
class Record:
    """One process as written in a state file."""

    name: str
    pid: int
    started: int  # clock ticks after boot
    log: str


def start(command: Command, *, tethered: bool) -> Record:
    """Start a process in a session of its own, all three streams redirected; returns at once.

    A tethered one is killed by the kernel when the calling thread ends, however it ends; so it
    must be the main thread. One that is not tethered outlives us.
    """
    command.log.parent.mkdir(parents=True, exist_ok=True)
    argv = list(command.argv)
    if tethered:
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("a tethered process must be started from the main thread")
        argv = [_setpriv(), "--pdeathsig", "KILL", "--", *argv]
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        # Not subprocess.Popen: its object warns when it goes before its process does.
        pid = os.posix_spawn(
            argv[0],
            argv,
            dict(os.environ if command.env is None else command.env),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(command.log), append, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    except OSError as error:
        message = f"{command.name} cannot be started: {argv[0]}: {error.strerror}."
        raise errors.DevclusterError(message, log=command.log) from error
    stat = _stat(pid)
    # It cannot be reaped before we do it, so the line is there even if it ended at once.
    assert stat is not None
    return Record(command.name, pid, int(stat[_START_TIME]), str(command.log))


def is_running(record: Record) -> bool:
    """Tell whether exactly the recorded process still runs; a zombie does not, with its last thread gone.

    The first thread may be a zombie while others still end: till then its ports are taken.
    """
    _reap(record.pid)
    stat = _stat(record.pid)
    if stat is None or int(stat[_START_TIME]) != record.started:
        return False
    return stat[_STATE] not in _GONE_STATES or _threads(record.pid) > 1


def kill(record: Record, number: signal.Signals = signal.SIGKILL) -> bool:
    """Send a signal to exactly the recorded process; False when it no longer runs."""
    try:
        handle = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return False
    try:
        # Checked after opening: from here on the handle means the process we looked at.
        if not is_running(record):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


async def stop(record: Record, *, grace: float = 10.0) -> None:
    """End the recorded process and wait until it is gone: SIGTERM, after `grace` seconds SIGKILL."""
    if not kill(record, signal.SIGTERM):
        return
    try:
        await gone(record, within=grace)
    except TimeoutError:
        kill(record)
        await gone(record, within=grace)


async def gone(record: Record, *, within: float) -> None:
    """Wait until the recorded process has ended; TimeoutError after `within` seconds."""
    async with asyncio.timeout(within):
        while is_running(record):  # noqa: ASYNC110 - it may be no child of ours: nothing to await
            await asyncio.sleep(_GONE_POLL)


async def ready(
    record: Record, probe: Callable[[], Awaitable[bool]], *, within: float = 90.0
) -> None:
    """Wait until `probe` says True; ChildDiedError as soon as it is gone, NotReadyError after `within` s."""
    try:
        async with asyncio.timeout(within):
            while not await probe():
                if not is_running(record):
                    raise died(record)
                await asyncio.sleep(_READY_POLL)
    except TimeoutError as error:
        message = f"{record.name} is not ready after {within:.0f} s.{_said(record)}"
        raise errors.NotReadyError(message, log=Path(record.log)) from error


def died(record: Record) -> errors.ChildDiedError:
    """Return the error that tells of a process that ended by itself, with its last words."""
    return errors.ChildDiedError(
        f"{record.name} ended by itself.{_said(record)}", log=Path(record.log)
    )


def last_lines(log: Path, count: int = 8) -> tuple[str, ...]:
    """Return the last lines of a log that are not empty; none where there is no log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 16_384))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ()
    return tuple(line for line in text.splitlines() if line.strip())[-count:]


def _said(record: Record) -> str:
    lines = last_lines(Path(record.log))
    return " It said nothing." if not lines else "\n  " + "\n  ".join(line[:400] for line in lines)


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _threads(pid: int) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _setpriv() -> str:
    found = shutil.which("setpriv")
    if found is None:
        raise errors.DevclusterError("setpriv is needed (Debian package util-linux).")
    return found
