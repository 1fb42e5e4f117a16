"""Records of the metadata topic have the bytes that Apache Kafka's own serde gives them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import GOLDEN_FILES
from tests.support.tier.segment_metadata import DELETED, DELETING, FINISHED, STARTED
from tidelog.protocol.errors import DecodeError
from tidelog.remote.metadata.partitioning import metadata_partition
from tidelog.remote.metadata.record_codec import (
    decode_event,
    decode_plain_entry,
    decode_snapshot_entry,
    encode_event,
    encode_snapshot_entry,
    is_worth_decoding,
)
from tidelog.remote.metadata.segment_table import SegmentTable
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

GOLDEN = GOLDEN_FILES / "remote_metadata"


def golden(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


LINES = {line["name"]: bytes.fromhex(line["bytes"]) for line in golden("records.jsonl")}


def kafka_uuid(low: int) -> UUID:
    return UUID(int=0x0102030405060708 << 64 | low & (1 << 64) - 1)


TIDES = TopicIdPartition(kafka_uuid(-2), "tides-日", 7)
SEGMENT = RemoteLogSegmentId(TIDES, kafka_uuid(99))
PLAIN = RemoteLogSegmentMetadata(
    SEGMENT, 100, 199, 1_700_000_000_123, 1, 1_700_000_100_000, 1_048_576, (EpochEntry(3, 100),)
)
MANY_EPOCHS = (EpochEntry(0, 100), EpochEntry(2, 150), EpochEntry(300, 5_000_000_000))


def rich(state: RemoteLogSegmentState, event_timestamp_ms: int, broker_id: int) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        SEGMENT,
        100,
        5_000_000_099,
        -1,
        broker_id,
        event_timestamp_ms,
        2**31 - 1,
        MANY_EPOCHS,
        state,
        b"\x00\x01\xff",
        True,
    )


def update(state: RemoteLogSegmentState, custom: bytes | None = None) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(SEGMENT, 1_700_000_200_000, state, 2, custom)


EVENTS: dict[str, RemoteLogEvent] = {
    "started": PLAIN,
    "started with many epochs, custom metadata and no aborted transaction": rich(STARTED, 5, 2**31 - 1),
    "started with empty custom metadata": RemoteLogSegmentMetadata(
        SEGMENT, 0, 0, 0, 0, 0, 0, (EpochEntry(0, 0),), custom_metadata=b""
    ),
    **{f"update to {state.name}": update(state) for state in (FINISHED, DELETING, DELETED)},
    "update with custom metadata": update(FINISHED, b"x" * 128),
    **{
        f"partition {state.name}": RemotePartitionDeleteMetadata(TIDES, state, 1_700_000_300_000, 5)
        for state in RemotePartitionDeleteState
    },
}
SNAPSHOT_ENTRIES = {
    "snapshot": PLAIN,
    "snapshot with many epochs, custom metadata and no aborted transaction": rich(FINISHED, 77, 2),
}


@pytest.mark.parametrize("name", EVENTS)
def test_records_of_the_metadata_topic_equal_kafkas_bytes(name: str) -> None:
    assert encode_event(EVENTS[name]) == LINES[name]
    assert decode_event(LINES[name]) == EVENTS[name]


@pytest.mark.parametrize("name", SNAPSHOT_ENTRIES)
def test_snapshot_entries_equal_kafkas_bytes(name: str) -> None:
    assert encode_snapshot_entry(SNAPSHOT_ENTRIES[name]) == LINES[name]
    assert decode_snapshot_entry(LINES[name], TIDES) == SNAPSHOT_ENTRIES[name]


def test_every_golden_record_is_read() -> None:
    assert set(LINES) == {*EVENTS, *SNAPSHOT_ENTRIES}


def test_metadata_partitions_equal_kafkas_choice() -> None:
    for line in golden("partitions.jsonl"):
        partition = TopicIdPartition(UUID(line["topic_id"]), "whatever", line["partition"])
        assert metadata_partition(partition, 50) == line["of_50"]
        assert metadata_partition(partition, 7) == line["of_7"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda value: value[:2], "ends within its header"),
        (lambda value: b"\x02" + value[1:], "frame version 2 is not supported"),
        (lambda value: b"\x01\x09" + value[2:], "type 9"),
        (lambda value: b"\x01\x00\x01" + value[3:], "version 1"),
        (lambda value: value[:-1], "RemoteLogSegmentMetadataRecord"),
        (lambda value: value[:-2] + b"\x09\x00", "9 is not a RemoteLogSegmentState"),
    ],
)
def test_an_invalid_record_is_refused_with_its_reason(damage: Callable[[bytes], bytes], reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode_event(damage(LINES["started"]))


@pytest.mark.parametrize("name", EVENTS)
def test_records_of_other_topics_need_not_be_decoded(name: str) -> None:
    value = LINES[name]
    is_of_segments = isinstance(EVENTS[name], RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate)
    assert is_worth_decoding(value, {TIDES.topic_id.bytes})
    assert is_worth_decoding(value, {kafka_uuid(1).bytes}) is not is_of_segments
    assert is_worth_decoding(value[:9], {kafka_uuid(1).bytes})


def test_topic_records_and_snapshot_entries_are_distinct() -> None:
    with pytest.raises(DecodeError, match="not a record of a snapshot"):
        decode_snapshot_entry(LINES["started"], TIDES)
    with pytest.raises(DecodeError, match="not a record of the metadata topic"):
        decode_event(LINES["snapshot"])


@given(st.binary(max_size=120))
def test_random_bytes_are_a_record_or_refused(data: bytes) -> None:
    try:
        event = decode_event(b"\x01" + data)
    except DecodeError:
        return
    assert decode_event(encode_event(event)) == event


def test_entries_of_the_plain_form_are_decoded_like_all_others() -> None:
    segments = [
        replace(
            PLAIN,
            state=state,
            is_txn_index_empty=is_empty,
            custom_metadata=custom_metadata,
            segment_leader_epochs=epochs,
            max_timestamp_ms=timestamp,
        )
        for state in RemoteLogSegmentState
        for is_empty in (True, False)
        for custom_metadata in (None, b"", b"x", bytes(200))
        for epochs in ((EpochEntry(0, 0),), (EpochEntry(7, 3),), (EpochEntry(1, 0), EpochEntry(2, 9)))
        for timestamp in (-1, 0, 1 << 62)
    ]
    entries = [encode_snapshot_entry(segment) for segment in segments]
    decoded = [decode_snapshot_entry(entry, TIDES) for entry in entries]
    assert decoded == segments
    plain = [decode_plain_entry(entry, 0, len(entry)) for entry in entries]
    for segment, values in zip(segments, plain, strict=True):
        epochs = segment.segment_leader_epochs
        is_plain = epochs == (EpochEntry(epochs[0].epoch, segment.start_offset),)
        assert (values is not None) == (is_plain and segment.custom_metadata is None)
        if values is not None:
            table = SegmentTable(TIDES)
            assert table.get(table.append_plain(values)) == segment
    for entry in entries:
        for end in range(len(entry)):
            with pytest.raises(DecodeError):
                decode_snapshot_entry(entry[:end], TIDES)
