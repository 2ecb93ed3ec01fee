"""Root of the domain's exceptions: bugs and bad input only; an expected 'no' is a Refusal value.

    GpuError
    ├── DecodeError      a stored object does not have the shape its schema promises
    ├── SettingsError    the settings ConfigMap cannot be read as settings
    └── UnitsError       an amount that cannot be one (negative, fractional, not a number)

Errors of the Kubernetes API live with the client that raises them (gpu/cluster/errors.py).
"""


class GpuError(Exception):
    """Anything this product raises about its own domain."""


class DecodeError(GpuError):
    """A stored object lacks or misshapes a field; `path` says which, as in `spec.count`."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class SettingsError(GpuError):
    """The settings ConfigMap holds something that is not settings."""


class UnitsError(GpuError):
    """An amount of units that is negative, fractional or no number."""
