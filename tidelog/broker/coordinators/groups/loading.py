"""Replays the log of a partition into its coordinator, one batch at a time.

The end marker of a transaction applies or drops the offsets of that producer's transactional batches. Other
control records do not concern groups.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator

from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.records import decode_record
from tidelog.broker.coordinators.shared.shard import RECORDS_BETWEEN_PAUSES
from tidelog.protocol.batch import BatchHeader, iterate_headers
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import NO_PRODUCER_ID, Offset
from tidelog.protocol.record import Record, read_records

logger = logging.getLogger(__name__)

# Key of a control record: version, type.
_CONTROL_KEY = struct.Struct(">hh")
_ABORT = 0
_COMMIT = 1


def replay_batches(
    coordinator: GroupCoordinator, batches: bytes | memoryview
) -> Iterator[tuple[int, Offset]]:
    """Replay batches one after the other. Yield record counts, each with the offset up to which it replayed.

    A large batch is replayed in parts of RECORDS_BETWEEN_PAUSES records.

    Raise DecodeError with the offset of a record that cannot be read. Skipping it could reset consumers to
    older offsets, so the partition must not be served.
    """
    for position, header in iterate_headers(batches):
        records = read_records(batches, position, header)
        for number, record in enumerate(records, 1):
            try:
                _replay(coordinator, header, record)
            except DecodeError as error:
                raise DecodeError(f"record at offset {record.offset}: {error}") from error
            if number % RECORDS_BETWEEN_PAUSES == 0:
                yield RECORDS_BETWEEN_PAUSES, record.offset + 1
        yield len(records) % RECORDS_BETWEEN_PAUSES, header.next_offset


def _replay(coordinator: GroupCoordinator, header: BatchHeader, record: Record) -> None:
    if header.is_control:
        if record.key is None or len(record.key) < _CONTROL_KEY.size:
            raise DecodeError(f"a control record has the invalid key {record.key!r}")
        _, control_type = _CONTROL_KEY.unpack_from(record.key)
        if control_type in (_ABORT, _COMMIT):
            is_commit = control_type == _COMMIT
            coordinator.replay_transaction_end(header.producer_id, is_commit, record.offset)
        return
    decoded = decode_record(record.key, record.value)
    if decoded is None:
        logger.debug("Ignoring the record at offset %s of another type of group", record.offset)
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    coordinator.replay(decoded, record.offset, producer_id)
