"""Prints results: aligned tables, or JSON.

On a terminal, rich draws the tables within its width: names and headings are folded, numbers are not. A table
that is too wide even then is printed as a list of values for each row. In a pipe, tables are plain columns
without colours, and never folded. There, a table is printed as lists if its usual values need more than 80
columns, whatever its rows contain.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tidelog.protocol.ids import uuid_text

if TYPE_CHECKING:
    from rich.console import Console

NOTHING: Final = "-"
_GAP: Final = 2
_NAME_WIDTH_MIN: Final = 12
_NUMBER: Final = re.compile(r"-*[0-9,.e+]*[0-9]( [KMGTP]?i?B)?")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, is_wide: bool = False) -> None:
    """Print rows under headings; None is printed as '-'. Columns of numbers are right-aligned.

    In a pipe, a table that `is_wide` is printed as a list of values for each row.
    """
    written = [[_cell(value) for value in row] for row in rows]
    numeric = [bool(written) and all(_is_number(row[i]) for row in written) for i in range(len(columns))]
    headings = [column.upper() for column in columns]
    if _is_terminal():
        _draw(headings, written, numeric)
        return
    if is_wide:
        print_lines(_list_lines(headings, written))
        return
    widths = [max(len(line[i]) for line in [headings, *written]) for i in range(len(columns))]
    for line in [headings, *written]:
        cells = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _draw(headings: list[str], rows: list[list[str]], numeric: list[bool]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    widths = [_width_min(index, headings, rows, numeric[index]) for index in range(len(headings))]
    if sum(widths) + _GAP * (len(widths) - 1) > console.width:
        _draw_lists(headings, rows, console)
        return
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for heading, width, right in zip(headings, widths, numeric, strict=True):
        table.add_column(
            heading, justify="right" if right else "left", overflow="fold", min_width=width, no_wrap=False
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def _width_min(index: int, headings: list[str], rows: list[list[str]], is_numeric: bool) -> int:
    """Return the least width of a column: its longest number, or a part of a name that can still be read."""
    longest_word = max(map(len, headings[index].split()), default=0)
    longest_cell = max((len(row[index]) for row in rows), default=0)
    return max(longest_word, longest_cell if is_numeric else min(longest_cell, _NAME_WIDTH_MIN))


def _draw_lists(headings: list[str], rows: list[list[str]], console: Console) -> None:
    """Print the values of each row below each other."""
    from rich.text import Text

    for line in _list_lines(headings, rows):
        console.print(Text(line), overflow="fold")


def _list_lines(headings: list[str], rows: list[list[str]]) -> Iterator[str]:
    """Yield one line for each value, and an empty line between two rows."""
    heading_width = max(map(len, headings), default=0)
    for number, row in enumerate(rows):
        if number:
            yield ""
        for heading, cell in zip(headings, row, strict=True):
            yield f"{heading.ljust(heading_width)}  {cell}"


def print_lines(texts: Iterable[str]) -> None:
    """Print texts, one per line."""
    for text in texts:
        print(text)


def print_json(value: object) -> None:
    """Print one JSON document on one line."""
    print(json_text(value))


def print_result(as_json: bool, text: str, **document: object) -> None:
    """Print the result of a change: `document` as JSON, or else the sentence `text`."""
    if as_json:
        print_json(document)
    else:
        print(text)


def json_text(value: object) -> str:
    """Return `value` as JSON on one line: ids as in Kafka, bytes as text or {"base64": ...}."""
    return json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"))


def to_json(value: Any) -> Any:
    """Convert `value` to types of JSON."""
    match value:
        case None | bool() | str() | float():
            return value
        case Enum():
            return value.name.lower()
        case int():
            return value
        case bytes() | bytearray() | memoryview():
            return bytes_to_json(bytes(value))
        case UUID():
            return uuid_text(value)
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return {key: to_json(item) for key, item in value._asdict().items()}
    return [to_json(item) for item in value]


def bytes_to_json(data: bytes | None) -> str | dict[str, str] | None:
    """Return UTF-8 text as a string, other bytes as {"base64": "..."}."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def time_text(timestamp_ms: int | None) -> str | None:
    """Return a timestamp as text in UTC; None if there is no timestamp."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def size_text(size_bytes: int | None) -> str | None:
    """Return a size with a binary unit and three digits, such as `1.46 GiB`; None if it is unknown."""
    if size_bytes is None or size_bytes < 0:
        return None
    size, unit = float(size_bytes), "B"
    for larger_unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1000:
            break
        size, unit = size / 1024, larger_unit
    return f"{size:.3g} {unit}" if unit != "B" else f"{size_bytes} B"


def numbers_text(numbers: Iterable[int]) -> str:
    """Return text such as `1,2,3`; '-' if there are no numbers."""
    return ",".join(map(str, numbers)) or NOTHING


def _cell(value: object) -> str:
    if value is None or value == "":
        return NOTHING
    return str(value)


def _is_number(text: str) -> bool:
    return text == NOTHING or _NUMBER.fullmatch(text) is not None
