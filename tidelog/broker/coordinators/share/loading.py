"""Replays the log of a partition into its share coordinator, one batch at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tidelog.broker.coordinators.share.coordinator import ShareCoordinator
from tidelog.broker.coordinators.share.records import decode_record
from tidelog.broker.coordinators.shared.shard import RECORDS_BETWEEN_PAUSES
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.protocol.record import read_records

logger = logging.getLogger(__name__)


def replay_batches(
    coordinator: ShareCoordinator, batches: bytes | memoryview
) -> Iterator[tuple[int, Offset]]:
    """Replay batches one after the other. Yield record counts, each with the offset up to which it replayed.

    A large batch is replayed in parts of RECORDS_BETWEEN_PAUSES records.

    Raise DecodeError with the offset of a record that cannot be read. Skipping it could deliver acknowledged
    records again, so the partition must not be served.
    """
    for position, header in iterate_headers(batches):
        records = () if header.is_control else read_records(batches, position, header)
        for number, record in enumerate(records, 1):
            try:
                decoded = decode_record(record.key, record.value)
            except DecodeError as error:
                raise DecodeError(f"record at offset {record.offset}: {error}") from error
            if decoded is None:
                logger.warning("Ignoring the record at offset %s: its type is unknown", record.offset)
            else:
                coordinator.replay(decoded, record.offset)
            if number % RECORDS_BETWEEN_PAUSES == 0:
                yield RECORDS_BETWEEN_PAUSES, record.offset + 1
        yield len(records) % RECORDS_BETWEEN_PAUSES, header.next_offset
