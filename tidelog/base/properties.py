"""Text of a Java `.properties` file to keys and values, as Kafka reads `server.properties`.

A line is `key=value`, `key: value` or `key value`; `#` and `!` begin comments; a backslash at
the end of a line joins the next one to it; `\\t \\n \\r \\f \\uXXXX` and a backslash before any
other character are escapes. Of a key that is given twice the last value counts.

Errors: ConfigError for a damaged unicode escape, the only thing that cannot be read.
Source: java.util.Properties.load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tidelog.base.config_definition import ConfigError

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_BLANKS: Final = " \t\f"
_SEPARATORS: Final = "=:"
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Every key with its value, in the order of first appearance."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        values[_unescape(key)] = _unescape(value)
    return values


def _logical_lines(text: str) -> Iterator[str]:
    joined: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not any(joined) and (not line or line[0] in "#!"):
            joined.clear()
            continue
        if _is_continued(line):
            joined.append(line[:-1])
            continue
        joined.append(line)
        yield "".join(joined)
        joined.clear()
    if "".join(joined):
        yield "".join(joined)


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
    return _ESCAPE.sub(lambda match: _escaped(match[1], text), text) if "\\" in text else text


def _escaped(escape: str, text: str) -> str:
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    if escape == "u":
        raise ConfigError("server.properties", text, r"allowed after \u are four hexadecimal digits")
    return _CONTROL.get(escape, escape)
