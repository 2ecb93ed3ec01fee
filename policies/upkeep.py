"""The policy that refuses nothing and whose binding always stays.

An API server stops reading ConfigMaps as parameters for good, until it is restarted, once no
binding names the kind for a second (kubernetes 130887): policies then go on with the values they
saw last. This one keeps the reading alive while the feature is off, while the other policies are
replaced, and between an uninstall and the next install; so it is kept as CRDs and settings are.
"""

from gpu import keys
from gpu.config import Config
from gpu.objects import kinds
from policies.shapes import Binding, Failure, Missing, Param, Policy, Rule, Stay, Validation


def policies(config: Config) -> tuple[Policy, ...]:
    """Return the policy that keeps ConfigMap parameters read."""
    return (
        Policy(
            topic="keeper",
            # Asked once in a product's life, and passed.
            rule=Rule(kind=kinds.GPU_BINDERS, operations=("CREATE",)),
            failure=Failure.IGNORE,
            param_kind=kinds.CONFIG_MAPS,
            validations=(
                Validation(expression="true", message="'passed'", fallback="nothing is refused"),
            ),
            bindings=(
                Binding(
                    param=Param(
                        name=keys.SETTINGS_NAME,
                        namespace=config.settings_namespace,
                        missing=Missing.ALLOW,
                    )
                ),
            ),
            stay=Stay.FOREVER,
        ),
    )
