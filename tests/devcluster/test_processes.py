"""Processes: only ours are stopped, a dead one is told with its last words."""

import platform
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import errors, processes

SLEEP = ("/bin/sleep", "60")


def a_command(tmp_path: Path, *argv: str, name: str = "thing") -> processes.Command:
    return processes.Command(name=name, argv=argv, log=tmp_path / "logs" / f"{name}.log")


@pytest.fixture
def sleeper(tmp_path: Path):
    record = processes.start(a_command(tmp_path, *SLEEP), tethered=True)
    yield record
    processes.kill(record)


async def never() -> bool:
    return False


async def test_a_stopped_process_is_gone(sleeper):
    assert processes.is_running(sleeper)
    await processes.stop(sleeper)
    assert not processes.is_running(sleeper)


async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path):
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    record = processes.start(a_command(tmp_path, "/bin/sh", "-c", script), tethered=True)

    async def is_deaf() -> bool:
        return processes.last_lines(Path(record.log)) == ("ready",)

    await processes.ready(record, is_deaf, within=5)
    await processes.stop(record, grace=0.2)
    assert not processes.is_running(record)


async def test_a_process_whose_first_thread_has_ended_runs_until_the_last_has(tmp_path: Path):
    """Its ports are taken till then: whoever is started in its place finds them so."""
    end = {"x86_64": 60, "aarch64": 93}[platform.machine()]  # exit(2), of this thread alone
    code = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); "
        f"print('ends', flush=True); ctypes.CDLL(None).syscall({end}, 0)"
    )
    record = processes.start(a_command(tmp_path, sys.executable, "-c", code), tethered=True)

    async def is_half_ended() -> bool:
        return state(record) == "Z"

    await processes.ready(record, is_half_ended, within=10)
    assert processes.is_running(record)
    await processes.stop(record)
    assert not state(record)


def state(record: processes.Record) -> str:
    try:
        text = Path(f"/proc/{record.pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    return text.rpartition(")")[2].split()[0]


async def test_a_process_with_the_same_pid_and_another_start_is_left_alone(sleeper):
    imposter = replace(sleeper, started=sleeper.started - 1)
    assert not processes.is_running(imposter)
    await processes.stop(imposter)
    assert processes.is_running(sleeper)


async def test_stopping_what_is_gone_does_nothing(sleeper):
    await processes.stop(sleeper)
    await processes.stop(sleeper)


async def test_one_that_ends_before_it_is_ready_is_told_with_its_last_lines(tmp_path: Path):
    script = "echo first; echo 'port 1 is bad' >&2; exit 3"
    record = processes.start(a_command(tmp_path, "/bin/sh", "-c", script), tethered=True)
    with pytest.raises(errors.ChildDiedError) as caught:
        await processes.ready(record, never, within=5)
    assert str(caught.value) == (
        f"thing ended by itself.\n  first\n  port 1 is bad\nLog: {record.log}"
    )


async def test_one_that_is_never_ready_is_told_with_its_log(sleeper):
    with pytest.raises(errors.NotReadyError) as caught:
        await processes.ready(sleeper, never, within=0.1)
    assert str(caught.value) == (
        f"thing is not ready after 0 s. It said nothing.\nLog: {sleeper.log}"
    )


def test_a_program_that_is_not_there_is_one_message(tmp_path: Path):
    with pytest.raises(errors.DevclusterError) as caught:
        processes.start(a_command(tmp_path, "/no/such"), tethered=False)
    assert str(caught.value) == (
        "thing cannot be started: /no/such: No such file or directory.\n"
        f"Log: {tmp_path}/logs/thing.log"
    )


@pytest.mark.parametrize("tethered", [pytest.param(True, id="tied"), pytest.param(False, id="not")])
def test_only_a_tethered_process_dies_with_its_starter(tmp_path: Path, *, tethered: bool):
    code = (
        "import os, signal, sys; from pathlib import Path; from devcluster import processes\n"
        f"c = processes.Command(name='x', argv={SLEEP!r}, log=Path({str(tmp_path / 'x.log')!r}))\n"
        f"r = processes.start(c, tethered={tethered})\n"
        "print(r.pid, r.started, flush=True); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    # A tethered child is ours in a moment: setpriv has to have become it before its starter dies.
    wait = "while 'sleep' not in Path(f'/proc/{r.pid}/comm').read_text(): pass\n"
    code = code.replace("print(", f"{wait}print(")
    starter = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert starter.returncode == -signal.SIGKILL
    pid, started = map(int, starter.stdout.split())
    record = processes.Record("x", pid, started, str(tmp_path / "x.log"))
    try:
        deadline = time.monotonic() + 10
        while processes.is_running(record) and time.monotonic() < deadline and tethered:
            time.sleep(0.01)
        assert processes.is_running(record) is not tethered
    finally:
        processes.kill(record)


def test_a_started_process_holds_none_of_our_streams(sleeper):
    links = {str(Path(f"/proc/{sleeper.pid}/fd/{n}").readlink()) for n in (0, 1, 2)}
    assert links == {"/dev/null", sleeper.log}


def test_last_lines_of_a_long_log_are_the_last(tmp_path: Path):
    log = tmp_path / "long.log"
    log.write_text("".join(f"line {number}\n" for number in range(10_000)) + "\n\n")
    assert processes.last_lines(log, 2) == ("line 9998", "line 9999")
    assert processes.last_lines(tmp_path / "none") == ()
