"""The binaries of the control plane, built from pinned Go modules into the user's cache folder.

A binary lies at `<cache>/cozystack-gpu/bin/<name>-<key>`, the key covering all that decides its
content (recipes.py). It is either whole or not there: built beside under another name, flushed,
renamed. A file lock lets one builder work at a time.
Checkouts of several versions share the folder; what none of them has used for 30 days is removed.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO

from devcluster import clock, commands, errors, patched, processes, progress, recipes, toolchain
from devcluster.recipes import Binary

_KEPT = timedelta(days=30)
_MARKED_AGAIN = timedelta(days=1)  # a write now and then says enough
_LOCK_POLL = 0.2
_INTERRUPT_GRACE = 10.0
_FETCH = 1200.0
_NO_SPACE = "no space left on device"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where binaries are kept between runs and checkouts."""
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "cozystack-gpu" / "bin"


def paths(folder: Path, go: toolchain.Go, modules: Path = recipes.MODULES) -> dict[str, Path]:
    """Return where each binary belongs in `folder`, there or not, by name."""
    return {b.name: folder / f"{b.name}-{recipes.key(b, go, modules)}" for b in recipes.BINARIES}


def missing() -> tuple[str, ...]:
    """Return the names of the binaries that are not in the cache yet."""
    places = paths(cache_folder(), toolchain.find())
    return tuple(binary.name for binary in _missing(places))


async def build(folder: Path | None = None, modules: Path = recipes.MODULES) -> dict[str, Path]:
    """Build what is missing and return where each binary lies, by name; BuildError says what failed.

    Prints one line per binary built, and one that names what nobody has used for long and is removed.
    """
    folder = cache_folder() if folder is None else folder
    go = await asyncio.to_thread(toolchain.find)
    places = paths(folder, go, modules)
    if not _missing(places):
        _tend(folder, places)
        return places
    try:
        folder.mkdir(parents=True, exist_ok=True)
        async with _only_builder(folder):
            # Looked at again: whoever built before us may have made them.
            wanted = _missing(places)
            async with _fetched_ahead(wanted, go, modules):
                for number, binary in enumerate(wanted):
                    left = len(wanted) - number - 1
                    with progress.step(_announced(binary), left=f"{left} left"):
                        await _build_one(binary, places[binary.name], go, modules / binary.module)
    except OSError as error:
        raise _disk_error(folder, error) from error
    _tend(folder, places)
    return places


def _tend(folder: Path, places: Mapping[str, Path]) -> None:
    """Mark what is used by its time of change; remove what nobody has marked for `_KEPT`."""
    now = clock.now().timestamp()

    def unmarked(path: Path, at_least: timedelta) -> bool:
        return path.stat().st_mtime < now - at_least.total_seconds()

    # A cache that only its owner may write serves as it is.
    with contextlib.suppress(OSError):
        for place in places.values():
            if unmarked(place, _MARKED_AGAIN):
                os.utime(place, (now, now))
        ours = [
            path
            for b in recipes.BINARIES
            for path in folder.glob(f"{b.name}-{'[0-9a-f]' * recipes.KEY}")
        ]
        old = [path for path in ours if path not in places.values() and unmarked(path, _KEPT)]
        for path in old:
            path.unlink()
        if old:
            names = ", ".join(sorted(path.name for path in old))
            progress.say(f"removed, as nothing has used them for {_KEPT.days} days: {names}")


def _announced(binary: Binary) -> str:
    about = progress.lasted(binary.minutes * 60)
    return f"building {binary.name} (once; about {about} on two cores)"


def _missing(places: Mapping[str, Path]) -> tuple[Binary, ...]:
    return tuple(binary for binary in recipes.BINARIES if not places[binary.name].exists())


@asynccontextmanager
async def _only_builder(folder: Path) -> AsyncIterator[None]:
    """Hold the folder's build lock; says so once when somebody else has it."""
    with (folder / "build.lock").open("a") as lock:
        waiting = False
        while not _locked(lock):
            if not waiting:
                progress.say("… another build fills the cache: waiting for it")
                waiting = True
            await asyncio.sleep(_LOCK_POLL)
        _drop_parts(folder)
        yield


def _drop_parts(folder: Path) -> None:
    """Remove what killed builders left; only under the lock, when nobody writes one."""
    for part in folder.glob("*.part"):
        part.unlink()


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@asynccontextmanager
async def _fetched_ahead(
    wanted: Sequence[Binary], go: toolchain.Go, modules: Path
) -> AsyncIterator[None]:
    """Have the sources of later modules come while the first compiles: a compiler needs no network."""
    packages: dict[str, list[str]] = {}
    for binary in wanted:
        packages.setdefault(binary.module, []).append(binary.package)

    async def fetch() -> None:
        for module in list(packages)[1:]:
            argv = (str(go.path), f"-C={modules / module}", "list", "-deps", *packages[module])
            # What cannot be fetched now is the build's to say.
            with contextlib.suppress(errors.CommandError):
                await commands.run(argv, env=toolchain.environment(), within=_FETCH)

    # A group would wrap what a build raises; this task is awaited below, and raises nothing.
    task = asyncio.create_task(fetch())  # noqa: TID251
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _build_one(binary: Binary, place: Path, go: toolchain.Go, module: Path) -> None:
    part = place.with_name(f"{place.name}.part")
    log = place.with_name(f"{binary.name}.log")
    linked = recipes.linker_flags(binary, module)
    try:
        async with _patch_flags(binary, go, module) as more:
            argv = (str(go.path), "build", *more, *recipes.FLAGS, "-ldflags", linked)
            status = await _run((*argv, "-o", str(part), binary.package), module, log)
        if status != 0:
            raise _failed(binary, log)
        _flush(part)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
    log.unlink()


@asynccontextmanager
async def _patch_flags(
    binary: Binary, go: toolchain.Go, module: Path
) -> AsyncIterator[tuple[str, ...]]:
    patch = recipes.PATCHES.get(binary.module)
    if patch is None:
        yield ()
        return
    async with patched.flags(go, module, patch) as flags:
        yield flags


async def _run(argv: Sequence[str], module: Path, log: Path) -> int:
    """Run a build in its module's folder to its end; return its exit status."""
    with log.open("wb") as output:
        build = await asyncio.create_subprocess_exec(
            *argv,
            cwd=module,
            env=toolchain.environment(),
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            return await build.wait()
        except asyncio.CancelledError:
            await _interrupt(build)
            raise


async def _interrupt(build: asyncio.subprocess.Process) -> None:
    """End `go build` and the compilers it started; it removes its own work folder on SIGINT."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(build.pid, number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(build.wait(), _INTERRUPT_GRACE)
            return


def _failed(binary: Binary, log: Path) -> errors.BuildError:
    lines = processes.last_lines(log)
    if any(_NO_SPACE in line for line in lines):
        return _full(log.parent, log)
    said = "\n  ".join(("", *lines))
    return errors.BuildError(f"{binary.name} could not be built.{said}", log=log)


def _disk_error(folder: Path, error: OSError) -> errors.BuildError:
    if error.errno == errno.ENOSPC:
        return _full(folder, None)
    return errors.BuildError(f"The cache folder {folder} cannot be written: {error.strerror}.")


def _full(folder: Path, log: Path | None) -> errors.BuildError:
    free = shutil.disk_usage(folder).free // 2**20
    return errors.BuildError(
        f"The disk is full ({free} MiB free at {folder}). A first build needs about 8 GiB there, "
        "in Go's caches and in the folder for temporary files.",
        log=log,
    )


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
