"""Open the facade where one is asked for, and have the host's APIService name whom it should."""

import contextlib
from collections.abc import AsyncIterator, Callable

from apiserver import appkeys, takeover
from apiserver.facade.documents import Documents
from apiserver.facade.host import Host
from apiserver.facade.serving import SERVED, Facade, Judging
from apiserver.flags import ServeConfig
from apiserver.identity import User
from apiserver.metrics import Metrics
from gpu import ports
from gpu.cluster import credentials


@contextlib.asynccontextmanager
async def opened(
    settings: ServeConfig, access: credentials.Access, metrics: Metrics
) -> AsyncIterator[Facade | None]:
    """Open the way to the host; None where there is to be no facade."""
    if settings.host is None:
        yield None
        return
    documents = Documents(SERVED, User(settings.config.controller_user))
    metrics.host_away.set_function(lambda: float(documents.away))
    async with Host(settings.host.url, settings.host.authorities, access) as host:
        yield Facade(host, documents)


async def keep_api(
    writer: ports.Writer, facade: Facade | None, leading: Callable[[], bool]
) -> None:
    """Have the host's APIService name us while there is a facade, else the host; for ever."""
    documents = None if facade is None else facade.documents
    await takeover.keep(
        writer,
        wanted=documents is not None,
        ready=lambda: documents is None or documents.seen,
        leading=leading,
    )


async def reading(facade: Facade | None) -> None:
    """Keep what is known of the host's documents fresh, for ever; returns where there is no facade."""
    if facade is not None:
        await facade.documents.run(facade.host)


def judged(authorizer: appkeys.Authorizes, facade: Facade | None) -> appkeys.Authorizes:
    """Return who judges access: with a facade the host does what it answers itself."""
    return authorizer if facade is None else Judging(authorizer)
