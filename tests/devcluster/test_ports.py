"""Ports: free ones below the ephemeral range, and a clear word about a busy one."""

import os
import socket
from pathlib import Path

import pytest

from devcluster import errors, ports


def test_reserved_ports_differ_and_lie_below_the_ephemeral_range():
    first, second = ports.reserve(), ports.reserve()
    lowest_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with first, second:
        assert first.port != second.port
        assert all(ports.LOWEST <= r.port < lowest_ephemeral for r in (first, second))


def test_a_busy_port_is_refused_with_who_holds_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(errors.PortTakenError) as caught:
            ports.claim(port)
    name = Path("/proc/self/comm").read_text().strip()
    assert str(caught.value) == (
        f"Port {port} of 127.0.0.1 is in use by pid {os.getpid()} ({name}). "
        "Stop that, or choose another port."
    )


def test_a_port_reserved_elsewhere_is_refused_until_given_back():
    held = ports.reserve()
    with pytest.raises(errors.PortTakenError, match="by another control plane of yours"):
        ports.claim(held.port)
    held.close()
    with ports.claim(held.port) as again:
        assert again.port == held.port


def test_a_port_whose_connections_only_linger_is_free():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # our side closes first, so TIME_WAIT is on the server's port
        client.close()
    assert ports.is_free(port)
