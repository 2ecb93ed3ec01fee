"""How many examples a property is given: few in daily runs, many with `--full`."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

DAILY = "daily"
FULL = "full"
MANY = 2_000

ASCII = st.characters(codec="ascii")
"""The alphabet of patterns that name their characters: Hypothesis then leaves all of Unicode unread."""

# A busy machine is no failure: neither a slow example nor slow making of one.
settings.register_profile(
    DAILY, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(FULL, settings.get_profile(DAILY), max_examples=MANY)


def examples(few: int, many: int = MANY) -> settings:
    """Return the settings of a property that costs too much for Hypothesis' hundred; no deadline."""
    return settings(
        max_examples=many if settings.get_current_profile_name() == FULL else few,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no failure
    )
