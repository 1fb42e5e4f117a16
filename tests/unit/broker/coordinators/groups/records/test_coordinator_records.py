"""The records in `__consumer_offsets`, byte by byte where it matters."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.coordinators.groups.records.coordinator_records import (
    GroupMetadataRecord,
    decode_record,
    encode_record,
    group_tombstone,
)
from tidelog.broker.coordinators.groups.records.offset_records import (
    CommittedOffset,
    OffsetCommitRecord,
    offset_commit,
    offset_tombstone,
)
from tidelog.protocol.codec import encode
from tidelog.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from tidelog.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tidelog.protocol.errors import DecodeError


def test_an_offset_commit_is_written_in_version_4_with_the_topic_id_as_a_tag() -> None:
    topic_id = UUID(int=0xABCD)
    committed = CommittedOffset(offset=5, leader_epoch=2, metadata="m", commit_wall_ms=9, topic_id=topic_id)
    key, value = encode_record(offset_commit("g", "t", 3, committed))
    assert key == b"\0\1\0\1g\0\1t\0\0\0\3"
    assert value == (
        b"\0\4" + (5).to_bytes(8) + (2).to_bytes(4) + b"\2m" + (9).to_bytes(8) + b"\1\0\x10" + topic_id.bytes
    )


def test_an_offset_commit_with_retention_time_is_written_in_version_1() -> None:
    committed = CommittedOffset(offset=5, metadata="m", commit_wall_ms=9, expire_wall_ms=10)
    _, value = encode_record(offset_commit("g", "t", 3, committed))
    assert value == b"\0\1" + (5).to_bytes(8) + b"\0\1m" + (9).to_bytes(8) + (10).to_bytes(8)


def test_a_group_is_written_in_version_3() -> None:
    value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="r", leader="l")
    key, data = encode_record(GroupMetadataRecord(GroupMetadataKey(group="g"), value))
    assert key == b"\0\2\0\1g"
    assert data is not None
    assert data == b"\0\3" + encode(value, 3)


def test_tombstones_have_no_value() -> None:
    assert encode_record(offset_tombstone("g", "t", 3)) == (b"\0\1\0\1g\0\1t\0\0\0\3", None)
    assert encode_record(group_tombstone("g")) == (b"\0\2\0\1g", None)


@pytest.mark.parametrize("version", range(5))
def test_offset_values_of_all_versions_are_read(version: int) -> None:
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=3)
    for key_type in (b"\0\0", b"\0\1"):
        key = key_type + encode(OffsetCommitKey(group="g", topic="t", partition=1), 0)
        record = decode_record(key, version.to_bytes(2) + encode(value, version))
        assert isinstance(record, OffsetCommitRecord)
        assert record == offset_commit("g", "t", 1, CommittedOffset(7, 3, metadata="m"))


@pytest.mark.parametrize("version", range(5))
def test_group_values_of_all_versions_are_read(version: int) -> None:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="h", session_timeout=6, subscription=b"s", assignment=b"a"
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=2, protocol="r", members=(member,))
    key = b"\0\2" + encode(GroupMetadataKey(group="g"), 0)
    record = decode_record(key, version.to_bytes(2) + encode(value, version))
    assert isinstance(record, GroupMetadataRecord)
    assert record.value is not None
    assert [m.member_id for m in record.value.members] == ["m"]


def test_records_of_unknown_types_are_skipped() -> None:
    assert decode_record(b"\0\x18whatever", b"\0\0whatever") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0"),
        (b"", b"\0\0"),
        (b"\0", b"\0\0"),
        (b"\0\1", None),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b""),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b"\0\5" + bytes(40)),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b"\xff\xff" + bytes(40)),
        (b"\0\1\0\1g\0\1t\0\0\0\3", b"\0\4" + bytes(5)),
        (b"\0\2\0\1g", b"\0\3\0"),
    ],
)
def test_corrupt_records_are_decode_errors(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_record(key, value)


@settings(max_examples=200, deadline=None)
@given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=80))
def test_random_bytes_are_a_record_or_a_decode_error(key: bytes | None, value: bytes | None) -> None:
    try:
        record = decode_record(key, value)
    except DecodeError:
        return
    if record is not None and record.value is None:
        assert encode_record(record)[1] is None


@settings(max_examples=100, deadline=None)
@given(
    offset=st.integers(0, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=20),
    expire=st.just(-1) | st.integers(0, 2**62),
    topic_id=st.uuids(),
)
def test_offset_commits_round_trip(
    offset: int, leader_epoch: int, metadata: str, expire: int, topic_id: UUID
) -> None:
    committed = CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_wall_ms=1,
        expire_wall_ms=expire,
        topic_id=topic_id,
    )
    record = decode_record(*encode_record(offset_commit("g", "t", 0, committed)))
    assert isinstance(record, OffsetCommitRecord)
    read = record.value
    assert read is not None
    assert (read.offset, read.metadata, read.expire_wall_ms) == (offset, metadata, expire)
    if expire == -1:
        assert read == committed
