"""The documents as the files under generated/: checked in, so that an API change shows in a diff."""

import json
from pathlib import Path

from openapi import document
from openapi.meta import Schema


def files() -> dict[str, str]:
    """Return the content of each generated file by its name."""
    name = f"{document.GROUP}_{document.VERSION}"
    found: dict[str, Schema] = {"v2.json": document.v2()}
    for content in document.v3().values():
        found[f"v3_{name}.json"] = content
    return {name: json.dumps(content, indent=2) + "\n" for name, content in found.items()}


def write(folder: Path) -> list[Path]:
    """Write the files and remove what is no longer generated; returns what was written."""
    folder.mkdir(exist_ok=True)
    wanted = files()
    for stale in folder.glob("*.json"):
        if stale.name not in wanted:
            stale.unlink()
    written = []
    for name, content in wanted.items():
        (folder / name).write_text(content)
        written.append(folder / name)
    return written
