"""Replays the log of a partition into the registry of its transactional ids."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tidelog.broker.coordinators.shared.replay import replay_records
from tidelog.broker.coordinators.transactions.records import decode_record
from tidelog.broker.coordinators.transactions.registry import TransactionRegistry
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.ids import Offset
from tidelog.protocol.record import Record

logger = logging.getLogger(__name__)


def replay_batches(
    registry: TransactionRegistry, batches: bytes | memoryview
) -> Iterator[tuple[int, Offset]]:
    """Replay batches as `replay_records` does; a skipped record could undo the end of a transaction."""

    def replay(header: BatchHeader, record: Record) -> None:
        decoded = decode_record(record.key, record.value)
        if decoded is None:
            logger.warning("Ignoring the record at offset %s: its type is unknown", record.offset)
        else:
            registry.replay(decoded.transactional_id, decoded.metadata, record.offset)

    return replay_records(batches, replay)
