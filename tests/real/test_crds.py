"""What the real API server accepts and refuses of our four kinds, each refusal with its words."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from devcluster.plane import ControlPlane
from gpu.cluster import client, errors
from tests.real import (
    crd_rows_bounds,
    crd_rows_claims,
    crd_rows_classes,
    crd_rows_nodes,
    crd_rows_times,
)
from tests.real.crd_rows import BASES, Row, Step, merged
from tests.real.installed import installed

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = (
    *crd_rows_classes.ROWS,
    *crd_rows_claims.ROWS,
    *crd_rows_nodes.ROWS,
    *crd_rows_bounds.ROWS,
    *crd_rows_times.ROWS,
)
INCOMPLETE = "some validation rules were not checked because the object was invalid"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(fresh_plane: ControlPlane) -> AsyncIterator[client.Client]:
    async with installed(fresh_plane) as found:
        yield found


def body_of(row: Row) -> dict[str, Any]:
    body = merged(BASES[row.kind], row.given)
    return {**body, "metadata": {"name": "row", **body.get("metadata", {})}}


async def write(api: client.Client, row: Row, stored: Mapping[str, Any], step: Step):
    if step.replace:
        body = merged(stored, step.patch)
        return await api.update(row.kind, body, subresource=step.subresource)
    name, namespace = stored["metadata"]["name"], stored["metadata"].get("namespace")
    return await api.patch(row.kind, name, step.patch, namespace, subresource=step.subresource)


async def judge(api: client.Client, row: Row) -> None:
    """Write what the row judges; raises Invalid where the server refuses it."""
    body = body_of(row)
    if not row.steps:
        await api.create(row.kind, body, dry_run=True)
        return
    stored = await api.create(row.kind, body)
    try:
        for step in row.steps[:-1]:
            try:
                stored = await write(api, row, stored, step)
            except errors.Invalid as error:
                pytest.fail(f"a step before the judged one was refused: {error}")
        await write(api, row, stored, row.steps[-1])
    finally:
        await api.delete(row.kind, body["metadata"]["name"], body["metadata"].get("namespace"))


def in_words_of(row: Row, cause: errors.Cause) -> tuple[str, str]:
    """Return the cause as the row has it, without the value that the server puts in front."""
    ends = [end for field, end in row.refused if field == cause.field]
    return cause.field, next((end for end in ends if cause.message.endswith(end)), cause.message)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.title)
async def test_the_api_server_judges(api: client.Client, row: Row):
    said: list[tuple[str, str]] = []
    try:
        await judge(api, row)
    except errors.Invalid as error:
        causes = [c for c in error.details.causes if INCOMPLETE not in c.message]
        said = sorted(in_words_of(row, cause) for cause in causes) or [("", str(error))]
    assert said == sorted(row.refused)


async def test_every_title_says_its_row():
    titles = [row.title for row in ROWS]
    assert sorted(set(titles)) == sorted(titles)
    wrong = [row.title for row in ROWS if ("is refused" in row.title) and not row.refused]
    assert wrong == []
    wrong = [row.title for row in ROWS if ("accepted" in row.title) and row.refused]
    assert wrong == []
