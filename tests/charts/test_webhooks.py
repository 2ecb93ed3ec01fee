"""Which webhooks the chart registers, for what, and whom they ask."""

from pathlib import Path

import pytest

from apiserver import admissions
from apiserver.views import Views
from gpu import keys
from gpu.admission import starting
from gpu.admission.review import Allowed
from gpu.config import Binding, Config
from gpu.model import holds, launch_webhooks
from gpu.objects import webhooks
from tests.apiserver.fakes import FakeSource
from tests.charts.rendering import OUTSIDE, Chart, Json

pytestmark = pytest.mark.real

NAME = "cozystack-gpu"
ORDERS = "orders.gpu.cozystack.io"
GATE = "tenants.gpu.cozystack.io"
RELEASES = "tenant-releases.gpu.cozystack.io"


def configuration(chart: Chart, *values: str, namespace: str = "cozy-system") -> Json:
    return chart.one("ValidatingWebhookConfiguration", NAME, *values, namespace=namespace)


def webhook(chart: Chart, name: str, *values: str, namespace: str = "cozy-system") -> Json:
    found = configuration(chart, *values, namespace=namespace)["webhooks"]
    return next(one for one in found if one["name"] == name)


def names(chart: Chart, *values: str) -> set[str]:
    found = configuration(chart, *values)["webhooks"] or []
    return {one["name"] for one in found}


def test_the_order_webhook_is_asked_about_new_claims_alone_and_fails_closed(chart: Chart):
    found = webhook(chart, ORDERS)
    assert found["rules"] == [
        {
            "apiGroups": [keys.GROUP],
            "apiVersions": ["*"],
            "operations": ["CREATE"],
            "resources": ["gpuclaims"],
            "scope": "Namespaced",
        }
    ]
    told = ("failurePolicy", "sideEffects", "timeoutSeconds", "matchPolicy")
    assert {name: found[name] for name in told} == {
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 3,
        "matchPolicy": "Equivalent",
    }


def test_no_webhook_waits_as_long_as_its_answer_may_take(chart: Chart):
    found = configuration(chart)["webhooks"]
    assert all(one["timeoutSeconds"] > admissions.WITHIN for one in found)


def test_no_webhook_is_asked_about_the_system(chart: Chart):
    for one in configuration(chart, namespace="elsewhere")["webhooks"]:
        conditions = {item["name"]: item["expression"] for item in one["matchConditions"]}
        assert conditions["not-in-a-namespace-of-the-system"] == (
            "!(request.namespace in ['kube-system', 'elsewhere']) "
            "&& !request.namespace.startsWith('cozy-')"
        )


def test_template_claims_of_the_controller_alone_are_left_out(chart: Chart):
    found = webhook(chart, ORDERS, namespace="elsewhere")["matchConditions"]
    (condition,) = [item["expression"] for item in found if "template" in item["name"]]
    assert "system:serviceaccount:elsewhere:cozystack-gpu" in condition
    assert condition.count(f"'{keys.TEMPLATE_CLAIM_LABEL}'") == 2


def test_each_webhook_asks_a_path_that_the_process_answers(chart: Chart):
    passed = admissions.always(Allowed())
    answered = admissions.build(Views(FakeSource()), Config(), passed, passed)
    for one in configuration(chart)["webhooks"]:
        path = Path(one["clientConfig"]["service"]["path"])
        assert (str(path.parent), path.name in answered) == ("/admission", True)


def test_webhooks_are_asked_through_the_service_of_the_api(chart: Chart):
    values = (*OUTSIDE, "service.port=8443")
    service = chart.one("APIService", "v1alpha1.catalog.gpu.cozystack.io", *values)["spec"]
    client = webhook(chart, ORDERS, *values)["clientConfig"]
    assert client["caBundle"] == service["caBundle"]
    assert client["service"] == {**service["service"], "path": "/admission/orders"}


