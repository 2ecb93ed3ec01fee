"""Launch webhooks: what the chart has kube-apiserver ask us of VMs that start, field by field.

The chart says the same in its own language; `tests/charts/test_webhooks` holds the two together.
"""

from typing import Final

from gpu import keys
from gpu.config import Binding, Config
from gpu.objects import webhooks
from gpu.objects.kinds import PODS, VMIS
from gpu.objects.pods import LAUNCHER_LABEL, LAUNCHER_VALUE, MIGRATION_LABEL
from gpu.objects.webhooks import Rule, Webhook

_SECONDS: Final = 3
_WAITS: Final = 10
"""Of the webhook that waits for the leader's answer."""
_ASKS: Final = """['gpus', 'hostDevices'].exists(d, object.?spec.?domain.?devices[?d].orValue([]) != [])
    || ['limits', 'requests'].exists(r,
    object.?spec.?domain.?resources[?r].orValue({}).exists(k, k.contains('/')))
    || object.?metadata.?annotations.orValue({}).exists(k, k.startsWith('gpu.cozystack.io/'))"""


def expected(config: Config) -> tuple[Webhook, ...]:
    """Return the webhooks of VMs and of launchers, as they are installed."""
    return (_of_vmis(config), _of_pods(config))


def _of_vmis(config: Config) -> Webhook:
    return Webhook(
        name="vmis.gpu.cozystack.io",
        rules=_created("kubevirt.io", "*", VMIS.plural),
        match_conditions=frozenset({_tenants(config), webhooks.expression(_ASKS)}),
        side_effects="NoneOnDryRun",
        timeout_seconds=_WAITS if config.binding is Binding.REQUEST else _SECONDS,
        client_config=(config.namespace, config.service_account, "/admission/vmis"),
    )


def _of_pods(config: Config) -> Webhook:
    user = f"request.userInfo.username == '{config.kubevirt_controller_user}'"
    mark = f"'{keys.RESOLVED_CLAIMS_ANNOTATION}' in object.?metadata.?annotations.orValue({{}})"
    no_target = {"key": MIGRATION_LABEL, "operator": "DoesNotExist"}
    labels = {LAUNCHER_LABEL: LAUNCHER_VALUE}
    return Webhook(
        name="pods.gpu.cozystack.io",
        rules=_created("", "v1", PODS.plural),
        match_conditions=frozenset({_tenants(config), user, mark}),
        object_selector=webhooks.selector({"matchLabels": labels, "matchExpressions": [no_target]}),
        side_effects="None",
        timeout_seconds=_SECONDS,
        client_config=(config.namespace, config.service_account, "/admission/pods"),
    )


def _created(group: str, version: str, plural: str) -> frozenset[Rule]:
    return frozenset(
        {
            Rule(
                groups=frozenset({group}),
                versions=frozenset({version}),
                operations=frozenset({"CREATE"}),
                resources=frozenset({plural}),
                scope="Namespaced",
            )
        }
    )


def _tenants(config: Config) -> str:
    return (
        f"!(request.namespace in ['kube-system', '{config.namespace}']) "
        "&& !request.namespace.startsWith('cozy-')"
    )
