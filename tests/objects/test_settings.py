import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import settings
from gpu.errors import SettingsError
from gpu.settings import RawNames, Settings
from tests import sampling
from tests.builders import H100, L40

NAMES = st.from_regex(
    r"[a-z0-9]{1,8}(\.[a-z]{1,5})?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?",
    fullmatch=True,
    alphabet=sampling.ASCII,
)


def test_settings_are_written_sorted_and_comma_separated():
    data = settings.format_data(Settings.of([H100, L40, H100], RawNames.ALLOWED))
    assert data == {"resourceNames": f"{L40},{H100}", "rawResourceNames": "allowed"}


def test_no_names_are_an_empty_text():
    data = {"resourceNames": "", "rawResourceNames": "denied"}
    assert settings.format_data(Settings()) == data
    assert settings.parse_data(data) == Settings()


@given(st.sets(NAMES, max_size=5), st.sampled_from(RawNames))
def test_what_was_formatted_is_parsed_to_the_same(names, raw):
    value = Settings.of(names, raw)
    assert settings.parse_data(settings.format_data(value)) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"rawResourceNames": "denied"}, "data.resourceNames is missing"),
        ({"resourceNames": ""}, "data.rawResourceNames is missing"),
        (
            {"resourceNames": "a/b, c/d", "rawResourceNames": "denied"},
            "data.resourceNames: ' c/d' is no resource name",
        ),
        (
            {"resourceNames": "a/b,", "rawResourceNames": "denied"},
            "data.resourceNames: '' is no resource name",
        ),
        (
            {"resourceNames": "plain", "rawResourceNames": "denied"},
            "data.resourceNames: 'plain' is no resource name",
        ),
        (
            {"resourceNames": "a/b/c", "rawResourceNames": "denied"},
            "data.resourceNames: 'a/b/c' is no resource name",
        ),
        (
            {"resourceNames": "UP/b", "rawResourceNames": "denied"},
            "data.resourceNames: 'UP/b' is no resource name",
        ),
        (
            {"resourceNames": "a/" + "b" * 64, "rawResourceNames": "denied"},
            f"data.resourceNames: '{'a/' + 'b' * 64}' is no resource name",
        ),
        (
            {"resourceNames": "a/b", "rawResourceNames": "Allowed"},
            "data.rawResourceNames: 'Allowed' is neither 'allowed' nor 'denied'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_was_not_formatted_by_us_is_refused_with_the_key_and_text(data, why):
    with pytest.raises(SettingsError) as caught:
        settings.parse_data(data)
    assert str(caught.value) == why
