"""Carrier: a connection over HTTP/2, as its streams know it."""

from typing import Any, Protocol

from aiohttp import web
from h2.errors import ErrorCodes

from apiserver.wire.status import StatusError


class Carrier(Protocol):
    """What streams ask of their connection. What is sent on one that is gone goes nowhere."""

    server: web.Server
    peername: Any
    sockname: Any

    def send_head(self, number: int, head: list[tuple[str, str]], *, ends: bool = False) -> None:
        """Send the head of an answer; with `ends` it has no body."""

    def send_data(self, number: int, data: bytes, *, ends: bool) -> None:
        """Send some of an answer, no more than there is room for."""

    def room(self, number: int) -> int:
        """Return how many bytes of an answer can be sent now."""

    def give_back(self, number: int, size: int) -> None:
        """Let the client send as many more bytes."""

    def reset(self, number: int, code: ErrorCodes) -> None:
        """Cut a stream."""

    @property
    def is_full(self) -> bool:
        """Say whether the peer does not take what was written."""

    async def writable(self) -> None:
        """Wait until the peer takes what was written."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the transport knows."""

    def note(self, error: StatusError) -> None:
        """Count and tell what is no request."""

    def take_leave(self) -> None:
        """Say that no more should come here."""

    def over(self, number: int) -> None:
        """Forget a stream that has ended."""
