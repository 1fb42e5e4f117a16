"""Records of committed offsets have the bytes of the schema codec."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.coordinators.groups.records.offset_records import (
    NO_EXPIRY,
    CommittedOffset,
    encode_offset_record,
    offset_commit,
    offset_tombstone,
)
from tidelog.protocol.codec import encode
from tidelog.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tidelog.protocol.schema import ZERO_UUID

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=20) | st.sampled_from(("x" * 126, "y" * 127, "ü" * 100, "z" * 20_000))


@settings(max_examples=200, deadline=None)
@given(group_id=TEXTS, topic=TEXTS, partition=INT32)
def test_keys_equal_the_codec(group_id: str, topic: str, partition: int) -> None:
    expected = b"\0\1" + encode(OffsetCommitKey(group=group_id, topic=topic, partition=partition), 0)
    assert encode_offset_record(offset_tombstone(group_id, topic, partition)) == (expected, None)


@settings(max_examples=300, deadline=None)
@given(
    offset=INT64,
    commit_wall_ms=INT64,
    leader_epoch=INT32,
    metadata=TEXTS,
    expire_wall_ms=st.just(NO_EXPIRY) | INT64,
    topic_id=st.just(ZERO_UUID) | st.uuids(),
)
def test_values_equal_the_codec(
    offset: int, commit_wall_ms: int, leader_epoch: int, metadata: str, expire_wall_ms: int, topic_id: UUID
) -> None:
    committed = CommittedOffset(offset, commit_wall_ms, leader_epoch, metadata, expire_wall_ms, topic_id)
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=commit_wall_ms,
        expire_timestamp=expire_wall_ms,
        topic_id=topic_id,
    )
    version = 4 if expire_wall_ms == NO_EXPIRY else 1
    _, encoded = encode_offset_record(offset_commit("g", "t", 0, committed))
    assert encoded == version.to_bytes(2) + encode(value, version)


def test_an_appended_offset_differs_only_in_the_offset_of_its_record() -> None:
    committed = CommittedOffset(5, 9, 2, "m", 10, UUID(int=1))
    assert committed.appended_at(7) == CommittedOffset(5, 9, 2, "m", 10, UUID(int=1), 7)
