"""HTTP stories: a cluster, requests one after another, and what each must answer.

A story is a YAML file: `cluster` holds objects as stored, `settings` the settings in force; each of
`steps` may first change the cluster (`put`, `remove`), then asks: `get` a path, or `post` to one what
`ask` holds. `body` is matched as a part:
objects may have more members, arrays must have as many elements.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import structlog
import yaml

from apiserver.resources import RESOURCES
from apiserver.views import Pace, Views
from gpu import keys, settings
from gpu.objects import claims, classes, kubevirt, nodes, pods, tenants
from gpu.world import World
from openapi import document, meta
from tests.apiserver import fakes

FOLDER = Path(__file__).parent
STORIES = {path.stem: yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yaml")}
ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"

DECODE = {
    "GPUClass": ("classes", classes.decode),
    "GPUClaim": ("claims", claims.decode),
    "GPUNode": ("inventory", nodes.decode_inventory),
    "Node": ("nodes", nodes.decode),
    "Pod": ("pods", pods.decode),
    "VirtualMachineInstance": ("vmis", kubevirt.decode_vmi),
    "Namespace": ("namespaces", tenants.decode_namespace),
    "HelmRelease": ("releases", tenants.decode_release),
    "ResourceQuota": ("quotas", tenants.decode_quota),
    "KubeVirt": ("kubevirts", kubevirt.decode_kubevirt),
}
SCHEMAS = document.schemas()


class Cluster:
    """The objects of a story, and the World they make."""

    def __init__(self, story: dict) -> None:
        self.objects: dict[tuple[str, str, str], dict] = {}
        self.settings = settings.parse_data(
            {"resourceNames": "", "rawResourceNames": "denied", **story.get("settings", {})}
        )
        for body in story["cluster"]:
            self.put(body)

    def put(self, body: dict) -> None:
        meta = {"uid": f"uid-{body['metadata']['name']}", **body["metadata"]}
        meta.setdefault("creationTimestamp", "2026-01-02T03:04:05Z")
        key = (body["kind"], meta.get("namespace", ""), meta["name"])
        self.objects[key] = {**body, "metadata": meta}

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        del self.objects[kind, namespace, name]

    def world(self) -> World:
        found: dict[str, list] = {field: [] for field, _ in DECODE.values()}
        for (kind, _, _), body in sorted(self.objects.items()):
            field, decode = DECODE[kind]
            found[field].append(decode(body))
        made = World(**{field: tuple(items) for field, items in found.items()})
        return replace(made, settings=self.settings)


def differences(expected: object, seen: object, path: str = "body") -> list[str]:
    """Where what was seen is not what was expected; empty when it is."""
    if isinstance(expected, dict) and isinstance(seen, dict):
        return [
            line
            for key, value in expected.items()
            for line in differences(value, seen.get(key), f"{path}.{key}")
        ]
    if isinstance(expected, list) and isinstance(seen, list):
        if len(expected) != len(seen):
            return [f"{path}: {len(seen)} elements instead of {len(expected)}: {seen}"]
        pairs = zip(expected, seen, strict=True)
        return [
            line
            for index, (one, other) in enumerate(pairs)
            for line in differences(one, other, f"{path}[{index}]")
        ]
    return [] if expected == seen else [f"{path}: {seen!r} instead of {expected!r}"]


@pytest.mark.parametrize("name", sorted(STORIES))
async def test_a_story_goes_as_told(name, aiohttp_client):
    story = STORIES[name]
    cluster = Cluster(story)
    face = fakes.a_face(await asyncio.to_thread(cluster.world))
    # Whoever answers reads it on a thread of its own, so each has a snapshot of its own.
    seen = fakes.FakeSource(await asyncio.to_thread(cluster.world))
    views = Views(seen, pace=Pace(fresh=1.0))
    client = await aiohttp_client(face.build(resources=RESOURCES, views=views))
    wrong: list[str] = []
    with structlog.testing.capture_logs():
        async with running(face.projection, views):
            for step in story["steps"]:
                await change((face.source, seen), cluster, step)
                wrong += [f"{step['what']}: {line}" for line in await ask(client, step)]
    assert wrong == []


@contextlib.asynccontextmanager
async def running(*parts):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in parts]
        yield
        for task in tasks:
            task.cancel()


async def change(sources: Sequence[fakes.FakeSource], cluster: Cluster, step: dict) -> None:
    for body in step.get("put", []):
        cluster.put(body)
    for gone in step.get("remove", []):
        cluster.remove(gone["kind"], gone["name"], gone.get("namespace", ""))
    if "put" in step or "remove" in step:
        for source in sources:
            source.set(await asyncio.to_thread(cluster.world))


async def ask(client, step: dict) -> list[str]:
    headers = {"Accept": step.get("accept", "application/json")}
    if "post" in step:
        answer = await client.post(ROOT + step["post"], json=step["ask"], headers=headers)
    else:
        answer = await client.get(ROOT + step["get"], headers=headers)
    code = step.get("code", 201 if "post" in step else 200)
    if answer.status != code:
        return [f"answered {answer.status} instead of {code}: {await answer.text()}"]
    found = await answer.json()
    return [*differences(step["body"], found), *against_schema(found)]


def against_schema(found: dict) -> list[str]:
    """Judge an answer by the schema that is served for its kind; Tables and Statuses have none."""
    name = f"{meta.PREFIX}catalog.v1alpha1.{found['kind']}"
    if name not in SCHEMAS:
        return []
    schema = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": SCHEMAS}}
    judge = jsonschema.Draft202012Validator(schema)
    extra = [f"{path}: not in the schema" for path in unknown(found, SCHEMAS[name])]
    return [error.message for error in judge.iter_errors(found)] + extra


def unknown(value: object, schema: dict, path: str = "") -> list[str]:
    """Members of an answer that the served schema does not describe."""
    while "allOf" in schema or "$ref" in schema:
        target = schema["$ref"] if "$ref" in schema else schema["allOf"][0]["$ref"]
        schema = SCHEMAS[target.rsplit("/", 1)[-1]]
    if isinstance(value, list):
        return [line for one in value for line in unknown(one, schema["items"], f"{path}[]")]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    known = schema["properties"]
    return [f"{path}.{key}" for key in value if key not in known] + [
        line
        for key, one in value.items()
        if key in known
        for line in unknown(one, known[key], f"{path}.{key}")
    ]


def test_a_difference_is_seen():
    """The matcher itself must be able to fail."""
    assert differences({"a": [1]}, {"a": [1], "b": 2}) == []
    assert differences({"a": [1]}, {"a": [1, 2]}) == ["body.a: 2 elements instead of 1: [1, 2]"]
    assert differences({"a": {"b": 1}}, {"a": {}}) == ["body.a.b: None instead of 1"]
    assert unknown({"spec": {"nope": 1}}, SCHEMAS[f"{meta.PREFIX}catalog.v1alpha1.Option"]) == [
        ".spec.nope"
    ]
    assert differences({"a": 1}, []) == ["body: [] instead of {'a': 1}"]
