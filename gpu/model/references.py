"""What a VMI asks for by its devices: held claims, units of classes, raw resource names, or neither.

Reading a name says nothing of whether what it names is there. A held claim is named
`claim.gpu.cozystack.io/CLAIM`, one unit of a class `gpu.cozystack.io/CLASS`; a resource of a node
bears neither domain, so nothing else can be meant by them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gpu import keys
from gpu.units import ClaimName, ClassName, ResourceName, Units

MOST_UNITS: Final = 256
"""As many as one VM can use, claims and template units together; more is a slip of somebody's."""
ANNOTATION: Final = f"metadata.annotations[{keys.CLAIMS_ANNOTATION}]"


class Place(StrEnum):
    """The lists of `spec.domain.devices` that name devices, in the order units are counted."""

    GPUS = "gpus"
    HOST_DEVICES = "hostDevices"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of such a list; `device` is its deviceName, empty where it names none."""

    place: Place
    index: int
    name: str
    device: str

    @property
    def path(self) -> str:
        """Its path, as messages show it."""
        return f"spec.domain.devices.{self.place.value}[{self.index}]"

    @property
    def is_reserved(self) -> bool:
        """Say whether it bears a name that the webhook alone gives."""
        return self.name.startswith(keys.UNIT_NAME_PREFIX)


@dataclass(frozen=True, slots=True)
class Held:
    """All units of a held claim, by a name that may be no claim's."""

    claim: ClaimName


@dataclass(frozen=True, slots=True)
class OfClass:
    """One unit of a class, by a name that may be no class's."""

    class_name: ClassName


@dataclass(frozen=True, slots=True)
class Strange:
    """A name in our domain that is neither form."""

    device: str


@dataclass(frozen=True, slots=True)
class Other:
    """Any other name: a raw resource name, or what is nobody's business here."""

    device: str


Target = Held | OfClass | Strange | Other


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """What the entries, the annotation and the amounts of one VMI ask for."""

    entries: tuple[Entry, ...] = ()
    listed: tuple[ClaimName, ...] = ()
    """By the annotation, in its order, repetitions and all."""
    amounts: Mapping[str, str] = field(default_factory=dict)
    """Paths of the VMI's own requests and limits to the device each asks for."""

    def held(self) -> Iterator[tuple[ClaimName, str]]:
        """Yield each reference to a held claim with its path: entries first, then the annotation."""
        for entry in self.entries:
            target = target_of(entry.device)
            if isinstance(target, Held) and not entry.is_reserved:
                yield target.claim, f"{entry.path}.deviceName"
        for name in self.listed:
            yield name, ANNOTATION

    def template(self) -> dict[ClassName, Units]:
        """Return the units of each class that entries ask for, in order of their first entry."""
        counted = Counter(
            target.class_name
            for entry in self.entries
            if not entry.is_reserved
            for target in (target_of(entry.device),)
            if isinstance(target, OfClass)
        )
        return {name: Units(amount) for name, amount in counted.items()}

    def first(self, name: ClassName) -> str:
        """Return the path of the first entry that asks for a unit of the class."""
        return next(
            f"{entry.path}.deviceName"
            for entry in self.entries
            if target_of(entry.device) == OfClass(name)
        )

    def strange(self) -> Iterator[tuple[str, str]]:
        """Yield names of our domain that refer to nothing, each with its path."""
        for entry in self.entries:
            target = target_of(entry.device)
            if isinstance(target, Strange):
                yield target.device, f"{entry.path}.deviceName"

    def raw(self, names: Collection[str]) -> Iterator[tuple[ResourceName, str]]:
        """Yield each of these resource names that is asked for directly, with its path."""
        for entry in self.entries:
            if not entry.is_reserved and entry.device in names:
                yield ResourceName(entry.device), f"{entry.path}.deviceName"
        for path, name in self.amounts.items():
            if name in names:
                yield ResourceName(name), path

    @property
    def reserved(self) -> tuple[Entry, ...]:
        """Entries with a name that the webhook alone gives."""
        return tuple(entry for entry in self.entries if entry.is_reserved)

    @property
    def count(self) -> int:
        """How many references there are; each is one unit at least."""
        ours = (
            not isinstance(target_of(entry.device), Other) or entry.is_reserved
            for entry in self.entries
        )
        return sum(ours) + len(self.listed)


def target_of(device: str) -> Target:
    """Return what a deviceName asks for."""
    domain, _, name = device.partition("/")
    if device.startswith(keys.CLAIM_DEVICE_PREFIX) and name:
        return Held(ClaimName(name))
    if domain == keys.DOMAIN and name and "/" not in name:
        return OfClass(ClassName(name))
    if domain == keys.DOMAIN or domain.endswith(f".{keys.DOMAIN}"):
        return Strange(device)
    return Other(device)


def listed(annotation: str) -> tuple[ClaimName, ...]:
    """Return the claims that the annotation names, as `a, b`; empty members are passed over."""
    return tuple(ClaimName(name) for part in annotation.split(",") if (name := part.strip()))


def agrees(reserved: Iterable[Entry], wanted: Mapping[ResourceName, int]) -> bool:
    """Say whether entries are just what the webhook writes for so many units of each resource.

    Names are `gpuclaim-0` and on in the order of the entries, with no gap.
    """
    found = tuple(reserved)
    names = [entry.name for entry in found]
    return names == [unit_name(number) for number in range(len(found))] and Counter(
        entry.device for entry in found
    ) == Counter(dict(wanted))


def unit_name(number: int) -> str:
    """Return the name of the entry of one unit, counted from 0 over the whole VMI."""
    return f"{keys.UNIT_NAME_PREFIX}{number}"
