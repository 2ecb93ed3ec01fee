"""ObjectKey, ObjectMeta, OwnerRef, Condition: what every kind shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

from gpu.objects.decode import Fields

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ObjectKey(NamedTuple):
    """Namespace (empty for cluster scope) and name; sorts as the API server lists."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRef:
    """One owner of an object; controller or not."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    """Metadata of any object. A new resourceVersion alone is not a change (compare=False)."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = field(default="", compare=False)
    generation: int = 0
    created: datetime = EPOCH
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owners: tuple[OwnerRef, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        # The hottest line of a pass: without the call of the generated __new__ it takes half.
        return tuple.__new__(ObjectKey, (self.namespace, self.name))

    @property
    def version(self) -> int:
        """The resourceVersion as a number; comparable since KEP-5504."""
        return int(self.resource_version) if self.resource_version.isdigit() else 0


class HasMeta(Protocol):
    """Any typed view."""

    @property
    def meta(self) -> ObjectMeta:
        """Its metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One metav1.Condition; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None
    observed_generation: int = 0


def decode_meta(fields: Fields) -> ObjectMeta:
    """Read `metadata`. Raises DecodeError when the name is missing."""
    meta = fields.child("metadata")
    return ObjectMeta(
        name=meta.text("name"),
        namespace=meta.text_or("namespace"),
        uid=meta.text_or("uid"),
        resource_version=meta.text_or("resourceVersion"),
        generation=meta.whole("generation", 0),
        created=meta.time("creationTimestamp") or EPOCH,
        deleting=meta.has("deletionTimestamp"),
        labels=meta.text_map("labels"),
        annotations=meta.text_map("annotations"),
        finalizers=meta.texts("finalizers"),
        owners=tuple(
            OwnerRef(
                api_version=owner.text_or("apiVersion"),
                kind=owner.text_or("kind"),
                name=owner.text_or("name"),
                uid=owner.text_or("uid"),
                controller=owner.flag("controller"),
            )
            for owner in meta.children("ownerReferences")
        ),
    )


def decode_conditions(status: Fields) -> tuple[Condition, ...]:
    """Read `status.conditions`, in their stored order."""
    return tuple(
        Condition(
            type=item.text("type"),
            status=item.text_or("status", "Unknown"),
            reason=item.text_or("reason"),
            message=item.text_or("message"),
            since=item.time("lastTransitionTime"),
            observed_generation=item.whole("observedGeneration", 0),
        )
        for item in status.children("conditions")
    )


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """Return the condition of a type, if it is there."""
    return next((item for item in conditions if item.type == kind), None)


def format_time(at: datetime) -> str:
    """Return an instant as the API writes it, in whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
