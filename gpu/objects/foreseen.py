"""Foreseen: the launcher that KubeVirt will make of a start, as its bind request carries it: written, and read.

It is what a node is asked for and nothing else, in the shape of a pod, so that it is judged as one. The
VMI webhook, which alone has seen the VMI, writes it; it is an estimate and asks for no less than the
launcher will (docs/binding.md).
"""

import functools
import json
from collections.abc import Mapping
from typing import Any, Final

from gpu.errors import DecodeError
from gpu.objects import pods
from gpu.objects.decode import Fields, Raw
from gpu.objects.pods import Pod

LONGEST: Final = 16384
"""Characters, as the CRD has it: rules of pods that are longer than this nobody looks at."""
_KEPT: Final = 1024


def format_launcher(labels: Mapping[str, str], spec: Raw) -> str:
    """Return it as a bind request has it: the same text for the same launcher."""
    pod = {"metadata": {"labels": dict(labels)}, "spec": spec}
    return json.dumps(pod, sort_keys=True, separators=(",", ":"))


@functools.lru_cache(maxsize=_KEPT)
def launcher(text: str, namespace: str, request: str) -> Pod | None:
    """Read it as the pod of a start, which has the id of the request; None where there is none to read."""
    if not text:
        return None
    try:
        return read(text, namespace, request)
    except DecodeError:
        return None


def read(text: str, namespace: str, request: str) -> Pod:
    """Read the same. Raises DecodeError where it is broken."""
    try:
        raw: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError("launcher", "is no JSON") from error
    pod = Fields(raw, "launcher")
    name = f"start-{request}"
    meta = {"name": name, "namespace": namespace, "uid": name}
    labels = pod.child("metadata").text_map("labels")
    return pods.decode({"metadata": meta | {"labels": labels}, "spec": pod.child("spec").raw})
