"""Converts dates and times to milliseconds since 1970. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from tidelog.spark_connector.planning.option_values import INT64_MAX, OptionError


def read_time_ms(option: str, text: str) -> int:
    """Parse `2026-01-31`, `2026-01-31T09:14:00`, also with `Z` or `+01:00`, or milliseconds; default UTC.

    Errors: OptionError, also before 1970: for brokers, negative times mean ends of the log.
    """
    time_ms = _time_ms(text.strip())
    if time_ms is None or not 0 <= time_ms <= INT64_MAX:
        raise OptionError.of(
            option, text, "a date, a time such as 2026-01-31T09:14:00Z, or milliseconds since 1970"
        )
    return time_ms


def time_text(time_ms: int) -> str:
    """Return the time in UTC with milliseconds; only the number if it is after the year 9999."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError):
        return f"{time_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _time_ms(text: str) -> int | None:
    if text.isdecimal() and len(text) != len("20260131"):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
