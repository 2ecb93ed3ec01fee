"""`make accept`: a stranger's checker judges a served resource, on a plane of its own.

The checker is told an administrator's kubeconfig, the server's own address with certificates to
knock there, and shell commands that change what the resource shows.
"""

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Final

from devcluster import (
    clock,
    control_plane,
    examples,
    plane,
    product,
    progress,
    simulator,
    story,
)
from gpu import keys
from gpu.cluster import client

SETTLE: Final = 62.0
"""Seconds; kube-apiserver reads an aggregated server's OpenAPI once a minute."""
_TENANT, _OTHER = examples.TENANTS
_CLASS = """{"apiVersion":"%s/%s","kind":"GPUClass","metadata":{"name":"extra"},"spec":{"mode":"vgpu",\
"source":{"devicePlugin":{"resourceName":"nvidia.com/NVIDIA_L40S-12Q"}}}}"""


async def run(checker: Path, resource: str, extra: tuple[str, ...] = ()) -> int:
    """Judge `resource` with the checker; print what it prints; return its exit status."""
    async with control_plane.control_plane() as cp:
        progress.say("… the product, tenants and a catalogue on it")
        async with product.running(cp) as gpu:
            await _fill(gpu.admin)
            with progress.step("waiting until kube-apiserver has read the schema"):
                await asyncio.sleep(SETTLE)
            argv = [sys.executable, str(checker), *_words(cp, gpu, resource), *extra]
            return await _shown(argv, _with_kubectl(cp))


async def _fill(admin: client.Client) -> None:
    """Put nodes, the example catalogue and tenants on the plane; orders are not needed."""
    nodes = simulator.Simulator(admin)
    for node in story.NODES:
        await nodes.add(node)
    for name in ("catalogue.yaml", *(f"tenants/{t}.yaml" for t in ("root", "acme", "globex"))):
        for body in examples.load(name):
            await story.put(admin, body)


def _words(cp: plane.ControlPlane, gpu: product.Product, resource: str) -> list[str]:
    proxy = cp.pki.front_proxy_client
    stranger = cp.pki.sign_proxy("other-proxy", user="other-proxy", now=clock.now())
    replica = gpu.replicas[product.FIRST]
    return [
        f"--kubeconfig={cp.kubeconfig}",
        f"--group={keys.CATALOG_GROUP}",
        f"--version={keys.CATALOG_VERSION}",
        f"--resource={resource}",
        f"--namespace={_TENANT}",
        f"--other-namespace={_OTHER}",
        f"--direct={replica.url}",
        f"--ca={cp.pki.ext_ca.crt}",
        f"--proxy-cert={proxy.crt}",
        f"--proxy-key={proxy.key}",
        f"--disallowed-proxy-cert={stranger.crt}",
        f"--disallowed-proxy-key={stranger.key}",
        *_commands(cp, resource),
    ]


def _commands(cp: plane.ControlPlane, resource: str) -> list[str]:
    """Return shell commands that alter, add and remove an object as the resource shows it."""
    kubectl = shlex.join([str(cp.site.binaries["kubectl"]), f"--kubeconfig={cp.kubeconfig}"])
    patch = f"{kubectl} patch gpuclass h100 --type=merge"
    change = f'{patch} -p "{{\\"spec\\":{{\\"description\\":\\"as of $(date +%s%N)\\"}}}}"'
    if resource == "quotagates":
        patch = f"{kubectl} patch helmrelease tenant-acme -n tenant-root --type=merge"
        quota = f'\\"{keys.QUOTA_PREFIX}h100\\":$(( $(date +%s%N) / 1000 % 50 + 5 ))'
        body = f'{{\\"spec\\":{{\\"values\\":{{\\"resourceQuotas\\":{{{quota}}}}}}}}}'
        change = f'{patch} -p "{body}"'
    words = [f"--change={change}"]
    if resource != "options":  # its objects are the sources: always the same ones
        made = shlex.quote(_CLASS % (keys.GROUP, keys.VERSION))
        words.append(f"--create=echo {made} | {kubectl} apply -f -")
        words.append(f"--delete={kubectl} delete gpuclass extra")
    return words


def _with_kubectl(cp: plane.ControlPlane) -> dict[str, str]:
    folder = cp.directory / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "kubectl").symlink_to(cp.site.binaries["kubectl"])
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


async def _shown(argv: list[str], env: dict[str, str]) -> int:
    checker = await asyncio.create_subprocess_exec(*argv, env=env)
    try:
        return await checker.wait()
    finally:
        if checker.returncode is None:
            checker.kill()
            await checker.wait()
