"""Answers of one state are encoded and compressed once, and never outlive it."""

import gzip
import json

import pytest

from apiserver.routes import answers
from apiserver.wire import listing
from gpu import keys
from tests.apiserver import fakes

ROOT = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
A = f"{ROOT}/namespaces/tenant-a/words"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
WORDS = {"a": "x", "b": "under"}


@pytest.fixture
def face():
    return fakes.a_face(fakes.words_world(tenant_a=WORDS))


@pytest.fixture
def made(monkeypatch):
    """What was encoded, as it comes."""
    found = []
    for name in ("render", "render_one"):
        real = getattr(listing, name)
        monkeypatch.setattr(
            listing, name, lambda *args, real=real, name=name: found.append(name) or real(*args)
        )
    return found


async def test_a_list_and_an_object_are_encoded_once_for_each_form(serve, face, made):
    client = await serve(face)
    for accept in ("application/json", TABLE):
        bodies = [
            await (await client.get(A, headers={"Accept": accept}, params=params)).json()
            for params in ({}, {"limit": "2"}, {"limit": "500"}, {"resourceVersion": "0"})
        ]
        assert bodies == bodies[:1] * 4
    for _ in range(3):
        await client.get(f"{A}/a")
    assert made == ["render", "render", "render_one"]


async def test_what_narrows_a_list_is_not_answered_from_the_whole(serve, face):
    client = await serve(face)
    await client.get(A)
    for params in (
        {"limit": "1"},
        {"labelSelector": "vowel"},
        {"fieldSelector": "metadata.name=a"},
    ):
        found = await (await client.get(A, params=params)).json()
        assert len(found["items"]) == 1


async def test_a_change_and_a_proved_version_are_seen_at_once(serve, face, made):
    client = await serve(face)
    first = await (await client.get(A)).json()
    face.source.version += 5
    proved = await (await client.get(A)).json()
    assert proved["items"] == first["items"]
    versions = [int(one["metadata"]["resourceVersion"]) for one in (first, proved)]
    assert versions[1] == versions[0] + 5
    face.source.set(fakes.words_world(tenant_a={"a": "new"}))
    assert [one["spec"] for one in (await (await client.get(A)).json())["items"]] == [
        {"text": "new"}
    ]
    one = await (await client.get(f"{A}/a")).json()
    assert one["spec"] == {"text": "new"}
    assert (await client.get(f"{A}/b")).status == 404


async def test_a_long_list_is_compressed_once_for_all_who_take_it_so(serve, face, monkeypatch):
    monkeypatch.setattr(answers, "GZIP_FROM", 100)
    packed = []
    real = gzip.compress
    monkeypatch.setattr(gzip, "compress", lambda *a, **how: packed.append(a) or real(*a, **how))
    client = await serve(face)
    headers = [
        {"Accept-Encoding": "gzip"},
        {"Accept-Encoding": "gzip"},
        {"Accept-Encoding": "identity"},
    ]
    found = [await client.get(A, headers=one) for one in headers]
    assert [one.headers.get("Content-Encoding") for one in found] == ["gzip", "gzip", None]
    assert {one.headers["Vary"] for one in found} == {"Accept, Accept-Encoding"}
    bodies = [await one.read() for one in found]
    assert json.loads(bodies[0]) == json.loads(bodies[2])
    assert len(packed) == 1


async def test_what_callers_make_up_is_not_remembered_without_bound(serve, face):
    client = await serve(face)
    for number in range(20):
        await client.get(f"{A}/nobody-{number}")
        await client.get(A, params={"labelSelector": f"a{number}"})
    feed, _, _ = await face.projection.read(fakes.WORDS, "tenant-a")
    assert len(feed.rendered._bodies) == 0
