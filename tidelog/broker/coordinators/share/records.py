"""The records that the share coordinator writes to `__share_group_state`, as values and as bytes.

| key type | key | value | without a value |
|----------|-----|-------|-----------------|
| 0 | SharePartitionStateKey | ShareSnapshotValue 0 | the state is deleted |
| 1 | SharePartitionStateKey | ShareUpdateValue 0 | not written |

Key and value both begin with an int16: the type of the key, the version of the value.

Source: ShareCoordinatorRecordHelpers of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.broker.coordinators.share.persister import SharePartitionKey, ShareStateBatch
from tidelog.broker.coordinators.share.state import ShareState, ShareUpdate
from tidelog.broker.coordinators.shared.record_versions import PREFIX, split_version
from tidelog.protocol.codec import decode_prefix, encode
from tidelog.protocol.coordinator_records.share_group_state import (
    SharePartitionStateKey,
    ShareSnapshotValue,
    ShareUpdateValue,
    StateBatch,
)
from tidelog.protocol.errors import DecodeError

SHARE_SNAPSHOT: Final = 0
SHARE_UPDATE: Final = 1
_VALUE_VERSION: Final = 0


class ShareStateRecord(NamedTuple):
    """A snapshot or an update of the state of a share partition; None deletes the state."""

    share_partition: SharePartitionKey
    change: ShareState | ShareUpdate | None


def encode_record(record: ShareStateRecord) -> tuple[bytes, bytes | None]:
    """Return key and value in the format of the log."""
    change = record.change
    key_type = SHARE_UPDATE if isinstance(change, ShareUpdate) else SHARE_SNAPSHOT
    key = PREFIX.pack(key_type) + encode(SharePartitionStateKey(**record.share_partition._asdict()), 0)
    if change is None:
        return key, None
    value = _update_value(change) if isinstance(change, ShareUpdate) else _snapshot_value(change)
    return key, PREFIX.pack(_VALUE_VERSION) + encode(value, _VALUE_VERSION)


def decode_record(key: bytes | None, value: bytes | None) -> ShareStateRecord | None:
    """Return the record of a key and a value; None for types of records that this coordinator does not use.

    Raise DecodeError for an invalid record and for an unknown value version.
    """
    key_type, body = split_version(key or b"", "key")
    if key_type not in (SHARE_SNAPSHOT, SHARE_UPDATE):
        return None
    stored = decode_prefix(SharePartitionStateKey, body, 0, 0)[0]
    share_partition = SharePartitionKey(stored.group_id, stored.topic_id, stored.partition)
    if value is None:
        if key_type == SHARE_UPDATE:
            raise DecodeError(f"the update of {share_partition.coordinator_key!r} has no value")
        return ShareStateRecord(share_partition, None)
    version, body = split_version(value, "value")
    if version != _VALUE_VERSION:
        raise DecodeError(
            f"the state of {share_partition.coordinator_key!r} has version {version}, which is not supported"
        )
    if key_type == SHARE_UPDATE:
        return ShareStateRecord(
            share_partition, _update(decode_prefix(ShareUpdateValue, body, version, 0)[0])
        )
    return ShareStateRecord(share_partition, _state(decode_prefix(ShareSnapshotValue, body, version, 0)[0]))


def _snapshot_value(state: ShareState) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_wall_ms,
        write_timestamp=state.write_wall_ms,
        state_batches=_stored_batches(state.batches),
    )


def _update_value(update: ShareUpdate) -> ShareUpdateValue:
    return ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=_stored_batches(update.batches),
    )


def _state(value: ShareSnapshotValue) -> ShareState:
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        create_wall_ms=value.create_timestamp,
        write_wall_ms=value.write_timestamp,
        batches=_batches(value.state_batches),
    )


def _update(value: ShareUpdateValue) -> ShareUpdate:
    return ShareUpdate(
        snapshot_epoch=value.snapshot_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=_batches(value.state_batches),
    )


def _stored_batches(batches: tuple[ShareStateBatch, ...]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            delivery_state=batch.delivery_state,
            delivery_count=batch.delivery_count,
        )
        for batch in batches
    )


def _batches(stored: tuple[StateBatch, ...]) -> tuple[ShareStateBatch, ...]:
    return tuple(
        ShareStateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in stored
    )
