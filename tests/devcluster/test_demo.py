"""The demo around its story: where it plays, what it refuses, what it draws; and the examples."""

import shutil
from pathlib import Path

import pytest
import rich.console

from devcluster import control_plane, demo, errors, examples, progress, story, tables, tenants


def test_by_default_it_plays_on_a_plane_of_its_own():
    assert demo.setting({"XDG_STATE_HOME": "/s", "KUBECONFIG": "/k"}, port=6443) == demo.Setting(
        directory=Path("/s/cozystack-gpu/demo"), port=6443
    )


def test_an_external_cluster_is_used_only_when_asked_for():
    environ = {"XDG_STATE_HOME": "/s", "KUBECONFIG": "/k", "CLUSTER": "external"}
    assert demo.setting(environ).kubeconfig == Path("/k")


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        pytest.param(
            {"CLUSTER": "external"},
            "CLUSTER=external needs KUBECONFIG, the cluster's kubeconfig.",
            id="no-kubeconfig",
        ),
        pytest.param(
            {"CLUSTER": "kind"},
            "CLUSTER=kind is unknown: leave it out or set external.",
            id="unknown-cluster",
        ),
    ],
)
def test_a_setting_that_makes_no_sense_is_one_message(environ, message):
    with pytest.raises(errors.DevclusterError) as caught:
        demo.setting(environ)
    assert str(caught.value) == message


async def test_a_full_disk_is_told_before_anything_starts(tmp_path: Path, monkeypatch):
    async def no_build():
        return {}

    async def must_not_start(*args, **kwargs):
        pytest.fail("started something")

    usage = type(shutil.disk_usage("/"))(total=10, used=10, free=3 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr("devcluster.binaries.build", no_build)
    monkeypatch.setattr(control_plane, "start", must_not_start)
    with pytest.raises(errors.DevclusterError) as caught:
        await demo.up(demo.Setting(directory=tmp_path / "none"))
    assert str(caught.value) == (
        f"The disk is nearly full: 3 MiB free at {tmp_path}, 512 MiB are needed."
    )


async def test_down_where_nothing_runs_says_so(tmp_path: Path, capsys):
    await demo.down(demo.Setting(directory=tmp_path / "none"))
    assert capsys.readouterr().out == "nothing of a demo was running\n"


def test_a_table_has_the_columns_kubectl_shows():
    table = {
        "columnDefinitions": [
            {"name": "Name", "type": "string"},
            {"name": "Free", "type": "integer"},
            {"name": "Hidden", "type": "string", "priority": 1},
        ],
        "rows": [
            {"cells": ["a[b]", 3, "x"], "object": {"metadata": {"namespace": "one"}}},
            {"cells": ["c", None, "x"], "object": {"metadata": {"namespace": "two"}}},
        ],
    }
    console = rich.console.Console(width=60)
    with console.capture() as captured:
        console.print(tables.draw(table, "Title"))
    words = [line.split() for line in captured.get().splitlines()]
    assert [[w for w in line if w.isalnum() or "[" in w] for line in words if len(line) > 3] == [
        ["Namespace", "Name", "Free"],
        ["one", "a[b]", "3"],
        ["two", "c"],
    ]


def test_a_table_without_rows_is_drawn():
    shown = tables.draw({"columnDefinitions": [{"name": "N", "type": "string"}], "rows": None}, "")
    assert (shown.row_count, len(shown.columns)) == (0, 1)


@pytest.mark.parametrize(
    ("tenant", "quotas", "entitled"),
    [
        pytest.param(
            "acme", {"gpu.cozystack.io/total": 8, "gpu.cozystack.io/h100": 4}, False, id="acme"
        ),
        pytest.param(
            "globex",
            {"gpu.cozystack.io/h100": 2, "gpu.cozystack.io/l40s-quarter": 4},
            True,
            id="globex",
        ),
    ],
)
def test_the_example_tenants_are_what_the_host_makes(tenant, quotas, entitled):
    written = examples.load(f"tenants/{tenant}.yaml")
    assert written == tuple(tenants.objects(f"tenant-{tenant}", quotas, entitled=entitled))


OF_THE_HOST = {"application-definition.yaml"}
"""Examples of the host's catalogue, which no plane of ours has; tests/clients reads them."""


def test_every_example_is_of_a_kind_the_demo_can_make():
    charts = {path.parent for path in examples.FOLDER.rglob("Chart.yaml")}
    for path in examples.FOLDER.rglob("*.yaml"):
        if charts & set(path.parents):
            continue  # helm's, not kubectl's
        if path.name in OF_THE_HOST:
            continue
        for body in examples.load(str(path.relative_to(examples.FOLDER))):
            assert examples.kind_of(body).kind == body["kind"]


def test_the_catalogue_is_served_by_the_simulated_nodes():
    served = {resource for node in story.NODES for resource in node.resources}
    wanted = {
        body["spec"]["source"]["devicePlugin"]["resourceName"]
        for body in examples.load("catalogue.yaml")
    }
    assert wanted == served


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        pytest.param(0.44, "0.4 s", id="tenths"),
        pytest.param(36.6, "37 s", id="seconds"),
        pytest.param(246, "4 min 06 s", id="minutes"),
    ],
)
def test_a_duration_is_worded_for_a_person(seconds, words):
    assert progress.lasted(seconds) == words
