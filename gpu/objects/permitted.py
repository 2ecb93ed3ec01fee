"""KubeVirt's permittedHostDevices: the resources VMs may have, and which of those count as GPUs.

The table names whatever may be passed through, network cards and disks too, and nothing in it says which is
a GPU. So a name counts unless the table itself proves otherwise: each entry that bears it selects PCI devices
of a maker of whom no GPU is known, or a device of one that is known to be none. A GPU taken for a stranger would be ordered past every budget and hold; a
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
_NO_GPU_DEVICES: Final = {
    "8086": frozenset(
        {
            *(
                "10ed",
                "10fb",
                "1515",
                "1520",
                "1521",
                "1528",
                "1563",
                "1565",
            ),  # 1 and 10 Gb network
            *("154c", "1572", "1583", "1584", "1589", "158a", "158b", "15ff"),  # 700 series network
            *("37cd", "37d0", "37d2"),  # X722 network
            *("1591", "1592", "1593", "159a", "159b", "1889"),  # 800 series network
            *("0435", "0443", "37c8", "37c9", "4940", "4941"),  # QuickAssist
            *("0953", "0a54"),  # NVMe
        }
    )
}
"""Of a vendor that makes GPUs, well-known devices that are none, their virtual functions with them, by PCI id."""


def names(table: Fields) -> tuple[ResourceName, ...]:
    """Return every resource of the table once, sorted. `usb` entries are passed over, as the host does."""
    return tuple(sorted({name for name, _ in _entries(table)}))


def gpus(table: Fields) -> tuple[ResourceName, ...]:
    """Return those of them that count as GPUs, sorted."""
    return tuple(sorted({name for name, selector in _entries(table) if not _is_none(selector)}))


def _is_none(selector: str) -> bool:
    """Say whether no GPU is known that a PCI selector takes."""
    vendor, _, device = (part.strip().lower() for part in selector.partition(":"))
    return vendor in _NO_GPUS or device in _NO_GPU_DEVICES.get(vendor, frozenset())


def _entries(table: Fields) -> list[tuple[ResourceName, str]]:
    """Return each entry's resource and PCI selector (`vendor:device`), which is empty where it has none."""
    devices = [
        (_name(entry), entry.text_or("pciVendorSelector"))
        for entry in table.children("pciHostDevices")
    ]
    return devices + [(_name(entry), "") for entry in table.children("mediatedDevices")]


def _name(entry: Fields) -> ResourceName:
    return ResourceName(entry.text("resourceName"))
