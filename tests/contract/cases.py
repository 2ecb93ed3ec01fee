"""What an API server does with one client's calls: the same cases for the real one and the fake.

Each case gets an API and a namespace of its own. A case says only what both can be held to.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from gpu.cluster import errors
from gpu.objects import kinds
from gpu.objects.kinds import Kind

THING = Kind("contract.example.com", "v1", "things", "Thing")
"""A kind with a status subresource, `conditions` as a map by type, and `.spec.node` selectable."""

Case = Callable[[Any, str], Awaitable[None]]
CASES: list[Case] = []


def case(run: Case) -> Case:
    CASES.append(run)
    return run


def thing(namespace: str, name: str = "one", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def version(body: dict[str, Any]) -> int:
    return int(body["metadata"]["resourceVersion"])


@case
async def created_object_has_identity_and_no_status(api: Any, ns: str) -> None:
    made = await api.create(THING, thing(ns, n=1) | {"status": {"phase": "Bound"}})
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["uid"]
    assert version(made) > 0
    assert (made["apiVersion"], made["kind"]) == ("contract.example.com/v1", "Thing")
    assert "status" not in made
    assert await api.get(THING, "one", ns) == made


@case
async def create_of_a_name_that_is_there_is_already_exists(api: Any, ns: str) -> None:
    await api.create(THING, thing(ns))
    with pytest.raises(errors.AlreadyExists):
        await api.create(THING, thing(ns))


@case
async def missing_object_is_not_found_for_every_verb(api: Any, ns: str) -> None:
    for call in (
        api.get(THING, "none", ns),
        api.patch(THING, "none", {"spec": {"n": 1}}, ns),
        api.patch(THING, "none", {"status": {"n": 1}}, ns, subresource="status"),
        api.delete(THING, "none", ns),
    ):
        with pytest.raises(errors.NotFound) as caught:
            await call
        assert not caught.value.of_kind


@case
async def kind_that_is_not_served_is_not_found_of_kind(api: Any, ns: str) -> None:
    unserved = Kind("contract.example.com", "v1", "ghosts", "Ghost")
    if hasattr(api, "unserve"):
        api.unserve(unserved)
    for call in (api.list(unserved), api.get(unserved, "a", ns)):
        with pytest.raises(errors.NotFound) as caught:
            await call
        assert caught.value.of_kind


@case
async def main_write_ignores_status_and_status_write_ignores_spec(api: Any, ns: str) -> None:
    made = await api.create(THING, thing(ns, n=1))
    both = {"spec": {"n": 2}, "status": {"phase": "Bound"}}
    main = await api.patch(THING, "one", both, ns)
    assert (main["spec"], main.get("status")) == ({"n": 2}, None)
    again = {"spec": {"n": 3}, "status": {"phase": "Lost"}}
    status = await api.patch(THING, "one", again, ns, subresource="status")
    assert (status["spec"], status["status"]) == ({"n": 2}, {"phase": "Lost"})
    assert [each["metadata"]["generation"] for each in (made, main, status)] == [1, 2, 2]
    assert version(made) < version(main) < version(status)


@case
async def merge_patch_takes_away_with_null_and_replaces_lists(api: Any, ns: str) -> None:
    await api.create(THING, thing(ns, a={"x": 1, "y": 2}, list=[1, 2]))
    done = await api.patch(THING, "one", {"spec": {"a": {"x": None}, "list": [3]}}, ns)
    assert done["spec"] == {"a": {"y": 2}, "list": [3]}


@case
async def write_that_changes_nothing_keeps_the_version(api: Any, ns: str) -> None:
    made = await api.create(THING, thing(ns, n=1))
    assert version(await api.patch(THING, "one", {"spec": {"n": 1}}, ns)) == version(made)


@case
async def patch_with_an_old_version_is_a_conflict(api: Any, ns: str) -> None:
    made = await api.create(THING, thing(ns, n=1))
    await api.patch(THING, "one", {"spec": {"n": 2}}, ns)
    old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    for sub, change in ((None, {"spec": {"n": 3}}), ("status", {"status": {"phase": "Bound"}})):
        with pytest.raises(errors.Conflict):
            await api.patch(THING, "one", old | change, ns, subresource=sub)
    assert (await api.get(THING, "one", ns))["spec"] == {"n": 2}


@case
async def update_with_an_old_version_is_a_conflict_and_with_none_invalid(api: Any, ns: str) -> None:
    made = await api.create(THING, thing(ns, n=1))
    done = await api.update(THING, {**made, "spec": {"n": 2}})
    assert done["spec"] == {"n": 2}
    with pytest.raises(errors.Conflict):
        await api.update(THING, {**made, "spec": {"n": 3}})
    with pytest.raises(errors.Invalid):
        await api.update(THING, thing(ns, n=4))


@case
async def dry_run_answers_and_stores_nothing(api: Any, ns: str) -> None:
    answer = await api.create(THING, thing(ns, n=1), dry_run=True)
    assert answer["spec"] == {"n": 1}
    with pytest.raises(errors.NotFound):
        await api.get(THING, "one", ns)


@case
async def delete_with_another_uid_is_a_conflict(api: Any, ns: str) -> None:
    made = await api.create(THING, thing(ns))
    with pytest.raises(errors.Conflict):
        await api.delete(THING, "one", ns, uid="another")
    await api.delete(THING, "one", ns, uid=made["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await api.get(THING, "one", ns)


@case
async def delete_with_an_older_version_is_a_conflict(api: Any, ns: str) -> None:
    made = await api.create(THING, thing(ns))
    await api.patch(THING, "one", {"status": {"phase": "changed"}}, ns, subresource="status")
    old = {"uid": made["metadata"]["uid"], "resource_version": made["metadata"]["resourceVersion"]}
    with pytest.raises(errors.Conflict):
        await api.delete(THING, "one", ns, **old)
    now = await api.get(THING, "one", ns)
    old["resource_version"] = now["metadata"]["resourceVersion"]
    await api.delete(THING, "one", ns, **old)
    with pytest.raises(errors.NotFound):
        await api.get(THING, "one", ns)


@case
async def finalizer_keeps_a_deleted_object_until_it_is_taken_away(api: Any, ns: str) -> None:
    body = thing(ns, n=1)
    body["metadata"]["finalizers"] = ["contract.example.com/hold"]
    await api.create(THING, body)
    await api.delete(THING, "one", ns)
    held = await api.get(THING, "one", ns)
    assert held["metadata"]["deletionTimestamp"]
    await api.delete(THING, "one", ns)
    await api.patch(THING, "one", {"metadata": {"finalizers": None}}, ns)
    with pytest.raises(errors.NotFound):
        await api.get(THING, "one", ns)


@case
async def apply_creates_then_changes_only_its_own_fields(api: Any, ns: str) -> None:
    await api.apply(THING, "one", {"spec": {"a": 1, "b": 1}}, ns, field_manager="first")
    await api.apply(THING, "one", {"spec": {"c": 1}}, ns, field_manager="second")
    done = await api.apply(THING, "one", {"spec": {"a": 2}}, ns, field_manager="first")
    assert done["spec"] == {"a": 2, "c": 1}


@case
async def apply_of_a_status_shares_a_list_that_is_a_map(api: Any, ns: str) -> None:
    await api.create(THING, thing(ns))

    async def apply(manager: str, *conditions: tuple[str, str]) -> dict[str, Any]:
        rows = [{"type": kind, "status": status} for kind, status in conditions]
        body = {"status": {"conditions": rows}}
        done = await api.apply(THING, "one", body, ns, field_manager=manager, subresource="status")
        return {row["type"]: row["status"] for row in done["status"].get("conditions", ())}

    await apply("agent", ("Ready", "True"), ("Fresh", "True"))
    assert await apply("binder", ("Bound", "False")) == {
        "Ready": "True",
        "Fresh": "True",
        "Bound": "False",
    }
    assert await apply("agent", ("Ready", "False")) == {"Ready": "False", "Bound": "False"}


@case
async def list_selects_by_label_and_by_field(api: Any, ns: str) -> None:
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        body = thing(ns, name, node=node)
        body["metadata"]["labels"] = {"letter": name}
        await api.create(THING, body)

    async def names(**which: str) -> list[str]:
        page = await api.list_all(THING, ns, **which)
        return [item["metadata"]["name"] for item in page.items]

    assert await names() == ["a", "b", "c"]
    assert await names(label_selector="letter=b") == ["b"]
    assert await names(label_selector="letter!=b") == ["a", "c"]
    assert await names(field_selector="spec.node=n1") == ["a", "b"]
    assert await names(field_selector="metadata.name=c") == ["c"]


@case
async def pages_of_a_list_are_one_version_of_it(api: Any, ns: str) -> None:
    for name in "abc":
        await api.create(THING, thing(ns, name))
    first = await api.list(THING, ns, limit=2)
    await api.create(THING, thing(ns, "d"))
    second = await api.list(THING, ns, limit=2, continue_=first.continue_)
    names = [item["metadata"]["name"] for page in (first, second) for item in page.items]
    assert (names, second.continue_) == (["a", "b", "c"], "")
    assert first.resource_version == second.resource_version


@case
async def watch_from_a_list_tells_what_came_after_it(api: Any, ns: str) -> None:
    await api.create(THING, thing(ns, "old"))
    since = (await api.list(THING, ns)).resource_version
    made = await api.create(THING, thing(ns, n=1))
    done = await api.patch(THING, "one", {"spec": {"n": 2}}, ns)
    await api.delete(THING, "one", ns)
    seen = []
    opened: list[bool] = []
    watch = api.watch(THING, ns, resource_version=since, opened=lambda: opened.append(True))
    async with aclosing(watch) as events:
        async for event in events:
            seen.append((event.type, event.object["spec"], version(event.object)))
            if event.type == "DELETED":
                break
    assert opened == [True]
    assert seen[:2] == [
        ("ADDED", {"n": 1}, version(made)),
        ("MODIFIED", {"n": 2}, version(done)),
    ]
    assert seen[2][:2] == ("DELETED", {"n": 2})
    assert seen[2][2] > version(done)


@case
async def watch_tells_an_object_that_leaves_its_selection_as_deleted(api: Any, ns: str) -> None:
    since = (await api.list(THING, ns)).resource_version
    await api.create(THING, thing(ns, node="n1"))
    moved = await api.patch(THING, "one", {"spec": {"node": "n2"}}, ns)
    seen = []
    watch = api.watch(THING, ns, resource_version=since, field_selector="spec.node=n1")
    async with aclosing(watch) as events:
        async for event in events:
            seen.append((event.type, version(event.object)))
            if event.type == "DELETED":
                break
    assert seen[-1] == ("DELETED", version(moved))
    assert seen[0][0] == "ADDED"


@case
async def watch_ends_by_itself_without_an_error(api: Any, ns: str) -> None:
    since = (await api.list(THING, ns)).resource_version
    watch = api.watch(THING, ns, resource_version=since, timeout_seconds=1)
    async with aclosing(watch) as events:
        assert [event.type async for event in events if event.type != "BOOKMARK"] == []


@case
async def lease_is_taken_by_compare_and_swap(api: Any, ns: str) -> None:
    lease = {"metadata": {"name": "l", "namespace": ns}, "spec": {"holderIdentity": "a"}}
    made = await api.create(kinds.LEASES, lease)
    done = await api.update(kinds.LEASES, {**made, "spec": {"holderIdentity": "b"}})
    assert done["spec"] == {"holderIdentity": "b"}
    with pytest.raises(errors.Conflict):
        await api.update(kinds.LEASES, {**made, "spec": {"holderIdentity": "c"}})
