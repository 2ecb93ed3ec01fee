"""The route table and the middleware order on one screen; returns a web.Application."""

import ssl
from typing import Any, Final

from aiohttp import web

from apiserver import appkeys, connections, middleware
from apiserver.appkeys import Services
from apiserver.lanes import Lane
from apiserver.resources import RESOURCES
from apiserver.routes import admission, discovery, health, objects, openapi, questions, unserved

BODY_LIMIT: Final = 3 * 1024 * 1024
BACKLOG: Final = 4096
"""Connections that may wait to be taken. One more is not refused: its client tries again in silence, a
second later at the earliest. A kube-apiserver opens hundreds at once: for each of its clients' watches
after a break, and for each request that finds none of its 25 idle ones."""

# How connections are dealt with. A watch's handler has to end with its client;
# a user may be in a thousand groups, one header line each; selectors and tokens of pages are in the
# first line; kube-apiserver keeps idle connections for 90 s and must be the one to close them. Headers
# are kept whole before anybody knows who sends them: together 32 MiB at most. What is not answered 20 s
# after the listener closed is given up: the chart lets a pod go on for 30 s.
RUNNER: Final[dict[str, Any]] = {
    "handler_cancellation": True,
    "keepalive_timeout": 150.0,
    "shutdown_timeout": 20.0,
    "max_headers": 2048,
    "max_field_size": 16 * 1024,
    "max_line_size": 64 * 1024,
    "access_log": None,
    "auto_decompress": True,
}

ROUTES: Final = (
    ("*", "/apis/{group}/{version}/{rest:.+}", objects.serve),
    ("GET", "/", discovery.root),
    ("GET", "/api", discovery.apis),
    ("GET", "/apis", discovery.apis),
    ("GET", "/apis/", discovery.apis),
    ("GET", "/apis/{group}", discovery.document),
    ("GET", "/apis/{group}/{version}", discovery.document),
    ("GET", "/version", discovery.version),
    ("GET", "/openapi/v2", openapi.v2),
    ("GET", "/openapi/v3", openapi.v3_index),
    ("GET", "/openapi/v3/apis/{group}/{version}", openapi.v3),
    ("GET", "/livez", health.probe),
    ("GET", "/readyz", health.probe),
    ("GET", "/healthz", health.probe),
    ("GET", "/livez/{check}", health.probe),
    ("GET", "/readyz/{check}", health.probe),
    ("GET", "/healthz/{check}", health.probe),
    ("GET", "/metrics", health.metrics),
    ("POST", "/admission/{name}", admission.review),
    ("*", "/{rest:.*}", unserved.refuse),
)


def runner(services: Services) -> connections.Runner:
    """Return what listens with the application; nothing in it is started."""
    return connections.Runner(build(services), services.metrics.served, **RUNNER)


def site(
    runner: web.BaseRunner, address: str, port: int, tls: ssl.SSLContext | None = None
) -> web.TCPSite:
    """Return where a runner listens; nothing is open before it is started."""
    return web.TCPSite(runner, address, port, ssl_context=tls, backlog=BACKLOG)


def build(services: Services) -> web.Application:
    """Return the application over its services; nothing in it is started."""
    resources = RESOURCES if services.resources is None else services.resources
    app = web.Application(middlewares=middleware.ORDER, client_max_size=BODY_LIMIT)
    app[appkeys.SERVICES] = services
    app[appkeys.RESOURCES] = {(one.group, one.version, one.plural): one for one in resources}
    app[appkeys.LANES] = {
        "readOnly": Lane(services.limits.reading, share=services.limits.share),
        "mutating": Lane(services.limits.mutating, share=services.limits.share),
    }
    app[discovery.DOCUMENTS] = discovery.build(resources)
    app[openapi.DOCUMENTS] = openapi.build()
    app[questions.JUDGES] = questions.build()
    if services.facade is not None:
        services.facade.mount(app)
    for method, path, handler in ROUTES:
        app.router.add_route(method, path, handler)
    app.on_response_prepare.append(middleware.finish_headers)
    return app
