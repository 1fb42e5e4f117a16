"""Replays the log of a partition into its share coordinator."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tidelog.broker.coordinators.share.coordinator import ShareCoordinator
from tidelog.broker.coordinators.share.records import decode_record
from tidelog.broker.coordinators.shared.replay import replay_records
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.ids import Offset
from tidelog.protocol.record import Record

logger = logging.getLogger(__name__)


def replay_batches(
    coordinator: ShareCoordinator, batches: bytes | memoryview
) -> Iterator[tuple[int, Offset]]:
    """Replay batches as `replay_records` does; a skipped record could deliver acknowledged records again."""

    def replay(header: BatchHeader, record: Record) -> None:
        decoded = decode_record(record.key, record.value)
        if decoded is None:
            logger.warning("Ignoring the record at offset %s: its type is unknown", record.offset)
        else:
            coordinator.replay(decoded, record.offset)

    return replay_records(batches, replay)
