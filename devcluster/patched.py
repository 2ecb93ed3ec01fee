"""A Go module with one constant changed: a build reads a copy of it, made for that build alone."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from devcluster import commands, errors, toolchain


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """Which text of which file of which module becomes which other one."""

    module: str
    file: str
    was: str
    becomes: str


@asynccontextmanager
async def flags(go: toolchain.Go, folder: Path, patch: Patch) -> AsyncIterator[tuple[str, ...]]:
    """Yield what `go build` in `folder` needs to read the changed module instead.

    What is changed is a copy of what go.sum vouches for; neither go.mod nor Go's own copy is touched.
    With -trimpath nothing built depends on where the copy lies, so Go's cache serves the next build.
    """
    source = await _downloaded(go, folder, patch.module)
    with tempfile.TemporaryDirectory(prefix="cozystack-gpu-go-") as made:
        copy = Path(made) / "module"
        await asyncio.to_thread(_copy, source, copy)
        _change(copy / patch.file, patch)
        modfile = Path(made) / "go.mod"
        shutil.copyfile(folder / "go.mod", modfile)
        shutil.copyfile(folder / "go.sum", modfile.with_name("go.sum"))
        replaced = f"-replace={patch.module}={copy}"
        await _go(go, folder, ("mod", "edit", replaced, str(modfile)))
        yield (f"-modfile={modfile}",)


async def _downloaded(go: toolchain.Go, folder: Path, module: str) -> Path:
    await _go(go, folder, ("mod", "download", module))
    return Path((await _go(go, folder, ("list", "-m", "-f", "{{.Dir}}", module))).strip())


async def _go(go: toolchain.Go, folder: Path, words: Sequence[str]) -> str:
    argv = (str(go.path), f"-C={folder}", *words)
    try:
        return await commands.run(argv, env=toolchain.environment())
    except errors.CommandError as error:
        raise errors.BuildError(
            f"{folder.name} cannot be made ready for its build: {error}"
        ) from error


def _copy(source: Path, copy: Path) -> None:
    # Go keeps its own read-only; by the content alone, the copy can be changed and removed.
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    for path, _, _ in os.walk(copy):
        Path(path).chmod(0o755)


def _change(path: Path, patch: Patch) -> None:
    text = path.read_text(encoding="utf-8")
    if text.count(patch.was) != 1:
        message = f"{patch.module} does not say `{patch.was}` once in {patch.file}: mend the patch."
        raise errors.BuildError(message)
    path.write_text(text.replace(patch.was, patch.becomes), encoding="utf-8")
