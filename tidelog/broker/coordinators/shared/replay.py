"""Replays the batches of a coordinator's log, one record at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.broker.coordinators.shared.shard import RECORDS_BETWEEN_PAUSES
from tidelog.protocol.batch import BatchHeader, iterate_headers
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.protocol.record import Record, read_records


def replay_records(
    batches: bytes | memoryview,
    replay: Callable[[BatchHeader, Record], None],
    *,
    with_control_batches: bool = False,
) -> Iterator[tuple[int, Offset]]:
    """Replay batches one after the other. Yield record counts, each with the offset up to which it replayed.

    A large batch is replayed in parts of RECORDS_BETWEEN_PAUSES records.

    Raise DecodeError with the offset of a record that cannot be read. Skipping it could restore an older
    state, so the partition must not be served.
    """
    for position, header in iterate_headers(batches):
        is_skipped = header.is_control and not with_control_batches
        records = () if is_skipped else read_records(batches, position, header)
        for number, record in enumerate(records, 1):
            try:
                replay(header, record)
            except DecodeError as error:
                raise DecodeError(f"record at offset {record.offset}: {error}") from error
            if number % RECORDS_BETWEEN_PAUSES == 0:
                yield RECORDS_BETWEEN_PAUSES, record.offset + 1
        yield len(records) % RECORDS_BETWEEN_PAUSES, header.next_offset
