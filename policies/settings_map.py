"""The settings ConfigMap is written by the controller alone.

It has no parameter: it must hold when nothing else does. Every other ConfigMap, of that namespace
too, is left alone. Nobody is trusted by group, an administrator neither: a value written by hand
would be in force in the policies until the leader's next pass. Who must, deletes the binding first.
"""

from typing import Final

from gpu import keys
from gpu.config import Config
from gpu.objects import kinds
from policies import cel, users
from policies.shapes import Binding, Named, Policy, Rule, Validation

# A collection is deleted object by object, each seen as oldObject; on create object has the name,
# a generated one too.
_NAME: Final = "(object != null ? object : oldObject).metadata.name"


def policies(config: Config) -> tuple[Policy, ...]:
    """Return the policy that guards the settings ConfigMap and the copies of it."""
    cleaned_up = cel.all_of("request.operation == 'DELETE'", users.is_one_of(*users.CLEANERS))
    return (
        Policy(
            topic="settings",
            rule=Rule(kind=kinds.CONFIG_MAPS, operations=("CREATE", "UPDATE", "DELETE")),
            conditions=(
                Named(
                    "is-the-settings-object",
                    cel.any_of(
                        f"{_NAME} == {cel.quote(keys.SETTINGS_NAME)}",
                        f"{_NAME}.startsWith({cel.quote(keys.SETTINGS_NAME + '-')})",
                    ),
                ),
            ),
            validations=(
                Validation(
                    expression=cel.any_of(users.is_controller(config), cleaned_up),
                    message=cel.message(
                        "configmap {namespace}/{name}: only the GPU controller "
                        f"({config.controller_user}) writes it; change rawResourceNames in the "
                        "chart's values, or a GPUClass, and it follows",
                        namespace="request.namespace",
                        name=_NAME,
                    ),
                    fallback="the GPU settings are written by the GPU controller alone",
                ),
            ),
            bindings=(Binding(namespaces_named=(config.settings_namespace,)),),
        ),
    )
