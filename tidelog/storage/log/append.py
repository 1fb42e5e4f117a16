"""The result of an append, and the checks of batches whose offsets are already assigned."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, crc_is_valid, read_header
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.transaction_marker import EndTransactionMarker, read_end_transaction_marker

_OFFSET_MAX: Final = 2**63 - 1


@dataclass(slots=True)
class AppendInfo:
    """The offsets and timestamps of appended records, for the response to the producer."""

    first_offset: Offset
    last_offset: Offset
    log_append_time: int
    """The broker's time in ms if the topic uses it, else -1; for a duplicate its largest timestamp."""
    log_start_offset: Offset
    size_bytes: int
    is_duplicate: bool
    """The batch had been appended before: the offsets are those of that append, nothing was written."""


class AssignedBatches(NamedTuple):
    """Batches whose offsets are already assigned, and their size at the start of the buffer."""

    batches: list[BatchHeader]
    size_bytes: int


def read_assigned_batches(
    records: bytes | bytearray | memoryview,
    topic_partition: TopicPartition,
    log_end_offset: Offset,
    leader_epoch: LeaderEpoch | None,
) -> AssignedBatches:
    """Return the complete batches at the start of `records`, after checking checksums and offsets.

    An incomplete batch at the end is left out, as a fetch response may end with one. If `leader_epoch` is not
    None, the first batch of a later epoch and all batches after it are left out, too.
    Errors: KafkaError CORRUPT_MESSAGE for bytes that are not a batch, OFFSET_OUT_OF_RANGE for offsets
    that do not increase from `log_end_offset`.
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
    return AssignedBatches(batches, position)


def read_markers(
    records: bytes | bytearray | memoryview, batches: list[BatchHeader]
) -> list[EndTransactionMarker | None]:
    """Return for each batch its transaction marker, or None if it has none.

    Errors: KafkaError INVALID_RECORD for a producer's control batch that is not a marker.
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
