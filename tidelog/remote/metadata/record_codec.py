"""What is known of remote segments as it stands in the values of `__remote_log_metadata`, and in snapshots.

    frame version  varint   1
    record type    varint   number of the record's schema
    record version varint   0
    message                 the record

Numbers are unsigned varints. Keys are null. A snapshot's record lacks the partition, which its file is for.

Errors: DecodeError for bytes that are no record of a type and version we know, or one that cannot be.
Source: RemoteLogMetadataSerde and AbstractApiMessageSerde of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
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
from tidelog.remote.metadata.store import RemoteLogEvent
from tidelog.remote.ports.segment_metadata import (
    EpochStart,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

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
_State = TypeVar("_State", RemoteLogSegmentState, RemotePartitionDeleteState)


def encode_event(event: RemoteLogEvent) -> bytes:
    """`event` as a value of the metadata topic."""
    match event:
        case RemoteLogSegmentMetadata():
            return _framed(
                RemoteLogSegmentMetadataRecord(
                    remote_log_segment_id=_segment_id_entry(event.remote_log_segment_id),
                    **_segment_fields(event),
                )
            )
        case RemoteLogSegmentMetadataUpdate():
            return _framed(
                RemoteLogSegmentMetadataUpdateRecord(
                    remote_log_segment_id=_segment_id_entry(event.remote_log_segment_id),
                    broker_id=event.broker_id,
                    event_timestamp_ms=event.event_timestamp_ms,
                    custom_metadata=event.custom_metadata,
                    remote_log_segment_state=event.state,
                )
            )
        case RemotePartitionDeleteMetadata():
            return _framed(
                RemotePartitionDeleteMetadataRecord(
                    topic_id_partition=_partition_entry(event.topic_id_partition),
                    broker_id=event.broker_id,
                    event_timestamp_ms=event.event_timestamp_ms,
                    remote_partition_delete_state=event.state,
                )
            )


def is_worth_decoding(value: bytes | memoryview, topic_ids: Container[bytes]) -> bool:
    """Whether a value of the metadata topic tells of a segment of one of `topic_ids`, or of something else.

    Fifty metadata partitions tell of all topics, and each newcomer reads the past of its own again; both
    kinds of records about segments begin with the topic's name and then have its id.
    """
    try:
        number, position = read_unsigned_varint(value, 1)
        _, position = read_unsigned_varint(value, position)
        length, position = read_unsigned_varint(value, position)
    except (IndexError, DecodeError):
        return True  # `decode_event` says what is wrong with it
    start = position + length - 1
    topic_id = bytes(value[start : start + _UUID_BYTES])
    return number not in _OF_SEGMENTS or len(topic_id) < _UUID_BYTES or topic_id in topic_ids


def decode_event(value: bytes | memoryview) -> RemoteLogEvent:
    """What a value of the metadata topic tells."""
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
    raise DecodeError(f"{type(record).__name__} has no place in the metadata topic")


def encode_snapshot_entry(metadata: RemoteLogSegmentMetadata) -> bytes:
    """`metadata` as it stands in a snapshot."""
    return _framed(
        RemoteLogSegmentMetadataSnapshotRecord(
            segment_id=metadata.remote_log_segment_id.id, **_segment_fields(metadata)
        )
    )


def decode_snapshot_entry(value: bytes | memoryview, partition: TopicIdPartition) -> RemoteLogSegmentMetadata:
    """The segment of `partition` that an entry of its snapshot tells of."""
    record = _unframed(value)
    if not isinstance(record, RemoteLogSegmentMetadataSnapshotRecord):
        raise DecodeError(f"{type(record).__name__} has no place in a snapshot")
    return _segment(RemoteLogSegmentId(partition, record.segment_id), record)


def _framed(record: RemoteMetadataRecord) -> bytes:
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
        raise DecodeError(f"remote metadata record of {len(value)} bytes is cut in its head") from None
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"remote metadata frame version is {frame_version}, known is {FRAME_VERSION}")
    record_type = _TYPES.get(number)
    if record_type is None or version not in record_type.valid_versions:
        raise DecodeError(f"version {version} of remote metadata record type {number} is not known")
    return decode(record_type, value[position:], version)


def _segment_fields(metadata: RemoteLogSegmentMetadata) -> dict[str, Any]:
    """What the record of a copy and the entry of a snapshot say alike, by the names of their fields."""
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
        sorted(EpochStart(entry.leader_epoch, entry.offset) for entry in record.segment_leader_epochs)
    )
    if not epochs or record.end_offset < record.start_offset:
        raise DecodeError(
            f"a segment of offsets {record.start_offset}-{record.end_offset} and epochs {epochs}"
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
        raise DecodeError(f"{number} is no {states.__name__}") from None


def _epoch_entries(epochs: Iterable[EpochStart]) -> tuple[SegmentLeaderEpochEntry, ...]:
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
