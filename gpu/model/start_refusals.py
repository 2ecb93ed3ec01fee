"""Why a VM may not start with the claims and units it names: a closed set, and its words.

Only what waiting cannot cure and needs no placement to judge. Each names the object, the number and
the next step. `reason` of each is stable: clients see it as the cause of a denial.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, assert_never

from gpu import keys
from gpu.model import refusals
from gpu.model.refusals import (
    ClassDeleting,
    ClassRetired,
    NoSuchClass,
    NoTenant,
    NotPermitted,
    OverMaxCount,
)
from gpu.units import ClaimName, ResourceName

_SHOWN: Final = 80
"""Characters of a text that somebody else wrote."""


@dataclass(frozen=True, slots=True)
class ClaimMissing:
    """No claim of that name is in the VM's namespace."""

    reason: ClassVar[str] = "ClaimMissing"
    claim: ClaimName
    namespace: str


@dataclass(frozen=True, slots=True)
class ClaimElsewhere:
    """The name says a namespace too: a VM uses claims of its own namespace only."""

    reason: ClassVar[str] = "ClaimElsewhere"
    claim: ClaimName
    namespace: str
    """The VM's."""


@dataclass(frozen=True, slots=True)
class ClaimDeleting:
    """The claim is being deleted."""

    reason: ClassVar[str] = "ClaimDeleting"
    claim: ClaimName


@dataclass(frozen=True, slots=True)
class ClaimOfVM:
    """The controller made the claim for the template units of a VM, and it goes with that VM."""

    reason: ClassVar[str] = "ClaimOfVM"
    claim: ClaimName


@dataclass(frozen=True, slots=True)
class ClaimInUse:
    """A VMI that lives uses the claim, or one that was just started is about to."""

    reason: ClassVar[str] = "ClaimInUse"
    claim: ClaimName
    vmi: str
    starting: bool = False


@dataclass(frozen=True, slots=True)
class ClaimListedTwice:
    """The claim is named more than once; once stands for all its units."""

    reason: ClassVar[str] = "ClaimListedTwice"
    claim: ClaimName
    times: int


@dataclass(frozen=True, slots=True)
class NameMissing:
    """The VMI has no name yet (generateName), and an attachment is to a name."""

    reason: ClassVar[str] = "NameMissing"
    claims: int
    is_requested: bool = False
    """Units of a class need a name, too: they are held before the VMI is there."""


@dataclass(frozen=True, slots=True)
class NameReserved:
    """An entry bears a name that the GPU service alone gives, and no reference stands behind it."""

    reason: ClassVar[str] = "NameReserved"
    name: str


@dataclass(frozen=True, slots=True)
class NoReference:
    """A device name in our domain that refers to nothing."""

    reason: ClassVar[str] = "NoReference"
    device: str


@dataclass(frozen=True, slots=True)
class RawNameDenied:
    """A GPU is named by its resource, which tenants may not do here."""

    reason: ClassVar[str] = "RawNameDenied"
    resource: ResourceName
    namespace: str


@dataclass(frozen=True, slots=True)
class TooManyUnits:
    """More units than one VM can use."""

    reason: ClassVar[str] = "TooManyUnits"
    wanted: int
    most: int


OfClass = NoSuchClass | ClassRetired | ClassDeleting | NotPermitted | OverMaxCount | NoTenant
OfClaim = ClaimMissing | ClaimElsewhere | ClaimDeleting | ClaimOfVM | ClaimInUse | ClaimListedTwice
OfForm = NameMissing | NameReserved | NoReference | RawNameDenied | TooManyUnits
StartRefusal = OfClass | OfClaim | OfForm


def words(refusal: StartRefusal) -> str:
    """Say what is wrong, the numbers and the next step; no full stop at the end."""
    if isinstance(refusal, OfClass):
        return refusals.words(refusal)
    if isinstance(refusal, OfClaim):
        return _of_claim(refusal)
    return _of_form(refusal)


def _of_claim(refusal: OfClaim) -> str:
    name = shown(refusal.claim)
    match refusal:
        case ClaimMissing(_, namespace):
            return (
                f"claim {name} does not exist in {namespace}, and a VM uses claims of its own "
                f"namespace only: order it, or name one that `kubectl get gpuclaims -n {namespace}` "
                "lists"
            )
        case ClaimElsewhere(_, namespace):
            return (
                f"{name} is no name of a claim, and a VM uses claims of its own namespace only: "
                f"name one that `kubectl get gpuclaims -n {namespace}` lists, without a namespace"
            )
        case ClaimDeleting():
            return f"claim {name} is being deleted: name another, or order one anew"
        case ClaimOfVM():
            return (
                f"claim {name} was made for the template of a VM and goes with it: order a claim, "
                f"or name the class ({keys.CLASS_DEVICE_PREFIX}CLASS)"
            )
        case ClaimInUse():
            return _in_use(name, refusal)
        case ClaimListedTwice(_, times):
            return (
                f"claim {name} is named {times} times: name it once, that stands for all its units"
            )
        case _:  # pragma: no cover
            assert_never(refusal)


def _in_use(name: str, refusal: ClaimInUse) -> str:
    vmi = refusal.vmi
    if refusal.starting:
        return (
            f"claim {name} is kept for VM {vmi}, which is being started: name another claim, "
            f"or stop {vmi} and try again in a minute"
        )
    return f"claim {name} is used by VM {vmi}: stop {vmi} first, or name another claim"


def _of_form(refusal: OfForm) -> str:
    match refusal:
        case NameMissing(_, True):
            return (
                "it has no name yet (generateName), and on this cluster GPUs are held for a VM by its "
                "name before it is started: give it a name"
            )
        case NameMissing(claims):
            return (
                f"it has no name yet (generateName) and names {_plural(claims, 'held claim')}, "
                "which one VM at a time uses, known by its name: give it a name, or name classes "
                f"({keys.CLASS_DEVICE_PREFIX}CLASS) in place of claims"
            )
        case NameReserved(name):
            return (
                f"the name {shown(name)} is reserved: names that begin with "
                f"{keys.UNIT_NAME_PREFIX} are written by the GPU service for the units of claims; "
                f"give the entry another name, and {keys.CLAIM_DEVICE_PREFIX}CLAIM or "
                f"{keys.CLASS_DEVICE_PREFIX}CLASS as deviceName"
            )
        case NoReference(device):
            return (
                f"deviceName {shown(device)} refers to nothing: write "
                f"{keys.CLAIM_DEVICE_PREFIX}CLAIM for all units of a claim, "
                f"{keys.CLASS_DEVICE_PREFIX}CLASS for one unit of a class"
            )
        case RawNameDenied(resource, namespace):
            return (
                f"{resource} is a raw GPU resource name, and those are denied here: name a claim "
                f"({keys.CLAIM_DEVICE_PREFIX}CLAIM), or a class that "
                f"`kubectl get gpuoffers -n {namespace}` lists ({keys.CLASS_DEVICE_PREFIX}CLASS)"
            )
        case TooManyUnits(wanted, most):
            return (
                f"{refusals.plural(wanted)} asked, one VM can have at most {most}: "
                "use several VMs, or smaller claims"
            )
        case _:  # pragma: no cover
            assert_never(refusal)


def code(refusal: StartRefusal) -> str:
    """Return its stable code."""
    return refusal.reason


def shown(text: str) -> str:
    """Return somebody's text, cut where it is very long."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _plural(amount: int, noun: str) -> str:
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"
