"""What goes wrong with a control plane on this machine, each with one clear sentence.

DevclusterError      message for a person, and the log to read next
├── BuildError       a binary could not be built (Go missing, disk full, compiler said no)
├── PortTakenError      somebody else listens where we were told to
├── ChildDiedError        a process ended before or after it was ready
├── NotReadyError         a process lives but does not answer in time
└── CommandError    kubectl or helm said no
"""

from pathlib import Path


class DevclusterError(Exception):
    """A failure a person can act on: `str()` is the whole message, the log's place included."""

    def __init__(self, message: str, *, log: Path | None = None) -> None:
        super().__init__(message if log is None else f"{message}\nLog: {log}")
        self.log = log


class BuildError(DevclusterError):
    """A binary could not be built; nothing half-made is left in the cache."""


class PortTakenError(DevclusterError):
    """A port that was asked for by number is in use."""


class ChildDiedError(DevclusterError):
    """A process we started is gone; the message ends with what it said last."""


class NotReadyError(DevclusterError):
    """A process we started lives but was not ready before its deadline."""


class CommandError(DevclusterError):
    """A command line tool ended with an exit status other than 0; the message is its own."""
