"""Does a label selector, a node term or a pod term match: the rules of Kubernetes, as kube-scheduler asks."""

import re
from collections.abc import Mapping
from typing import Final

from gpu.objects.pod_needs import NodeTerm, PodTerm, Requirement, Selector

Labels = Mapping[str, str]
NAME: Final = "metadata.name"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MOST_DIGITS: Final = 20
_LARGEST: Final = 2**63 - 1


def selects(selector: Selector, labels: Labels) -> bool:
    """Say whether labels meet every requirement; an empty selector takes all."""
    return all(_meets(requirement, labels) for requirement in selector)


def node_matches(terms: tuple[NodeTerm, ...], labels: Labels, name: str) -> bool:
    """Say whether a node meets one of the terms; no terms, or an empty one, take no node."""
    for term in terms:
        if (
            (term.labels or term.fields)
            and selects(term.labels, labels)
            and all(_is_named(requirement, name) for requirement in term.fields)
        ):
            return True
    return False


def pod_matches(
    term: PodTerm, own: str, namespace: str, labels: Labels, of_namespace: Labels
) -> bool:
    """Say whether a pod is one that a term of a pod in namespace `own` is about.

    `of_namespace` are the labels of the pod's namespace.
    """
    if term.selector is None:
        return False
    if not term.namespaces and term.namespace_selector is None:
        if namespace != own:
            return False
    elif namespace not in term.namespaces and (
        term.namespace_selector is None or not selects(term.namespace_selector, of_namespace)
    ):
        return False
    return selects(term.selector, labels)


def _meets(requirement: Requirement, labels: Labels) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(requirement, value)
        case _:
            return False


def _compares(requirement: Requirement, value: str) -> bool:
    limit = _integer(requirement.values[0]) if len(requirement.values) == 1 else None
    found = _integer(value)
    if limit is None or found is None:
        return False
    return found > limit if requirement.operator == "Gt" else found < limit


def _integer(text: str) -> int | None:
    if len(text) > _MOST_DIGITS or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_LARGEST - 1 <= number <= _LARGEST else None


def _is_named(requirement: Requirement, name: str) -> bool:
    """Compare a field: In and NotIn of one value on the name are all that fields know."""
    if len(requirement.values) != 1 or requirement.operator not in {"In", "NotIn"}:
        return False
    value = name if requirement.key == NAME else ""
    return (value == requirement.values[0]) is (requirement.operator == "In")
