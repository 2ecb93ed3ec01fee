"""Building binaries, with a small program in place of Go."""

import asyncio
import dataclasses
import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import binaries, errors, recipes, toolchain

# Stands for `go`: reports a version; a build writes its output's name into it, then does
# what $FAKE_GO says.
FAKE_GO = """\
#!/bin/sh
if [ "$1" = version ]; then echo "go version go${FAKE_GO_VERSION:-1.26.8} linux/amd64"; exit 0; fi
case "$2$3" in
  list-deps) echo "$1" >>"$FAKE_GO_CALLS.fetched"; exit "${FAKE_GO_FETCH:-0}";;
  list*) echo "$FAKE_GO_MODULE"; exit 0;;
  mod*) exit 0;;
esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
echo "$out" >>"$FAKE_GO_CALLS"
echo binary >"$out"
case "$FAKE_GO" in
  fail) echo "x.go:1: syntax error" >&2; exit 1;;
  full) echo "write $out: no space left on device" >&2; exit 1;;
  hang) exec sleep 60;;
esac
"""


GO_MOD = """\
require k8s.io/kubernetes v1.37.2

require kubevirt.io/kubevirt v1.8.4

require k8s.io/kubectl v0.34.2
"""
UTIL = """\
package util

const namespaceKubevirt = "kubevirt"
"""


class Desk:
    """A cache folder, modules of our own, and the builds that were asked for."""

    def __init__(self, root: Path):
        self.cache = root / "cache"
        self.modules = root / "go"
        self.calls = root / "calls"
        for name in ("etcd", "kubernetes", "helm", "kubevirt", "kubectl"):
            module = self.modules / name
            module.mkdir(parents=True)
            (module / "go.mod").write_text(GO_MOD)
            (module / "go.sum").write_text("sum\n")
        self.ours = self.modules / "kubevirt" / "objects" / "main.go"
        for source in (
            "kubevirt/objects",
            "kubernetes/informer",
            "kubernetes/host",
            "kubectl/older",
        ):
            (self.modules / source).mkdir()
            (self.modules / source / "main.go").write_text("package main\n")
        self.theirs = root / "client-go" / "util" / "util.go"
        self.theirs.parent.mkdir(parents=True)
        self.theirs.write_text(UTIL)

    async def build(self):
        return await binaries.build(self.cache, self.modules)

    def built(self) -> list[str]:
        """Names of what was built since asked last, in order."""
        if not self.calls.exists():
            return []
        names = [Path(line).name.rpartition("-")[0] for line in self.calls.read_text().splitlines()]
        self.calls.unlink()
        return names

    def files(self) -> list[str]:
        return sorted(path.name for path in self.cache.iterdir() if path.name != "build.lock")


