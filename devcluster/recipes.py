"""Recipe: what decides a binary's content, as one table: module, package, flags, version, patch."""

import hashlib
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster import errors, patched, toolchain

MODULES: Final = Path(__file__).parent / "go"
KEY: Final = 12  # characters
FLAGS: Final = ("-trimpath", "-gcflags=all=-dwarf=false")  # no debug data: a quarter less to wait
"""The same for all, or Go's cache would keep each package more than once."""
KUBEVIRT_NAMESPACE: Final = "cozy-kubevirt"

_STRIPPED = "-s -w"
_COMPONENT = "k8s.io/component-base/version"
_CLIENT = "k8s.io/client-go/pkg/version"
_KUBEVIRT = "kubevirt.io/client-go/version"


@dataclass(frozen=True, slots=True)
class Binary:
    """One binary: the folder of its Go module in go/, and the package of its main."""

    name: str
    module: str
    package: str
    minutes: float  # a cold build on 2 cores, those above it built

    @property
    def is_ours(self) -> bool:
        """Whether its main lies in the module's own folder."""
        return self.package.startswith("./")


BINARIES: Final = (
    Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3", 0.7),
    Binary("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", 4),
    Binary(
        "kube-controller-manager",
        "kubernetes",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        1.5,
    ),
    Binary("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", 0.3),
    Binary("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", 0.5),
    Binary("informer", "kubernetes", "./informer", 0.1),
    # Stands in for the host's API server, which is no Go module that anybody may fetch.
    Binary("host-api", "kubernetes", "./host", 0.2),
    Binary("helm", "helm", "helm.sh/helm/v4/cmd/helm", 1),
    Binary("virt-controller", "kubevirt", "kubevirt.io/kubevirt/cmd/virt-controller", 2),
    Binary("virt-api", "kubevirt", "kubevirt.io/kubevirt/cmd/virt-api", 0.3),
    Binary("kubevirt-objects", "kubevirt", "./objects", 0.1),
    # For tests with clients of several minors; the other one is what the plane itself has.
    Binary("kubectl-older", "kubectl", "./older", 1),
)

PATCHES: Final[Mapping[str, patched.Patch]] = {
    # KubeVirt outside a pod has no flag for its namespace, only this constant. A private /run with
    # the file that it looks for first would need a user namespace, and many machines forbid those;
    # the linker's -X sets variables alone.
    "kubevirt": patched.Patch(
        module="kubevirt.io/client-go",
        file="util/util.go",
        was='const namespaceKubevirt = "kubevirt"',
        becomes=f'const namespaceKubevirt = "{KUBEVIRT_NAMESPACE}"',
    ),
}
"""What is changed in the sources of a module's binaries, by module: all of them, for Go's cache."""


def key(binary: Binary, go: toolchain.Go, modules: Path) -> str:
    """Return what names this content of a binary: the same key, the same content."""
    module = modules / binary.module
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    if binary.is_ours:
        for source in sorted((module / binary.package).glob("*.go")):
            digest.update(source.read_bytes())
    settings = (
        binary.package,
        *FLAGS,
        linker_flags(binary, module),
        go.family,
        platform.machine(),
        *((repr(PATCHES[binary.module]),) if binary.module in PATCHES else ()),
    )
    digest.update("\n".join(settings).encode())
    return digest.hexdigest()[:KEY]


def linker_flags(binary: Binary, module: Path) -> str:
    """Return what the linker is told: no debug data, and for some the version they report."""
    values: Mapping[str, str] = {}
    if binary.module == "kubectl":
        # Libraries are v0.X.Y of what Kubernetes calls v1.X.Y.
        values = _reported("v1" + version_of(module, "k8s.io/kubectl").removeprefix("v0"))
    elif binary.module == "kubernetes":
        values = _reported(version_of(module, "k8s.io/kubernetes"))
    elif binary.module == "kubevirt":
        values = {f"{_KUBEVIRT}.gitVersion": version_of(module, "kubevirt.io/kubevirt")}
    return " ".join((_STRIPPED, *(f"-X {name}={value}" for name, value in values.items())))


def _reported(version: str) -> Mapping[str, str]:
    major, minor, _ = version.removeprefix("v").split(".")
    return {
        f"{_COMPONENT}.gitVersion": version,
        f"{_COMPONENT}.gitMajor": major,
        f"{_COMPONENT}.gitMinor": minor,
        f"{_COMPONENT}.gitTreeState": "clean",
        f"{_CLIENT}.gitVersion": version,
    }


def version_of(module: Path, path: str) -> str:
    """Return which version of the module `path` go.mod in the folder `module` asks for."""
    text = (module / "go.mod").read_text(encoding="utf-8")
    match = re.search(rf"\b{re.escape(path)} (v\d+\.\d+\.\d+)\s", text)
    if match is None:
        raise errors.BuildError(f"{module / 'go.mod'} does not say which version of {path}.")
    return match[1]
