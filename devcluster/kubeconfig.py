"""Kubeconfig files for kubectl, helm and the product: one cluster, one user, one context."""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devcluster import pki

CONTEXT = "cozystack-gpu"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a cluster answers and which authority signed its certificate."""

    server: str
    ca: Path


def write_certificate(path: Path, endpoint: Endpoint, pair: pki.Pair) -> Path:
    """Write a kubeconfig that logs in by client certificate, embedded."""
    user = {
        "client-certificate-data": _base64(pair.crt),
        "client-key-data": _base64(pair.key),
    }
    return _write(path, endpoint, user)


def write_token(path: Path, endpoint: Endpoint, token: Path) -> Path:
    """Write a kubeconfig that reads its bearer token from the file `token` each time it is loaded."""
    return _write(path, endpoint, {"tokenFile": str(token)})


def write_private(path: Path, text: str) -> Path:
    """Replace `path` in one step by a file only its owner may read."""
    part = path.with_name(f".{path.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)
    return path


def _write(path: Path, endpoint: Endpoint, user: Mapping[str, str]) -> Path:
    cluster = {"server": endpoint.server, "certificate-authority-data": _base64(endpoint.ca)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": dict(user)}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
        "current-context": CONTEXT,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # JSON is YAML; kubectl and every client read it.
    return write_private(path, json.dumps(document, indent=2) + "\n")


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
