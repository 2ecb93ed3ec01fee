"""Audit id of the request under way: what is asked of kube-apiserver on its behalf bears it too."""

from contextvars import ContextVar
from typing import Final

HEADER: Final = "Audit-ID"
CURRENT: Final[ContextVar[str]] = ContextVar("audit_id", default="")
"""Of the request that the running task answers; empty where it answers none."""
