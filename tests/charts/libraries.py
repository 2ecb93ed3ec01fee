"""A chart made of nothing but our library chart, to render many inputs at once; and the example chart."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.charts.quota_rows import Row

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "charts" / "gpu-quota"
EXAMPLE = ROOT / "examples" / "tenant-chart"
CHART = """
apiVersion: v2
name: rows
version: 0.0.0
dependencies:
- {name: gpu-quota, version: "*", repository: file://charts/gpu-quota}
"""
# Each row is the values of a release of its own.
TEMPLATE = """
{{- range $name, $row := .Values.rows }}
{{- $root := dict "Values" $row "Capabilities" $.Capabilities "Release" $.Release }}
---
name: {{ $name | quote }}
hard:
  {{- include "gpu-quota.hard" (list $row.resourceQuotas $root) | nindent 2 }}
{{- end }}
"""


@dataclass(frozen=True, slots=True)
class Library:
    """The library in a folder of its own, and one helm binary."""

    helm: Path
    folder: Path

    def render(self, rows: Mapping[str, Row]) -> dict[str, dict[str, Any]]:
        """Return what each row's quotas become, by name, from one run of helm."""
        values = {name: values_of(row) for name, row in rows.items()}
        done = template(self.helm, self._chart(), {"rows": values})
        assert done.returncode == 0, done.stderr
        documents = [doc for doc in yaml.safe_load_all(done.stdout) if doc]
        return {doc["name"]: doc["hard"] for doc in documents}

    def refusal(self, values: Mapping[str, Any]) -> str:
        """Return what helm said of one row of values that it could not render."""
        done = template(self.helm, self._chart(), {"rows": {"one": values}})
        assert done.returncode != 0, done.stdout
        return done.stderr

    def _chart(self) -> Path:
        charts = self.folder / "charts"
        if not charts.is_dir():
            charts.mkdir()
            (charts / LIBRARY.name).symlink_to(LIBRARY)
            (self.folder / "templates").mkdir()
            (self.folder / "Chart.yaml").write_text(CHART, encoding="utf-8")
            (self.folder / "templates" / "rows.yaml").write_text(TEMPLATE, encoding="utf-8")
        return self.folder


def values_of(row: Row) -> dict[str, Any]:
    """Return a row as the values of a tenant's release."""
    return {
        "resourceQuotas": dict(row.quotas),
        "gpu": {"resourceNames": list(row.gpus)},
        "_cluster": dict(row.cluster),
    }


def template(
    helm: Path, chart: Path, values: Mapping[str, Any], *args: str, release: str = "tenant-acme"
) -> subprocess.CompletedProcess[str]:
    """Run `helm template` on a chart with these values, in the namespace of the tenants' root."""
    argv = [helm, "template", release, chart, "--namespace=tenant-root", "--values=-", *args]
    return subprocess.run(
        argv, input=json.dumps(values), capture_output=True, text=True, check=False, timeout=20
    )
