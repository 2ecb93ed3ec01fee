"""Raw GPU resource names: in a tenant's namespace nobody names one while the settings deny it.

Judged are the objects through which units are taken: pods and KubeVirt's VMIs. Nobody is exempt but
KubeVirt's controller, by its user name, and only for pods: it makes them from VMIs, which are
judged whoever creates them, it too. Controllers that make pods from a tenant's templates are
judged as the tenant would be. No label and no annotation decides: a tenant can set those.

Only CREATE is looked at. Afterwards the API server itself lets nobody add a device to a pod (update,
resize and ephemeral containers; tests/real shows it), KubeVirt lets nobody change a VMI's spec, and
what was started while names were allowed must stay manageable.

The VMI policy makes one exception, and only where our VMI webhook is registered: units with the
reserved name, since the webhook writes them with the class's resource and refuses every one it did not
write. Without the webhook the reserved name would be anybody's to take.

An expression that costs too much is a refusal. So what an object asks for is looked up among the
names, never each name in every container: the largest pod and the longest settings pass.
"""

from collections.abc import Callable
from typing import Final

from gpu import keys, settings
from gpu.config import Config
from gpu.objects import kinds
from policies import cel, tenants
from policies.shapes import Missing, Named, Param, Policy, Rule, Validation

Test = Callable[[str], str]
"""CEL of a list or map of names, to CEL of a truth."""

_DENIED: Final = (
    f"params.?data[?{cel.quote(settings.RAW_RESOURCE_NAMES)}].orValue('') == "
    f"{cel.quote(settings.RawNames.DENIED.value)}"
)
_NAMES: Final = f"params.?data[?{cel.quote(settings.RESOURCE_NAMES)}].orValue('').split(',')"
_CONTAINERS: Final = ("object.spec.containers", "object.spec.?initContainers.orValue([])")
_IS_DEVICE: Final = "k.contains('/')"
_DOMAIN: Final = "dyn(object.spec).?domain"
_IS_RESERVED: Final = f"d.?name.orValue('').startsWith({cel.quote(keys.UNIT_NAME_PREFIX)})"
_DEVICES: Final = ("gpus", "hostDevices")


def policies(config: Config) -> tuple[Policy, ...]:
    """Return the policy for pods and the one for VMIs, which waits until KubeVirt is served."""
    return (
        _policy(
            config,
            topic="raw-names",
            rule=Rule(kind=kinds.PODS, operations=("CREATE",)),
            conditions=(
                Named(
                    "not-made-from-a-vmi",
                    f"request.userInfo.username != {cel.quote(config.kubevirt_controller_user)}",
                ),
                Named("asks-for-a-device", _a_pod_asks(_any_key(_IS_DEVICE))),
            ),
            asks_for_one=_a_pod_asks(_any_key(f"{_IS_DEVICE} && k in variables.names")),
            asks_for_it=_a_pod_asks("n in {}".format),
        ),
        _policy(
            config,
            topic="vmi-raw-names",
            rule=Rule(kind=kinds.VMIS, operations=("CREATE",)),
            conditions=(),
            asks_for_one=_a_vmi_asks(_any_key("k != '' && k in variables.names"), config),
            asks_for_it=_a_vmi_asks("n in {}".format, config),
            optional=True,
        ),
    )


def _policy(  # one shape for both kinds
    config: Config,
    *,
    topic: str,
    rule: Rule,
    conditions: tuple[Named, ...],
    asks_for_one: str,
    asks_for_it: str,
    optional: bool = False,
) -> Policy:
    param = Param(
        name=keys.SETTINGS_NAME, namespace=config.settings_namespace, missing=Missing.ALLOW
    )
    return Policy(
        topic=topic,
        rule=rule,
        param_kind=kinds.CONFIG_MAPS,
        conditions=(tenants.CONDITION, *conditions),
        variables=(
            Named("denied", _DENIED),
            Named("names", _NAMES),
            # Only for the message: each name is looked for in every container.
            Named("asked", f"variables.names.filter(n, n != '' && ({asks_for_it}))"),
        ),
        validations=(
            Validation(
                expression=f"!variables.denied || !({asks_for_one})",
                message=cel.message(
                    f"{rule.kind.kind.lower()} {{namespace}}/{{name}}: names {{asked}} directly, "
                    "and raw GPU resource names are denied here; order a class instead "
                    "(kubectl get gpuoffers -n {namespace})",
                    namespace="request.namespace",
                    name="object.metadata.?name.orValue("
                    "object.metadata.?generateName.orValue('without a name'))",
                    asked="variables.asked.join(', ')",
                ),
                fallback="raw GPU resource names are denied here; order a class instead",
            ),
        ),
        bindings=tenants.bindings(param=param, when_enabled=True),
        optional=optional,
    )


def _any_key(test: str) -> Test:
    """Say that the test holds of some `k` of a list, or of some key of a map."""
    return f"{{}}.exists(k, {test})".format


def _a_pod_asks(test: Test) -> str:
    """Say that the test holds of a container's limits, by resource name.

    A device that is requested and not limited is refused before any policy is asked. `dyn`: the
    type checker knows no quantities and takes limits for an undefined field.
    """
    asks = test("dyn(c).?resources.?limits.orValue({})")
    # Not one concatenated list: the two are of different types to the type checker.
    return cel.any_of(*(f"{containers}.exists(c, {asks})" for containers in _CONTAINERS))


def _a_vmi_asks(test: Test, config: Config) -> str:
    """Say that the test holds of a VMI's device names, or of its own requests past KubeVirt's table.

    `dyn`: how much of a VMI its CRD declares is another product's business.
    """
    judged = f".filter(d, !{_IS_RESERVED})" if config.vm_webhooks else ""
    devices = (
        f"{_DOMAIN}.?devices.?{devices}.orValue([]){judged}.map(d, d.?deviceName.orValue(''))"
        for devices in _DEVICES
    )
    amounts = (f"{_DOMAIN}.?resources.?{name}.orValue({{}})" for name in ("limits", "requests"))
    return cel.any_of(*map(test, (*devices, *amounts)))
