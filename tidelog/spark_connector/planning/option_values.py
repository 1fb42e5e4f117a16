"""Reads the values of options. An error is one line: the option, its value and what is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidelog.base.similar_names import similar_names

CLIENT_PREFIX: Final = "kafka."
INT64_MAX: Final = 2**63 - 1
_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)
_UNIT_MS: Final[Mapping[str, int]] = {
    "": 1,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class OptionError(ValueError):
    """An option that is missing, unknown or not allowed; the text names option, value and allowed values."""

    @classmethod
    def of(cls, option: str, value: object, allowed: str) -> OptionError:
        """Return the error for a value that is not allowed."""
        return cls(f"Invalid option: {option}={value!r}; expected {allowed}")


def require_supported(options: Iterable[str], supported: Iterable[str]) -> None:
    """Raise OptionError, with similar names, for the first that is neither in `supported` nor `kafka.*`."""
    by_lower = {name.lower(): name for name in supported}
    for option in options:
        lower = option.lower()
        if lower in by_lower or lower.startswith(CLIENT_PREFIX):
            continue
        similar = [by_lower[name] for name in similar_names(lower, by_lower)]
        choices = ", ".join(by_lower.values())
        hint = f"did you mean {' or '.join(similar)}?" if similar else f"expected kafka.* or one of {choices}"
        raise OptionError(f"Unknown option: {option!r}; {hint}")


def read_bool(option: str, text: str) -> bool:
    """Return the value of `true` or `false`, in any case."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise OptionError.of(option, text, "true or false")
    return word == "true"


def read_number(option: str, text: str, lowest: int = 0) -> int:
    """Return a whole number of 64 bits that is at least `lowest`."""
    try:
        number = int(text.strip())
    except ValueError:
        number = lowest - 1
    if number < lowest:
        raise OptionError.of(option, text, f"a whole number >= {lowest}")
    if number > INT64_MAX:
        raise OptionError.of(option, text, f"a whole number <= {INT64_MAX}")
    return number


def read_duration_ms(option: str, text: str) -> int:
    """Return the milliseconds of a duration in Spark's form: `15m`, `30s`; a number alone is milliseconds."""
    match = _DURATION.fullmatch(text)
    if match is None or match[2].lower() not in _UNIT_MS:
        raise OptionError.of(option, text, "a duration such as 15m, with unit ms, s, m, min, h or d")
    return int(match[1]) * _UNIT_MS[match[2].lower()]


def read_choice(option: str, text: str, choices: Iterable[str]) -> str:
    """Return the one of `choices` that `text` names, in any case."""
    word = text.strip().lower()
    allowed = tuple(choices)
    if word not in allowed:
        raise OptionError.of(option, text, " or ".join(allowed))
    return word


def read_json_object(option: str, text: str, example: str) -> dict[str, Any]:
    """Return a JSON object. Raise OptionError if a key is repeated."""
    try:
        value = json.loads(text, object_pairs_hook=_dict_of_unique_keys)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError.of(option, text, f"JSON such as {example}")
    return value


def _dict_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is repeated")
    return members
