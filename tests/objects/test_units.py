import pytest

from gpu.errors import UnitsError
from gpu.units import MOST, Units, parse_ceiling, parse_units


@pytest.mark.parametrize(
    ("text", "units"),
    [
        (4, 4),
        (0, 0),
        ("4", 4),
        ("+3", 3),
        (" 3", 3),
        ("3 ", 3),
        ("-0", 0),
        ("1k", 1_000),
        ("2e1", 20),
        ("2E1", 20),
        ("4000m", 4),
        ("5000000u", 5),
        ("1Ki", 1024),
        (".5Ki", 512),
        ("0.5e1", 5),
        ("4.", 4),
        (4.0, 4),
        ("1E", 10**18),
        (str(MOST), MOST),
        (MOST + 1, MOST),
        (str(MOST + 1), MOST),
        ("99999999999999999999Ki", MOST),
    ],
    ids=repr,
)
def test_a_quantity_reads_as_whole_units_in_every_form_kubernetes_takes(text, units):
    assert parse_units(text) == units
    assert type(parse_units(text)) is Units


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not a quantity"),
        ("x", "'x' is not a quantity"),
        (" ", "' ' is not a quantity"),
        ("1K", "'1K' is not a quantity"),
        ("5\t", "'5\\t' is not a quantity"),
        ("1 k", "'1 k' is not a quantity"),
        ("k", "'k' is not a quantity"),
        ("1kk", "'1kk' is not a quantity"),
        (".", "'.' is not a quantity"),
        ("\u0663", "'\u0663' is not a quantity"),
        ("1e99999999999999999999", "'1e99999999999999999999' is not a quantity"),
        (float("inf"), "inf is not a quantity"),
        (float("nan"), "nan is not a quantity"),
        (True, "True is not a quantity"),
        (None, "None is not a quantity"),
        ([], "[] is not a quantity"),
        (4.5, "4.5 is a fraction: units are whole"),
        ("500m", "'500m' is a fraction: units are whole"),
        ("1e-3", "'1e-3' is a fraction: units are whole"),
        ("1e-99999999", "'1e-99999999' is a fraction: units are whole"),
        (-1, "-1 units: an amount cannot be negative"),
        ("-1", "'-1': an amount cannot be negative"),
        ("-500m", "'-500m': an amount cannot be negative"),
    ],
    ids=repr,
)
def test_what_is_no_whole_amount_is_refused_with_the_text_at_fault(text, why):
    with pytest.raises(UnitsError) as caught:
        parse_units(text)
    assert str(caught.value) == why


def test_a_long_text_is_shown_in_part():
    with pytest.raises(UnitsError) as caught:
        parse_units("x" * 10_000)
    assert len(str(caught.value)) == 80 + len("… is not a quantity")


@pytest.mark.timeout(5)
def test_an_exponent_that_a_tenant_wrote_costs_no_time():
    assert parse_units("1e99999999") == MOST
    with pytest.raises(UnitsError, match="cannot be negative"):
        parse_units("-1e99999999")


def test_units_are_never_negative():
    with pytest.raises(UnitsError, match="-3 units: an amount cannot be negative"):
        Units(-3)
    assert Units(3) - 5 == -2


@pytest.mark.parametrize(
    ("text", "per_unit", "amount"),
    [
        ("250m", 1000, 250),
        ("64", 1000, 64_000),
        (2, 1000, 2000),
        ("0.5", 1, 1),
        ("100u", 1000, 1),
        ("1.5Gi", 1, 3 * 2**29),
        ("1e999999999", 1000, MOST),
        (str(MOST), 1000, MOST),
    ],
    ids=str,
)
def test_an_amount_reads_in_parts_of_a_unit_rounded_up(text, per_unit, amount):
    assert parse_ceiling(text, per_unit) == amount


@pytest.mark.parametrize("text", ["x", "-1", True, None], ids=str)
def test_no_amount_is_read_where_there_is_none(text):
    with pytest.raises(UnitsError):
        parse_ceiling(text)
