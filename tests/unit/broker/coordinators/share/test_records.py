"""The records of share partitions are read as they were written; unknown and damaged ones are found."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.broker.coordinators.share.persister import SharePartitionKey, ShareStateBatch
from tidelog.broker.coordinators.share.records import ShareStateRecord, decode_record, encode_record
from tidelog.broker.coordinators.share.state import ShareState, ShareUpdate
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError

PARTITION = SharePartitionKey("group", UUID(int=5), 3)
BATCHES = (ShareStateBatch(4, 9, 2, 1), ShareStateBatch(10, 10, 0, 3))
STATE = ShareState(
    snapshot_epoch=2,
    state_epoch=3,
    leader_epoch=4,
    start_offset=4,
    delivery_complete_count=6,
    create_wall_ms=100,
    write_wall_ms=200,
    batches=BATCHES,
)
UPDATE = ShareUpdate(
    snapshot_epoch=2, leader_epoch=-1, start_offset=-1, delivery_complete_count=-1, batches=BATCHES
)


@pytest.mark.parametrize("change", [STATE, UPDATE, None])
def test_a_record_is_read_as_it_was_written(change: ShareState | ShareUpdate | None) -> None:
    record = ShareStateRecord(PARTITION, change)
    assert decode_record(*encode_record(record)) == record


def test_records_of_unknown_types_are_ignored_and_damaged_ones_are_errors() -> None:
    key, value = encode_record(ShareStateRecord(PARTITION, UPDATE))
    assert value is not None
    assert decode_record(b"\0\7" + key[2:], value) is None
    for bad in [(key, None), (key, b"\0\1" + value[2:]), (key, value[:-1]), (key[:-1], value), (b"", value)]:
        with pytest.raises(DecodeError):
            decode_record(*bad)


def test_a_coordinator_key_is_group_topic_id_and_partition() -> None:
    for partition in (PARTITION, SharePartitionKey("a:b:1", UUID(int=2**127), 0)):
        assert SharePartitionKey.from_coordinator_key(partition.coordinator_key) == partition
    for key in ("", "g", "g:x:1", f":{'A' * 22}:1", f"g:{'A' * 22}:x", f"g:{'A' * 22}"):
        with pytest.raises(KafkaError) as error:
            SharePartitionKey.from_coordinator_key(key)
        assert error.value.code is ErrorCode.INVALID_REQUEST
