"""Where each API server answers, as the EndpointSlice of Service kubernetes tells."""

from typing import Any

import pytest

from gpu.cluster import credentials, endpoints, errors
from gpu.cluster.client import Client
from gpu.objects import kinds
from tests.fakes.cluster import FakeCluster


def a_slice(*addresses: str, ready: bool | None = True, **port: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "endpoints": [
            {"addresses": [address], "conditions": {} if ready is None else {"ready": ready}}
            for address in addresses
        ],
        "ports": [{"name": "https", "port": 6443, **port}],
    }


class Usual(FakeCluster):
    """The usual client: a FakeCluster that can be logged in with."""

    access = credentials.fixed("https://10.96.0.1:443", token="t")


async def names(found: dict[str, Any] | None) -> list[str]:
    usual: Any = Usual()
    if found is not None:
        usual.put(kinds.ENDPOINT_SLICES, found)
    async with endpoints.doors(usual) as doors:
        assert (doors.usual, doors.usual_name) == (usual, "10.96.0.1:443")
        return list(doors.each)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(None, [], id="nobody says"),
        pytest.param(a_slice("10.0.0.1"), ["10.0.0.1:6443"], id="one"),
        pytest.param(a_slice("10.0.0.1", "10.0.0.2"), ["10.0.0.1:6443", "10.0.0.2:6443"], id="two"),
        pytest.param(a_slice("fd00::1"), ["[fd00::1]:6443"], id="IPv6"),
        pytest.param(a_slice("10.0.0.1", ready=False), [], id="one that is not ready"),
        pytest.param(a_slice("10.0.0.1", ready=None), ["10.0.0.1:6443"], id="nothing said of it"),
        pytest.param(a_slice("10.0.0.1", name=""), ["10.0.0.1:6443"], id="a port without a name"),
        pytest.param(a_slice("10.0.0.1", name="metrics"), [], id="another port"),
        pytest.param(a_slice("10.0.0.1", "10.0.0.1"), ["10.0.0.1:6443"], id="the same twice"),
        pytest.param(
            a_slice(*(f"10.0.0.{i}" for i in range(99))),
            [f"10.0.0.{i}:6443" for i in range(endpoints.MOST)],
            id="more than anybody has",
        ),
        pytest.param({"metadata": {"name": "kubernetes", "namespace": "default"}}, [], id="empty"),
    ],
)
async def test_each_address_is_a_way(found: dict[str, Any] | None, expected: list[str]):
    assert await names(found) == expected


async def test_where_it_may_not_be_read_only_the_usual_way_is_left():
    usual: Any = Usual()

    async def no(*_args: Any, **_how: Any) -> None:
        raise errors.Forbidden(403, "Forbidden", "no")

    usual.get = no
    async with endpoints.doors(usual) as doors:
        assert doors.each == {}


async def test_an_api_server_that_is_away_is_an_error():
    usual: Any = Usual()
    usual.down = True
    with pytest.raises(errors.Unreachable):
        async with endpoints.doors(usual):
            pass


async def test_the_credentials_are_those_of_the_usual_client():
    usual: Any = Usual()
    usual.put(kinds.ENDPOINT_SLICES, a_slice("10.0.0.1"))
    async with endpoints.doors(usual) as doors:
        way: Any = doors.each["10.0.0.1:6443"]
        assert isinstance(way, Client)
        assert way.access.server == "https://10.0.0.1:6443"
        assert way.access.login.server_hostname == "kubernetes.default.svc"
        assert await way.access.headers() == {"Authorization": "Bearer t"}


async def test_a_token_that_changes_is_read_anew_there_too():
    tokens = iter(("one", "two"))

    def source() -> credentials.Login:
        return credentials.Login(
            server="https://a", headers={"Authorization": f"Bearer {next(tokens)}"}
        )

    usual = credentials.Access(source(), source)
    there = usual.at("https://b", "name")
    assert (await there.headers()) == {"Authorization": "Bearer one"}
    assert await there.renew(there.login)
    assert (await there.headers()) == {"Authorization": "Bearer two"}
    assert (there.server, there.login.server_hostname) == ("https://b", "name")
    assert (usual.server, usual.login.server_hostname) == ("https://a", None)
