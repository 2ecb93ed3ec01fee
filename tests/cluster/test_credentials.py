"""Login as a service account, and the rotation of what a login was read from."""

import asyncio
import os
from pathlib import Path

import pytest
import trustme

from gpu.cluster import credentials
from gpu.cluster.credentials import Access, Login, LoginError
from tests.fakes.clock import FakeClock

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def folder(tmp_path: Path, authority: trustme.CA) -> Path:
    (tmp_path / "token").write_text("first\n")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    return tmp_path


def rewrite(path: Path, text: str) -> None:
    """Replace a file so that its stamp differs, however coarse the file system's clock."""
    before = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))


def test_a_service_account_is_read_from_its_folder(folder):
    login = credentials.from_folder(folder, IN_CLUSTER)
    assert (login.server, login.headers) == (
        "https://10.0.0.1:443",
        {"Authorization": "Bearer first"},
    )
    assert login.tls is not None


def test_an_ipv6_service_address_is_bracketed(folder):
    login = credentials.from_folder(folder, IN_CLUSTER | {"KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert login.server == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    ("spoil", "environ"),
    [
        pytest.param(lambda f: f, {}, id="not in a cluster"),
        pytest.param(lambda f: (f / "token").unlink(), IN_CLUSTER, id="no token"),
        pytest.param(lambda f: (f / "token").write_text(" "), IN_CLUSTER, id="empty token"),
        pytest.param(lambda f: (f / "ca.crt").write_text("x"), IN_CLUSTER, id="CA is none"),
    ],
)
def test_a_service_account_that_cannot_be_read_is_a_login_error(folder, spoil, environ):
    spoil(folder)
    with pytest.raises(LoginError):
        credentials.from_folder(folder, environ)


async def test_a_rotated_token_file_is_read_when_it_is_looked_at_again(folder):
    clock = FakeClock()

    def source():
        return credentials.from_folder(folder, IN_CLUSTER)

    access = Access(await asyncio.to_thread(source), source, monotonic=clock.monotonic)
    await asyncio.to_thread(rewrite, folder / "token", "second")
    assert await access.headers() == {"Authorization": "Bearer first"}
    clock.advance(credentials.LOOK_AGAIN)
    assert await access.headers() == {"Authorization": "Bearer second"}


async def test_unchanged_files_keep_the_login_and_its_connections(folder):
    clock, reads = FakeClock(), []

    def source():
        reads.append(1)
        return credentials.from_folder(folder, IN_CLUSTER)

    access = Access(await asyncio.to_thread(source), source, monotonic=clock.monotonic)
    login = access.login
    for _ in range(3):
        clock.advance(credentials.LOOK_AGAIN)
        await access.headers()
    assert (access.login is login, len(reads)) == (True, 1)


async def test_a_folder_that_cannot_be_read_leaves_the_last_good_credentials(folder):
    clock = FakeClock()

    def source():
        return credentials.from_folder(folder, IN_CLUSTER)

    access = Access(await asyncio.to_thread(source), source, monotonic=clock.monotonic)
    await asyncio.to_thread((folder / "token").unlink)
    clock.advance(credentials.LOOK_AGAIN)
    assert await access.headers() == {"Authorization": "Bearer first"}
    await asyncio.to_thread((folder / "token").write_text, "second")
    clock.advance(credentials.LOOK_AGAIN)
    assert await access.headers() == {"Authorization": "Bearer second"}


async def test_renewal_reads_once_for_all_that_failed_together():
    reads = []

    def source():
        reads.append(1)
        return Login(server="http://x", headers={"Authorization": f"Bearer {len(reads)}"})

    access = Access(source(), source)
    used = access.login
    assert await asyncio.gather(*(access.renew(used) for _ in range(5))) == [True] * 5
    assert len(reads) == 2


async def test_renewal_of_credentials_that_did_not_change_says_so(folder):
    def source():
        return credentials.from_folder(folder, IN_CLUSTER)

    access = Access(await asyncio.to_thread(source), source)
    assert await access.renew(access.login) is False
    assert await credentials.fixed("http://x").renew(access.login) is False
