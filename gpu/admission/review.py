"""AdmissionReview in and out: a Review of what is asked, an Answer as the JSON of a response; pure.

kube-apiserver puts `admission webhook "NAME" denied the request: ` before the message of a denial and
hands its code, reason and details on to the client.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu.admission.jsonpatch import Operation
from gpu.model.premises import NOTHING, Premises
from gpu.objects.decode import Fields

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
CONFLICT: Final = 409
INVALID: Final = 422
UNAVAILABLE: Final = 503

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What kube-apiserver asks about one request; the object is JSON as it would be stored.

    `kind` and `plural` are those the webhook was registered for. `object` is None for a DELETE,
    `old` is None for a CREATE.
    """

    uid: str
    operation: str
    group: str = ""
    kind: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    """Empty while a CREATE with generateName has not been given one."""
    generate_name: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    object: Mapping[str, Any] | None = None
    old: Mapping[str, Any] | None = None
    dry_run: bool = False

    @property
    def title(self) -> str:
        """How a message names the object: its name, or the prefix its name will be made of."""
        return self.name or f"{self.generate_name}*"


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason of a denial; `field` is a path as in `spec.count`, or empty."""

    field: str
    reason: str
    message: str

    def document(self) -> dict[str, str]:
        """As JSON; empty members are left out."""
        parts = {"reason": self.reason, "message": self.message, "field": self.field}
        return {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Let it pass; each warning is one line that kubectl prints."""

    warnings: tuple[str, ...] = ()
    patch: tuple[Operation, ...] = ()
    """JSON Patch of the object; of a mutating webhook only."""
    rests_on: Premises = NOTHING
    """What has to be current for it to be whole; told to nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The object of a denial, as `status.details` names it; `kind` as the client should read it."""

    group: str = ""
    kind: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """Refuse it, with an HTTP code, its reason, one line of words, and every cause by itself."""

    code: int
    reason: str
    message: str
    causes: tuple[Cause, ...] = ()
    about: About = field(default_factory=About)
    retry_after: int = 0
    """Seconds after which clients try again by themselves; 0 asks them not to."""
    rests_on: Premises = NOTHING
    """What has to be current for it to stand; told to nobody."""


Answer = Allowed | Denied


def decode(request: Mapping[str, Any]) -> Review:
    """Read the `request` of an AdmissionReview. Raises DecodeError where its shape is broken."""
    fields = Fields(request)
    resource, user = fields.child("resource"), fields.child("userInfo")
    given = _object(fields, "object")
    meta = Fields(given, "object").child("metadata")
    return Review(
        uid=fields.text("uid"),
        operation=fields.text("operation"),
        group=resource.text_or("group"),
        kind=fields.child("kind").text_or("kind"),
        plural=resource.text_or("resource"),
        subresource=fields.text_or("subResource"),
        namespace=fields.text_or("namespace"),
        name=fields.text_or("name") or meta.text_or("name"),
        generate_name=meta.text_or("generateName"),
        user=user.text_or("username"),
        groups=user.texts("groups"),
        object=given,
        old=_object(fields, "oldObject"),
        dry_run=fields.flag("dryRun"),
    )


def document(answer: Answer) -> dict[str, Any]:
    """Return the members of a `response`, all but its uid."""
    if isinstance(answer, Allowed):
        warned = {"warnings": list(answer.warnings)} if answer.warnings else {}
        return {"allowed": True, **warned, **_patched(answer.patch)}
    about = answer.about
    details: dict[str, Any] = {
        "name": about.name,
        "group": about.group,
        "kind": about.kind,
        "causes": [cause.document() for cause in answer.causes],
        "retryAfterSeconds": answer.retry_after,
    }
    status = {
        "status": "Failure",
        "code": answer.code,
        "reason": answer.reason,
        "message": answer.message,
        "details": {key: value for key, value in details.items() if value},
    }
    return {"allowed": False, "status": status}


def _patched(patch: tuple[Operation, ...]) -> dict[str, Any]:
    if not patch:
        return {}
    text = json.dumps(patch, separators=(",", ":")).encode()
    return {"patchType": "JSONPatch", "patch": base64.b64encode(text).decode("ascii")}


def rests_on(answer: Answer) -> Premises:
    """Return what has to be current for an answer to stand: most of what passes is judged again later."""
    return answer.rests_on


def unavailable(message: str, seconds: int = 1) -> Denied:
    """Return the denial of what cannot be judged now; clients try again by themselves."""
    return Denied(
        code=UNAVAILABLE, reason="ServiceUnavailable", message=message, retry_after=seconds
    )


def _object(fields: Fields, name: str) -> Mapping[str, Any] | None:
    return fields.child(name).raw if fields.has(name) else None
