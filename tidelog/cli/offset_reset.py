"""The methods of `tidelog group reset-offsets`, their values, and its CSV files. Pure.

Source: ConsumerGroupCommandOptions and OffsetsUtils of Apache Kafka 4.3: the same methods and files.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.cli.failures import UsageFailure
from tidelog.protocol.ids import Offset, TopicPartition

_DURATION: Final = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<d>[+-]?\d+)D)?"
    r"(?:T(?:(?P<h>[+-]?\d+)H)?(?:(?P<m>[+-]?\d+)M)?(?:(?P<s>[+-]?\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
_UNITS_S: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:?\d\d)?")


class ResetMethod(Enum):
    """How the new offset of a partition is found; the value is the name of the option."""

    TO_EARLIEST = "--to-earliest"
    TO_LATEST = "--to-latest"
    TO_CURRENT = "--to-current"
    TO_OFFSET = "--to-offset"
    SHIFT_BY = "--shift-by"
    TO_DATETIME = "--to-datetime"
    BY_DURATION = "--by-duration"
    FROM_FILE = "--from-file"


TIME_METHODS: Final = frozenset({ResetMethod.TO_DATETIME, ResetMethod.BY_DURATION})


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A method with its value: `number` is an offset, a shift or a time in ms; `offsets` are of a file."""

    method: ResetMethod
    number: int = 0
    offsets: Mapping[TopicPartition, Offset] = field(default_factory=dict)

    def new_offset(
        self,
        partition: TopicPartition,
        *,
        committed: Offset | None,
        beginning: Offset,
        end: Offset,
        at_time: Offset | None,
    ) -> Offset:
        """Return the new offset of a partition, whose log extends from `beginning` to `end` (exclusive).

        `at_time` is the first offset at or after the time; None if all records are older. Offsets outside the
        log become its nearest bound. Errors: UsageFailure if nothing is committed and the method needs it.
        """
        match self.method:
            case ResetMethod.TO_EARLIEST:
                return beginning
            case ResetMethod.TO_LATEST:
                return end
            case ResetMethod.TO_DATETIME | ResetMethod.BY_DURATION:
                return end if at_time is None else at_time
            case ResetMethod.TO_CURRENT:
                wanted = end if committed is None else committed
            case ResetMethod.SHIFT_BY:
                if committed is None:
                    raise UsageFailure(f"--shift-by: the group has no committed offset of {partition}")
                wanted = committed + self.number
            case ResetMethod.TO_OFFSET:
                wanted = self.number
            case ResetMethod.FROM_FILE:
                wanted = self.offsets[partition]
        return min(max(wanted, beginning), end)


def parse_datetime(text: str, option: str = "--to-datetime") -> int:
    """Return a time such as 2026-11-28T09:14:00.000 in ms since 1970; without an offset it is in UTC."""
    if _TIME.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is not None:
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            return int(moment.timestamp() * 1000)
    raise UsageFailure(f"{option} {text!r}: expected YYYY-MM-DDTHH:mm:SS[.sss], optionally with Z or +HH:MM")


def parse_duration(text: str) -> int:
    """Return a duration of ISO 8601, such as P1DT2H30M, in ms."""
    match = _DURATION.fullmatch(text)
    parts = {} if match is None else {unit: match[unit] for unit in _UNITS_S if match[unit] is not None}
    if match is None or not parts:
        raise UsageFailure(f"--by-duration {text!r}: expected PnDTnHnMnS, such as P7D or PT2H30M")
    seconds = sum(float(value) * _UNITS_S[unit] for unit, value in parts.items())
    return int(seconds * 1000) * (-1 if match["sign"] == "-" else 1)


def read_offsets(text: str, group: str, source: str) -> dict[TopicPartition, Offset]:
    """Return the offsets in lines `topic,partition,offset`; lines with a group first are those of `group`."""
    offsets: dict[TopicPartition, Offset] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) == 4:
            if cells[0] != group:
                continue
            cells = cells[1:]
        if len(cells) != 3 or not (cells[1].isdecimal() and cells[2].isdecimal()):
            raise UsageFailure(f"--from-file {source}, line {number}: expected topic,partition,offset")
        offsets[TopicPartition(cells[0], int(cells[1]))] = int(cells[2])
    if not offsets:
        raise UsageFailure(f"--from-file {source}: it has no offset of group {group!r}")
    return offsets


def offsets_text(offsets: Mapping[TopicPartition, Offset]) -> str:
    """Return the lines of a file for `read_offsets`."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerows((*partition, offset) for partition, offset in sorted(offsets.items()))
    return output.getvalue()
