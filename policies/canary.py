"""The policy by which an API server tells which settings it uses, and what its answers prove.

It judges one ConfigMap that is never stored: asking for it by dry run is all. Whoever does so must
name the version of the settings; another one than this API server reads is refused, in words that
say what it reads. The reading of ConfigMap parameters is one and the same for all policies of an
API server, and this policy is written after all others and names what they are: so its answers hold
for them too. Asking those directly would need the right to make pods in tenants' namespaces.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gpu import keys
from gpu.config import Config
from gpu.objects import kinds
from policies import cel
from policies.shapes import Binding, Document, Missing, Named, Param, Policy, Rule, Validation

TOPIC: Final = "canary"
ASKED: Final = "version"
"""Key of the ConfigMap's data under which the version of the settings is named."""
WRONG: Final = "0"
"""A version that no stored object has: must be refused."""

_NAME_CAP: Final = 300
_HEARD = re.compile(
    r"ValidatingAdmissionPolicy 'cozystack-gpu-canary-policy' .* denied request: .*"
    r"policies (?P<digest>\w+) read (?P<settings>\S+) at version (?P<version>\w*), not "
)


class Finding(StrEnum):
    """What one API server has shown."""

    PROVED = "proved"
    """It passed what it must pass, and refused what it must refuse, in the expected words."""
    STALE = "settings_stale"
    """Its policies are the current ones; the settings they read are not."""
    NOT_IN_FORCE = "not_in_force"
    """It does not ask the canary policy, or knows an older one."""
    BLOCKED = "blocked"
    """Something else refused the question: that proves nothing."""
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A finding about one API server; `words` say what it did."""

    finding: Finding
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What an API server should know."""

    digest: str
    """Of all other policies of this version."""
    settings: str
    """Name of the ConfigMap that the bindings name."""
    version: str
    """Its resourceVersion as stored."""


def policies(config: Config, digest: str) -> tuple[Policy, ...]:
    """Return the canary's policy; `digest` stands for all the others."""
    asked = f"object.?data[?{cel.quote(ASKED)}].orValue('')"
    where = {"namespace": "request.namespace", "name": "object.metadata.name"}
    return (
        Policy(
            topic=TOPIC,
            rule=Rule(kind=kinds.CONFIG_MAPS, operations=("CREATE",)),
            param_kind=kinds.CONFIG_MAPS,
            conditions=(
                Named("is-the-canary", f"object.metadata.name == {cel.quote(keys.CANARY_NAME)}"),
            ),
            validations=(
                Validation(
                    expression=f"{asked} == params.metadata.resourceVersion",
                    message=cel.message(
                        f"configmap {{namespace}}/{{name}}: policies {digest} read {{settings}} at "
                        "version {version}, not {asked}",
                        settings="params.metadata.name",
                        version="params.metadata.resourceVersion",
                        asked=asked,
                        **where,
                    ),
                    fallback="these are not the settings that the policies read",
                ),
                Validation(
                    expression="has(request.dryRun) && request.dryRun",
                    message=cel.message(
                        "configmap {namespace}/{name}: asked for by dry run, never stored; choose "
                        "another name",
                        **where,
                    ),
                    fallback="this ConfigMap is never stored",
                ),
            ),
            bindings=(
                Binding(
                    namespaces_named=(config.settings_namespace,),
                    # Deny would refuse every ConfigMap of the namespace, the settings too:
                    # parameters are looked for before conditions are asked.
                    param=Param(
                        name=keys.SETTINGS_NAME,
                        namespace=config.settings_namespace,
                        missing=Missing.ALLOW,
                    ),
                ),
            ),
        ),
    )


def question(config: Config, version: str) -> dict[str, Any]:
    """Return the ConfigMap to ask for by dry run."""
    meta: Document = {"name": keys.CANARY_NAME, "namespace": config.settings_namespace}
    return {"metadata": meta, "data": {ASKED: version}}


def judge(expected: Expected, *, right: str | None, wrong: str | None) -> Verdict:
    """Say what two answers prove: to the stored version, and to WRONG.

    An answer is the words of a refusal, None when it passed.
    """
    for words in (wrong, right):
        if words is not None and (verdict := _heard(expected, words)) is not None:
            return verdict
    if wrong is None:
        return Verdict(Finding.NOT_IN_FORCE, "accepts what the canary policy refuses")
    if right is not None:
        return Verdict(Finding.BLOCKED, f"refuses what must pass: {_short(right)}")
    return Verdict(Finding.PROVED)


def _heard(expected: Expected, words: str) -> Verdict | None:
    """Return what a refusal tells against the API server; None when it knows all it should."""
    heard = _HEARD.search(words)
    if heard is None:
        return Verdict(Finding.BLOCKED, f"something else refuses the question: {_short(words)}")
    digest, settings, version = heard["digest"], heard["settings"], heard["version"]
    if digest != expected.digest:
        return Verdict(
            Finding.NOT_IN_FORCE, f"knows policies {digest}, stored are {expected.digest}"
        )
    if settings != expected.settings:
        return Verdict(
            Finding.NOT_IN_FORCE, f"reads ConfigMap {settings}, bound is {expected.settings}"
        )
    if version != expected.version:
        return Verdict(
            Finding.STALE, f"reads {settings} at version {version}, stored is {expected.version}"
        )
    return None


def _short(words: str) -> str:
    return words if len(words) <= _NAME_CAP else words[: _NAME_CAP - 1] + "…"
