"""What the chart renders from which values."""

import pytest
import typer.main

from apiserver import cli
from gpu.config import PolicyMode
from tests.charts.rendering import FOLDER, OUTSIDE, Chart, Json

pytestmark = pytest.mark.real

API_SERVICE = "v1alpha1.catalog.gpu.cozystack.io"


def args(chart: Chart, *values: str) -> dict[str, str]:
    """Return the flags of `serve` that the Deployment passes."""
    template = chart.one("Deployment", "cozystack-gpu", *values)["spec"]["template"]["spec"]
    first, *rest = template["containers"][0]["args"]
    assert first == "serve"
    return {flag: value for flag, _, value in (arg.partition("=") for arg in rest)}


def flags_of(command: str) -> set[str]:
    """Return every flag that a subcommand of the program takes."""
    group = typer.main.get_group(cli.app)
    found = group.commands[command].params
    return {flag for param in found for flag in (*param.opts, *param.secondary_opts)}


def test_by_default_pods_of_the_chart_are_reached_through_its_service(chart: Chart):
    service = chart.one("Service", "cozystack-gpu")["spec"]
    pods = chart.one("Deployment", "cozystack-gpu")["spec"]["template"]
    assert service == {
        "type": "ClusterIP",
        "trafficDistribution": "PreferClose",
        "selector": {
            "app.kubernetes.io/name": "cozystack-gpu",
            "app.kubernetes.io/instance": "cozystack-gpu",
        },
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "https"}],
    }
    assert service["selector"].items() <= pods["metadata"]["labels"].items()
    ports = pods["spec"]["containers"][0]["ports"]
    assert [(port["name"], port["containerPort"]) for port in ports] == [("https", 8443)]
    assert args(chart)["--port"] == "8443"


def test_an_external_name_sends_the_api_to_a_host_and_port(chart: Chart):
    values = (*OUTSIDE, "service.port=8443")
    assert chart.one("Service", "cozystack-gpu", *values)["spec"] == {
        "type": "ExternalName",
        "externalName": "localhost",
        "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
    }
    assert chart.one("APIService", API_SERVICE, *values)["spec"] == {
        "group": "catalog.gpu.cozystack.io",
        "version": "v1alpha1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "caBundle": "Q0E=",
        "service": {"name": "cozystack-gpu", "namespace": "cozy-system", "port": 8443},
    }


def test_without_the_deployment_the_service_waits_for_endpoint_slices(chart: Chart):
    values = ("deployment.enabled=false", "caBundle=Q0E=")
    assert chart.one("Service", "cozystack-gpu", *values)["spec"] == {
        "type": "ClusterIP",
        "trafficDistribution": "PreferClose",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP"}],
    }


def test_without_the_deployment_nothing_of_the_process_is_left(chart: Chart):
    assert chart.kinds(*OUTSIDE) == {
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ValidatingWebhookConfiguration",
    }
    assert chart.kinds() - chart.kinds(*OUTSIDE) == {
        "Certificate",
        "Deployment",
        "Issuer",
        "Job",
        "PodDisruptionBudget",
    }


def test_cert_manager_gives_the_ca_unless_one_is_given(chart: Chart):
    service = chart.one("APIService", API_SERVICE, namespace="elsewhere")
    assert service["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "elsewhere/cozystack-gpu"
    }
    assert "caBundle" not in service["spec"]
    serving = chart.one("Certificate", "cozystack-gpu", namespace="elsewhere")["spec"]
    assert serving["dnsNames"] == ["cozystack-gpu", "cozystack-gpu.elsewhere.svc"]
    assert serving["secretName"] == "cozystack-gpu-cert"
    assert (serving["privateKey"]["algorithm"], serving["privateKey"]["size"]) == ("ECDSA", 256)
    # Installed before with the default: a key of another kind is made only where it may be rotated.
    assert serving["privateKey"]["rotationPolicy"] == "Always"

    given = chart.one("APIService", API_SERVICE, "caBundle=Q0E=")
    assert "annotations" not in given["metadata"]
    assert given["spec"]["caBundle"] == "Q0E="
    assert {"Certificate", "Issuer"} & chart.kinds("caBundle=Q0E=") == set()


