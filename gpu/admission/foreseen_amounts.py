"""What the launcher of a VMI will ask for beside its claims: CPU, memory, hugepages, devices; pure.

KubeVirt renders it after the VMI is admitted, and nobody else does; so it is worked out here as virt-api
1.8.4 fills a VMI in and virt-controller renders it (`pkg/defaults`, `pkg/virt-controller/services`,
`GetMemoryOverhead`). Where that depends on what is not seen here, more is asked: page tables are counted for
all memory, and nothing is left out because of a feature gate.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu import keys
from gpu.model import references
from gpu.model.references import Other
from gpu.objects import nodes
from gpu.objects.decode import Fields
from gpu.objects.launching import Launching, Support
from gpu.units import MOST

_MIB: Final = 1 << 20
_OF_LAUNCHER: Final = 220 * _MIB
"""virt-launcher and its monitor, virtlogd, virtqemud, QEMU without its guest."""
_OF_THREAD: Final = 8 * _MIB
_OF_SCREEN: Final = 32 * _MIB
_OF_ARM: Final = 128 * _MIB
_OF_VFIO: Final = 1024 * _MIB
"""Of a guest with any GPU: every guest that is looked at here has one."""
_OF_METRICS: Final = 1 * _MIB
_OF_PROBES: Final = 100 * _MIB
_OF_PROBE: Final = 10 * _MIB
_OF_SECRECY: Final = 256 * _MIB
_OF_TPM: Final = 53 * _MIB
_OF_GUARANTEE: Final = 100 * _MIB
_PASST: Final = 250 * _MIB
_TABLES: Final = 512
_OF_STORAGE: Final = 50_000_000
"""Ephemeral storage of each container that has any."""
_EVEN: Final = "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity"
_SIDECARS: Final = "hooks.kubevirt.io/hookSidecars"
_DEVICE: Final = "devices.kubevirt.io/"
_M: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """What a container beside the guest asks for: usually, and where the whole pod has what it asks for."""

    kind: str
    usual: Mapping[str, int]
    firm: Mapping[str, int]


_DISK: Final = _Beside(
    kind="container-disk",
    usual={"cpu": 1, "memory": _M, "ephemeral-storage": _OF_STORAGE},
    firm={"cpu": 10, "memory": 40 * _M, "ephemeral-storage": _OF_STORAGE},
)
_FILES: Final = _Beside(
    kind="virtiofs",
    usual={"cpu": 10, "memory": _M},
    firm={"cpu": 100, "memory": 80 * _M},
)
_CONSOLE: Final = _Beside(
    kind="guest-console-log",
    usual={"cpu": 5, "memory": 35 * _M},
    firm={"cpu": 15, "memory": 60 * _M},
)
_SIDECAR: Final = _Beside(kind="sidecar", usual={}, firm={"cpu": 200, "memory": 64 * _M})


def amounts(vmi: Fields, config: Launching, networks: Mapping[str, int]) -> dict[str, int]:
    """Return what the whole pod asks for, units of classes and claims apart. Raises DecodeError.

    CPU in thousandths, anything else as it counts, none above MOST. `networks` are units of resources beside those
    that the VMI itself asks for.
    """
    found = _Guest(vmi, config)
    asked = dict(found.others())
    asked["cpu"] = asked.get("cpu", 0) + found.cpu()
    for name, amount in (*found.memory().items(), *networks.items()):
        asked[name] = asked.get(name, 0) + amount
    asked["ephemeral-storage"] = asked.get("ephemeral-storage", 0) + _OF_STORAGE
    for beside, count in found.beside():
        own = config.supports.get(beside.kind, Support())
        told = {**beside.firm, **own.limits} if found.is_firm else {**beside.usual, **own.requests}
        for name, amount in told.items():
            asked[name] = asked.get(name, 0) + amount * count
    return {name: min(asked[name], MOST) for name in sorted(asked) if asked[name]}


class _Guest:
    """A guest as its VMI describes it, with what virt-api fills in."""

    def __init__(self, vmi: Fields, config: Launching) -> None:
        self._config = config
        self._notes = vmi.child("metadata").text_map("annotations")
        self._spec = spec = vmi.child("spec")
        self._domain = domain = spec.child("domain")
        self._devices = domain.child("devices")
        resources = domain.child("resources")
        self._limits = nodes.amounts(resources.child("limits").raw)
        self._requests = nodes.amounts(resources.child("requests").raw)
        self._cpu = domain.child("cpu")
        self._is_dedicated = self._cpu.flag("dedicatedCpuPlacement")
        if self._limits.get("cpu") and not self._requests.get("cpu"):
            self._requests["cpu"] = self._limits["cpu"]
        if config.cpu_request is not None and not self._is_dedicated:
            self._requests.setdefault("cpu", config.cpu_request)
        self.is_firm = self._is_dedicated or (self._equal("cpu") and self._has_firm_memory())

    # CPU.

    def cpu(self) -> int:
        """Return what the guest's own container asks for, in thousandths."""
        virtual = self._virtual_cpus() + self._threads()
        if self._is_dedicated:
            return 1000 * (virtual + self._isolated())
        if "cpu" in self._requests:
            return self._requests["cpu"]
        return math.ceil(1000 * virtual / self._config.cpu_ratio)

    def _virtual_cpus(self) -> int:
        given = [self._cpu.whole(name, 0) for name in ("cores", "sockets", "threads")]
        found = math.prod(max(count, 1) for count in given)
        if any(given):
            return found
        asked = self._limits.get("cpu") or self._requests.get("cpu") or 0
        return max(math.ceil(asked / 1000), 1)

    def _threads(self) -> int:
        return max(self._domain.child("ioThreads").whole("supplementalPoolThreadCount", 0), 0)

    def _isolated(self) -> int:
        if not self._cpu.flag("isolateEmulatorThread"):
            return 0
        return 2 if _EVEN in self._notes else 1

    # Memory.

    def memory(self) -> dict[str, int]:
        """Return memory and hugepages of the guest's own container, in bytes."""
        memory = self._domain.child("memory")
        pages = memory.child("hugepages").text_or("pageSize")
        size = nodes.amounts({"memory": pages}).get("memory", 0)
        asked = self._requests.get("memory") or self._limits.get("memory") or 0
        guest = self._quantity(memory, "guest") or asked or size
        whole = asked or math.ceil(100 * guest / self._config.memory_percent)
        over = self._overhead(max(whole, guest))
        if pages:
            return {f"hugepages-{pages}": min(whole, guest), "memory": max(whole - guest, 0) + over}
        if self._domain.child("resources").flag("overcommitGuestOverhead"):
            over = 0
        return {"memory": whole + over}

    def _overhead(self, memory: int) -> int:
        spec, devices = self._spec, self._devices
        over = _OF_LAUNCHER + memory // _TABLES + _OF_THREAD * (self._virtual_cpus() + 1) + _OF_VFIO
        if devices.raw.get("autoattachGraphicsDevice") is not False:
            over += _OF_SCREEN
        if (spec.text_or("architecture") or self._config.architecture) == "arm64":
            over += _OF_ARM
        if any(volume.has("downwardMetrics") for volume in spec.children("volumes")):
            over += _OF_METRICS
        probes = sum(spec.child(f"{name}Probe").has("exec") for name in ("liveness", "readiness"))
        over += probes * _OF_PROBE + (_OF_PROBES if probes else 0)
        if self._domain.child("launchSecurity").raw:
            over += _OF_SECRECY
        if devices.has("tpm"):
            over += _OF_TPM
        if self.is_firm:
            over += _OF_GUARANTEE
        reserved = self._domain.child("memory").child("reservedOverhead")
        over += self._quantity(reserved, "addedOverhead")
        return math.ceil(over * self._config.overhead_ratio) + self._of_networks()

    def _of_networks(self) -> int:
        interfaces = list(self._devices.children("interfaces"))
        plugins = {one.child("binding").text_or("name") for one in interfaces}
        over = sum(self._config.bindings.get(name, 0) for name in plugins)
        return over + (_PASST if any(one.has("passtBinding") for one in interfaces) else 0)

    def _has_firm_memory(self) -> bool:
        if not self._requests.get("memory"):
            return bool(self._limits.get("memory"))
        return self._equal("memory")

    def _equal(self, name: str) -> bool:
        return bool(self._requests.get(name)) and self._requests[name] == self._limits.get(name)

    @staticmethod
    def _quantity(owner: Fields, name: str) -> int:
        return nodes.amounts({name: owner.raw.get(name)}).get(name, 0)

    # Everything else.

    def others(self) -> dict[str, int]:
        """Return devices, and whatever else the VMI asks for by its name."""
        asked = self._limits | self._requests
        found = {
            name: amount
            for name, amount in asked.items()
            if name not in {"cpu", "memory"} and not _is_ours(name)
        }
        for name in (*self._raw_devices(), *self._of_machine()):
            found[name] = found.get(name, 0) + 1
        return found

    def _raw_devices(self) -> Iterator[str]:
        for part in ("gpus", "hostDevices"):
            for item in self._devices.children(part):
                name = item.text_or("deviceName")
                if name and isinstance(references.target_of(name), Other):
                    yield name

    def _of_machine(self) -> Iterator[str]:
        devices = self._devices
        interfaces = list(devices.children("interfaces"))
        has_network = interfaces or devices.raw.get("autoattachPodInterface") is not False
        if has_network:
            yield f"{_DEVICE}tun"
        if not self._config.is_emulated:
            yield f"{_DEVICE}kvm"
            models = [one.text_or("model") for one in interfaces]
            if has_network and any(model in {"", "virtio"} for model in models or [""]):
                yield f"{_DEVICE}vhost-net"
        if devices.flag("autoattachVSOCK"):
            yield f"{_DEVICE}vhost-vsock"
        if self._domain.child("launchSecurity").has("sev"):
            yield f"{_DEVICE}sev"

    def beside(self) -> Iterator[tuple[_Beside, int]]:
        """Yield containers beside the guest's own, and how many of each there are."""
        disks = sum(volume.has("containerDisk") for volume in self._spec.children("volumes"))
        boot = self._domain.child("firmware").child("kernelBoot")
        disks += boot.has("container")
        yield _DISK, disks
        yield _FILES, sum(one.has("virtiofs") for one in self._devices.children("filesystems"))
        if self._follows_console():
            yield _CONSOLE, 1
        yield _SIDECAR, _count(self._notes.get(_SIDECARS, ""))

    def _follows_console(self) -> bool:
        if self._devices.raw.get("autoattachSerialConsole") is False:
            return False
        told = self._devices.raw.get("logSerialConsole")
        return self._config.logs_console if told is None else bool(told)


def _is_ours(name: str) -> bool:
    return name.split("/", 1)[0].endswith(keys.DOMAIN)


def _count(text: str) -> int:
    try:
        found: Any = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return 0
    return sum(1 for _ in found) if isinstance(found, Iterable) else 0
