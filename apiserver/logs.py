"""Structured logs on standard error: one JSON object a line, or colours for a person."""

import json
import logging
import sys
from typing import Final

import structlog

from apiserver.flags import LogFormat

_encoder: Final = json.JSONEncoder(default=repr)
"""Kept: structlog's own renderer makes one for each line, which takes as long as the encoding."""


def configure(form: LogFormat) -> None:
    """Set structlog and the standard library's root logger up; call once, at start."""
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if form is LogFormat.CONSOLE else _json_object
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("msg"),
            renderer,
        ]
        if form is LogFormat.JSON
        else [
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=True),
            renderer,
        ],
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")


def _json_object(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> str:
    return _encoder.encode(event)
