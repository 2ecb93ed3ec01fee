"""Ports for our processes: free ones below the ephemeral range, or a given one that must be free."""

import contextlib
import fcntl
import os
import secrets
import socket
import tempfile
from pathlib import Path
from typing import Self

from devcluster import errors

LOWEST = 20_000
"""Below this live the well-known services of a developer's machine."""

_TRIES = 200
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
_LOCAL, _STATE, _INODE = 1, 3, 9  # columns of /proc/net/tcp


class Reservation:
    """A port nobody else listens on and no other plane of this user will choose while this is open.

    A file lock keeps two planes that start side by side apart: between choosing a port and
    listening on it lie seconds. Closing gives up the claim, not the listener.
    """

    def __init__(self, port: int, lock: int) -> None:
        self.port = port
        self._lock: int | None = lock

    def close(self) -> None:
        """Give the port back to the pool; a second call does nothing."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def reserve() -> Reservation:
    """Reserve a free port of 127.0.0.1 that the kernel would not give to an outgoing connection."""
    highest = _ephemeral_start() - 1
    for _ in range(_TRIES):
        port = LOWEST + secrets.randbelow(highest - LOWEST + 1)
        reservation = _lock(port)
        if reservation is None:
            continue
        if is_free(port):
            return reservation
        reservation.close()
    message = f"No free port found between {LOWEST} and {highest} after {_TRIES} tries."
    raise errors.PortTakenError(message)


def claim(port: int) -> Reservation:
    """Reserve exactly `port`, or raise PortTakenError naming who holds it."""
    reservation = _lock(port)
    if reservation is None:
        raise errors.PortTakenError(
            f"Port {port} is being taken by another control plane of yours."
        )
    if is_free(port):
        return reservation
    reservation.close()
    raise errors.PortTakenError(
        f"Port {port} of 127.0.0.1 is in use{_holder(port)}. Stop that, or choose another port."
    )


def is_free(port: int) -> bool:
    """Tell whether one could listen on `port` of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Go's listeners do: a closed connection in TIME_WAIT must not look like a listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _lock(port: int) -> Reservation | None:
    folder = Path(tempfile.gettempdir()) / f"cozystack-gpu-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return Reservation(port, lock)


def _ephemeral_start() -> int:
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    return int(text.split()[0])


def _holder(port: int) -> str:
    """Say ` by pid N (name)` where this user may see it, else nothing."""
    inodes = _listeners(port)
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if link.readlink().name in inodes:
                pid = link.parts[2]
                name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
                return f" by pid {pid} ({name})"
    return ""


def _listeners(port: int) -> frozenset[str]:
    """Return `socket:[inode]` of each socket that listens on `port`."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                columns = line.split()
                here = int(columns[_LOCAL].rpartition(":")[2], 16) == port
                if here and columns[_STATE] == _LISTEN:
                    found.add(f"socket:[{columns[_INODE]}]")
    return frozenset(found)
