"""Scenes for phase tests: a World of raw objects, at one instant."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from gpu.binder.phase import Scene
from gpu.config import Config
from gpu.world import World
from tests.binder import raws

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def a_scene(
    *,
    skip: Iterable[str] = (),
    config: Config | None = None,
    **objects: Iterable[raws.Raw],
) -> Scene:
    return scene_of(raws.a_world(**objects), skip=skip, config=config)


def scene_of(world: World, *, skip: Iterable[str] = (), config: Config | None = None) -> Scene:
    return Scene(
        world=world,
        draft=world.snapshot.draft(),
        config=config or Config(),
        now=NOW,
        skip=frozenset(skip),
    )


def only(items: Iterable[Any]) -> Any:
    """The one item there is."""
    (item,) = items
    return item
