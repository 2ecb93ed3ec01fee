"""The machine's own address: EndpointSlices may name no loopback address."""

import socket

from devcluster import errors


def own() -> str:
    """Return an IPv4 address of this machine that is not loopback; traffic to it stays on it.

    Asks the routing table; sends nothing.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address: nobody's
        except OSError as error:
            raise errors.DevclusterError(
                "This machine has no address but loopback: aggregator routing cannot be used here."
            ) from error
        address: str = probe.getsockname()[0]
    return address
