"""What components are started with."""

from pathlib import Path

import pytest

from devcluster import components, pki


@pytest.fixture
def site(tmp_path: Path) -> components.Site:
    return components.Site(
        directory=tmp_path,
        ports=components.Ports(
            etcd=1, etcd_peer=2, api_server=3, controller_manager=4, scheduler=5
        ),
        pki=pki.Authorities(tmp_path / "pki"),
        binaries={name: tmp_path / name for name in components.START_ORDER},
        options=components.Options(),
    )


@pytest.mark.parametrize("name", components.START_ORDER)
def test_a_component_has_our_environment_and_collects_garbage_seldom(
    site: components.Site, name: str, monkeypatch: pytest.MonkeyPatch
):
    for ours in components.ENVIRONMENT:
        monkeypatch.delenv(ours, raising=False)
    monkeypatch.setenv("OF_MINE", "yes")
    env = dict(site.command(name).env or {})
    assert (env["GOGC"], env["OF_MINE"]) == ("400", "yes")
    assert int(env["GOMAXPROCS"]) >= 8


def test_who_sets_it_is_obeyed(site: components.Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GOGC", "50")
    assert (site.command(components.ETCD).env or {})["GOGC"] == "50"
