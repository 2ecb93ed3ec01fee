"""The table of docs/binding.md, "When a node cannot keep a set", says what the code does."""

import itertools
from pathlib import Path

from gpu.config import RunningGuests
from gpu.model import departures
from gpu.model.guests import Guest
from gpu.objects.claims import Cause

PAGE = Path(__file__).parents[3] / "docs" / "binding.md"
COLUMNS = {
    Cause.NODE_GONE: 4,
    Cause.NODE_NOT_READY: 5,
    Cause.UNITS_MISSING: 5,
    Cause.NODE_TAINTED: 5,
    Cause.NODE_CORDONED: 6,
}
TRUTH = {"yes": (True,), "no": (False,), "any": (True, False)}


def rows():
    text = PAGE.read_text().split("## When a node cannot keep a set")[1]
    table = text.split("| guest | ended |")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        yield [cell.strip().strip("`") for cell in line.strip("|").split("|")]


def written():
    """What the page says of every cell."""
    found = {}
    for row in rows():
        settings = RunningGuests if row[2] == "any" else [RunningGuests(row[2])]
        states = [Guest(name.strip()) for name in row[0].split(",")]
        for guest, proven, running, room, cause in itertools.product(
            states, TRUTH[row[1]], settings, TRUTH[row[3]], COLUMNS
        ):
            assert (guest, proven, running, room, cause) not in found
            found[guest, proven, running, room, cause] = row[COLUMNS[cause]]
    return found


def test_the_page_says_what_the_code_does_in_every_case():
    cases = itertools.product(Guest, (True, False), RunningGuests, (True, False), COLUMNS)
    assert written() == {
        (guest, proven, running, room, cause): departures.deed(
            cause, guest, running, proven=proven, room=room
        ).value
        for guest, proven, running, room, cause in cases
    }
