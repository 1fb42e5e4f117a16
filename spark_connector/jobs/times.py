"""Times as people write them, in milliseconds since 1970. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from spark_connector.planning.option_values import OptionError


def read_time_ms(option: str, text: str) -> int:
    """`2026-01-31`, `2026-01-31T09:14:00`, the same with `Z` or `+01:00`, or milliseconds; without zone UTC.

    Errors: OptionError.
    """
    words = text.strip()
    if words.isdecimal() and len(words) != len("20260131"):
        return int(words)
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        raise OptionError.of(
            option, text, "a date, a time such as 2026-01-31T09:14:00Z, or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def time_text(time_ms: int) -> str:
    """The time in UTC with milliseconds."""
    return (
        datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
