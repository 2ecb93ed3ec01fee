"""The state file of a plane: what was started, so that another process can stop exactly that."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster import components, errors, kubeconfig, processes

FILE = "state.json"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One plane as written down: its ports and options, and each process started in it, by name."""

    ports: components.Ports
    options: components.Options
    processes: Mapping[str, processes.Record]


def write(directory: Path, state: State) -> None:
    """Replace the state file of `directory` in one step."""
    document = {
        "version": _VERSION,
        "ports": dataclasses.asdict(state.ports),
        "options": dataclasses.asdict(state.options),
        "processes": [dataclasses.asdict(record) for record in state.processes.values()],
    }
    kubeconfig.write_private(directory / FILE, json.dumps(document, indent=2) + "\n")


def read(directory: Path) -> State | None:
    """Return what is written in `directory`; None where nothing is; an error when it is unreadable."""
    path = directory / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["version"] != _VERSION:
            raise errors.DevclusterError(
                f"{path} is of another version of this project: remove it."
            )
        records = [processes.Record(**fields) for fields in document["processes"]]
        return State(
            ports=components.Ports(**document["ports"]),
            options=components.Options(**document["options"]),
            processes={record.name: record for record in records},
        )
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise errors.DevclusterError(f"{path} cannot be read ({error}): remove it.") from error
