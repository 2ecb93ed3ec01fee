"""Tables as kubectl prints them, from the server's own columns, drawn for a terminal."""

import json
from typing import Any, Final

import rich.markup
import rich.table

from devcluster import errors
from gpu.cluster import client

_ACCEPT: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
_OK: Final = 200


async def fetch(who: client.Client, path: str, title: str) -> rich.table.Table:
    """Ask for a list as a Table, as `who`, and return it with the columns kubectl would show."""
    answer = await who.raw("GET", path, headers={"Accept": _ACCEPT})
    if answer.status != _OK:
        said = answer.body.decode(errors="replace").strip()
        raise errors.DevclusterError(f"GET {path} was answered with {answer.status}: {said}")
    return draw(json.loads(answer.body), title)


def draw(table: dict[str, Any], title: str) -> rich.table.Table:
    """Draw a metav1.Table; a namespace comes first where rows are of several."""
    shown = rich.table.Table(title=title, title_justify="left", title_style="bold")
    definitions = table["columnDefinitions"]
    columns = [i for i, column in enumerate(definitions) if column.get("priority", 0) == 0]
    rows = table.get("rows") or []
    spaces = [row["object"]["metadata"].get("namespace", "") for row in rows]
    several = len(set(spaces)) > 1
    if several:
        shown.add_column("Namespace")
    for i in columns:
        number = definitions[i]["type"] in {"integer", "number"}
        shown.add_column(definitions[i]["name"], justify="right" if number else "left")
    for row, space in zip(rows, spaces, strict=True):
        cells = [_text(row["cells"][i]) for i in columns]
        shown.add_row(*([space] if several else []), *cells)
    return shown


def _text(cell: object) -> str:
    return "" if cell is None else rich.markup.escape(str(cell))
