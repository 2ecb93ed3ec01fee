"""User: name, groups, extra; frozen."""

from typing import Final

import msgspec

ANONYMOUS: Final = "system:anonymous"
UNAUTHENTICATED: Final = "system:unauthenticated"
AUTHENTICATED: Final = "system:authenticated"
MASTERS: Final = "system:masters"


class User(msgspec.Struct, frozen=True):
    """Who is asking, as authentication found; `extra` is (key, values) pairs, keys in lower case.

    A Struct, as is all that is made for each request: quicker made, hashed and compared than a dataclass.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_master(self) -> bool:
        """Say whether authorization lets the user do everything."""
        return MASTERS in self.groups

    @property
    def sort(self) -> str:
        """Which sort of caller it is, for metrics: anonymous, serviceaccount, system or other."""
        if self.name == ANONYMOUS:
            return "anonymous"
        if self.name.startswith("system:serviceaccount:"):
            return "serviceaccount"
        return "system" if self.name.startswith("system:") else "other"

    def authenticated(self) -> "User":
        """Add the group every authenticated user is in."""
        if AUTHENTICATED in self.groups or self.name == ANONYMOUS:
            return self
        return User(self.name, self.uid, (*self.groups, AUTHENTICATED), self.extra)


NOBODY: Final = User(ANONYMOUS, groups=(UNAUTHENTICATED,))
