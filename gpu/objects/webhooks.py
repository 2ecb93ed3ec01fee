"""Webhooks: what a MutatingWebhookConfiguration has kube-apiserver ask; of ours alone."""

from dataclasses import dataclass, replace

from gpu.objects import meta
from gpu.objects.decode import Fields, Raw
from gpu.objects.meta import ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One webhook, as far as it decides who is asked about."""

    name: str
    creates: frozenset[str] = frozenset()
    """Resources (`plural.group`) whose creation it is asked about."""
    fails_closed: bool = False
    """Nothing is created while nobody answers."""
    is_narrowed: bool = False
    """It is asked about some namespaces alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """One MutatingWebhookConfiguration."""

    meta: ObjectMeta
    webhooks: tuple[Webhook, ...] = ()


def decode(raw: Raw) -> Webhooks:
    """Read a MutatingWebhookConfiguration. Raises DecodeError where it is broken."""
    fields = Fields(raw)
    found = meta.decode_meta(fields)
    return Webhooks(
        meta=replace(found, labels={}, annotations={}, finalizers=(), owners=(), generation=0),
        webhooks=tuple(_webhook(item) for item in fields.children("webhooks")),
    )


def _webhook(fields: Fields) -> Webhook:
    return Webhook(
        name=fields.text("name"),
        creates=frozenset(
            f"{plural}.{group}" if group else plural
            for rule in fields.children("rules")
            if {"CREATE", "*"} & set(rule.texts("operations"))
            for group in rule.texts("apiGroups")
            for plural in rule.texts("resources")
        ),
        fails_closed=fields.text_or("failurePolicy") == "Fail",
        is_narrowed=bool(fields.child("namespaceSelector").raw),
    )