def test_the_pod_reads_the_certificate_where_the_secret_is_mounted(chart: Chart):
    spec = chart.one("Deployment", "cozystack-gpu", "tls.secretName=own")["spec"]["template"][
        "spec"
    ]
    assert spec["volumes"] == [
        {"name": "replays", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "certificates", "secret": {"secretName": "own", "defaultMode": 0o440}},
    ]
    mount = spec["containers"][0]["volumeMounts"][0]
    assert mount == {"name": "certificates", "mountPath": "/certificates", "readOnly": True}
    passed = args(chart)
    assert (passed["--tls-cert-file"], passed["--tls-private-key-file"]) == (
        "/certificates/tls.crt",
        "/certificates/tls.key",
    )


FACADE = "hostOptions.mode=facade"


@pytest.mark.parametrize("values", [(), ("hostOptions.mode=off",), ("hostOptions.mode=false",)])
def test_without_a_facade_nothing_is_said_of_the_host(chart: Chart, values: tuple[str, ...]):
    deployment = chart.one("Deployment", "cozystack-gpu", *values)
    assert "host" not in [one["name"] for one in deployment["spec"]["template"]["spec"]["volumes"]]
    assert [flag for flag in args(chart, *values) if flag.startswith("--host")] == []


def test_of_the_hosts_secret_the_pod_sees_its_authority_alone(chart: Chart):
    pod = chart.one("Deployment", "cozystack-gpu", FACADE)["spec"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "host"]
    assert volume["secret"] == {
        "secretName": "cozystack-api-cert",
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
    }
    assert {"name": "host", "mountPath": "/host", "readOnly": True} in pod["containers"][0][
        "volumeMounts"
    ]


def test_the_chart_runs_only_commands_and_flags_that_the_program_has(chart: Chart):
    run = [
        container["args"]
        for doc in (*chart.render(), *chart.render("enabled=false"), *chart.render(FACADE))
        if doc["kind"] in {"Deployment", "Job"}
        for container in doc["spec"]["template"]["spec"]["containers"]
    ]
    assert {command for command, *_ in run} == {"serve", "teardown"}
    for command, *passed in run:
        assert {flag.partition("=")[0] for flag in passed} - flags_of(command) == set()


@pytest.mark.parametrize(
    ("value", "flag", "passed"),
    [
        ("enabled=true", "--enabled", ""),
        ("enabled=false", "--no-enabled", ""),
        ("rawResourceNames=allowed", "--raw-resource-names", "allowed"),
        ("kubevirtNamespace=kubevirt", "--kubevirt-namespace", "kubevirt"),
        ("usageRecordMonitor=anchor", "--usage-record-monitor", "anchor"),
        ("runningGuests=keep", "--running-guests", "keep"),
        ("binding=request", "--binding", "request"),
        ("grace.notReady=60", "--not-ready-grace", "60"),
        ("grace.degraded=90", "--degraded-grace", "90"),
        ("grace.attachment=20", "--attachment-grace", "20"),
        ("grace.pin=25", "--pin-grace", "25"),
        ("grace.rejection=300", "--rejection", "300"),
        ("grace.releaseSettle=240", "--release-settle", "240"),
        ("guard.window=120", "--guard-window", "120"),
        ("guard.share=1", "--guard-share", "1"),
        ("guard.atLeast=3", "--guard-at-least", "3"),
        ("policies.mode=rendered", "--policies", "rendered"),
        ("policies.mode=off", "--policies", "off"),
        ("policies.mode=false", "--policies", "off"),
        ("deployment.shutdownDelay=12", "--shutdown-delay", "12"),
        ("hostOptions.mode=facade", "--host-options", "facade"),
        ("hostOptions.mode=facade,hostOptions.url=https://h:8443", "--host-url", "https://h:8443"),
        ("hostOptions.mode=facade", "--host-ca-file", "/host/ca.crt"),
    ],
)
def test_a_value_reaches_the_process(chart: Chart, value: str, flag: str, passed: str):
    assert args(chart, value)[flag] == passed


