"""KubeVirt's permittedHostDevices: the resources VMs may have, and which of those count as GPUs.

The table names whatever may be passed through, network cards and disks too, and nothing in it says which is
a GPU. So a name counts unless the table itself proves otherwise: each entry that bears it selects PCI devices
of a maker of whom no GPU is known. A GPU taken for a stranger would be ordered past every budget and hold; a
stranger taken for a GPU is refused, or counted, and a hoster sees that. A mediated device counts always.
"""

from typing import Final

from gpu.objects.decode import Fields
from gpu.units import ResourceName

_NO_GPUS: Final = frozenset(
    {
        "1000",  # Broadcom / LSI: storage controllers
        "1077",  # QLogic: network and fibre channel
        "10df",  # Emulex: fibre channel
        "1344",  # Micron: NVMe
        "1425",  # Chelsio: network
        "144d",  # Samsung: NVMe
        "14e4",  # Broadcom: network
        "15b3",  # Mellanox: network
        "15b7",  # Western Digital: NVMe
        "177d",  # Cavium: network
        "1924",  # Solarflare: network
        "1c5c",  # SK hynix: NVMe
        "1dd8",  # Pensando: network
        "1e0f",  # KIOXIA: NVMe
        "9005",  # Adaptec: storage controllers
    }
)
"""Vendors by PCI id. Those that make GPUs beside other devices (Intel, AMD, NVIDIA) are not among them."""


def names(table: Fields) -> tuple[ResourceName, ...]:
    """Return every resource of the table once, sorted. `usb` entries are passed over, as the host does."""
    return tuple(sorted({name for name, _ in _entries(table)}))


def gpus(table: Fields) -> tuple[ResourceName, ...]:
    """Return those of them that count as GPUs, sorted."""
    return tuple(sorted({name for name, vendor in _entries(table) if vendor not in _NO_GPUS}))


def _entries(table: Fields) -> list[tuple[ResourceName, str]]:
    """Return each entry's resource and vendor, which is empty where it tells none."""
    devices = [
        (_name(entry), entry.text_or("pciVendorSelector").partition(":")[0].strip().lower())
        for entry in table.children("pciHostDevices")
    ]
    return devices + [(_name(entry), "") for entry in table.children("mediatedDevices")]


def _name(entry: Fields) -> ResourceName:
    return ResourceName(entry.text("resourceName"))
