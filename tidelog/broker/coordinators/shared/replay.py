"""Replays the batches of a coordinator's log in parts of few records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from tidelog.broker.coordinators.shared.shard import RECORDS_BETWEEN_PAUSES
from tidelog.protocol.batch import BatchHeader, iterate_headers
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.protocol.record import Record, iterate_records


def replay_parts(
    batches: bytes | memoryview,
    replay: Callable[[BatchHeader, Sequence[Record]], None],
    *,
    with_control_batches: bool = False,
) -> Iterator[tuple[int, Offset]]:
    """Replay batches one after the other. Yield record counts, each with the offset up to which it replayed.

    `replay` gets at most RECORDS_BETWEEN_PAUSES records of a batch in one call.
    """
    for position, header in iterate_headers(batches):
        if header.is_control and not with_control_batches:
            yield 0, header.next_offset
            continue
        records = iterate_records(batches, position, header)
        part = list(islice(records, RECORDS_BETWEEN_PAUSES))
        while len(part) == RECORDS_BETWEEN_PAUSES:
            replay(header, part)
            yield RECORDS_BETWEEN_PAUSES, part[-1].offset + 1
            part = list(islice(records, RECORDS_BETWEEN_PAUSES))
        replay(header, part)
        yield len(part), header.next_offset


def replay_records(
    batches: bytes | memoryview, replay: Callable[[BatchHeader, Record], None]
) -> Iterator[tuple[int, Offset]]:
    """Replay batches as `replay_parts` does, one record at a time, without those of control batches."""

    def replay_part(header: BatchHeader, records: Sequence[Record]) -> None:
        for record in records:
            replay_record(header, record, replay)

    return replay_parts(batches, replay_part)


def replay_record(header: BatchHeader, record: Record, replay: Callable[[BatchHeader, Record], None]) -> None:
    """Replay one record. Raise DecodeError with the offset of a record that cannot be read.

    Skipping it could restore an older state, so the partition must not be served.
    """
    try:
        replay(header, record)
    except DecodeError as error:
        raise DecodeError(f"record at offset {record.offset}: {error}") from error
