"""Policy and Binding as frozen values, and the documents they stand for.

A document states every field that the API server would fill in, so that what is stored can be
compared with what is meant (`keeper` does, field by field).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gpu.objects import kinds
from gpu.objects.kinds import Kind

Document = dict[str, Any]

LABELS: Final = {"internal.cozystack.io/managed-by-cozystack": ""}
"""How the host marks objects that people should not edit."""
NAME_PREFIX: Final = "cozystack-gpu-"
NAME_SUFFIX: Final = "-policy"
REASON: Final = "Forbidden"


class Failure(StrEnum):
    """What an expression that cannot be evaluated means."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class Missing(StrEnum):
    """What it means that the parameter is not there."""

    ALLOW = "Allow"
    DENY = "Deny"


class Stay(StrEnum):
    """How long a policy is there."""

    MANAGED = "managed"
    """Unless policies are off; out with the release."""
    ALWAYS = "always"
    """In every mode, applied by the leader; out with the release."""
    FOREVER = "forever"
    """In every mode, and it outlives the release as CRDs and settings do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which requests are looked at."""

    kind: Kind
    operations: tuple[str, ...]
    subresource: str = ""

    def document(self) -> Document:
        """Return the resource rule."""
        plural = self.kind.plural
        return {
            "apiGroups": [self.kind.group],
            "apiVersions": [self.kind.version],
            "resources": [f"{plural}/{self.subresource}" if self.subresource else plural],
            "operations": list(self.operations),
            "scope": "*",
        }


@dataclass(frozen=True, slots=True)
class Named:
    """A CEL expression with a name: a match condition or a variable."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What must hold, and the words for when it does not; both CEL."""

    expression: str
    message: str
    fallback: str
    """Plain text, said when the message itself cannot be evaluated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """The object a binding hands to its policy."""

    name: str
    namespace: str = ""
    missing: Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Where a policy is in force: one selector of namespaces, all of its parts required."""

    suffix: str = ""
    namespaces_named: tuple[str, ...] = ()
    namespaces_with: str = ""
    """A label that must be there, whatever its value."""
    param: Param | None = None
    when_enabled: bool = False
    """Goes while the feature is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One ValidatingAdmissionPolicy with its bindings; its first binding bears its name."""

    topic: str
    rule: Rule
    failure: Failure = Failure.FAIL
    param_kind: Kind | None = None
    conditions: tuple[Named, ...] = ()
    variables: tuple[Named, ...] = ()
    validations: tuple[Validation, ...]
    bindings: tuple[Binding, ...]
    stay: Stay = Stay.MANAGED
    optional: bool = False
    """What it matches may never be served (KubeVirt's kinds): its absence is no fault."""

    @property
    def name(self) -> str:
        """`cozystack-gpu-<topic>-policy`."""
        return f"{NAME_PREFIX}{self.topic}{NAME_SUFFIX}"

    @property
    def needs(self) -> tuple[Kind, ...]:
        """Custom kinds that must be served first; built-in kinds always are."""
        named = (self.rule.kind, *((self.param_kind,) if self.param_kind else ()))
        return tuple(kind for kind in named if "." in kind.group)

    def document(self) -> Document:
        """Return the ValidatingAdmissionPolicy, without an owner."""
        spec: Document = {"failurePolicy": self.failure.value}
        if self.param_kind:
            spec["paramKind"] = {
                "apiVersion": self.param_kind.api_version,
                "kind": self.param_kind.kind,
            }
        spec["matchConstraints"] = {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [self.rule.document()],
        }
        if self.conditions:
            spec["matchConditions"] = [_named(item) for item in self.conditions]
        if self.variables:
            spec["variables"] = [_named(item) for item in self.variables]
        spec["validations"] = [
            {
                "expression": validation.expression,
                "message": validation.fallback,
                "messageExpression": validation.message,
                "reason": REASON,
            }
            for validation in self.validations
        ]
        return _object(kinds.POLICIES, self.name, spec)

    def binding_name(self, binding: Binding) -> str:
        """Return the name of one of its bindings."""
        return f"{self.name}-{binding.suffix}" if binding.suffix else self.name

    def binding_document(self, binding: Binding) -> Document:
        """Return the ValidatingAdmissionPolicyBinding, without an owner."""
        spec: Document = {"policyName": self.name, "validationActions": ["Deny"]}
        selector = _selector(binding)
        if selector:
            spec["matchResources"] = {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchExpressions": selector},
                "objectSelector": {},
            }
        if binding.param:
            spec["paramRef"] = {
                "name": binding.param.name,
                "parameterNotFoundAction": binding.param.missing.value,
            }
            if binding.param.namespace:
                spec["paramRef"]["namespace"] = binding.param.namespace
        return _object(kinds.POLICY_BINDINGS, self.binding_name(binding), spec)


def is_ours(document: Document) -> bool:
    """Say whether a stored policy or binding is one of this product's, of whatever version."""
    meta = document.get("metadata", {})
    name = meta.get("name", "")
    labelled = LABELS.items() <= (meta.get("labels") or {}).items()
    return labelled and name.startswith(NAME_PREFIX) and NAME_SUFFIX in name


def _named(item: Named) -> Document:
    return {"name": item.name, "expression": item.expression}


def _selector(binding: Binding) -> list[Document]:
    selector: list[Document] = []
    if binding.namespaces_with:
        selector.append({"key": binding.namespaces_with, "operator": "Exists"})
    if binding.namespaces_named:
        # Set by the API server itself; nobody can put it on another namespace.
        selector.append(
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "In",
                "values": list(binding.namespaces_named),
            }
        )
    return selector


def _object(kind: Kind, name: str, spec: Document) -> Document:
    meta: Document = {"name": name, "labels": dict(LABELS)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