def test_cert_manager_gives_their_ca_unless_one_is_given(chart: Chart):
    made = configuration(chart, namespace="elsewhere")
    assert made["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "elsewhere/cozystack-gpu"
    }
    assert all("caBundle" not in one["clientConfig"] for one in made["webhooks"])
    assert "annotations" not in configuration(chart, "caBundle=Q0E=")["metadata"]


def test_those_who_alone_may_call_are_told_to_the_process(chart: Chart):
    def passed(*values: str) -> list[str]:
        spec = chart.one("Deployment", NAME, *values)["spec"]["template"]["spec"]
        return [word for word in spec["containers"][0]["args"] if "callers" in word]

    assert passed() == []
    assert passed("webhookCallers={apiserver,system:x}") == [
        "--admission-callers=apiserver,system:x"
    ]


def test_with_the_feature_off_none_is_registered(chart: Chart):
    assert "ValidatingWebhookConfiguration" not in chart.kinds("enabled=false")


def test_a_hoster_may_have_orders_wait_instead(chart: Chart):
    assert ORDERS in names(chart)
    assert ORDERS not in names(chart, "orderWebhook.enabled=false")


@pytest.mark.parametrize(
    ("name", "group", "resource"),
    [
        pytest.param(GATE, "apps.cozystack.io", "tenants", id="tenants"),
        pytest.param(RELEASES, "helm.toolkit.fluxcd.io", "helmreleases", id="releases"),
    ],
)
def test_the_quota_gate_is_asked_about_both_writes_of_a_tenant(chart: Chart, name, group, resource):
    found = webhook(chart, name)
    (rule,) = found["rules"]
    assert (rule["apiGroups"], rule["resources"]) == ([group], [resource])
    assert rule["operations"] == ["CREATE", "UPDATE"]
    assert (found["failurePolicy"], found["sideEffects"]) == ("Fail", "NoneOnDryRun")
    assert found["clientConfig"]["service"]["path"] == "/admission/tenants"


def test_no_release_but_a_tenants_is_asked_about(chart: Chart):
    selector = webhook(chart, RELEASES)["objectSelector"]
    assert selector == {"matchLabels": {keys.APPLICATION_KIND_LABEL: "Tenant"}}


def test_a_hoster_may_leave_quotas_to_the_host(chart: Chart):
    assert {GATE, RELEASES} <= names(chart)
    assert not {GATE, RELEASES} & names(chart, "quotaGate.enabled=false")


ON = "vmWebhooks.enabled=true"
VMS = "vmis.gpu.cozystack.io"
LAUNCHERS = "pods.gpu.cozystack.io"
NAME_OF_KUBEVIRTS = "virt-api-mutator"


def mutating(chart: Chart, *values: str, namespace: str = "cozy-system") -> Json:
    """The mutating webhooks by name."""
    found = chart.one("MutatingWebhookConfiguration", NAME, ON, *values, namespace=namespace)
    return {one["name"]: one for one in found["webhooks"]}


def test_the_webhooks_of_a_start_are_registered_with_the_value_and_the_process_is_told(
    chart: Chart,
):
    def told(*values: str) -> list[str]:
        spec = chart.one("Deployment", NAME, *values)["spec"]["template"]["spec"]
        return [word for word in spec["containers"][0]["args"] if word.endswith("vm-webhooks")]

    assert told(ON) == ["--vm-webhooks"]
    assert told("vmWebhooks.enabled=false") == ["--no-vm-webhooks"]
    assert set(mutating(chart)) == {VMS, LAUNCHERS}
    for off in ("vmWebhooks.enabled=false", "enabled=false"):
        assert "MutatingWebhookConfiguration" not in chart.kinds(ON, off)


