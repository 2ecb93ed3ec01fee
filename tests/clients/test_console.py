"""The console's form over options that a list holds, and the example it is drawn from; no plane."""

import json
from pathlib import Path

import pytest
import yaml

from apiserver.resources import options
from tests.clients import console
from tests.clients.console import Choice, Field, Widget
from tests.clients.host_options import RECORDED

EXAMPLE = Path(__file__).parents[2] / "examples" / "application-definition.yaml"


class Lists:
    """A client that lists what it was given."""

    def __init__(self, items) -> None:
        self.items = items

    async def list(self, _kind, _namespace):
        return self

    resource_version = "0"


def test_the_example_names_sources_that_are_served_in_the_places_the_console_looks():
    application = yaml.safe_load(EXAMPLE.read_text())["spec"]["application"]
    text = application["openAPISchema"]
    found = list(console.fields(json.loads(text)))
    assert {one.source for one in found} == {"gpuclass", "gpuclaim"}
    assert {one.source for one in found} <= set(options.SOURCES)
    assert text.count(console.KEYWORD) == len(found), "a source where the console does not look"
    assert application["kind"].lower() == application["singular"]


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"properties": {"a": {console.KEYWORD: {"source": "gpu"}}}}, [("a", "gpu")]),
        ({"items": {console.KEYWORD: {"source": "gpu"}}}, [("[]", "gpu")]),
        (
            {"properties": {"pools": {"additionalProperties": {
                "properties": {"name": {console.KEYWORD: {"source": "gpuclass"}}}}}}},
            [("pools.*.name", "gpuclass")],
        ),
        ({"additionalProperties": False}, []),
        ({"oneOf": [{console.KEYWORD: {"source": "gpu"}}]}, []),
    ],
)  # fmt: skip
def test_sources_are_found_where_the_console_looks_and_nowhere_else(schema, found):
    assert list(console.fields(schema)) == [Field(*one) for one in found]


async def test_a_default_fills_an_empty_field_once():
    """Recorded of the host's storage classes; none of our sources has a default."""
    form = Widget(Lists(RECORDED["list"]["body"]["items"]), "tenant-a", "storageclass")
    await form.load()
    assert (form.value, form.shown) == ("replicated", "replicated (default)")
    form.value = ""
    await form.load()
    assert form.value == ""


async def test_a_choice_without_a_label_shows_its_value():
    form = Widget(Lists(RECORDED["list"]["body"]["items"]), "tenant-a", "gpu")
    await form.load()
    name = "nvidia.com/AD102GL_L40S"
    assert form.choices[0] == Choice(name, name, "16 available on node-12, node-4")
