"""The records that the coordinator writes to `__transaction_state`, as values and as bytes.

| key type | key | value, version written | without a value |
|----------|-----|------------------------|-----------------|
| 0 | TransactionLogKey | TransactionLogValue 0, from transaction.version 1 on 1 | the id is removed |

Key and value both begin with an int16: the type of the key, the version of the value. Version 0 lacks some
fields (previous and next id, the transaction version of the client); they are lost when the coordinator
changes.

Source: TransactionLog of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from tidelog.broker.coordinators.shared.record_versions import PREFIX, split_version
from tidelog.broker.coordinators.transactions.metadata import TransactionMetadata
from tidelog.broker.coordinators.transactions.states import STATE_OF_STATUS, TransactionState
from tidelog.protocol.codec import decode_prefix, encode
from tidelog.protocol.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import TopicPartition

TRANSACTION_LOG: Final = 0
VALUE_VERSION_WITH_TAGS: Final = 1


class TransactionRecord(NamedTuple):
    """A new state of a transactional id; None removes the id."""

    transactional_id: str
    metadata: TransactionMetadata | None


def encode_record(record: TransactionRecord, transaction_version: int) -> tuple[bytes, bytes | None]:
    """Return key and value in the format that the cluster's level of transaction.version requires."""
    key = TransactionLogKey(transactional_id=record.transactional_id)
    encoded_key = PREFIX.pack(TRANSACTION_LOG) + encode(key, 0)
    metadata = record.metadata
    if metadata is None:
        return encoded_key, None
    version = VALUE_VERSION_WITH_TAGS if transaction_version >= 1 else 0
    tags = {}
    if version >= VALUE_VERSION_WITH_TAGS:
        tags = {
            "previous_producer_id": metadata.previous_producer_id,
            "next_producer_id": metadata.next_producer_id,
            "client_transaction_version": metadata.client_transaction_version,
        }
    is_empty = metadata.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.status,
        transaction_partitions=None if is_empty else _by_topic(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_wall_ms,
        transaction_start_timestamp_ms=metadata.start_wall_ms,
        **tags,
    )
    return encoded_key, PREFIX.pack(version) + encode(value, version)


def decode_record(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """Return the record of a key and a value; None for kinds of records that this coordinator does not use.

    Raise DecodeError for an invalid record, and for an unknown value version or state.
    """
    key_type, body = split_version(key or b"", "key")
    if key_type != TRANSACTION_LOG:
        return None
    transactional_id = decode_prefix(TransactionLogKey, body, 0, 0)[0].transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    version, body = split_version(value, "value")
    if version not in TransactionLogValue.valid_versions:
        raise DecodeError(f"TransactionLogValue has version {version}, which is not supported")
    stored = decode_prefix(TransactionLogValue, body, version, 0)[0]
    state = STATE_OF_STATUS.get(stored.transaction_status)
    if state is None or state in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE):
        raise DecodeError(f"{transactional_id!r} has the unknown status {stored.transaction_status}")
    return TransactionRecord(transactional_id, _metadata(transactional_id, state, stored))


def _metadata(
    transactional_id: str, state: TransactionState, stored: TransactionLogValue
) -> TransactionMetadata:
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=stored.producer_id,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(entry.topic, index)
            for entry in stored.transaction_partitions or ()
            for index in entry.partition_ids
        ),
        start_wall_ms=stored.transaction_start_timestamp_ms,
        last_update_wall_ms=stored.transaction_last_update_timestamp_ms,
        client_transaction_version=stored.client_transaction_version,
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[PartitionsSchema, ...]:
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in sorted(partitions):
        topics[topic].append(index)
    return tuple(
        PartitionsSchema(topic=topic, partition_ids=tuple(indexes)) for topic, indexes in topics.items()
    )
