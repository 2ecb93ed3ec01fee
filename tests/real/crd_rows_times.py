"""Rows of a claim's times: when it was displaced, and the sums that only grow."""

from collections.abc import Mapping
from typing import Any, Final

from gpu.objects import kinds
from gpu.objects.claims import Cause
from tests.real.crd_rows import BOUND, WHEN, Row, Step, status

EARLIER: Final = "2026-01-02T03:04:04Z"
LATER: Final = "2026-01-02T03:04:06Z"
CAUSES: Final = ", ".join(f'"{cause}"' for cause in Cause)
MOST: Final = 2**63 - 1
NEGATIVE: Final = "should be greater than or equal to 0"
SUMS: Final = ("waitingSeconds", "heldSeconds", "inUseSeconds", "lostSeconds", "degradedSeconds")

DISPLACED: Final = {"at": WHEN, "node": "n" * 253, "cause": "NodeNotReady"}
SPENT: Final = {"at": WHEN} | dict.fromkeys(SUMS, MOST)
ZERO: Final = {"at": WHEN} | dict.fromkeys(SUMS, 0)
SOME: Final = {"at": WHEN} | dict.fromkeys(SUMS, 7)

Refused = tuple[tuple[str, str], ...]


def _row(title: str, *steps: Step, refused: Refused = ()) -> Row:
    return Row(title=title, kind=kinds.GPU_CLAIMS, steps=steps, refused=refused)


def _displaced(title: str, given: Mapping[str, Any], *refused: tuple[str, str]) -> Row:
    steps = status({**BOUND, "displaced": {**DISPLACED, **given}})
    return _row(f"displaced: {title}", steps, refused=refused)


def _spent(title: str, given: Mapping[str, Any], *refused: tuple[str, str]) -> Row:
    return _row(f"spent: {title}", status({**BOUND, "spent": {**ZERO, **given}}), refused=refused)


def _after(title: str, given: Mapping[str, Any] | None, *refused: tuple[str, str]) -> Row:
    return _row(
        f"spent, later: {title}",
        status({**BOUND, "spent": SOME}),
        status({"spent": given}),
        refused=refused,
    )


DISPLACEMENTS: Final = (
    *(_displaced(f"cause {cause} is accepted", {"cause": cause.value}) for cause in Cause),
    _displaced(
        "another cause is refused",
        {"cause": "Whim"},
        (
            "status.displaced.cause",
            f'Unsupported value: "Whim": supported values: {CAUSES}',
        ),
    ),
    *(
        _displaced(
            f"none without {name} is refused",
            {name: None},
            (f"status.displaced.{name}", "Required value"),
        )
        for name in DISPLACED
    ),
    _displaced(
        "an empty node is refused",
        {"node": ""},
        ("status.displaced.node", "should be at least 1 chars long"),
    ),
    _displaced(
        "a node of 254 is refused",
        {"node": "n" * 254},
        ("status.displaced.node", "Too long: may not be more than 253 bytes"),
    ),
    _displaced(
        "a time that is none is refused",
        {"at": "then"},
        ("status.displaced.at", 'must be of type date-time: "then"'),
    ),
    _row(
        "displaced: another time, node and cause is accepted",
        status({**BOUND, "displaced": DISPLACED}),
        status({"displaced": {"at": EARLIER, "node": "n2", "cause": "SetTorn"}}),
    ),
)

TIMES: Final = (
    _spent("nothing yet is accepted", {}),
    *(
        _spent(f"none without {name} is refused", {name: None}, *missing)
        for name in ("at", *SUMS)
        for missing in [[(f"status.spent.{name}", "Required value")]]
    ),
    *(
        _spent(f"{name} of -1 is refused", {name: -1}, (f"status.spent.{name}", NEGATIVE))
        for name in ("waitingSeconds", "inUseSeconds", "lostSeconds", "degradedSeconds")
    ),
    _spent(
        "heldSeconds of -1 is refused",
        {"heldSeconds": -1},
        ("status.spent.heldSeconds", NEGATIVE),
        ("status.spent", "inUseSeconds is a part of heldSeconds"),
        ("status.spent", "degradedSeconds is a part of heldSeconds"),
    ),
    *(
        _spent(f"{name} as long as held is accepted", {name: 5, "heldSeconds": 5})
        for name in ("inUseSeconds", "degradedSeconds")
    ),
    *(
        _spent(
            f"{name} longer than held is refused",
            {name: 6, "heldSeconds": 5},
            ("status.spent", f"{name} is a part of heldSeconds"),
        )
        for name in ("inUseSeconds", "degradedSeconds")
    ),
    _after("the same again is accepted", SOME),
    _after("each a second more is accepted", {"at": LATER} | dict.fromkeys(SUMS, 8)),
    _after(
        "an earlier time is refused",
        {"at": EARLIER},
        ("status.spent.at", "spent.at may not go back"),
    ),
    *(
        _after(
            f"{name} less than before is refused",
            {name: 6},
            (f"status.spent.{name}", f"{name} may not go back"),
        )
        for name in ("waitingSeconds", "inUseSeconds", "lostSeconds", "degradedSeconds")
    ),
    _after(
        "heldSeconds less than before is refused",
        {"heldSeconds": 6, "inUseSeconds": 7},
        ("status.spent.heldSeconds", "heldSeconds may not go back"),
        ("status.spent", "inUseSeconds is a part of heldSeconds"),
        ("status.spent", "degradedSeconds is a part of heldSeconds"),
    ),
    _after("none any more is refused", None, ("status", "status.spent may not be removed")),
)
ROWS: Final = DISPLACEMENTS + TIMES
