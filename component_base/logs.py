"""Configure the logs on standard error: one line for each event, as text for people or JSON for collectors."""

from __future__ import annotations

import enum
import logging
import sys
import time
from collections.abc import Sequence

from pythonjsonlogger.json import JsonFormatter


class LogFormat(enum.StrEnum):
    """Format of a log line."""

    TEXT = "text"
    JSON = "json"


class LogLevel(enum.StrEnum):
    """Lowest level that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure(log_format: LogFormat, level: LogLevel) -> None:
    """Send the lines of all loggers to standard error in one format, time in UTC."""
    formatter: logging.Formatter
    if log_format is LogFormat.JSON:
        formatter = JsonFormatter(
            "{asctime}{levelname}{name}{message}",
            style="{",
            rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
        )
    else:
        formatter = logging.Formatter("{asctime} {levelname:<7} {name}: {message}", style="{")
    formatter.converter = time.gmtime
    formatter.default_time_format = "%Y-%m-%dT%H:%M:%S"
    formatter.default_msec_format = "%s.%03dZ"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.value.upper())
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for each request has no information for an operator


def some(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
