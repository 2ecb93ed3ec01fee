"""Scenes for phase tests: a World of raw objects, at one instant."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from gpu.binder.phase import Scene
from gpu.config import Config
from gpu.model.draft import Draft
from gpu.model.sightings import Sightings
from gpu.world import World
from tests.binder import raws

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def a_scene(
    *,
    skip: Iterable[str] = (),
    config: Config | None = None,
    sightings: Sightings | None = None,
    **objects: Iterable[raws.Raw],
) -> Scene:
    world = raws.a_world(**objects)
    return scene_of(world, skip=skip, config=config, sightings=sightings)


def scene_of(
    world: World,
    *,
    skip: Iterable[str] = (),
    config: Config | None = None,
    sightings: Sightings | None = None,
) -> Scene:
    return Scene(
        world=world,
        draft=Draft.of(world.snapshot),
        config=config or Config(),
        now=NOW,
        skip=frozenset(skip),
        sightings=sightings or Sightings(),
    )


def only(items: Iterable[Any]) -> Any:
    """The one item there is."""
    (item,) = items
    return item
