"""Gate and pin of a launcher pod: changed by the controller alone, and by no leader that is over.

Only pods with our gate or our annotation are looked at, only their creation and the update of the
pod itself: status, binding, eviction and deletion are nobody's business here, nor the rest of the
pod. After the gate is gone the API server itself lets nobody change where a pod may run.

The gate is put on during the request of KubeVirt's controller, which is what a policy then sees.
The fence lets pods pass where it cannot see GPUBinder: it is looked for before any condition is
asked, and its absence must not stop every pod of every tenant. A leader that is over then is held
by its lease alone; one that leads writes no claim without GPUBinder, so it has nothing to pin.
"""

from typing import Final

from gpu import keys
from gpu.config import Config
from gpu.objects import kinds
from policies import cel, tenants, users
from policies.shapes import Failure, Missing, Named, Param, Policy, Rule, Stay, Validation

_UPDATES: Final = "request.operation == 'UPDATE'"
_TERM: Final = f"metadata.?annotations[?{cel.quote(keys.TERM_ANNOTATION)}]"
_WHERE: Final = ("spec.?affinity.?nodeAffinity", "spec.?nodeSelector")
_NAME: Final = (
    "object.metadata.?name.orValue(object.metadata.?generateName.orValue('without a name'))"
)


def _is_gated(pod: str) -> str:
    return (
        f"{pod}.spec.?schedulingGates.orValue([])"
        f".exists(g, g.name == {cel.quote(keys.PLACEMENT_GATE)})"
    )


_GATED: Final = _is_gated("object")
_WAS_GATED: Final = cel.all_of("oldObject != null", _is_gated("oldObject"))
_KEEPS_TERM: Final = (
    f"{_UPDATES} ? object.{_TERM} == oldObject.{_TERM} : !object.{_TERM}.hasValue()"
)
_STAYS: Final = cel.all_of(_GATED, *(f"object.{part} == oldObject.{part}" for part in _WHERE))


def policies(config: Config) -> tuple[Policy, ...]:
    """Return who may change gate and pin, and the fence of the leader's term for the pin."""
    return (_gate(config), _fence(config))


def _gate(config: Config) -> Policy:
    return Policy(
        topic="gate",
        rule=Rule(kind=kinds.PODS, operations=("CREATE", "UPDATE")),
        conditions=(
            tenants.CONDITION,
            Named("not-the-controller", users.is_not_controller(config)),
            Named("bears-our-gate-or-term", cel.any_of(_GATED, _WAS_GATED, f"!({_KEEPS_TERM})")),
        ),
        validations=(_made(config), _pinned(config), _dated(config)),
        bindings=tenants.bindings(when_enabled=True),
    )


def _made(config: Config) -> Validation:
    is_kubevirt = users.is_one_of(config.kubevirt_controller_user)
    return Validation(
        expression=cel.any_of(_UPDATES, f"!{_GATED}", is_kubevirt),
        message=_says(
            f"scheduling gate {keys.PLACEMENT_GATE} is put on launcher pods of KubeVirt "
            f"({config.kubevirt_controller_user}) alone; leave it out, and name a GPUClaim in a VM"
        ),
        fallback="our scheduling gate is put on launcher pods of KubeVirt alone",
    )


def _pinned(config: Config) -> Validation:
    return Validation(
        expression=cel.any_of(f"!({_WAS_GATED})", _STAYS),
        message=_says(
            f"waits at gate {keys.PLACEMENT_GATE}; the GPU controller ({config.controller_user}) "
            "alone takes it off and says on which node the pod runs, once its units are bound "
            "there (kubectl get explanations -n {namespace}); to give up, stop the VM"
        ),
        fallback="gate and pin are changed by the GPU controller alone",
    )


def _dated(config: Config) -> Validation:
    return Validation(
        expression=_KEEPS_TERM,
        message=_says(
            f"annotation {keys.TERM_ANNOTATION} is written by the GPU controller "
            f"({config.controller_user}) alone, when it pins the pod; leave it as it is, and out of "
            "the VM's template"
        ),
        fallback="the term of a pin is written by the GPU controller alone",
    )


def _fence(config: Config) -> Policy:
    # Text that is no number counts as no term; longer numbers than any term would be an error.
    text = f"object.{_TERM}.orValue('')"
    term = f"({text}.matches('^[0-9]{{1,18}}$') ? int({text}) : 0)"
    leading = "params.?status.?term.orValue(0)"
    return Policy(
        topic="pin-term",
        rule=Rule(kind=kinds.PODS, operations=("UPDATE",)),
        failure=Failure.IGNORE,
        param_kind=kinds.GPU_BINDERS,
        conditions=(
            tenants.CONDITION,
            Named("the-controller", users.is_controller(config)),
            Named("pins", cel.all_of(_is_gated("oldObject"), f"!({_STAYS})")),
        ),
        variables=(Named("term", term), Named("leading", leading)),
        validations=(
            Validation(
                expression="variables.term >= variables.leading",
                message=_says(
                    "its place was decided in term {term}, but the leader of term {leading} "
                    "places now; nothing was written, that leader decides anew",
                    term="string(variables.term)",
                    leading="string(variables.leading)",
                ),
                fallback="a pin of an earlier leader is refused",
            ),
        ),
        bindings=tenants.bindings(
            param=Param(name=keys.BINDER_NAME, missing=Missing.ALLOW), when_enabled=True
        ),
        stay=Stay.ALWAYS,
    )


def _says(words: str, **parts: str) -> str:
    return cel.message(
        f"pod {{namespace}}/{{name}}: {words}", namespace="request.namespace", name=_NAME, **parts
    )
