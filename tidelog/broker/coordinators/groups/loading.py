"""Replays the log of a partition into its coordinator.

The end marker of a transaction applies or drops the offsets of that producer's transactional batches. Other
control records do not concern groups.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from functools import partial

from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.records.coordinator_records import decode_record
from tidelog.broker.coordinators.shared.replay import replay_records
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import NO_PRODUCER_ID, Offset
from tidelog.protocol.record import Record

logger = logging.getLogger(__name__)

# Key of a control record: version, type.
_CONTROL_KEY = struct.Struct(">hh")
_ABORT = 0
_COMMIT = 1


def replay_batches(
    coordinator: GroupCoordinator, batches: bytes | memoryview
) -> Iterator[tuple[int, Offset]]:
    """Replay batches as `replay_records` does; a skipped record could reset consumers to older offsets."""
    return replay_records(batches, partial(_replay, coordinator), with_control_batches=True)


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
