"""What is said of a question as a Table or as metadata alone, as a CRD's object that was created."""

import asyncio

import pytest

from apiserver.resources import RESOURCES
from apiserver.views import Pace, Views
from gpu import keys
from tests.apiserver import fakes
from tests.builders import a_class, a_namespace, a_node, a_world

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
TENANT = f"{ROOT}/namespaces/tenant-a"
ORDERS = f"{TENANT}/orderreviews"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
META = {"name": "mine", "namespace": "tenant-a"}
ASKED = {"metadata": {"name": "mine"}, "spec": {"className": "h100", "count": 6}}


@pytest.fixture
async def client(serve):
    world = a_world(
        classes=[a_class()], nodes=[a_node(units=4)], namespaces=[a_namespace("tenant-a")]
    )
    views = Views(fakes.FakeSource(world), pace=Pace(fresh=0.5))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(views.run())
        yield await serve(fakes.a_face(world), resources=RESOURCES, views=views)
        task.cancel()


async def ask(client, path, accept, body=ASKED):
    answer = await client.post(path, json=body, headers={"Accept": accept})
    return answer.status, await answer.json()


async def test_an_answer_is_a_table_of_one_row_to_who_asks_for_that(client):
    code, found = await ask(client, ORDERS, TABLE)
    (row,) = found["rows"]
    assert (code, found["kind"], found["apiVersion"]) == (201, "Table", "meta.k8s.io/v1")
    names = [column["name"] for column in found["columnDefinitions"]]
    assert names == ["Name", "Allowed", "Most accepted", "Why"]
    assert row["cells"][:3] == ["mine", False, 4]
    assert row["cells"][3].startswith("6 units")
    assert row["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": META,
    }


@pytest.mark.parametrize(
    ("include", "kind"),
    [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "OrderReview")],
)
async def test_the_row_of_an_answer_has_the_object_as_it_is_asked_for(client, include, kind):
    unnamed = {"spec": {"className": "h100", "count": 2}}
    _, found = await ask(client, f"{ORDERS}?includeObject={include}", TABLE, unnamed)
    (row,) = found["rows"]
    assert (row["object"] or {}).get("kind") == kind
    assert row["cells"] == ["", True, 4, ""]


async def test_an_object_that_is_asked_for_in_no_known_way_is_a_bad_request(client):
    code, found = await ask(client, f"{ORDERS}?includeObject=x", TABLE)
    assert (code, found["message"]) == (400, 'unrecognized includeObject value: "x"')


async def test_an_answer_is_its_metadata_to_who_asks_for_that(client):
    assert await ask(client, ORDERS, PARTIAL) == (
        201,
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": META},
    )


async def test_an_answer_is_no_list(client):
    assert (await ask(client, ORDERS, LIST))[0] == 406


@pytest.mark.parametrize(
    ("path", "spec", "cells"),
    [
        pytest.param(
            f"{TENANT}/quotareviews",
            {"resourceQuotas": {"gpu.cozystack.io/total": 1}},
            ["Allowed", True, "Why", ""],
            id="quotas-granted",
        ),
        pytest.param(
            f"{TENANT}/quotareviews",
            {"resourceQuotas": {"gpu.cozystack.io/zz": 1, "gpu.cozystack.io/z": 1}},
            [
                *("Allowed", False, "Why"),
                "; ".join(
                    f"Forbidden: gpu.cozystack.io/{key} is no GPU quota key; valid keys: "
                    "gpu.cozystack.io/total, gpu.cozystack.io/h100"
                    for key in ("z", "zz")
                ),
            ],
            id="quotas-refused",
        ),
        pytest.param(
            f"{ROOT}/whatifs",
            {"loseNode": {"nodeName": "n1"}},
            ["Tells", "nothing changes for any claim or waiting VM"],
            id="what-if",
        ),
    ],
)
async def test_each_question_is_told_in_columns_of_its_own(client, path, spec, cells):
    code, found = await ask(client, path, TABLE, {"spec": spec})
    names = [column["name"] for column in found["columnDefinitions"]][1:]
    said = found["rows"][0]["cells"][1:]
    assert (code, names, said) == (201, cells[::2], cells[1::2]), found


async def test_a_namespace_in_what_is_outside_of_namespaces_is_passed_over(client):
    body = {"metadata": {"name": "m", "namespace": "x"}, "spec": {"loseNode": {"nodeName": "n1"}}}
    code, found = await ask(client, f"{ROOT}/whatifs", "application/json", body)
    assert (code, found["metadata"]) == (201, {"name": "m"})
