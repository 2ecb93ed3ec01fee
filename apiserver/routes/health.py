"""livez, readyz, healthz from named checks, and /metrics."""

import asyncio
from typing import Final

import structlog
from aiohttp import web

from apiserver import appkeys
from apiserver import metrics as metrics_
from apiserver.checks import Check
from apiserver.wire import status

_PLAIN: Final = "text/plain; charset=utf-8"

log = structlog.get_logger(__name__)


async def probe(request: web.Request) -> web.StreamResponse:
    """GET /livez, /readyz, /healthz with ?verbose and ?exclude, and one check by name below them."""
    services = request.app[appkeys.SERVICES]
    name, *rest = request[appkeys.ATTRIBUTES].path.removeprefix("/").split("/", 1)
    checks = services.health.of(name)
    if rest:
        checks = [check for check in checks if check.name == rest[0]]
        if not checks:
            raise status.no_such_path()
    excluded = set(request.query.getall("exclude", []))
    lines, bad = _judge(request, name, checks, excluded)
    unknown = sorted(excluded - {check.name for check in checks})
    if unknown:
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    headers = {"Content-Type": _PLAIN, "Cache-Control": "no-cache, private"}
    if bad:
        lines.append(f"{name} check failed")
        return web.Response(text="\n".join([*lines, ""]), status=500, headers=headers)
    if "verbose" not in request.query:
        return web.Response(text="ok", headers=headers)
    lines.append(f"{name} check passed")
    return web.Response(text="\n".join([*lines, ""]), headers=headers)


def _judge(
    request: web.Request, probe_name: str, checks: list[Check], excluded: set[str]
) -> tuple[list[str], bool]:
    services = request.app[appkeys.SERVICES]
    gauge, made = services.metrics.served.checks, services.metrics.served.checks_made
    lines, bad = [], False
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
            continue
        problem = check.problem()
        gauge.labels(check.name, probe_name).set(0 if problem else 1)
        made.labels(check.name, probe_name, "error" if problem else "success").inc()
        if services.health.is_news(check.name, problem):
            if problem:
                log.warning("health check failed", check=check.name, error=problem)
            else:
                log.info("health check passes again", check=check.name)
        if problem:
            bad = True
            lines.append(f"[-]{check.name} failed: reason withheld")
        else:
            lines.append(f"[+]{check.name} ok")
    return lines, bad


async def metrics(request: web.Request) -> web.StreamResponse:
    """GET /metrics."""
    services = request.app[appkeys.SERVICES]
    accept = request.headers.get("Accept")
    # In a thread: the process's own figures are read from /proc.
    body, content_type = await asyncio.to_thread(metrics_.exposition, services.metrics, accept)
    return web.Response(body=body, headers={"Content-Type": content_type})
