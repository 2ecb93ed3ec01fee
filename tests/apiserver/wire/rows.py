"""Rows with good defaults."""

from datetime import UTC, datetime

from apiserver.wire.items import Row, Type
from apiserver.wire.table import Column

KIND = Type("g.io", "v1", "Word")
COLUMNS = (Column(name="Text", description="The text."),)
CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_row(name: str, text: str = "", *, namespace: str = "ns", **labels: str) -> Row:
    return Row(
        namespace=namespace,
        name=name,
        uid=f"uid-{namespace}-{name}",
        created=CREATED,
        labels=labels,
        body={"spec": {"text": text}},
        cells=(text,),
    )


def rows(*names: str) -> list[Row]:
    """One row for each `name` or `name=text`."""
    return [a_row(*name.split("=")) for name in names]
