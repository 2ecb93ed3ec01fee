"""The API servers one by one: the addresses behind Service `kubernetes`, and a way to each.

All else goes through that Service, to any one of them. Who wants to know what each does asks here;
addresses that cannot be learned are no error.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from gpu import ports
from gpu.cluster import client, errors, http
from gpu.objects import kinds

SERVICE: Final = "kubernetes"
NAMESPACE: Final = "default"
SERVER_NAME: Final = "kubernetes.default.svc"
"""In the certificate of every API server, whatever its address."""
MOST: Final = 16
"""Addresses that are looked at."""
_PORT: Final = "https"
_CONNECTIONS: Final = 2


@asynccontextmanager
async def doors(
    usual: client.Client, *, observe: Callable[[http.Observation], None] | None = None
) -> AsyncIterator[ports.Doors]:
    """Open a way to each API server, with the credentials of the usual client."""
    addresses = await _addresses(usual)
    async with AsyncExitStack() as stack:
        each: dict[str, ports.Writer] = {}
        for address in addresses:
            access = usual.access.at(f"https://{address}", SERVER_NAME)
            way = client.Client(access, connections=_CONNECTIONS, observe=observe)
            each[address] = await stack.enter_async_context(way)
        yield ports.Doors(each=each, usual=usual, usual_name=urlsplit(usual.access.server).netloc)


async def _addresses(usual: client.Client) -> tuple[str, ...]:
    try:
        found = await usual.get(kinds.ENDPOINT_SLICES, SERVICE, NAMESPACE)
    except (errors.NotFound, errors.Forbidden):
        return ()
    return tuple(dict.fromkeys(_of_slice(found)))[:MOST]


def _of_slice(found: dict[str, Any]) -> Iterator[str]:
    """Yield `host:port` of everything in an EndpointSlice that is not known to be unready."""
    ports_of = [
        port["port"]
        for port in found.get("ports") or []
        if port.get("name", "") in {_PORT, ""} and port.get("port")
    ]
    for endpoint in found.get("endpoints") or []:
        if (endpoint.get("conditions") or {}).get("ready") is False:
            continue
        for address in endpoint.get("addresses") or []:
            host = f"[{address}]" if ":" in address else address
            for port in ports_of:
                yield f"{host}:{port}"
