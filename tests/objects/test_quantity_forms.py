"""Quantities as a Cozystack of today was seen to take, print, store and refuse them.

`written` is what a tenant's resourceQuotas had, `printed` how the host said it again; whole is what
a budget counts, None where a unit would be divided: such a value is reported and counts as 0.
"""

import pytest

from gpu.errors import UnitsError
from gpu.objects import tenants
from gpu.units import MOST, parse_units

KEY = "gpu.cozystack.io/h100"
FORMS = [
    ("1", "1", 1),
    ("1000", "1k", 1_000),
    ("1500", "1500", 1_500),
    ("0.5", "500m", None),
    ("1.5", "1500m", None),
    ("500m", "500m", None),
    ("1e3", "1e3", 1_000),
    ("1e-3", "1e-3", None),
    ("1E", "1E", 10**18),
    ("1E3", "1E3", 1_000),
    ("1k", "1k", 1_000),
    ("1024", "1024", 1_024),
    ("1024Mi", "1Gi", 2**30),
    ("1025Mi", "1025Mi", 1025 * 2**20),
    ("1.5Gi", "1536Mi", 1536 * 2**20),
    ("0.1Gi", "107374182400m", None),
    ("1000000k", "1G", 10**9),
    ("1000000", "1M", 10**6),
    ("123456789", "123456789", 123_456_789),
    ("1234567890123", "1234567890123", 1_234_567_890_123),
    ("123456789012345678901234567890", "123456789012345678901234567890", MOST),
    (".5", "500m", None),
    ("5.", "5.", 5),
    ("+5", "+5", 5),
    ("1n", "1n", None),
    ("1u", "1u", None),
    ("0.0001", "100u", None),
    ("1000m", "1", 1),
    ("1001m", "1001m", None),
    ("1e1", "10", 10),
    ("1e30", "1e30", MOST),
    ("2Ki", "2Ki", 2_048),
    ("1Ti", "1Ti", 2**40),
    ("1024Ti", "1Pi", 2**50),
    ("100Gi", "100Gi", 100 * 2**30),
    ("107374182400", "107374182400", 100 * 2**30),
    (4, "4", 4),
    (1000, "1k", 1_000),
    (1.5, "1500m", None),
    (1000.0, "1k", 1_000),
    (0.25, "250m", None),
]
"""All that were recorded."""
TAKEN = [(" 1", 1), ("+1", 1), ("0", 0), (0, 0), ("1E3", 1_000), ("1Ki", 1_024)]
"""Stored by the host as they are; a blank, a sign and an exponent among them."""
NONE = ["", "abc", "9x", "4GB", True, {}, [], None, "-3", -1, "-1"]
"""What the host refuses, and what it stores all the same: nothing, and less than nothing."""


def whole(value):
    try:
        return parse_units(value)
    except UnitsError:
        return None


@pytest.mark.parametrize(("written", "printed", "units"), FORMS, ids=repr)
def test_a_recorded_form_reads_as_the_host_says_it_again(written, printed, units):
    assert (whole(written), whole(printed)) == (units, units)


def test_every_recorded_form_is_here():
    assert len(FORMS) == 41


@pytest.mark.parametrize(("written", "units"), TAKEN, ids=repr)
def test_what_the_host_stores_as_written_declares_its_units(written, units):
    found = tenants.declared({KEY: written})
    assert (found.units, found.unreadable) == ({KEY: units}, {})


@pytest.mark.parametrize("written", NONE, ids=repr)
def test_what_is_no_amount_counts_as_0_and_says_what_was_written(written):
    found = tenants.declared({KEY: written, "gpu.cozystack.io/total": "4"})
    assert found.units == {KEY: 0, "gpu.cozystack.io/total": 4}
    assert list(found.unreadable) == [KEY]
    assert repr(written) in found.unreadable[KEY] or str(written) in found.unreadable[KEY]


@pytest.mark.parametrize("written", [one for one, _, units in FORMS if units is None], ids=repr)
def test_a_divided_unit_counts_as_0_and_is_reported(written):
    found = tenants.declared({KEY: written})
    assert found.units == {KEY: 0}
    assert "a fraction: units are whole" in found.unreadable[KEY]
