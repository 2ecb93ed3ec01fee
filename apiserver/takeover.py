"""The host's APIService: made to name us with `hostOptions: facade`, and put back as it was.

Its object is the host's release's, not ours: what it named before is kept on it as an annotation. An
upgrade of the host may write it anew; then it is taken again, and what it names now is kept. The
annotation that has cert-manager inject a CA goes along, or the host's CA would come back alone.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from gpu import keys, ports
from gpu.cluster import errors
from gpu.objects import kinds
from policies import stored

HOST_API: Final = f"{keys.HOST_CORE_VERSION}.{keys.HOST_CORE_GROUP}"
OUR_API: Final = f"{keys.CATALOG_VERSION}.{keys.CATALOG_GROUP}"
EVERY: Final = 10.0
"""Seconds between looks at whether it still names us."""
SOON: Final = 1.0
"""Seconds between looks at whether the host was reached."""
_INJECT: Final = "cert-manager.io/inject-ca-from"
_PARTS: Final = ("service", "caBundle", "insecureSkipTLSVerify")

log = structlog.get_logger(__name__)


async def take(writer: ports.Writer) -> bool:
    """Make the host's APIService name whom ours names; True when something was written.

    Nothing is done where either is not there. Raises what the API server answered.
    """
    theirs = await stored.find(writer, kinds.API_SERVICES, HOST_API)
    ours = await stored.find(writer, kinds.API_SERVICES, OUR_API)
    if theirs is None or ours is None:
        return False
    have, want = _named(theirs), _named(ours)
    if have == want:
        return False
    mark = _mark(theirs)
    if have["service"] != want["service"]:
        mark = {"was": have, "is": want["service"]}
    await writer.patch(kinds.API_SERVICES, HOST_API, _patch(theirs, want, mark))
    return True


async def give_back(writer: ports.Writer) -> bool:
    """Put the host's APIService back as it was; True when something was written.

    One that names somebody else by now loses our annotation and is left alone besides.
    """
    theirs = await stored.find(writer, kinds.API_SERVICES, HOST_API)
    mark = None if theirs is None else _mark(theirs)
    if theirs is None or mark is None:
        return False
    have = _named(theirs)
    back = mark["was"] if have["service"] == mark["is"] else have
    await writer.patch(kinds.API_SERVICES, HOST_API, _patch(theirs, back, None))
    return True


async def keep(
    writer: ports.Writer,
    *,
    wanted: bool,
    ready: Callable[[], bool],
    leading: Callable[[], bool],
) -> None:
    """While we lead, keep it naming us where that is `wanted`, else put it back once; until cancelled.

    It is not taken before `ready`: a host that we cannot reach would be cut off.
    """
    done = False
    while True:
        try:
            if ready() and leading() and not done:
                written = await (take if wanted else give_back)(writer)
                done = not wanted
                if written:
                    log.info("the host's APIService was written", names_us=wanted)
        except errors.ApiError as error:
            log.warning("the host's APIService is not written", error=str(error))
        await asyncio.sleep(EVERY if ready() else SOON)


def _named(api_service: Mapping[str, Any]) -> dict[str, Any]:
    """Return whom it names and how that one is believed."""
    spec = api_service["spec"]
    annotations = api_service["metadata"].get("annotations") or {}
    return {**{part: spec.get(part) for part in _PARTS}, "inject": annotations.get(_INJECT)}


def _mark(api_service: Mapping[str, Any]) -> dict[str, Any] | None:
    text = (api_service["metadata"].get("annotations") or {}).get(keys.HOST_API_ANNOTATION)
    if text is None:
        return None
    try:
        mark = json.loads(text)
        return mark if {"was", "is"} <= set(mark) and set(_PARTS) <= set(mark["was"]) else None
    except (ValueError, TypeError):
        log.warning("what the host's APIService named before cannot be read", annotation=text[:256])
        return None


def _patch(
    found: Mapping[str, Any], named: Mapping[str, Any], mark: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {
        "metadata": {
            "resourceVersion": found["metadata"]["resourceVersion"],
            "annotations": {
                keys.HOST_API_ANNOTATION: None
                if mark is None
                else json.dumps(mark, sort_keys=True),
                _INJECT: named.get("inject"),
            },
        },
        "spec": {part: named[part] for part in _PARTS},
    }
