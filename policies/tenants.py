"""Where tenants are: the condition and the bindings of a policy over other people's kinds.

Bindings select namespaces, since a parameter is looked for before any condition is asked; the
condition says the same once more for a namespace of the host's that bears a tenant's label.
"""

from typing import Final

from gpu import keys
from policies import cel
from policies.shapes import Binding, Named, Param

LABEL: Final = "tenant.cozystack.io/tenant-root"
"""On the namespace of every tenant but the root, which is told by its name."""

CONDITION: Final = Named(
    "tenant-namespace", f"request.namespace.startsWith({cel.quote(keys.TENANT_NAMESPACE_PREFIX)})"
)


def bindings(*, param: Param | None = None, when_enabled: bool = False) -> tuple[Binding, ...]:
    """Return the bindings that put a policy in force in every tenant's namespace, the root's too."""
    return (
        Binding(namespaces_with=LABEL, param=param, when_enabled=when_enabled),
        Binding(
            suffix="root",
            namespaces_named=(keys.TENANT_ROOT,),
            param=param,
            when_enabled=when_enabled,
        ),
    )
