"""Placement of a GPUClaim: written by the controller alone, and never by a leader that is over.

Both policies judge only a write of `gpuclaims/status` that changes placement; attachments, requests
and conditions pass. They look at every namespace: a placement is a placement anywhere.
"""

from typing import Final

from gpu import keys
from gpu.config import Config
from gpu.objects import kinds
from policies import cel, users
from policies.shapes import Binding, Missing, Named, Param, Policy, Rule, Stay, Validation

FIELDS: Final = ("phase", "nodeName", "boundAt", "term")
"""The placement of a claim, under `status`."""

_STATUS: Final = Rule(kind=kinds.GPU_CLAIMS, operations=("UPDATE",), subresource="status")
# Absent and present differ, absent and absent do not: optionals say so without a has() for each.
_CHANGES: Final = Named(
    "placement-changes",
    cel.any_of(*(f"object.?status.?{field} != oldObject.?status.?{field}" for field in FIELDS)),
)


def policies(config: Config) -> tuple[Policy, ...]:
    """Return who may write a placement, and the fence of the leader's term."""
    return (_writer(config), _fence())


def _writer(config: Config) -> Policy:
    return Policy(
        topic="placement",
        rule=_STATUS,
        conditions=(_CHANGES,),
        validations=(
            Validation(
                expression=users.is_controller(config),
                message=cel.message(
                    "gpuclaim {namespace}/{name}: "
                    + ", ".join(f"status.{field}" for field in FIELDS)
                    + f" are written by the GPU controller ({config.controller_user}) alone; "
                    "delete the claim to give its units back, order another to get more",
                    namespace="request.namespace",
                    name="object.metadata.name",
                ),
                fallback="placement is written by the GPU controller alone",
            ),
        ),
        bindings=(Binding(),),
    )


def _fence() -> Policy:
    # Higher than the parameter passes: the API server may not have seen the raise yet.
    term = "object.?status.?term.orValue(0)"
    leading = "params.?status.?term.orValue(0)"
    return Policy(
        topic="term",
        rule=_STATUS,
        param_kind=kinds.GPU_BINDERS,
        conditions=(_CHANGES,),
        validations=(
            Validation(
                expression=f"{term} >= {leading}",
                message=cel.message(
                    "gpuclaim {namespace}/{name}: its placement was decided in term {term}, but "
                    "the leader of term {leading} places now; nothing was written, that leader "
                    "decides anew",
                    namespace="request.namespace",
                    name="object.metadata.name",
                    term=f"string({term})",
                    leading=f"string({leading})",
                ),
                fallback="a placement of an earlier leader is refused",
            ),
        ),
        bindings=(Binding(param=Param(name=keys.BINDER_NAME, missing=Missing.DENY)),),
        stay=Stay.ALWAYS,
    )
