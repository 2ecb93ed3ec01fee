"""Login with a kubeconfig: token files, client certificates, exec plugins."""

import asyncio
import base64
import json
import os
import stat
from pathlib import Path

import pytest
import trustme

from gpu.cluster import credentials
from gpu.cluster.credentials import Access, LoginError
from tests.fakes.clock import FakeClock

# The library reads files in coroutines, so it gets a loop and a thread to itself.
pytestmark = pytest.mark.may_block


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def kubeconfig(path: Path, user, **cluster) -> Path:
    target = path / "kubeconfig"
    target.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [
                    {"name": "k", "cluster": {"server": "https://127.0.0.1:6443/"} | cluster}
                ],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return target


def rewrite(path: Path, text: str) -> None:
    """Replace a file so that its stamp differs, however coarse the file system's clock."""
    before = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


async def test_a_kubeconfig_with_a_token_file_follows_the_file(tmp_path, authority):
    (tmp_path / "token").write_text("first")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    config = kubeconfig(
        tmp_path,
        {"tokenFile": "token"},
        **{"certificate-authority": "ca.crt", "tls-server-name": "k"},
    )
    access = await credentials.load(config)
    assert (access.server, access.login.server_hostname) == ("https://127.0.0.1:6443", "k")
    assert access.ssl_context is not None
    assert await access.headers() == {"Authorization": "Bearer first"}
    await asyncio.to_thread(rewrite, tmp_path / "token", "second")
    assert await access.renew(access.login)
    assert await access.headers() == {"Authorization": "Bearer second"}


async def test_a_kubeconfig_that_is_replaced_is_followed(tmp_path):
    access = await credentials.load(kubeconfig(tmp_path, {"token": "first"}))
    await asyncio.to_thread(kubeconfig, tmp_path, {"token": "second"})
    assert await access.renew(access.login)
    assert access.login.headers == {"Authorization": "Bearer second"}


async def test_a_client_certificate_is_loaded_and_a_new_one_is_noticed(tmp_path, authority):
    def user():
        leaf = authority.issue_cert(common_name="alice")
        return {
            "client-certificate-data": _data(leaf.cert_chain_pems[0].bytes()),
            "client-key-data": _data(leaf.private_key_pem.bytes()),
        }

    ca = {"certificate-authority-data": _data(authority.cert_pem.bytes())}
    access = await credentials.load(kubeconfig(tmp_path, user(), **ca))
    first = access.ssl_context
    assert first is not None
    assert access.login.headers == {}
    assert await access.renew(access.login) is False
    await asyncio.to_thread(kubeconfig, tmp_path, user(), **ca)
    assert await access.renew(access.login)
    assert access.ssl_context is not first


async def test_an_exec_plugin_gives_the_token(tmp_path):
    plugin = _plugin(
        tmp_path, {"token": "from-plugin", "expirationTimestamp": "2099-01-01T00:00:00Z"}
    )
    access = await credentials.load(kubeconfig(tmp_path, {"exec": plugin}))
    assert access.login.headers == {"Authorization": "Bearer from-plugin"}
    assert access.login.expires is not None


async def test_an_expired_exec_credential_is_asked_for_anew(tmp_path):
    clock = FakeClock()
    plugin = _plugin(tmp_path, {"token": "first", "expirationTimestamp": "2020-01-01T00:00:00Z"})
    made = await credentials.load(kubeconfig(tmp_path, {"exec": plugin}))
    access = Access(made.login, made._source, monotonic=clock.monotonic)
    _plugin(tmp_path, {"token": "second", "expirationTimestamp": "2099-01-01T00:00:00Z"})
    clock.advance(credentials.LOOK_AGAIN)
    assert await access.headers() == {"Authorization": "Bearer second"}


@pytest.mark.parametrize(
    "user",
    [
        pytest.param({"exec": {"command": "/bin/false", "apiVersion": "v1"}}, id="plugin fails"),
        pytest.param({"client-certificate": "none.crt"}, id="certificate is not there"),
    ],
)
async def test_a_kubeconfig_without_usable_credentials_is_a_login_error(tmp_path, user):
    with pytest.raises(LoginError):
        await credentials.load(kubeconfig(tmp_path, user))


async def test_a_kubeconfig_that_is_not_there_is_a_login_error(tmp_path):
    with pytest.raises(LoginError, match="there is no kubeconfig"):
        await credentials.load(tmp_path / "none")


def _data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def _plugin(path: Path, status) -> dict[str, object]:
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    (path / "answer.json").write_text(json.dumps(answer))
    script = path / "plugin"
    script.write_text(f"#!/bin/sh\nexec cat {path / 'answer.json'}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"command": str(script), "apiVersion": version}
