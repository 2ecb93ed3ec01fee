"""examples/tenant-chart: the documents it renders, and the values it refuses, offline."""

import re

import pytest
import yaml

from tests.charts.libraries import EXAMPLE, LIBRARY, template
from tests.charts.quota_rows import L40S
from tests.charts.rendering import Chart

pytestmark = pytest.mark.real

QUOTAS = {"cpu": "10", "memory": "20Gi", "storage": "100Gi", "pods": "50", L40S: "4"}
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "tenant-range-limits", "namespace": "tenant-acme"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "default": {"cpu": "250m", "memory": "128Mi", "ephemeral-storage": "2Gi"},
                "defaultRequest": {"cpu": "25m", "memory": "128Mi", "ephemeral-storage": "50Mi"},
            }
        ]
    },
}
"""As a Cozystack of today was seen to render it."""


def rendered(chart: Chart, quotas, *args, release="tenant-acme", **values):
    done = template(
        chart.helm, EXAMPLE, {"resourceQuotas": quotas, **values}, *args, release=release
    )
    assert done.returncode == 0, done.stderr
    return [doc for doc in yaml.safe_load_all(done.stdout) if doc]


def refused(chart: Chart, quotas, *args, release="tenant-acme", **values):
    done = template(
        chart.helm, EXAMPLE, {"resourceQuotas": quotas, **values}, *args, release=release
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


def hard(chart: Chart, quotas, *args, **values):
    return rendered(chart, quotas, *args, **values)[0]["spec"]["hard"]


def test_the_quota_and_the_limits_are_the_hosts_but_for_the_gpu(chart: Chart):
    quota, limits = rendered(chart, QUOTAS, gpu={"resourceNames": [L40S]})
    assert quota == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tenant-quota", "namespace": "tenant-acme"},
        "spec": {
            "hard": {
                "limits.cpu": "10",
                "requests.cpu": "1",
                "limits.memory": "20Gi",
                "requests.memory": "21474836480",
                "requests.storage": "100Gi",
                "pods": "50",
                f"requests.{L40S}": "4",
            }
        },
    }
    assert limits == LIMITS


def test_without_quotas_nothing_is_rendered(chart: Chart):
    assert rendered(chart, {}) == []


def test_budgets_alone_leave_a_quota_that_bounds_nothing(chart: Chart):
    quota, limits = rendered(chart, {"gpu.cozystack.io/total": 8})
    assert quota["spec"] == {"hard": {}}
    assert limits == LIMITS


@pytest.mark.parametrize(
    "args",
    [(), ("--api-versions=catalog.gpu.cozystack.io/v1alpha1/Option",)],
    ids=["a cluster without the group", "a lookup that answers nothing"],
)
@pytest.mark.parametrize("gpu", [{}, {"lookup": True}, {"lookup": False}], ids=str)
def test_a_name_that_nobody_knows_is_rendered_as_by_the_host(chart: Chart, args, gpu):
    assert hard(chart, {L40S: 4}, *args, gpu=gpu) == {f"limits.{L40S}": 4, f"requests.{L40S}": 4}


def test_the_listed_names_do_not_depend_on_a_cluster(chart: Chart):
    found = hard(chart, {L40S: 4}, gpu={"resourceNames": [L40S], "lookup": False})
    assert found == {f"requests.{L40S}": "4"}


@pytest.mark.parametrize("values", [{}, {"gpu": None}], ids=["absent", "null"])
def test_without_values_for_gpus_all_is_as_the_host_has_it(chart: Chart, values):
    assert hard(chart, {"cpu": 2}, **values) == {"limits.cpu": "2", "requests.cpu": "0.2"}


@pytest.mark.parametrize(
    ("release", "namespace", "tenant"),
    [
        ("tenant-acme", "tenant-root", "tenant-acme"),
        ("tenant-b", "tenant-acme", "tenant-acme-b"),
        ("tenant-c", "tenant-acme-b", "tenant-acme-b-c"),
    ],
)
def test_the_quota_lies_in_the_namespace_of_the_tenant(chart: Chart, release, namespace, tenant):
    found = rendered(chart, QUOTAS, f"--namespace={namespace}", release=release)
    assert {doc["metadata"]["namespace"] for doc in found} == {tenant}


@pytest.mark.parametrize(
    ("release", "namespace", "said"),
    [
        ("acme", "tenant-root", 'release "acme": a tenant\'s release is named tenant-<name>'),
        ("tenant-a-b", "tenant-root", 'release "tenant-a-b": a tenant\'s release is named'),
        ("tenant-a", "default", 'namespace "default": a tenant\'s release lies in the namespace'),
    ],
)
def test_a_release_that_makes_no_tenant_is_refused(chart: Chart, release, namespace, said):
    assert said in refused(chart, QUOTAS, f"--namespace={namespace}", release=release)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"resourceQuotas": {L40S: True}}, f"at '/resourceQuotas/{L40S.replace('/', '~1')}'"),
        ({"resourceQuotas": {L40S: None}}, "got null, want integer or string"),
        ({"resourceQuotas": {L40S: 1.5}}, "got number, want integer or string"),
        ({"resourceQuotas": {L40S: "4GB"}}, "'4GB' does not match pattern"),
        ({"resourceQuotas": {L40S: ""}}, "'' does not match pattern"),
        ({"resourceQuotas": ["cpu"]}, "at '/resourceQuotas': got array, want object"),
        ({"gpu": {"resourceNames": L40S}}, "at '/gpu/resourceNames': got string, want array"),
        ({"gpu": {"resourceNames": ["memory"]}}, "'memory' does not match pattern"),
        ({"gpu": {"lookup": "no"}}, "at '/gpu/lookup': got string, want boolean"),
        ({"gpu": {"names": [L40S]}}, "additional properties 'names' not allowed"),
        ({"resourceQuotas": {"limits": "4"}}, "resourceQuotas[limits]: quotas are one flat map"),
        (
            {"resourceQuotas": {"requests": "4"}},
            "resourceQuotas[requests]: quotas are one flat map",
        ),
    ],
    ids=str,
)
def test_values_that_mean_nothing_are_refused_by_name(chart: Chart, values, said):
    assert said in refused(chart, values.pop("resourceQuotas", QUOTAS), **values)


def test_the_example_of_the_page_is_true(chart: Chart):
    page = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    values, shown = (
        yaml.safe_load(text)
        for text in re.findall(r"(?:<<'YAML'|```yaml)\n(.*?)(?:YAML|```)\n", page, re.DOTALL)
    )
    found = rendered(chart, values.pop("resourceQuotas"), **values)[0]
    assert {"spec": found["spec"]} == shown


def test_the_library_is_found_by_file_and_is_ours():
    inside = EXAMPLE / "charts" / LIBRARY.name
    assert inside.is_symlink()
    assert inside.resolve() == LIBRARY.resolve()
    assert not inside.readlink().is_absolute()
