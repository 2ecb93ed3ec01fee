"""Which values helm refuses, and whether the documented ones are all there are."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.charts.rendering import FOLDER, Chart

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("policy.mode=off", "additional properties 'policy' not allowed"),
        ("policies.mode=Managed", "at '/policies/mode': value must be one of"),
        ("policies.mode=true", "at '/policies/mode': value must be one of"),
        ("rawResourceNames=yes", "at '/rawResourceNames': value must be one of"),
        ("kubevirtNamespace=", "at '/kubevirtNamespace': '' does not match pattern"),
        ("usageRecordMonitor=always", "at '/usageRecordMonitor': value must be one of"),
        ("rawPlacement=nobody", "at '/rawPlacement': value must be one of"),
        ("binding=both", "at '/binding': value must be one of"),
        ("vmWebhooks.enabled=on", "at '/vmWebhooks/enabled': got string, want boolean"),
        ("runningGuests=always", "at '/runningGuests': value must be one of"),
        ("guard.share=2", "at '/guard/share': maximum: got 2, want 1"),
        ("grace.releaseSettle=59", "at '/grace/releaseSettle': minimum: got 59, want 60"),
        ("grace.notReady=-1", "at '/grace/notReady': minimum: got -1, want 0"),
        ("kubevirtNamespace=a:b", "at '/kubevirtNamespace': 'a:b' does not match pattern"),
        ("enabled=on", "at '/enabled': got string, want boolean"),
        ("service.port=0", "at '/service/port': minimum: got 0, want 1"),
        ("service.port=65536", "at '/service/port': maximum: got 65,536, want 65,535"),
        ("service.port=http", "at '/service/port': got string, want integer"),
        (
            "service.externalName=Local_Host",
            "at '/service/externalName': 'Local_Host' does not match",
        ),
        ("service.externalname=localhost", "additional properties 'externalname' not allowed"),
        ("caBundle=-----BEGIN", "at '/caBundle': '-----BEGIN' does not match pattern"),
        ("caBundle=Q0E", "at '/caBundle': 'Q0E' does not match pattern"),
        ("deployment.replicas=0", "at '/deployment/replicas': minimum: got 0, want 1"),
        ("deployment.env.lower=1", "at '': 'lower' does not match pattern"),
        ("deployment.shutdownDelay=-1", "at '/deployment/shutdownDelay': minimum: got -1, want 0"),
        ("image.repository=", "at '/image/repository': minLength: got 0, want 1"),
        ("image.digest=sha256:abc", "at '/image/digest': 'sha256:abc' does not match pattern"),
        ("tls.secretName=", "at '/tls/secretName': minLength: got 0, want 1"),
        ("rbac.hosterGroups={a,a}", "at '/rbac/hosterGroups': items at 0 and 1 are equal"),
    ],
)
def test_nonsense_is_refused_by_the_schema(chart: Chart, value: str, said: str):
    assert said in chart.refusal(value)


def test_an_external_name_beside_pods_of_the_chart_is_refused(chart: Chart):
    assert (
        "service.externalName sends kube-apiserver away from the pods of this chart: set "
        "deployment.enabled=false, or leave service.externalName empty"
    ) in chart.refusal("service.externalName=localhost")


def test_an_api_without_any_ca_is_refused(chart: Chart):
    assert (
        "nothing tells kube-apiserver which CA to trust: set caBundle, or certManager.enabled=true"
    ) in chart.refusal("certManager.enabled=false")


def leaves(values: dict[str, Any], at: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value and key != "resources":
            yield from leaves(value, f"{at}{key}.")
        else:
            yield f"{at}{key}"


def known(schema: dict[str, Any], at: str = "") -> Iterator[str]:
    for key, inner in schema["properties"].items():
        if "properties" in inner:
            yield from known(inner, f"{at}{key}.")
        else:
            yield f"{at}{key}"


def test_every_value_is_in_the_schema_and_in_the_documented_file():
    values = yaml.safe_load((FOLDER / "values.yaml").read_text())
    schema = json.loads((FOLDER / "values.schema.json").read_text())
    assert set(leaves(values)) == set(known(schema)) - {"global"}
