"""Replays the log of a partition into its coordinator.

The end marker of a transaction applies or drops the offsets of that producer's transactional batches. Other
control records do not concern groups.

A log has far more commits of offsets than other records, because each partition of a commit is a record.
Those of one commit are therefore decoded and applied together.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from uuid import UUID

from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.records.coordinator_records import decode_record
from tidelog.broker.coordinators.groups.records.offset_records import decode_commits
from tidelog.broker.coordinators.shared.replay import replay_parts, replay_record
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
    """Replay batches as `replay_parts` does; a skipped record could reset consumers to older offsets."""
    topic_ids: dict[bytes, UUID] = {}

    def replay(header: BatchHeader, records: Sequence[Record]) -> None:
        _replay_part(coordinator, header, records, topic_ids)

    return replay_parts(batches, replay, with_control_batches=True)


def _replay_part(
    coordinator: GroupCoordinator,
    header: BatchHeader,
    records: Sequence[Record],
    topic_ids: dict[bytes, UUID],
) -> None:
    """Replay records of one batch."""
    replay_one = partial(_replay, coordinator)
    has_plain_commits = not (header.is_control or header.is_transactional)
    position = 0
    while position < len(records):
        commits = decode_commits(records, position, topic_ids) if has_plain_commits else None
        if commits is None:
            replay_record(header, records[position], replay_one)
            position += 1
        else:
            coordinator.load_offsets(commits, records[position].offset)
            position += commits.record_count


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
