"""What the controller alone puts on and takes off claims and classes: the template mark, finalizers.

A claim with the mark skips the order webhook and goes with its VM's start; our finalizer keeps its
units until they are proven free. An administrator is refused too: taking a finalizer off by hand,
to get a namespace out of Terminating, is how one unit is given to two. Adding our finalizer does no
harm: the controller takes it off as it does its own.

Other labels, other finalizers and owner references of a claim are its tenant's business: nothing is
decided by them, and a claim that goes with its owner is let go like any other.
"""

from typing import Final

from gpu import keys
from gpu.config import Config
from gpu.objects import kinds
from gpu.objects.kinds import Kind
from policies import cel, users
from policies.shapes import Binding, Named, Policy, Rule, Validation

_FINALIZERS: Final = "metadata.?finalizers.orValue([])"
_MARK: Final = f"metadata.?labels[?{cel.quote(keys.TEMPLATE_CLAIM_LABEL)}]"
_CREATES: Final = "request.operation == 'CREATE'"


def policies(config: Config) -> tuple[Policy, ...]:
    """Return the policy of a claim's mark and finalizer, and that of a class's finalizer."""
    return (
        _policy(
            config,
            topic="claim-marks",
            rule=Rule(kind=kinds.GPU_CLAIMS, operations=("CREATE", "UPDATE")),
            validations=(_mark(config), _finalizer(config, kinds.GPU_CLAIMS, keys.CLAIM_FINALIZER)),
        ),
        _policy(
            config,
            topic="class-marks",
            rule=Rule(kind=kinds.GPU_CLASSES, operations=("UPDATE",)),
            validations=(_finalizer(config, kinds.GPU_CLASSES, keys.CLASS_FINALIZER),),
        ),
    )


def _policy(
    config: Config, *, topic: str, rule: Rule, validations: tuple[Validation, ...]
) -> Policy:
    return Policy(
        topic=topic,
        rule=rule,
        conditions=(Named("not-the-controller", users.is_not_controller(config)),),
        validations=validations,
        bindings=(Binding(),),
    )


def _mark(config: Config) -> Validation:
    """Say that the label stays as it is: absent at first, whatever its value."""
    return Validation(
        expression=f"{_CREATES} ? !object.{_MARK}.hasValue() : object.{_MARK} == oldObject.{_MARK}",
        message=cel.message(
            "gpuclaim {namespace}/{name}: label "
            f"{keys.TEMPLATE_CLAIM_LABEL} is set by the GPU controller ({config.controller_user}) "
            "alone, on the claims that it makes for a VM's start; leave the label out",
            namespace="request.namespace",
            name="object.metadata.name",
        ),
        fallback="the template mark is set by the GPU controller alone",
    )


def _finalizer(config: Config, kind: Kind, finalizer: str) -> Validation:
    has = f"{cel.quote(finalizer)} in"
    until = {
        kinds.GPU_CLAIMS: "once its units are free",
        kinds.GPU_CLASSES: "once no claim names the class",
    }[kind]
    where = "{namespace}/{name}" if kind.namespaced else "{name}"
    parts = {"namespace": "request.namespace"} if kind.namespaced else {}
    return Validation(
        expression=f"oldObject == null || !({has} oldObject.{_FINALIZERS}) "
        f"|| {has} object.{_FINALIZERS}",
        message=cel.message(
            f"{kind.kind.lower()} {where}: finalizer {finalizer} is taken off by the GPU controller "
            f"({config.controller_user}) alone, {until}; delete the {kind.kind.lower()} and wait, "
            "or take the product out with cozystack-gpu teardown",
            name="object.metadata.name",
            **parts,
        ),
        fallback="our finalizer is taken off by the GPU controller alone",
    )
