"""Batch headers of producers, without the batches, for tests of producer state."""

from __future__ import annotations

from tidelog.protocol.batch import ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BatchHeader
from tidelog.protocol.ids import NO_SEQUENCE


def data_header(
    producer_id: int,
    epoch: int,
    base_sequence: int,
    count: int = 1,
    *,
    transactional: bool = False,
    timestamp: int = 0,
) -> BatchHeader:
    """Return the header of a batch of `count` records as its producer sends it: at offset 0."""
    return BatchHeader(
        base_offset=0,
        batch_length=100,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=ATTRIBUTE_TRANSACTIONAL if transactional else 0,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=base_sequence,
        record_count=count,
    )


def marker_header(producer_id: int, epoch: int, timestamp: int = 0) -> BatchHeader:
    """Return the header of the control batch that ends a transaction."""
    header = data_header(producer_id, epoch, NO_SEQUENCE, transactional=True, timestamp=timestamp)
    return header._replace(attributes=ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL)
