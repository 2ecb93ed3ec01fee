"""The one place of this package that reads what time it is."""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the current time, in UTC."""
    return datetime.now(UTC)  # noqa: TID251 - certificates and messages begin when they are made
