"""The encoding of remote segment metadata in the values of `__remote_log_metadata`, and in snapshots.

    frame version  varint   1
    record type    varint   number of the record's schema
    record version varint   0
    message                 the record

Numbers are unsigned varints. Keys are null. A snapshot's record has no partition: the file's partition is
meant.

Errors: DecodeError for bytes that are not a record of a known type and version, and for an invalid record.
Source: RemoteLogMetadataSerde and AbstractApiMessageSerde of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from struct import Struct
from typing import Any, Final, TypeVar

from tidelog.protocol.codec import decode, encode_into
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import read_unsigned_varint, write_unsigned_varint
from tidelog.protocol.remote_metadata_records import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from tidelog.protocol.schema import RemoteMetadataRecord
from tidelog.remote.metadata.segment_table import PlainSegment
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from tidelog.storage.leader_epoch import EpochEntry

FRAME_VERSION: Final = 1
_VERSION: Final = 0
_TYPES: Final = {
    record.record_type: record
    for record in (
        RemoteLogSegmentMetadataRecord,
        RemoteLogSegmentMetadataUpdateRecord,
        RemotePartitionDeleteMetadataRecord,
        RemoteLogSegmentMetadataSnapshotRecord,
    )
}
_OF_SEGMENTS: Final = (
    RemoteLogSegmentMetadataRecord.record_type,
    RemoteLogSegmentMetadataUpdateRecord.record_type,
)
_UUID_BYTES: Final = 16
# Header, id, start and end offset, broker, largest timestamp, event timestamp, number of epochs (+ 1), epoch,
# its start, number of its tags, size, custom metadata (0: null), state.
_PLAIN_ENTRY: Final = Struct(">3s16sqqiqqBiqBiBb")
_PLAIN_HEAD: Final = bytes((FRAME_VERSION, RemoteLogSegmentMetadataSnapshotRecord.record_type, _VERSION))
_ONE_EPOCH: Final = 2
_PLAIN_TAILS: Final = {b"\x00": False, b"\x01\x00\x01\x01": True}
"""The tags of an entry: whether the transaction index is certainly empty."""
_STATES: Final = frozenset(RemoteLogSegmentState)
_State = TypeVar("_State", RemoteLogSegmentState, RemotePartitionDeleteState)


def encode_event(event: RemoteLogEvent) -> bytes:
    """Return `event` as a value of the metadata topic."""
    match event:
        case RemoteLogSegmentMetadata():
            return _frame(
                RemoteLogSegmentMetadataRecord(
                    remote_log_segment_id=_segment_id_entry(event.remote_log_segment_id),
                    **_segment_fields(event),
                )
            )
        case RemoteLogSegmentMetadataUpdate():
            return _frame(
                RemoteLogSegmentMetadataUpdateRecord(
                    remote_log_segment_id=_segment_id_entry(event.remote_log_segment_id),
                    broker_id=event.broker_id,
                    event_timestamp_ms=event.event_timestamp_ms,
                    custom_metadata=event.custom_metadata,
                    remote_log_segment_state=event.state,
                )
            )
        case RemotePartitionDeleteMetadata():
            return _frame(
                RemotePartitionDeleteMetadataRecord(
                    topic_id_partition=_partition_entry(event.topic_id_partition),
                    broker_id=event.broker_id,
                    event_timestamp_ms=event.event_timestamp_ms,
                    remote_partition_delete_state=event.state,
                )
            )


def is_worth_decoding(value: bytes | memoryview, topic_ids: Container[bytes]) -> bool:
    """Return whether a value of the metadata topic must be decoded.

    This is False for a record about a segment of a topic that is not in `topic_ids`. Fifty metadata
    partitions contain the metadata of all topics, and each new partition reads its own from the start.
    Both kinds of records about segments begin with the topic's name, followed by its id.
    """
    try:
        number, position = read_unsigned_varint(value, 1)
        _, position = read_unsigned_varint(value, position)
        length, position = read_unsigned_varint(value, position)
    except (IndexError, DecodeError):
        return True  # `decode_event` raises the error
    start = position + length - 1
    topic_id = bytes(value[start : start + _UUID_BYTES])
    return number not in _OF_SEGMENTS or len(topic_id) < _UUID_BYTES or topic_id in topic_ids


def decode_event(value: bytes | memoryview) -> RemoteLogEvent:
    """Return the event in a value of the metadata topic."""
    record = _unframed(value)
    match record:
        case RemoteLogSegmentMetadataRecord():
            return _segment(_segment_id(record.remote_log_segment_id), record)
        case RemoteLogSegmentMetadataUpdateRecord():
            return RemoteLogSegmentMetadataUpdate(
                _segment_id(record.remote_log_segment_id),
                record.event_timestamp_ms,
                _state(RemoteLogSegmentState, record.remote_log_segment_state),
                record.broker_id,
                record.custom_metadata,
            )
        case RemotePartitionDeleteMetadataRecord():
            return RemotePartitionDeleteMetadata(
                _partition(record.topic_id_partition),
                _state(RemotePartitionDeleteState, record.remote_partition_delete_state),
                record.event_timestamp_ms,
                record.broker_id,
            )
    raise DecodeError(f"{type(record).__name__} is not a record of the metadata topic")


def encode_snapshot_entry(metadata: RemoteLogSegmentMetadata) -> bytes:
    """Return `metadata` as an entry of a snapshot."""
    return _frame(
        RemoteLogSegmentMetadataSnapshotRecord(
            segment_id=metadata.remote_log_segment_id.id, **_segment_fields(metadata)
        )
    )


def decode_snapshot_entry(value: bytes | memoryview, partition: TopicIdPartition) -> RemoteLogSegmentMetadata:
    """Return the segment of `partition` in an entry of its snapshot."""
    record = _unframed(value)
    if not isinstance(record, RemoteLogSegmentMetadataSnapshotRecord):
        raise DecodeError(f"{type(record).__name__} is not a record of a snapshot")
    return _segment(RemoteLogSegmentId(partition, record.segment_id), record)


def decode_plain_entry(data: bytes, position: int, end: int) -> PlainSegment | None:
    """Return the segment of the entry from `position` to `end` if it is a plain one, else None.

    A start reads an entry for each segment, and nearly all are of this form. It has a fixed layout, which is
    decoded in a tenth of the time.
    """
    is_txn_index_empty = _PLAIN_TAILS.get(data[position + _PLAIN_ENTRY.size : end])
    if is_txn_index_empty is None:
        return None
    fields = _PLAIN_ENTRY.unpack_from(data, position)
    head, segment_id, start, end_offset, broker, newest, event = fields[:7]
    epochs, epoch, epoch_start, tags, size, custom, state = fields[7:]
    if (
        head != _PLAIN_HEAD
        or epochs != _ONE_EPOCH
        or epoch_start != start
        or tags
        or custom
        or end_offset < start
        or state not in _STATES
    ):
        return None
    return PlainSegment(
        segment_id, start, end_offset, newest, broker, event, size, epoch, state, is_txn_index_empty
    )


def _frame(record: RemoteMetadataRecord) -> bytes:
    value = bytearray()
    for number in (FRAME_VERSION, record.record_type, _VERSION):
        write_unsigned_varint(value, number)
    encode_into(record, _VERSION, value)
    return bytes(value)


def _unframed(value: bytes | memoryview) -> RemoteMetadataRecord:
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        number, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except IndexError:
        raise DecodeError(f"remote metadata record of {len(value)} bytes ends within its header") from None
    if frame_version != FRAME_VERSION:
        raise DecodeError(
            f"remote metadata frame version {frame_version} is not supported; supported is {FRAME_VERSION}"
        )
    record_type = _TYPES.get(number)
    if record_type is None or version not in record_type.valid_versions:
        raise DecodeError(f"version {version} of remote metadata record type {number} is not supported")
    return decode(record_type, value[position:], version)


def _segment_fields(metadata: RemoteLogSegmentMetadata) -> dict[str, Any]:
    """Return the common fields of the record of a copy and the entry of a snapshot, by name."""
    return {
        "start_offset": metadata.start_offset,
        "end_offset": metadata.end_offset,
        "broker_id": metadata.broker_id,
        "max_timestamp_ms": metadata.max_timestamp_ms,
        "event_timestamp_ms": metadata.event_timestamp_ms,
        "segment_leader_epochs": _epoch_entries(metadata.segment_leader_epochs),
        "segment_size_in_bytes": metadata.segment_size_bytes,
        "custom_metadata": metadata.custom_metadata,
        "remote_log_segment_state": metadata.state,
        "txn_index_empty": metadata.is_txn_index_empty,
    }


def _segment(
    segment_id: RemoteLogSegmentId,
    record: RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataSnapshotRecord,
) -> RemoteLogSegmentMetadata:
    epochs = tuple(
        sorted(EpochEntry(entry.leader_epoch, entry.offset) for entry in record.segment_leader_epochs)
    )
    if not epochs or record.end_offset < record.start_offset:
        raise DecodeError(
            f"invalid segment with offsets {record.start_offset}-{record.end_offset} and epochs {epochs}"
        )
    return RemoteLogSegmentMetadata(
        segment_id,
        record.start_offset,
        record.end_offset,
        record.max_timestamp_ms,
        record.broker_id,
        record.event_timestamp_ms,
        record.segment_size_in_bytes,
        epochs,
        _state(RemoteLogSegmentState, record.remote_log_segment_state),
        record.custom_metadata,
        record.txn_index_empty,
    )


def _state(states: type[_State], number: int) -> _State:
    try:
        return states(number)
    except ValueError:
        raise DecodeError(f"{number} is not a {states.__name__}") from None


def _epoch_entries(epochs: Iterable[EpochEntry]) -> tuple[SegmentLeaderEpochEntry, ...]:
    return tuple(SegmentLeaderEpochEntry(leader_epoch=epoch, offset=start) for epoch, start in epochs)


def _partition_entry(partition: TopicIdPartition) -> TopicIdPartitionEntry:
    return TopicIdPartitionEntry(name=partition.topic, id=partition.topic_id, partition=partition.partition)


def _partition(entry: TopicIdPartitionEntry) -> TopicIdPartition:
    return TopicIdPartition(entry.id, entry.name, entry.partition)


def _segment_id_entry(segment_id: RemoteLogSegmentId) -> RemoteLogSegmentIdEntry:
    return RemoteLogSegmentIdEntry(
        topic_id_partition=_partition_entry(segment_id.topic_id_partition), id=segment_id.id
    )


def _segment_id(entry: RemoteLogSegmentIdEntry) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(_partition(entry.topic_id_partition), entry.id)
