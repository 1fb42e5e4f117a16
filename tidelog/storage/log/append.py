"""What goes into an append and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, crc_is_valid, read_header
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.storage.producers.transaction_marker import EndTransactionMarker, read_end_transaction_marker

_OFFSET_MAX: Final = 2**63 - 1


@dataclass(slots=True)
class AppendInfo:
    """Where appended records stand, for the reply to whoever sent them."""

    first_offset: Offset
    last_offset: Offset
    max_timestamp: int
    """Largest timestamp of the records in ms."""
    log_append_time: int
    """The broker's time in ms when the topic uses it, else -1; of a duplicate its largest timestamp."""
    log_start_offset: Offset
    size_bytes: int
    is_duplicate: bool
    """The batch had been appended before; the offsets are those it got then, and nothing was written."""


class GivenBatches(NamedTuple):
    """Batches whose offsets were assigned elsewhere, and the bytes they take at the start of the buffer."""

    batches: list[BatchHeader]
    size_bytes: int


def read_given_batches(
    records: bytes | bytearray | memoryview,
    topic_partition: TopicPartition,
    log_end_offset: Offset,
    leader_epoch: LeaderEpoch | None,
) -> GivenBatches:
    """The whole batches at the start of `records`, checked by checksum and for rising offsets.

    A torn batch at the end is left out, as fetch answers may end inside one; so are, when
    `leader_epoch` is given, batches of a later epoch and all behind them.
    Errors: KafkaError CORRUPT_MESSAGE for bytes that are no batches, OFFSET_OUT_OF_RANGE for offsets
    that do not rise from `log_end_offset`.
    """
    batches: list[BatchHeader] = []
    position = 0
    expected_offset = log_end_offset
    while position + BATCH_OVERHEAD <= len(records):
        try:
            header = read_header(records, position)
        except DecodeError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{topic_partition}: {error}") from error
        end = position + header.size_bytes
        if end > len(records):
            break
        if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
            break
        if not crc_is_valid(records, position, header):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{topic_partition}: checksum {header.crc:#010x} of offset {header.base_offset} is wrong",
            )
        if header.base_offset < expected_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{topic_partition}: batch at offset {header.base_offset}, next is {expected_offset}",
            )
        expected_offset = header.next_offset
        if expected_offset > _OFFSET_MAX:
            # The checksum does not cover offsets.
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{topic_partition}: a batch at offset {header.base_offset}"
            )
        batches.append(header)
        position = end
    return GivenBatches(batches, position)


def read_markers(
    records: bytes | bytearray | memoryview, batches: list[BatchHeader]
) -> list[EndTransactionMarker | None]:
    """The transaction marker of each batch that is one, None for the others.

    Errors: KafkaError INVALID_RECORD for a producer's control batch that is no marker.
    """
    markers: list[EndTransactionMarker | None] = []
    position = 0
    for header in batches:
        marker = None
        if header.is_control and header.producer_id >= 0:
            try:
                marker = read_end_transaction_marker(records, position, header)
            except DecodeError as error:
                raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
        markers.append(marker)
        position += header.size_bytes
    return markers
