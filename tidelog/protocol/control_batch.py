"""Control batches: records that brokers and controllers write for themselves between the data of a log.

The key of a control record is its version and its type (int16 each). The value is a message of
`tidelog.protocol.control_records`. The value of a transaction marker starts with a version.

Source: org.apache.kafka.common.record.ControlRecordType, EndTransactionMarker and
ControlRecordUtils of Apache Kafka; KIP-98, KIP-595, KIP-853.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, TypeAlias

from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.codec import decode_prefix, encode
from tidelog.protocol.control_records import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.protocol.record import Record

ControlMessage: TypeAlias = (
    EndTxnMarker
    | LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)


class ControlRecordType(IntEnum):
    """The type of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_MESSAGES: Final[dict[int, type[ControlMessage]]] = {
    ControlRecordType.ABORT: EndTxnMarker,
    ControlRecordType.COMMIT: EndTxnMarker,
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}
_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")
# Kafka reads and writes every control message in this version, independently of its `version` field.
_MESSAGE_VERSION: Final = 0


def control_batch(
    records: Iterable[tuple[ControlRecordType, ControlMessage]],
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytearray:
    """Return a batch of control records; with a producer id it is part of that producer's transaction."""
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        is_control=True,
        producer=BatchProducer(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=producer_id != NO_PRODUCER_ID,
        ),
    )
    for kind, message in records:
        assert isinstance(message, _MESSAGES[kind]), f"{message} is not a message of type {kind.name}"
        value = encode(message, _MESSAGE_VERSION)
        if isinstance(message, EndTxnMarker):
            value = _VERSION.pack(_MESSAGE_VERSION) + value
        builder.append(timestamp, _KEY.pack(0, kind), value)
    return builder.build()


def end_transaction_batch(
    *,
    committed: bool,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Return the batch with the marker that ends a transaction in one partition; `timestamp` is in ms."""
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    return control_batch(
        [(kind, EndTxnMarker(coordinator_epoch=coordinator_epoch))],
        timestamp=timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def control_type(key: bytes | None) -> int:
    """Return the type in the key of a control record; it may be missing in `ControlRecordType`.

    Errors: DecodeError for a key without a type.
    """
    if key is None or len(key) < _KEY.size:
        raise DecodeError(f"control record key {key!r} is shorter than {_KEY.size} bytes")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise DecodeError(f"control record key version {version} is negative")
    return int(number)


def read_control_record(record: Record) -> tuple[ControlRecordType, ControlMessage] | None:
    """Return the type and the value of a control record; None for an unknown type, which readers skip.

    Bytes at the end, which newer versions may have, are ignored.
    Errors: DecodeError for a damaged record.
    """
    number = control_type(record.key)
    cls = _MESSAGES.get(number)
    if cls is None:
        return None
    value = record.value
    if value is None:
        raise DecodeError(f"control record of type {number} at offset {record.offset} has no value")
    position = 0
    if cls is EndTxnMarker:
        position = _VERSION.size
        if len(value) < position or value[0] & 0x80:
            raise DecodeError(f"transaction marker {value!r} has no version")
    message, _ = decode_prefix(cls, value, _MESSAGE_VERSION, position)
    return ControlRecordType(number), message
