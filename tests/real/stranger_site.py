"""Programs of other people against what we serve: kubectl of two minors, and a client-go informer."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devcluster import children, commands, errors, tenants
from tests.real import site as sites

TENANT: Final = "tenant-guest"
OTHER: Final = "tenant-host"
KUBECTLS: Final = ("kubectl", "kubectl-older")
INFORMER: Final = "informer"
RESOURCE: Final = "catalog.gpu.cozystack.io/v1alpha1/gpuoffers"
KNOWN: Final = ("a100", "h100", "l40s")
UNITS: Final = 8
"""Of the one node; every class offers them."""
Json = dict[str, Any]


@dataclass(frozen=True)
class Guest:
    """Somebody of a tenant with a kubeconfig, and nothing of ours on the machine."""

    site: sites.Site
    login: Path

    async def kubectl(self, binary: str, *words: str, stdin: str | None = None) -> str:
        """Run one of the kubectls in the tenant's namespace; CommandError tells what it said."""
        argv = self._argv(binary, *words)
        return await commands.run(argv, stdin=stdin, env={"KUBERC": "off"}, within=60)

    @contextlib.asynccontextmanager
    async def watching(self, binary: str, *words: str) -> AsyncIterator["Lines"]:
        """Run a kubectl that goes on; gives what it prints."""
        async with running(self._argv(binary, *words), {"KUBERC": "off"}) as lines:
            yield lines

    @contextlib.asynccontextmanager
    async def informer(self, form: str, *, streaming: bool) -> AsyncIterator["Lines"]:
        """Run an informer of the tenant's offers; gives what it is told."""
        binary = str(self.site.cp.site.binaries[INFORMER])
        gate = {"KUBE_FEATURE_WatchListClient": str(streaming).lower()}
        async with running((binary, str(self.login), RESOURCE, TENANT, form), gate) as lines:
            yield lines

    def _argv(self, binary: str, *words: str) -> tuple[str, ...]:
        cache = f"--cache-dir={self.site.cp.directory / binary}"
        place = (f"--kubeconfig={self.login}", cache, f"--namespace={TENANT}")
        return (str(self.site.cp.site.binaries[binary]), *place, *words)


@dataclass(frozen=True)
class Lines:
    """The output of a program that runs."""

    process: asyncio.subprocess.Process

    async def until(self, *words: str, within: float = 45.0) -> str:
        """Read on to a line with all the words; fails with what came instead."""
        seen: list[str] = []
        try:
            async with asyncio.timeout(within):
                while line := await _line(self.process):
                    seen.append(line)
                    if all(word in line for word in words):
                        return line
        except TimeoutError:
            pass
        raise AssertionError(f"no line with {words} in {seen}")

    async def quiet(self, seconds: float) -> list[str]:
        """Read for a while; return what came."""
        seen: list[str] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while line := await _line(self.process):
                    seen.append(line)
        return seen


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode()


@contextlib.asynccontextmanager
async def running(argv: Sequence[str], env: Mapping[str, str]) -> AsyncIterator[Lines]:
    """Run a program for the length of the block; what it says on stderr comes along."""
    told = (f"{name}={value}" for name, value in env.items())
    async with children.running("env", *told, *argv, stderr=asyncio.subprocess.STDOUT) as process:
        yield Lines(process)


@contextlib.asynccontextmanager
async def invited(directory: Path) -> AsyncIterator[Guest]:
    """Open a site with a few offers, and somebody who may read and order."""
    async with sites.opened(directory) as site:
        await site.node("gpu-1", UNITS)
        for name in KNOWN:
            await site.offer(name, description=f"cards: {name}")
        for tenant in (TENANT, OTHER):
            await site.tenant(tenant)
        groups = (tenants.group(TENANT),)
        guest = Guest(site, site.cp.kubeconfig_for(f"somebody@{TENANT}", groups))
        rights = {"group": "catalog.gpu.cozystack.io", "resource": "orderreviews", "at": TENANT}
        await site.may(f"somebody@{TENANT}", groups, verb="create", **rights)

        async def offered() -> bool:
            items = (await site.served(TENANT, "gpuoffers"))["items"]
            free = {it["metadata"]["name"]: it["status"]["free"] for it in items}
            return free == dict.fromkeys(KNOWN, UNITS)

        async def discovered() -> bool:
            with contextlib.suppress(errors.CommandError):
                words = ("api-resources", "--api-group=catalog.gpu.cozystack.io", "-o=name")
                return RESOURCE.rpartition("/")[2] in await guest.kubectl(KUBECTLS[0], *words)
            return False

        await sites.until(offered, 45, "all classes offered with all units")
        # kube-apiserver reads the discovery of an aggregated server when it likes.
        await sites.until(discovered, 120, "what is served discovered")
        yield guest


def events(lines: Sequence[str]) -> list[Json]:
    """Return what an informer printed of events."""
    return [json.loads(line) for line in lines if line.startswith("{")]
