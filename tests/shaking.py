"""Runs tests while their processes are slowed and stopped in turn: finds what is read too early.

A test that reads once what somebody else writes a moment later passes on a quiet machine for
months. Here the moment is made long: every process under the tests' own, except etcd and
kube-apiserver, which all others wait for, is now and then slowed (it runs a few milliseconds in
many) or stopped for up to a second and a half, each by dice of its own; so is pytest itself,
which simulates kubelets. Figures taken meanwhile mean nothing.

    make shake T=tests/real/test_orders.py ARGS="--seed 7"
"""

import argparse
import asyncio
import contextlib
import os
import random
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SPARED = ("etcd", "kube-apiserver", "kubectl", "helm", "setpriv", "sh", "bash")
"""Beginnings of names; built binaries carry a digest behind theirs."""
LOOK = 0.25
"""Seconds between two looks for processes that came."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="shaking", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    chosen, for_pytest = parser.parse_known_args()
    sys.stdout.write(f"shaken by --seed {chosen.seed}\n")
    sys.stdout.flush()
    sys.exit(asyncio.run(shaken(chosen.seed, for_pytest)))


async def shaken(seed: int, arguments: list[str]) -> int:
    """Run pytest with its processes shaken; returns its exit code. All are let go on at the end."""
    tests = await asyncio.create_subprocess_exec(sys.executable, "-m", "pytest", *arguments)
    async with asyncio.TaskGroup() as group:
        shaking = group.create_task(_shake_all(tests.pid, seed))
        code = await tests.wait()
        shaking.cancel()
    return code


async def _shake_all(root: int, seed: int) -> None:
    known: set[int] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            for pid in [root, *_under(root)]:
                if pid not in known and not (name := _name(pid)).startswith(SPARED):
                    dice = random.Random(f"{seed} {name} {len(known)}")
                    group.create_task(_shake(pid, dice, gently=pid == root))
                    known.add(pid)
            await asyncio.sleep(LOOK)


async def _shake(pid: int, dice: random.Random, *, gently: bool) -> None:
    """Shake one process until it is gone; never the next one that the kernel gives its number."""
    with contextlib.suppress(ProcessLookupError):
        process = _Process(pid, os.pidfd_open(pid))
        try:
            while True:
                await asyncio.sleep(dice.uniform(0.3, 2.5))
                if dice.random() < (0.3 if gently else 0.6):
                    await _slow(process, dice)
                else:
                    await _stop(process, dice.uniform(0.2, 1.0 if gently else 1.5))
        finally:
            os.close(process.handle)


class _Process(NamedTuple):
    pid: int
    handle: int

    def is_stopped(self) -> bool:
        """Say whether a test has stopped it."""
        return self._status("State").startswith("T")

    def is_stopped_again(self) -> bool:
        """Say whether a test stopped it while we had: the signal waits, and our SIGCONT would discard it.

        Where it is not stopped yet the one that waits is ours: who has a child that is about to run a
        program (vfork) stops once the child does, and would be stopped for good.
        """
        if not self.is_stopped():  # looked at first: ours may arrive between the two
            return False
        return bool(int(self._status("ShdPnd") or "0", 16) & 1 << (signal.SIGSTOP - 1))

    def _status(self, name: str) -> str:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith(f"{name}:"):
                    return line.partition(":")[2].strip()
        return ""


async def _slow(process: _Process, dice: random.Random) -> None:
    """Let it run a few milliseconds in many, for a second or three."""
    for _ in range(dice.randrange(15, 50)):
        await _stop(process, dice.uniform(0.02, 0.09))
        await asyncio.sleep(dice.uniform(0.003, 0.02))


async def _stop(process: _Process, seconds: float) -> None:
    """Stop it for a while; one that a test stops, before or meanwhile, stays so until the test lets it go on."""
    if process.is_stopped():
        await asyncio.sleep(seconds)
        return
    signal.pidfd_send_signal(process.handle, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        if not process.is_stopped_again():
            signal.pidfd_send_signal(process.handle, signal.SIGCONT)


def _under(root: int) -> Iterator[int]:
    """Yield the pids of all that descends from a process."""
    for children in Path(f"/proc/{root}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                yield int(child)
                yield from _under(int(child))


def _name(pid: int) -> str:
    """Return the name of what a process runs, empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


if __name__ == "__main__":
    main()
