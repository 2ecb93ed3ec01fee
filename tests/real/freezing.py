"""How ConfigMap parameters freeze in a kube-apiserver (kubernetes 130887), and a second server."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from devcluster import components, probes
from devcluster.plane import ControlPlane
from gpu import keys
from gpu.cluster.client import Client
from gpu.objects import kinds

TICKS: Final = 3.5
"""Seconds without a binding that names the kind; an API server looks once a second."""
SECOND: Final = "kube-apiserver-2"
Json = dict[str, Any]


async def unbind(admin: Client) -> list[Json]:
    """Delete every binding with a ConfigMap as parameter, the keeper's too; return them."""
    found = [
        item
        for item in (await admin.list(kinds.POLICY_BINDINGS)).items
        if (item["spec"].get("paramRef") or {}).get("namespace") == keys.SETTINGS_NAMESPACE
    ]
    for item in found:
        await admin.delete(kinds.POLICY_BINDINGS, item["metadata"]["name"])
    return found


async def bind(admin: Client, bindings: Sequence[Json]) -> None:
    """Put bindings back as they were."""
    for item in bindings:
        meta = {
            key: item["metadata"][key]
            for key in ("name", "labels", "ownerReferences")
            if key in item["metadata"]
        }
        await admin.create(kinds.POLICY_BINDINGS, {"metadata": meta, "spec": item["spec"]})


async def freeze(admin: Client) -> None:
    """Have every API server stop following ConfigMaps, and put all bindings back."""
    bindings = await unbind(admin)
    await asyncio.sleep(TICKS)
    await bind(admin, bindings)


async def start_second(cp: ControlPlane) -> str:
    """Start one more kube-apiserver over the same etcd; return its `host:port`."""
    port = cp.reserve_port()
    command = cp.site.command(components.API_SERVER)
    argv = tuple(
        f"--secure-port={port}" if word.startswith("--secure-port=") else word
        for word in command.argv
    )
    log = cp.site.log(SECOND)
    probe = probes.answers_ok(f"https://127.0.0.1:{port}/readyz", cp.pki.serving_ca.crt)
    await cp.run(replace(command, name=SECOND, argv=argv, log=log), probe)
    return f"127.0.0.1:{port}"