@pytest.mark.parametrize(
    ("values", "namespace", "config"),
    [
        ((), "cozy-system", Config()),
        (("binding=request",), "cozy-system", Config(binding=Binding.REQUEST)),
        (("kubevirtNamespace=kv",), "cozy-system", Config(kubevirt_namespace="kv")),
        (OUTSIDE, "elsewhere", Config(namespace="elsewhere")),
    ],
    ids=["by default", "request", "KubeVirt elsewhere", "we elsewhere"],
)
def test_the_webhooks_of_a_start_are_field_by_field_those_that_the_process_expects(
    chart: Chart, values, namespace, config
):
    raw = chart.one("MutatingWebhookConfiguration", NAME, ON, *values, namespace=namespace)
    assert webhooks.decode(raw).webhooks == launch_webhooks.expected(config)
    assert holds.gaps(config, [webhooks.decode(raw)]) == ()


def test_the_charts_default_is_that_of_the_process(chart: Chart):
    is_on = "MutatingWebhookConfiguration" in chart.kinds()
    assert is_on is Config().vm_webhooks


def test_a_start_is_seen_as_its_vm_made_it(chart: Chart):
    """API servers call mutating webhooks in the order of their objects' names."""
    found = chart.one("MutatingWebhookConfiguration", NAME, ON)
    assert found["metadata"]["name"] < NAME_OF_KUBEVIRTS


@pytest.mark.parametrize(
    ("name", "group", "resource", "effects"),
    [
        (VMS, "kubevirt.io", "virtualmachineinstances", "NoneOnDryRun"),
        (LAUNCHERS, "", "pods", "None"),
    ],
)
def test_a_start_is_judged_at_creation_alone_and_fails_closed(
    chart: Chart, name, group, resource, effects
):
    found = mutating(chart)[name]
    (rule,) = found["rules"]
    assert (rule["apiGroups"], rule["resources"]) == ([group], [resource])
    assert (rule["operations"], rule["scope"]) == (["CREATE"], "Namespaced")
    assert (found["failurePolicy"], found["sideEffects"]) == ("Fail", effects)
    assert (found["timeoutSeconds"], found["reinvocationPolicy"]) == (3, "Never")
    assert admissions.WITHIN < 3


def test_a_start_that_is_bound_first_may_take_as_long_as_the_leader_is_waited_for(chart: Chart):
    found = mutating(chart, "binding=request")
    longest = starting.REQUEST.work + starting.REQUEST.undo
    assert found[VMS]["timeoutSeconds"] == 10 > longest
    assert found[LAUNCHERS]["timeoutSeconds"] == 3
    assert mutating(chart)[VMS]["timeoutSeconds"] > starting.GATE.work + starting.GATE.undo


def test_no_mutating_webhook_is_asked_about_the_system(chart: Chart):
    for one in mutating(chart, namespace="elsewhere").values():
        conditions = {item["name"]: item["expression"] for item in one["matchConditions"]}
        assert conditions["not-in-a-namespace-of-the-system"] == (
            "!(request.namespace in ['kube-system', 'elsewhere']) "
            "&& !request.namespace.startsWith('cozy-')"
        )


def test_of_pods_only_launchers_that_kubevirt_makes_are_asked_about(chart: Chart):
    found = mutating(chart, "kubevirtNamespace=kv")[LAUNCHERS]
    assert found["objectSelector"] == {
        "matchLabels": {"kubevirt.io": "virt-launcher"},
        "matchExpressions": [{"key": "kubevirt.io/migrationJobUID", "operator": "DoesNotExist"}],
    }
    conditions = {item["name"]: item["expression"] for item in found["matchConditions"]}
    assert conditions["made-by-kubevirt"] == (
        f"request.userInfo.username == '{Config(kubevirt_namespace='kv').kubevirt_controller_user}'"
    )
    assert keys.RESOLVED_CLAIMS_ANNOTATION in conditions["made-of-a-vmi-that-was-resolved"]


def test_each_mutating_webhook_asks_a_path_that_the_process_answers(chart: Chart):
    passed = admissions.always(Allowed())
    answered = admissions.build(Views(FakeSource()), Config(), passed, passed)
    for name, one in mutating(chart, *OUTSIDE).items():
        path = Path(one["clientConfig"]["service"]["path"])
        assert (str(path.parent), path.name in answered) == ("/admission", True), name
        assert one["clientConfig"]["caBundle"] == "Q0E="
