"""Raw GPU resource names: in a tenant's namespace nobody names one while the settings deny it.

Judged are the objects through which units are taken: pods and KubeVirt's VMIs. Nobody is exempt but
KubeVirt's controller, by its user name, and only for pods: it makes them from VMIs, which are
judged whoever creates them, it too. Controllers that make pods from a tenant's templates are
judged as the tenant would be. No label and no annotation decides: a tenant can set those.

Only CREATE is looked at. Afterwards the API server itself lets nobody add a device to a pod (update,
resize and ephemeral containers; tests/real shows it), KubeVirt lets nobody change a VMI's spec, and
what was started while names were allowed must stay manageable.

The VMI policy knows no exception for units that a VMI webhook of ours writes: there is no such
webhook yet, and without it the reserved unit name would be anybody's to take.
"""

from typing import Final

from gpu import keys, settings
from gpu.config import Config
from gpu.objects import kinds
from policies import cel, tenants
from policies.shapes import Missing, Named, Param, Policy, Rule, Validation

_DENIED: Final = (
    f"params.?data[?{cel.quote(settings.RAW_RESOURCE_NAMES)}].orValue('') == "
    f"{cel.quote(settings.RawNames.DENIED.value)}"
)
_NAMES: Final = f"params.?data[?{cel.quote(settings.RESOURCE_NAMES)}].orValue('').split(',')"
_CONTAINERS: Final = ("object.spec.containers", "object.spec.?initContainers.orValue([])")
_MAPS: Final = ("limits", "requests")
_DOMAIN: Final = "object.spec.?domain"
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
                Named("asks-for-a-device", _pod_asks("k.contains('/')", each=True)),
            ),
            asks=_pod_asks("n", each=False),
        ),
        _policy(
            config,
            topic="vmi-raw-names",
            rule=Rule(kind=kinds.VMIS, operations=("CREATE",)),
            conditions=(),
            asks=_vmi_asks(),
            optional=True,
        ),
    )


def _policy(  # one shape for both kinds
    config: Config,
    *,
    topic: str,
    rule: Rule,
    conditions: tuple[Named, ...],
    asks: str,
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
            Named("asked", f"variables.names.filter(n, n != '' && ({asks}))"),
        ),
        validations=(
            Validation(
                expression="!variables.denied || variables.asked.size() == 0",
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


def _pod_asks(key: str, *, each: bool) -> str:
    """Say that a container asks for `key`; with `each`, for any key `k` of which `key` holds."""
    asks = " || ".join(
        f"c.?resources.?{amounts}.orValue({{}}).exists(k, {key})"
        if each
        else f"{key} in c.?resources.?{amounts}.orValue({{}})"
        for amounts in _MAPS
    )
    # Not one concatenated list: the two are of different types to the type checker.
    return cel.any_of(*(f"{containers}.exists(c, {asks})" for containers in _CONTAINERS))


def _vmi_asks() -> str:
    """Say that a VMI asks for `n`: as a device, or past KubeVirt's table in its own requests."""
    devices = (
        f"{_DOMAIN}.?devices.?{devices}.orValue([]).exists(d, d.?deviceName.orValue('') == n)"
        for devices in _DEVICES
    )
    amounts = (f"n in {_DOMAIN}.?resources.?{amounts}.orValue({{}})" for amounts in _MAPS)
    return cel.any_of(*devices, *amounts)
