"""`make accept`: a stranger's checker judges the served resources, on a plane of its own.

The checker is told an administrator's kubeconfig, the server's own address with certificates to
knock there, shell commands that change what the resource shows, and a question that it posts.
"""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devcluster import (
    chart,
    clock,
    control_plane,
    errors,
    examples,
    plane,
    probes,
    product,
    progress,
    simulator,
    story,
)
from gpu import keys
from gpu.cluster import client

SETTLE: Final = 150.0
"""Seconds; kube-apiserver reads an aggregated server's OpenAPI once a minute, or when told to."""
_TENANT, _OTHER = examples.TENANTS
_V3: Final = f"/openapi/v3/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}"
_API_SERVICE: Final = f"apiservice/{keys.CATALOG_VERSION}.{keys.CATALOG_GROUP}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """How a resource is judged: what alters, adds and removes one of its objects, and what is asked beside.

    The commands are shell text in which `{kubectl}` stands for kubectl as an administrator, and
    `{resource}` for the resource's full name.
    """

    change: str
    create: str = ""
    delete: str = ""
    question: str = ""
    """Plural name of a created-only resource that is judged in the same run."""


_NOW: Final = "$(date +%s%N)"
_DESCRIBE: Final = (
    "{kubectl} patch gpuclass h100 --type=merge "
    f'-p "{{{{\\"spec\\":{{{{\\"description\\":\\"as of {_NOW}\\"}}}}}}}}"'
)


def _quota(key: str, least: int, most: int) -> str:
    """Return the command that sets a quota of the tenant to some number between two."""
    number = f"$(( {_NOW} / 1000 % {most - least} + {least} ))"
    return (
        "{kubectl} patch helmrelease tenant-acme -n tenant-root --type=merge "
        '-p "{{\\"spec\\":{{\\"values\\":{{\\"resourceQuotas\\":{{'
        f'\\"{keys.QUOTA_PREFIX}{key}\\":{number}'
        '}}}}}}}}"'
    )


_CLASS: Final[Mapping[str, Any]] = {
    "apiVersion": f"{keys.GROUP}/{keys.VERSION}",
    "kind": "GPUClass",
    "metadata": {"name": "extra"},
    "spec": {
        "mode": "vgpu",
        "source": {"devicePlugin": {"resourceName": "nvidia.com/NVIDIA_L40S-12Q"}},
    },
}


def _waiting(name: str, tenant: str, class_name: str, count: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{keys.GROUP}/{keys.VERSION}",
        "kind": "GPUClaim",
        "metadata": {"name": name, "namespace": tenant},
        "spec": {"className": class_name, "count": count},
    }


def _making(body: Mapping[str, Any]) -> str:
    """Return the command that makes an object and ends when the resource shows it.

    What is gone before anybody computed it was never there.
    """
    made = f"echo {shlex.quote(json.dumps(body))}".replace("{", "{{").replace("}", "}}")
    shown = f"{{kubectl}} get {{resource}} -n {_TENANT} -o name | grep extra"
    return f"{made} | {{kubectl}} apply -f - && until {shown}; do sleep 0.1; done"


WAITING: Final = (
    # Nobody is entitled to slices, and nobody has so many cards or a budget for them.
    _waiting("wait-one", _TENANT, "l40s-quarter", 1),
    _waiting("wait-two", _TENANT, "l40s-quarter", 1),
    _waiting("wait-many", _TENANT, "l40s", 1000),
    _waiting("wait-other", _OTHER, "l40s", 1000),
)
"""Orders that wait for ever, so that there is something to explain."""
_REMOVE_CLASS: Final = "{kubectl} delete gpuclass extra"

SUBJECTS: Final[Mapping[str, Subject]] = {
    # Its objects are its sources, always the same ones: none comes or goes.
    "options": Subject(change=_DESCRIBE, question="orderreviews"),
    "gpuoffers": Subject(
        change=_DESCRIBE, create=_making(_CLASS), delete=_REMOVE_CLASS, question="quotareviews"
    ),
    "quotagates": Subject(
        change=_quota("h100", 5, 50_000),
        create=_making(_CLASS),
        delete=_REMOVE_CLASS,
        question="orderreviews",
    ),
    "explanations": Subject(
        # The leader then writes the claim's condition, which changes what is explained once more.
        change=_quota("total", 9, 999) + " && sleep 1",
        create=_making(_waiting("extra", _TENANT, "l40s-quarter", 1)),
        delete=f"{{kubectl}} delete gpuclaim extra -n {_TENANT}",
        question="quotareviews",
    ),
}
"""Every resource that the checker can judge: namespaced, with get, list and watch."""

VALUES: Final = chart.ORDERS_WAIT
"""Of the chart on such a plane: the webhook would refuse the orders that are to wait."""
QUESTIONS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "orderreviews": ("OrderReview", {"className": "h100", "count": 1}),
    "quotareviews": ("QuotaReview", {"resourceQuotas": {f"{keys.QUOTA_PREFIX}h100": 1}}),
}
"""Kind and spec of a question that is answered, by the plural name of its resource."""


async def run(checker: Path, resources: tuple[str, ...], extra: tuple[str, ...] = ()) -> int:
    """Judge resources one after the other, all when none is named; print what the checker prints.

    `extra` are more words for the checker. Returns the highest of its exit statuses.
    """
    unknown = sorted({*resources} - {*SUBJECTS})
    if unknown:
        raise errors.DevclusterError(
            f"not to be judged: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}"
        )
    async with control_plane.control_plane() as cp:
        progress.say("… the product, tenants and a catalogue on it")
        async with product.running(cp, values=VALUES) as gpu:
            await prepare(cp, gpu)
            worst = 0
            for resource in resources or tuple(SUBJECTS):
                progress.say(f"\n{resource}")
                words = argv(cp, gpu, checker, resource, *extra)
                worst = max(worst, await _shown(words, environment(cp)))
            return worst


async def prepare(cp: plane.ControlPlane, gpu: product.Product) -> None:
    """Put tenants and a catalogue on a plane, and wait until kube-apiserver has our schema."""
    await _fill(gpu.admin)
    with progress.step("waiting until kube-apiserver has read the schema"):
        await _described(cp)


async def _described(cp: plane.ControlPlane) -> None:
    """Wait until both OpenAPI documents have ours; touching the APIService has it read anew at once."""
    touched = f"{keys.DOMAIN}/read-at={clock.now().timestamp():.0f}"
    await cp.kubectl("annotate", "--overwrite", _API_SERVICE, touched)
    if not await probes.until(lambda: _is_described(cp), within=SETTLE, every=0.5):
        raise errors.DevclusterError("kube-apiserver has not read our schema")


async def _is_described(cp: plane.ControlPlane) -> bool:
    try:
        third = await cp.kubectl("get", "--raw", _V3)
        second = await cp.kubectl("get", "--raw", "/openapi/v2")
    except errors.DevclusterError:
        return False
    group = f"/apis/{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}/"
    return group in third and group in second


async def _fill(admin: client.Client) -> None:
    """Put nodes, the example catalogue, tenants and orders that wait on the plane."""
    nodes = simulator.Simulator(admin)
    for node in story.NODES:
        await nodes.add(node)
    for name in ("catalogue.yaml", *(f"tenants/{t}.yaml" for t in ("root", "acme", "globex"))):
        for body in examples.load(name):
            await story.put(admin, body)
    for body in WAITING:
        await story.put(admin, body)


def argv(
    cp: plane.ControlPlane, gpu: product.Product, checker: Path, resource: str, *extra: str
) -> list[str]:
    """Return the command that judges one resource."""
    proxy = cp.pki.front_proxy_client
    stranger = cp.pki.sign_proxy("other-proxy", user="other-proxy", now=clock.now())
    replica = gpu.replicas[product.FIRST]
    return [
        sys.executable,
        str(checker),
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
        *_question(cp, SUBJECTS[resource].question),
        *extra,
    ]


def _commands(cp: plane.ControlPlane, resource: str) -> list[str]:
    subject = SUBJECTS[resource]
    names = {
        "kubectl": shlex.join([str(cp.site.binaries["kubectl"]), f"--kubeconfig={cp.kubeconfig}"]),
        "resource": f"{resource}.{keys.CATALOG_GROUP}",
    }
    texts = {"change": subject.change, "create": subject.create, "delete": subject.delete}
    return [f"--{name}={text.format(**names)}" for name, text in texts.items() if text]


def _question(cp: plane.ControlPlane, plural: str) -> list[str]:
    if not plural:
        return []
    kind, spec = QUESTIONS[plural]
    body = {
        "apiVersion": f"{keys.CATALOG_GROUP}/{keys.CATALOG_VERSION}",
        "kind": kind,
        "metadata": {"name": "asked"},
        "spec": spec,
    }
    path = cp.directory / f"{plural}.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    return [f"--review-resource={plural}", f"--review-body={path}"]


def environment(cp: plane.ControlPlane) -> dict[str, str]:
    """Return an environment in which `kubectl` is the plane's own."""
    folder = cp.directory / "bin"
    folder.mkdir(exist_ok=True)
    if not (folder / "kubectl").exists():
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
