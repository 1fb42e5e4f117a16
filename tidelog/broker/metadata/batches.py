"""Decodes batches of the metadata log to records, and encodes records for one batch.

Errors: KafkaError KAFKA_STORAGE_ERROR for a batch that cannot be decoded; INVALID_REQUEST and
POLICY_VIOLATION for records that cannot be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tidelog.cluster.metadata_log_codec import decode_record, encode_record
from tidelog.cluster.quorum.settings import MAX_BATCH_BYTES
from tidelog.protocol.batch import BatchHeader, iterate_headers
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.record import iterate_records
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps, map_items

# Per record: length, attributes, deltas and the lengths of key and value, each with its maximum size.
_RECORD_OVERHEAD: Final = 32


class MetadataBatch(NamedTuple):
    """One batch of the log; `records` is None for control records of the quorum.

    The records are decoded while they are iterated over, because a batch may have 10,000 of them. An error in
    a record is raised when the record is reached.
    """

    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch
    records: Iterator[MetadataRecord] | None
    size_bytes: int


def decode_batches(data: bytes) -> Iterator[MetadataBatch]:
    """Yield the batches in `data`, which are complete."""
    for position, header in iterate_headers(data):
        records: Iterator[MetadataRecord] | None = None
        if not header.is_control:
            records = _records(data, position, header)
        yield MetadataBatch(
            header.base_offset,
            header.last_offset,
            header.partition_leader_epoch,
            records,
            header.size_bytes,
        )


def encode_records(records: Sequence[MetadataRecord], metadata_version: int) -> Steps[list[bytes]]:
    """Return the encoded values of the records of one batch, in the form of a level of metadata.version."""
    try:
        values = yield from map_items(lambda record: encode_record(record, metadata_version), records)
    except ValueError as error:
        # A config value may have become longer than Kafka's strings by APPEND operations.
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    size = sum(map(len, values)) + len(values) * _RECORD_OVERHEAD
    if size > MAX_BATCH_BYTES:
        text = f"a change of the metadata has {size} bytes; the maximum is {MAX_BATCH_BYTES}"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
    return list(values)


def _records(data: bytes, position: int, header: BatchHeader) -> Iterator[MetadataRecord]:
    for record in iterate_records(data, position, header):
        try:
            yield decode_record(record.value or b"")
        except DecodeError as error:
            text = f"the metadata record at offset {record.offset} cannot be decoded: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text) from error