KUBERNETES = [
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
    *("kubectl", "informer", "host-api"),
]
KUBEVIRT = ["virt-controller", "virt-api", "kubevirt-objects"]
OLDER = ["kubectl-older"]
ALL = ["etcd", *KUBERNETES, "helm", *KUBEVIRT, *OLDER]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk(tmp_path)
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(FAKE_GO)
    go.chmod(go.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_GO_CALLS", str(made.calls))
    monkeypatch.setenv("FAKE_GO_MODULE", str(made.theirs.parents[1]))
    return made


async def test_all_are_built_once_and_then_taken_from_the_cache(desk: Desk):
    places = await desk.build()
    assert desk.built() == ALL
    assert {name: place.read_text() for name, place in places.items()} == dict.fromkeys(
        ALL, "binary\n"
    )
    assert await desk.build() == places
    assert desk.built() == []


@pytest.mark.parametrize("status", ["0", "1"])
async def test_sources_of_later_modules_come_while_the_first_is_built(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, status: str
):
    monkeypatch.setenv("FAKE_GO_FETCH", status)
    await desk.build()
    assert desk.built() == ALL
    fetched = desk.calls.with_suffix(".fetched").read_text().split()
    assert [Path(line).name for line in fetched] == ["kubernetes", "helm", "kubevirt", "kubectl"]
    await desk.build()
    assert desk.calls.with_suffix(".fetched").read_text().split() == fetched


@pytest.mark.parametrize(
    ("module", "file", "rebuilt"),
    [
        pytest.param("etcd", "go.sum", ["etcd"], id="etcd-sum"),
        pytest.param("helm", "go.mod", ["helm"], id="helm-mod"),
        pytest.param("kubernetes", "go.sum", KUBERNETES, id="kubernetes-sum"),
        pytest.param("kubevirt", "go.sum", KUBEVIRT, id="kubevirt-sum"),
        pytest.param("kubevirt", "objects/main.go", KUBEVIRT[-1:], id="kubevirt-our-own-source"),
        pytest.param("kubectl", "go.mod", OLDER, id="kubectl-mod"),
        pytest.param("kubernetes", "informer/main.go", ["informer"], id="kubernetes-our-own"),
        pytest.param("kubernetes", "host/main.go", ["host-api"], id="kubernetes-our-other"),
    ],
)
async def test_a_changed_module_rebuilds_only_its_own(
    desk: Desk, module: str, file: str, rebuilt: list[str]
):
    await desk.build()
    desk.built()
    with (desk.modules / module / file).open("a") as content:
        content.write("// changed\n")
    await desk.build()
    assert desk.built() == rebuilt


async def test_another_patch_rebuilds_what_is_patched(desk: Desk, monkeypatch):
    await desk.build()
    desk.built()
    patch = dataclasses.replace(recipes.PATCHES["kubevirt"], becomes="const other")
    monkeypatch.setitem(recipes.PATCHES, "kubevirt", patch)
    await desk.build()
    assert desk.built() == KUBEVIRT


async def test_a_bug_fix_release_of_go_rebuilds_nothing(desk: Desk, monkeypatch):
    await desk.build()
    desk.built()
    monkeypatch.setenv("FAKE_GO_VERSION", "1.26.9")
    await desk.build()
    assert desk.built() == []
    monkeypatch.setenv("FAKE_GO_VERSION", "1.27.0")
    await desk.build()
    assert desk.built() == ALL


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell that runs tests in the background has them, and all they start, ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
async def test_an_interrupted_build_leaves_nothing_and_no_process(desk: Desk, monkeypatch):
    monkeypatch.setenv("FAKE_GO", "hang")
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        build = group.create_task(desk.build())
        while not desk.calls.exists():  # noqa: ASYNC110 - another process makes the file
            await asyncio.sleep(0.01)
        build.cancel()
    assert time.monotonic() - started < 5
    assert desk.files() == ["etcd.log"]
    monkeypatch.delenv("FAKE_GO")
    desk.built()
    await desk.build()
    assert desk.built() == ALL


async def test_what_a_killed_builder_left_is_removed(desk: Desk):
    desk.cache.mkdir()
    (desk.cache / "etcd-0123.part").write_text("half")
    await desk.build()
    assert not (desk.cache / "etcd-0123.part").exists()


def unused(path: Path, days: float) -> None:
    """Let a file be last changed some days ago; make it where it is not there."""
    path.touch()
    then = path.stat().st_mtime - days * 24 * 3600
    os.utime(path, (then, then))


@pytest.mark.parametrize("when", ["after a build", "with all there"])
async def test_what_nothing_has_used_for_a_month_is_removed(
    desk: Desk, capsys: pytest.CaptureFixture[str], when: str
):
    desk.cache.mkdir()
    if when == "with all there":
        await desk.build()
        capsys.readouterr()
    ours = {"etcd-0123456789ab": 31, "helm-0123456789ab": 29, "kube-apiserver-ffffffffffff": 400}
    others = {"notes-0123456789ab": 400, "etcd-0123": 400, "notes": 400}
    for name, days in {**ours, **others}.items():
        unused(desk.cache / name, days)
    places = await desk.build()
    now = {place.name for place in places.values()}
    assert set(desk.files()) - now == {"helm-0123456789ab", *others}
    assert (
        "removed, as nothing has used them for 30 days: etcd-0123456789ab, "
        "kube-apiserver-ffffffffffff\n"
    ) in capsys.readouterr().out
    await desk.build()
    assert "removed" not in capsys.readouterr().out


async def test_what_is_used_is_kept_however_old_its_build(desk: Desk):
    """By another checkout: a changed module makes this one's binary one of another version."""
    before = await desk.build()
    for place in before.values():
        unused(place, 400)
    assert await desk.build() == before
    with (desk.modules / "etcd" / "go.sum").open("a") as content:
        content.write("// changed\n")
    after = await desk.build()
    assert after["etcd"] != before["etcd"]
    assert before["etcd"].exists()


async def test_a_cache_that_only_its_owner_may_write_serves(desk: Desk, monkeypatch):
    places = await desk.build()
    for place in places.values():
        unused(place, 2)

    def no(*_args: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.utime", no)
    assert await desk.build() == places


async def test_two_builders_side_by_side_build_once(desk: Desk):
    first, second = await asyncio.gather(desk.build(), desk.build())
    assert first == second
    assert desk.built() == ALL


async def test_a_failed_build_says_what_the_compiler_said_and_keeps_the_log(desk, monkeypatch):
    monkeypatch.setenv("FAKE_GO", "fail")
    with pytest.raises(errors.BuildError) as caught:
        await desk.build()
    log = desk.cache / "etcd.log"
    assert str(caught.value) == (f"etcd could not be built.\n  x.go:1: syntax error\nLog: {log}")
    assert desk.files() == ["etcd.log"]


async def test_a_full_disk_is_called_that(desk: Desk, monkeypatch):
    monkeypatch.setenv("FAKE_GO", "full")
    with pytest.raises(errors.BuildError, match=r"^The disk is full \(\d+ MiB free at "):
        await desk.build()
    assert desk.files() == ["etcd.log"]


async def test_a_cache_folder_that_cannot_be_written_is_one_message(desk: Desk, tmp_path: Path):
    desk.cache.write_text("a file where the folder should be")
    with pytest.raises(errors.BuildError, match="cannot be written: File exists"):
        await desk.build()


async def test_an_old_go_is_refused_with_what_to_do(desk: Desk, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("FAKE_GO_VERSION", "1.25.3")
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(errors.BuildError) as caught:
        await desk.build()
    assert str(caught.value) == (
        f"Go 1.26 or newer is needed ({tmp_path}/bin/go is 1.25): "
        "run `make setup`, which installs one."
    )


def test_go_of_our_own_environment_serves_where_path_has_an_old_one(
    desk: Desk, tmp_path: Path, monkeypatch
):
    ours = tmp_path / "venv" / "bin" / "go"
    ours.parent.mkdir(parents=True)
    ours.write_text('#!/bin/sh\necho "go version go1.26.6 linux/amd64"\n')
    ours.chmod(0o755)
    monkeypatch.setenv("FAKE_GO_VERSION", "1.25.3")
    monkeypatch.setattr("sys.prefix", str(tmp_path / "venv"))
    assert toolchain.find() == toolchain.Go(ours, (1, 26))


def test_the_cache_folder_follows_xdg():
    assert binaries.cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/cozystack-gpu/bin")


def test_every_binary_has_a_pinned_module():
    for binary in recipes.BINARIES:
        module = recipes.MODULES / binary.module
        package = binary.package
        if binary.is_ours:
            assert list((module / package).glob("*.go"))
            continue
        assert f"\t{package}\n" in module.joinpath("go.mod").read_text() or (
            f"tool {package}\n" in module.joinpath("go.mod").read_text()
        )
        assert module.joinpath("go.sum").stat().st_size > 0
