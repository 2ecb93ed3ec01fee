"""Chart: our chart rendered by helm, as JSON objects; or what helm said when it refused."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Json = Mapping[str, Any]
FOLDER = Path(__file__).parents[2] / "charts" / "cozystack-gpu"
OUTSIDE = ("deployment.enabled=false", "service.externalName=localhost", "caBundle=Q0E=")
"""Values with which devcluster installs the chart."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One helm binary; renders are kept, since a chart does not change while tests run."""

    helm: Path

    def render(
        self, *values: str, namespace: str = "cozy-system", served: str = ""
    ) -> tuple[Json, ...]:
        """Return every document, hooks among them. `values` are `key=value`, as --set takes them.

        `served` is `group/version/Kind` that the API server has beside what helm takes for granted.
        """
        done = _template(self.helm, values, namespace, served)
        assert done.returncode == 0, done.stderr
        return tuple(doc for doc in yaml.safe_load_all(done.stdout) if doc)

    def one(
        self, kind: str, name: str, *values: str, namespace: str = "cozy-system", served: str = ""
    ) -> Json:
        """Return the one document of that kind and name."""
        found = [
            doc
            for doc in self.render(*values, namespace=namespace, served=served)
            if doc["kind"] == kind and doc["metadata"]["name"] == name
        ]
        assert len(found) == 1, f"{len(found)} documents {kind} {name}"
        return found[0]

    def kinds(self, *values: str) -> frozenset[str]:
        """Return the kinds rendered."""
        return frozenset(doc["kind"] for doc in self.render(*values))

    def refusal(self, *values: str) -> str:
        """Return what helm said when it refused the values."""
        done = _template(self.helm, values, "cozy-system")
        assert done.returncode != 0, "helm took the values"
        return done.stderr


@cache
def _template(
    helm: Path, values: tuple[str, ...], namespace: str, served: str = ""
) -> subprocess.CompletedProcess[str]:
    sets = [f"--set={value}" for value in values]
    argv = [helm, "template", "cozystack-gpu", FOLDER, f"--namespace={namespace}", *sets]
    if served:
        argv.append(f"--api-versions={served}")
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
