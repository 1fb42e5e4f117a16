"""The start and end offsets of `consume -o`, in the syntax of kcat.

| -o | |
|---|---|
| beginning, end | the first offset, or the offset after the last record |
| stored | the committed offset of the group (with -g) |
| 42 | this offset |
| -10 | ten records before the end |
| s@1700000000000 | the first record at or after this time, in ms since 1970 |
| e@1700000000000 | stop before the first record at or after this time |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset

_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_TIME: Final = re.compile(r"[se]@([0-9]{1,18})")


class Start(Enum):
    """The kind of the start offset."""

    BEGINNING = auto()
    END = auto()
    STORED = auto()
    OFFSET = auto()
    BEFORE_END = auto()
    TIMESTAMP = auto()


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """A start and an end; `number` is an offset, a count before the end, or a time in ms, as in `start`."""

    start: Start
    number: int = 0
    stop_at_timestamp: int | None = None

    def resolve(self, beginning: Offset, end: Offset, at_timestamp: Offset | None) -> Offset:
        """Return the start offset in a partition that extends from `beginning` to `end` (exclusive).

        `at_timestamp` is the broker's offset for a time; None if all records are older.
        """
        match self.start:
            case Start.OFFSET:
                return min(max(self.number, beginning), end)
            case Start.BEFORE_END:
                return max(end - self.number, beginning)
            case Start.TIMESTAMP:
                return end if at_timestamp is None else at_timestamp
            case Start.BEGINNING:
                return beginning
            case _:
                return end


def parse_offset_choices(texts: Iterable[str], *, default: Start) -> OffsetChoice:
    """Return the choice of all `-o` options: at most one start and one end. Errors: ValueError."""
    start: tuple[Start, int] | None = None
    stop: int | None = None
    for text in texts:
        if text.startswith("e@"):
            if stop is not None:
                raise ValueError(f"-o {text!r} is a second end")
            stop = _time_of(text)
            continue
        if start is not None:
            raise ValueError(f"-o {text!r} is a second start")
        start = _start_of(text)
    chosen, number = start or (default, 0)
    return OffsetChoice(chosen, number, stop)


def _start_of(text: str) -> tuple[Start, int]:
    names = {
        "beginning": Start.BEGINNING,
        "earliest": Start.BEGINNING,
        "end": Start.END,
        "latest": Start.END,
        "stored": Start.STORED,
    }
    if text in names:
        return names[text], 0
    if text.startswith("s@"):
        return Start.TIMESTAMP, _time_of(text)
    if _NUMBER.fullmatch(text):
        number = int(text)
        return (Start.BEFORE_END, -number) if text.startswith("-") else (Start.OFFSET, number)
    raise ValueError(f"{text!r} is not beginning, end, stored, N, -N, s@MS or e@MS")


def _time_of(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r}: expected milliseconds since 1970 after {text[:2]}")
    return int(match.group(1))
