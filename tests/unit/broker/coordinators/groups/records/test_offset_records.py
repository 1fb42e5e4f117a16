"""Records of committed offsets have the bytes of the schema codec, and are decoded together as one by one."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.broker.coordinators.groups.records.offset_records import (
    NO_EXPIRY,
    CommittedOffset,
    decode_commits,
    decode_offset_record,
    encode_offset_record,
    offset_commit,
    offset_tombstone,
)
from tidelog.protocol.codec import encode
from tidelog.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import Record
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


NAMES = st.sampled_from(("", "g", "ü", "g" * 200))


@st.composite
def keys(draw: st.DrawFn) -> bytes:
    """Return a key of an offset in nearly all cases; other keys are of another type, too long or damaged."""
    names = OffsetCommitKey(group=draw(NAMES), topic=draw(NAMES), partition=draw(st.integers(-1, 3)))
    key = draw(st.sampled_from((b"\0\1",) * 8 + (b"\0\0", b"\0\2"))) + encode(names, 0)
    damaged_keys = (key,) * 9 + (key + b"x", key[:-1], key.replace(b"g", b"\xff"), b"")
    damaged: bytes = draw(st.sampled_from(damaged_keys))
    return damaged


@st.composite
def values(draw: st.DrawFn) -> bytes | None:
    """Return a value of any version, with all fields; None; or a damaged value."""
    version = draw(st.sampled_from((4,) * 8 + (0, 1, 2, 3)))
    value = OffsetCommitValue(
        offset=draw(INT64),
        leader_epoch=draw(INT32) if version >= 3 else -1,
        metadata=draw(st.sampled_from(("",) * 6 + ("m", "three bytes of it"))),
        commit_timestamp=draw(INT64),
        expire_timestamp=draw(INT64) if version == 1 else NO_EXPIRY,
        topic_id=draw(st.sampled_from((ZERO_UUID, UUID(int=1)))) if version >= 4 else ZERO_UUID,
    )
    encoded = version.to_bytes(2) + encode(value, version)
    damaged_values = (encoded,) * 9 + (None, encoded[:-1], encoded + b"\0", b"\0\x09")
    damaged: bytes | None = draw(st.sampled_from(damaged_values))
    return damaged


def decoded_alone(record: Record) -> tuple[tuple[str, str, int], CommittedOffset | None] | None:
    """Return key and value of a record; None if it cannot be decoded."""
    try:
        key, value = decode_offset_record(memoryview(record.key or b"")[2:], record.value)
    except DecodeError:
        return None
    return (*key,), None if value is None else value.appended_at(record.offset)


@settings(max_examples=500, deadline=None)
@given(content=st.lists(st.tuples(keys(), values()), min_size=1, max_size=12))
def test_commits_that_are_decoded_together_equal_those_decoded_one_by_one(
    content: list[tuple[bytes, bytes | None]],
) -> None:
    records = [Record(offset, 0, key, value, ()) for offset, (key, value) in enumerate(content, 100)]
    topic_ids: dict[bytes, UUID] = {}
    position = 0
    while position < len(records):
        commits = decode_commits(records, position, topic_ids)
        if commits is None:
            position += 1
            continue
        end = position + commits.record_count
        expected = dict(filter(None, map(decoded_alone, records[position:end])))
        assert position < end <= len(records)
        assert all((record.key or b"")[:2] in (b"\0\0", b"\0\1") for record in records[position:end])
        names = (commits.group_id, commits.topic)
        assert {(*names, partition): of for partition, of in commits.offsets.items()} == expected
        position = end


def test_the_records_of_one_commit_are_decoded_together() -> None:
    committed = [CommittedOffset(offset, 9, topic_id=UUID(int=1)) for offset in range(3)]
    encoded = [encode_offset_record(offset_commit("g", "t", each, committed[each])) for each in range(3)]
    records = [Record(offset, 0, *each, ()) for offset, each in enumerate(encoded, 7)]
    topic_ids: dict[bytes, UUID] = {}
    commits = decode_commits(records, 0, topic_ids)
    assert commits is not None
    assert commits == ("g", "t", {each: committed[each].appended_at(7 + each) for each in range(3)}, 3)
    assert topic_ids == {UUID(int=1).bytes: UUID(int=1)}
