"""Structured logs: one line per event, as key=value or as JSON.

    time=2026-11-21T12:00:00.123Z level=WARNING logger=tidelog.broker.network.connection msg="…"
    peer=10.0.0.1:5

The `extra` argument of a logging call becomes keys of the line. Line breaks within a value are escaped, so
that a peer cannot forge a line. A traceback is one value, too.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, TypeAlias

TRACE: Final = 5
"""Kafka's level below DEBUG, which Python does not have."""

LogFormat: TypeAlias = Literal["text", "json"]

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_CHARACTERS_TO_QUOTE: Final = frozenset(' ="\\')


class TextFormatter(logging.Formatter):
    """Formats lines of key=value; values with spaces or special characters are quoted as JSON strings."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_value_text(value)}" for key, value in _fields(self, record).items())


class JsonFormatter(logging.Formatter):
    """Formats each line as a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_fields(self, record), default=str)


def configure_logging(
    log_format: LogFormat = "text", level: str = "INFO", stream: TextIO | None = None
) -> logging.Handler:
    """Log all events at `level` or above to `stream`, or to standard error if it is None.

    Replace all previous handlers, and return the new one. Errors: ValueError for a level that does not exist.
    """
    logging.addLevelName(TRACE, "TRACE")
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    """Return the keys and values of a line in their order."""
    time = datetime.fromtimestamp(record.created, UTC)
    fields: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z",
        "level": record.levelname,
        "logger": record.name,
        "msg": record.getMessage(),
    }
    extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    fields |= {key: value for key, value in extra.items() if key not in fields}
    if record.exc_info and record.exc_info[0] is not None:
        fields["traceback"] = formatter.formatException(record.exc_info)
    if record.stack_info:
        fields["stack"] = record.stack_info
    return fields


def _value_text(value: object) -> str:
    """Return the text of a value, as a JSON string if a reader could misunderstand it."""
    text = str(value)
    if text and text.isprintable() and text.isascii() and not _CHARACTERS_TO_QUOTE & set(text):
        return text
    return json.dumps(text)