def test_the_process_is_told_its_own_name_and_place(chart: Chart):
    doc = chart.one("Deployment", "cozystack-gpu", namespace="elsewhere")
    passed = doc["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--namespace=elsewhere" in passed
    assert "--service-account=cozystack-gpu" in passed
    assert "--owner-cluster-role=cozystack-gpu" in passed
    assert doc["spec"]["template"]["spec"]["serviceAccountName"] == "cozystack-gpu"


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_pods_are_as_little_as_they_can_be(chart: Chart, kind: str):
    name = "cozystack-gpu" if kind == "Deployment" else "cozystack-gpu-teardown"
    spec = chart.one(kind, name)["spec"]["template"]["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert [container["securityContext"] for container in spec["containers"]] == [
        {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    ]
    assert spec["priorityClassName"] == "system-cluster-critical"


def test_a_drain_takes_one_replica_at_a_time(chart: Chart):
    deployment = chart.one("Deployment", "cozystack-gpu")["spec"]
    budget = chart.one("PodDisruptionBudget", "cozystack-gpu")["spec"]
    assert deployment["replicas"] == 2
    assert budget == {"maxUnavailable": 1, "selector": deployment["selector"]}


def test_the_release_is_torn_down_before_it_is_deleted(chart: Chart):
    hook = chart.one("Job", "cozystack-gpu-teardown")
    assert hook["metadata"]["annotations"] == {
        "helm.sh/hook": "pre-delete",
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }


@pytest.mark.parametrize("values", [("teardown.hook=false",), OUTSIDE], ids=["off", "by another"])
def test_there_is_no_hook_where_none_could_run(chart: Chart, values: tuple[str, ...]):
    assert "Job" not in chart.kinds(*values)


def test_the_kinds_outlive_the_release(chart: Chart):
    kept = [
        doc["metadata"]["annotations"]
        for doc in chart.render()
        if doc["kind"] == "CustomResourceDefinition"
    ]
    assert kept == [{"helm.sh/resource-policy": "keep"}] * 4


def test_policies_are_part_of_the_chart_only_when_rendered(chart: Chart):
    def policies(mode: str) -> list[Json]:
        values = (f"policies.mode={mode}", "kubevirtNamespace=virtual")
        docs = chart.render(*values, namespace="elsewhere")
        return [doc for doc in docs if doc["kind"].startswith("ValidatingAdmissionPolicy")]

    assert [mode for mode in PolicyMode if policies(mode)] == [PolicyMode.RENDERED]
    text = str(policies("rendered"))
    assert "system:serviceaccount:elsewhere:cozystack-gpu" in text
    assert "system:serviceaccount:virtual:kubevirt-controller" in text
    assert "{{" not in text


def test_the_image_is_named_by_tag_or_by_digest(chart: Chart):
    def image(*values: str) -> str:
        spec = chart.one("Deployment", "cozystack-gpu", *values)["spec"]["template"]["spec"]
        found: str = spec["containers"][0]["image"]
        return found

    assert image("image.repository=r/x") == "r/x:0.1.0"
    assert image("image.repository=r/x", "image.tag=v2") == "r/x:v2"
    digest = "sha256:" + "a" * 64
    assert (
        image("image.repository=r/x", "image.tag=v2", f"image.digest={digest}") == f"r/x@{digest}"
    )


def test_extra_environment_reaches_the_process(chart: Chart):
    values = ("deployment.env.COZYSTACK_GPU_FENCE_WAIT=3s",)
    spec = chart.one("Deployment", "cozystack-gpu", *values)["spec"]["template"]["spec"]
    assert spec["containers"][0]["env"][-1] == {"name": "COZYSTACK_GPU_FENCE_WAIT", "value": "3s"}


def test_no_template_is_left_unrendered():
    left = [
        path.name for path in (FOLDER / "templates" / "crds").iterdir() if "{{" in path.read_text()
    ]
    assert left == []
