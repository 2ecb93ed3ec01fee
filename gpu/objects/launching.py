"""Launching: what KubeVirt's configuration says of launchers: ratios, defaults, and what is beside the guest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu.objects import nodes
from gpu.objects.decode import Fields

Amounts = Mapping[str, int]
"""CPU in thousandths, anything else as it counts."""
_CPU_REQUEST: Final = 100
"""Of KubeVirt's own configuration: this much is as if nothing was said (virt-api's defaults)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What the containers of one type ask for beside the guest's, where the hoster has changed it."""

    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launching:
    """KubeVirt's configuration as far as it decides what a launcher asks of a node; unset is its default."""

    cpu_ratio: int = 10
    """Virtual CPUs to one of a node."""
    memory_percent: int = 100
    """Memory of guests to that of a node, in hundredths."""
    overhead_ratio: float = 1.0
    cpu_request: int | None = None
    """Of a guest that says nothing, in thousandths."""
    cpu_model: str = ""
    architecture: str = ""
    """Of a guest that says nothing."""
    selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of nodes that every launcher asks for."""
    is_emulated: bool = False
    """Guests run without KVM."""
    logs_console: bool = True
    """A container follows the serial console."""
    supports: Mapping[str, Support] = field(default_factory=dict)
    bindings: Amounts = field(default_factory=dict)
    """By network binding: bytes beside the guest's memory."""


def decode(kubevirt: Fields) -> Launching:
    """Read it from a KubeVirt CR. Raises DecodeError where it is broken."""
    configuration = kubevirt.child("spec").child("configuration")
    developer = configuration.child("developerConfiguration")
    architectures = configuration.child("architectureConfiguration")
    request = nodes.amounts({"cpu": configuration.raw.get("cpuRequest")}).get("cpu", _CPU_REQUEST)
    bindings = configuration.child("network").child("binding")
    return Launching(
        cpu_ratio=max(developer.whole("cpuAllocationRatio", 0), 0) or 10,
        memory_percent=max(developer.whole("memoryOvercommit", 0), 0) or 100,
        overhead_ratio=_ratio(configuration.text_or("additionalGuestMemoryOverheadRatio")),
        cpu_request=None if request == _CPU_REQUEST else request,
        cpu_model=configuration.text_or("cpuModel"),
        architecture=architectures.text_or("defaultArchitecture")
        or kubevirt.child("status").text_or("defaultArchitecture"),
        selector=developer.text_map("nodeSelectors"),
        is_emulated=developer.flag("useEmulation"),
        logs_console=not configuration.child("virtualMachineOptions").has(
            "disableSerialConsoleLog"
        ),
        supports={
            item.text_or("type"): _support(item.child("resources"))
            for item in configuration.children("supportContainerResources")
        },
        bindings={
            name: nodes.amounts(
                bindings.child(name).child("computeResourceOverhead").child("requests").raw
            ).get("memory", 0)
            for name in bindings.raw
        },
    )


def _support(resources: Fields) -> Support:
    return Support(
        requests=nodes.amounts(resources.child("requests").raw),
        limits=nodes.amounts(resources.child("limits").raw),
    )


def _ratio(text: str) -> float:
    try:
        found = float(text or 1)
    except ValueError:
        return 1.0
    return found if math.isfinite(found) and found > 0 else 1.0
