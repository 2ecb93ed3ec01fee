"""The state file: another process stops exactly what is written down."""

import asyncio
import json
from pathlib import Path

import pytest

from devcluster import components, control_plane, errors, processes, state

PORTS = components.Ports(etcd=1, etcd_peer=2, api_server=3, controller_manager=4, scheduler=5)


def a_state(*records: processes.Record) -> state.State:
    return state.State(
        ports=PORTS,
        options=components.Options(aggregator_routing=True),
        processes={record.name: record for record in records},
    )


@pytest.fixture
def two(tmp_path: Path):
    """Two processes of ours, of which the tests write down one."""
    records = [
        processes.start(
            processes.Command(name=name, argv=("/bin/sleep", "60"), log=tmp_path / f"{name}.log"),
            tethered=True,
        )
        for name in ("written", "other")
    ]
    yield records
    for record in records:
        processes.kill(record)


@pytest.fixture(autouse=True)
def no_builds(monkeypatch):
    async def build() -> dict[str, Path]:
        return {}

    monkeypatch.setattr("devcluster.binaries.build", build)


def test_what_is_written_is_read_back(tmp_path: Path):
    written = a_state(processes.Record("etcd", 7, 8, "/x/etcd.log"))
    state.write(tmp_path, written)
    assert state.read(tmp_path) == written


def test_nothing_written_is_none(tmp_path: Path):
    assert state.read(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="half"),
        pytest.param("[]", id="list"),
        pytest.param("{}", id="no-version"),
        pytest.param('{"version": 2}', id="other-version"),
        pytest.param('{"version": 1, "processes": [{"pid": 1}]}', id="record-lacks-fields"),
    ],
)
def test_an_unreadable_state_file_is_one_message(tmp_path: Path, text: str):
    (tmp_path / state.FILE).write_text(text)
    with pytest.raises(errors.DevclusterError, match=r"state\.json .*remove it"):
        state.read(tmp_path)


async def test_stop_ends_only_what_is_written_down(tmp_path: Path, two):
    written, other = two
    state.write(tmp_path, a_state(written))
    assert await control_plane.stop(tmp_path) == ("written",)
    assert (processes.is_running(written), processes.is_running(other)) == (False, True)


async def test_stop_leaves_a_process_that_took_over_a_written_pid(tmp_path: Path, two):
    written, _ = two
    state.write(tmp_path, a_state(processes.Record("etcd", written.pid, 1, written.log)))
    assert await control_plane.stop(tmp_path) == ()
    assert processes.is_running(written)


async def test_stop_keeps_the_logs_and_nothing_else(tmp_path: Path):
    directory = tmp_path / "plane"
    for name in ("etcd", "pki", "kubeconfigs", "logs"):
        (directory / name).mkdir(parents=True)
    state.write(directory, a_state())
    await control_plane.stop(directory)
    assert [path.name for path in directory.iterdir()] == ["logs"]


async def test_stop_where_nothing_is_does_nothing(tmp_path: Path):
    assert await control_plane.stop(tmp_path / "none") == ()
    assert not await asyncio.to_thread((tmp_path / "none").exists)


def test_the_file_is_for_its_owner_only(tmp_path: Path):
    state.write(tmp_path, a_state())
    path = tmp_path / state.FILE
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["version"] == 1
