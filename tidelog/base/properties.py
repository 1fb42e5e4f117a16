"""Java `.properties` files, as Kafka reads `server.properties` and `meta.properties`.

A line is `key=value`, `key: value` or `key value`; `#` and `!` begin comments. A backslash at the end of a
line joins the next line to it; `\\t \\n \\r \\f \\uXXXX` and a backslash before any other character are
escapes. If a key occurs twice, the last value is used.

Errors: MalformedEscape, a ConfigError, for a malformed unicode escape; every other text can be parsed.
Source: java.util.Properties.load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tidelog.base.config_definition import ConfigError

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_BLANKS: Final = " \t\f"
_SEPARATORS: Final = "=:"
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A value and the number of the line that its key is on, counted from 1."""

    line: int
    value: str


class MalformedEscape(ConfigError):
    """A unicode escape without four hexadecimal digits, in the key or the value on `line`."""

    def __init__(self, line: int, text: str, file: str) -> None:
        super().__init__(file, text, r"allowed after \u are four hexadecimal digits")
        self.line = line
        self.text = text


def parse_properties(text: str, file: str = "server.properties") -> dict[str, str]:
    """Return every key with its value, in the order of first appearance.

    `file` is the file name for errors.
    Errors: MalformedEscape.
    """
    return {key: line.value for key, line in parse_property_lines(text, file).items()}


def parse_property_lines(text: str, file: str = "server.properties") -> dict[str, Property]:
    """Return what `parse_properties` returns, with the line of each value.

    Errors: MalformedEscape.
    """
    values: dict[str, Property] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            values[_unescape(key)] = Property(number, _unescape(value))
        except _BadEscape as error:
            raise MalformedEscape(number, error.args[0], file) from None
    return values


def properties_text(values: Mapping[str, str]) -> str:
    """Return a file with these values, one on each line; `parse_properties` returns them again."""
    return "".join(f"{_escape_key(key)}={_escape_value(value)}\n" for key, value in values.items())


def _escape_key(key: str) -> str:
    return re.sub(r"([\\ \t\f=:#!])", r"\\\1", key)


def _escape_value(value: str) -> str:
    escaped = value.replace("\\", "\\\\")
    for letter, character in _CONTROL.items():
        escaped = escaped.replace(character, f"\\{letter}")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


class _BadEscape(Exception):
    pass


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is no comment with its number; continued lines are joined."""
    joined: list[str] = []
    first = 1
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not any(joined):
            first = number
            if not line or line[0] in "#!":
                joined.clear()
                continue
        if _is_continued(line):
            joined.append(line[:-1])
            continue
        joined.append(line)
        yield first, "".join(joined)
        joined.clear()
    if "".join(joined):
        yield first, "".join(joined)


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    end = _key_end(line)
    start = _skip_blanks(line, end)
    if start < len(line) and line[start] in _SEPARATORS:
        start = _skip_blanks(line, start + 1)
    return line[:end], line[start:]


def _key_end(line: str) -> int:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 2
        elif line[position] in _BLANKS or line[position] in _SEPARATORS:
            return position
        else:
            position += 1
    return len(line)


def _skip_blanks(line: str, position: int) -> int:
    while position < len(line) and line[position] in _BLANKS:
        position += 1
    return position


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _escaped_character(match[1], text), text) if "\\" in text else text


def _escaped_character(escape: str, text: str) -> str:
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    if escape == "u":
        raise _BadEscape(text)
    return _CONTROL.get(escape, escape)
