"""The machine's own address: EndpointSlices may name no loopback address."""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from typing import Final

from devcluster import errors

_SIOCGIFADDR: Final = 0x8915  # the IPv4 address of an interface
_REQUEST: Final = "256s"  # struct ifreq, and more than enough
_ADDRESS: Final = slice(20, 24)  # of the answer: after the name, family and port


def own() -> str:
    """Return an IPv4 address of this machine that is not loopback; traffic to it stays on it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack(_REQUEST, name.encode()[:15])
            with contextlib.suppress(OSError):  # it has none
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
                address = ipaddress.IPv4Address(answer[_ADDRESS])
                if not address.is_loopback and not address.is_link_local:
                    return str(address)
    raise errors.DevclusterError(
        "This machine has no address but loopback: aggregator routing cannot be used here."
    )
