"""Webhooks: what a MutatingWebhookConfiguration has kube-apiserver ask; of ours alone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta

EVERYTHING: Final = "{}"
"""A selector that leaves nothing out, as kube-apiserver stores it where none is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which requests a webhook is asked about."""

    groups: frozenset[str]
    versions: frozenset[str]
    operations: frozenset[str]
    resources: frozenset[str]
    scope: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One webhook: all of it but whom its callers believe (`caBundle`), who may change it, and its port."""

    name: str
    rules: frozenset[Rule] = frozenset()
    match_conditions: frozenset[str] = frozenset()
    """Expressions, all of which have to hold; each blank is one space."""
    object_selector: str = EVERYTHING
    """As JSON, with sorted keys."""
    namespace_selector: str = EVERYTHING
    match_policy: str = "Equivalent"
    failure_policy: str = "Fail"
    side_effects: str = ""
    reinvocation_policy: str = "Never"
    timeout_seconds: int = 10
    client_config: tuple[str, ...] = ()
    """Namespace, name and path of its Service; a URL alone where it has one."""

    def differs(self, other: "Webhook") -> tuple[str, ...]:
        """Return the fields in which another one is not the same, by their names in the API."""
        found = (one.name for one in fields(self))
        return tuple(_camel(name) for name in found if getattr(self, name) != getattr(other, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """One MutatingWebhookConfiguration."""

    meta: ObjectMeta
    webhooks: tuple[Webhook, ...] = ()


def decode(raw: Raw) -> Webhooks:
    """Read a MutatingWebhookConfiguration. Raises DecodeError where it is broken."""
    found = Fields(raw)
    about = meta.decode_meta(found)
    return Webhooks(
        meta=replace(about, labels={}, annotations={}, finalizers=(), owners=(), generation=0),
        webhooks=tuple(_webhook(item) for item in found.children("webhooks")),
    )


def selector(found: Mapping[str, object]) -> str:
    """Return a label selector as `Webhook` holds it."""
    return json.dumps(found, sort_keys=True)


def expression(text: str) -> str:
    """Return an expression as `Webhook` holds it."""
    return " ".join(text.split())


def _webhook(found: Fields) -> Webhook:
    conditions = found.children("matchConditions")
    return Webhook(
        name=found.text("name"),
        rules=frozenset(_rule(rule) for rule in found.children("rules")),
        match_conditions=frozenset(expression(one.text("expression")) for one in conditions),
        object_selector=selector(found.child("objectSelector").raw),
        namespace_selector=selector(found.child("namespaceSelector").raw),
        match_policy=found.text_or("matchPolicy", "Equivalent"),
        failure_policy=found.text_or("failurePolicy", "Fail"),
        side_effects=found.text_or("sideEffects"),
        reinvocation_policy=found.text_or("reinvocationPolicy", "Never"),
        timeout_seconds=found.whole("timeoutSeconds", 10),
        client_config=_client(found.child("clientConfig")),
    )


def _rule(found: Fields) -> Rule:
    return Rule(
        groups=frozenset(found.texts("apiGroups")),
        versions=frozenset(found.texts("apiVersions")),
        operations=frozenset(found.texts("operations")),
        resources=frozenset(found.texts("resources")),
        scope=found.text_or("scope", "*"),
    )


def _client(found: Fields) -> tuple[str, ...]:
    if found.has("url"):
        return (found.text("url"),)
    service = found.child("service")
    return tuple(service.text_or(name) for name in ("namespace", "name", "path"))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
