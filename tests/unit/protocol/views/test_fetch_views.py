"""The specialised Fetch reader and encoder equal the schema codec."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.batches.damage import damaged_copies
from tests.support.messages.random_messages import random_messages
from tidelog.protocol.codec import decode, decode_prefix, encode
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.framing import encode_response
from tidelog.protocol.messages import fetch
from tidelog.protocol.messages.fetch import FetchRequest, FetchResponse
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.views.fetch_request_view import (
    UNKNOWN_HIGH_WATERMARK,
    FetchPartition,
    FetchRequestView,
    read_fetch_request,
)
from tidelog.protocol.views.fetch_response_view import (
    FetchPartitionResult,
    FetchResult,
    ResponsePart,
    encode_fetch_response,
)
from tidelog.protocol.views.response_parts import NodeEndpoint

VERSIONS = range(4, 19)


@dataclass(slots=True)
class FileRange:
    """Stands for records that are read from a file."""

    data: bytes

    @property
    def length(self) -> int:
        return len(self.data)


def as_view(request: FetchRequest, version: int) -> FetchRequestView:
    """Return the expected view of `request`."""
    partitions = [
        FetchPartition(
            None if version >= 13 else topic.topic,
            topic.topic_id if version >= 13 else None,
            partition.partition,
            partition.current_leader_epoch,
            partition.fetch_offset,
            partition.last_fetched_epoch,
            partition.log_start_offset,
            partition.partition_max_bytes,
            partition.replica_directory_id,
            partition.high_watermark,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    return FetchRequestView(
        replica_id=request.replica_state.replica_id if version >= 15 else request.replica_id,
        replica_epoch=request.replica_state.replica_epoch,
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        partitions=partitions,
        forgotten=[
            (topic.topic_id if version >= 13 else topic.topic, index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        ],
        rack_id=request.rack_id,
        cluster_id=request.cluster_id,
    )


def requested_partition(topic: Any, index: int, version: int) -> FetchPartition:
    name = None if version >= 13 else topic.topic
    topic_id = topic.topic_id if version >= 13 else None
    return FetchPartition(name, topic_id, index, -1, 0, -1, -1, 1 << 20)


def pair_or_none(value: Any, first: str, second: str) -> tuple[int, int] | None:
    return None if value == type(value)() else (getattr(value, first), getattr(value, second))


def result_of(partition: fetch.PartitionData, in_file: bool) -> FetchPartitionResult:
    records = None if partition.records is None else bytes(partition.records)
    return FetchPartitionResult(
        error_code=partition.error_code,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        records=FileRange(records) if in_file and records is not None else records,
        aborted_transactions=partition.aborted_transactions,
        preferred_read_replica=partition.preferred_read_replica,
        diverging_epoch=pair_or_none(partition.diverging_epoch, "epoch", "end_offset"),
        current_leader=pair_or_none(partition.current_leader, "leader_id", "leader_epoch"),
        snapshot_id=pair_or_none(partition.snapshot_id, "end_offset", "epoch"),
    )


def encode_by_hand(response: FetchResponse, version: int, *, in_file: bool = False) -> list[ResponsePart]:
    """Encode `response` with the specialised encoder."""
    results = [
        (requested_partition(topic, partition.partition_index, version), result_of(partition, in_file))
        for topic in response.responses
        for partition in topic.partitions
    ]
    return encode_fetch_response(
        version,
        42,
        results,
        error_code=response.error_code,
        session_id=response.session_id,
        throttle_time_ms=response.throttle_time_ms,
        node_endpoints=[
            NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints
        ],
    )


def join_parts(parts: list[ResponsePart]) -> bytes:
    return b"".join(part.data if isinstance(part, FileRange) else bytes(part) for part in parts)  # type: ignore[arg-type]


def can_be_compared(response: FetchResponse, version: int) -> bool:
    """Return whether the specialised encoder keeps topics separate and no records are null."""
    names = [topic.topic_id if version >= 13 else topic.topic for topic in response.responses]
    return (
        all(topic.partitions for topic in response.responses)
        and all(a != b for a, b in pairwise(names))
        and all(p.records is not None for topic in response.responses for p in topic.partitions)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_request_view_equals_the_codec(version: int) -> None:
    for request in random_messages(FetchRequest, version, "fetch view", mixed=300):
        body = memoryview(encode(request, version))
        assert read_fetch_request(body, version) == as_view(request, version)


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_the_response_encoder_equals_the_codec(version: int, in_file: bool) -> None:
    compared = 0
    for response in random_messages(FetchResponse, version, "fetch view", mixed=300):
        if can_be_compared(response, version):
            compared += 1
            parts = encode_by_hand(response, version, in_file=in_file)
            assert join_parts(parts) == encode_response(1, version, 42, response)
            assert all(part.length if isinstance(part, FileRange) else len(part) for part in parts)  # type: ignore[arg-type]
    assert compared > 50


def response_of(parts: list[ResponsePart], version: int) -> FetchResponse:
    frame = join_parts(parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return decode(FetchResponse, frame[9 if version >= 12 else 8 :], version)


def partition_of_topic(name: str, index: int, topic_id: Any = ZERO_UUID) -> FetchPartition:
    return FetchPartition(name, topic_id, index, -1, 0, -1, -1, 1 << 20)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_response_holds_the_given_record_buffers_without_copying(version: int) -> None:
    records: list[Any] = [FileRange(b"a" * 200), memoryview(b"b" * 3), FileRange(b"c" * 20_000), None]
    results: list[FetchResult] = [
        (partition_of_topic("topic", index), FetchPartitionResult(records=item))
        for index, item in enumerate(records)
    ]
    parts = encode_fetch_response(version, 1, results)
    assert [part for part in parts if not isinstance(part, bytearray)] == records[:3]
    assert [parts[index] is records[index // 2] for index in (1, 3, 5)] == [True] * 3
    sent = [partition.records for partition in response_of(parts, version).responses[0].partitions]
    assert sent == [b"a" * 200, b"b" * 3, b"c" * 20_000, b""]


@pytest.mark.parametrize("version", VERSIONS)
def test_adjacent_results_of_a_topic_are_merged(version: int) -> None:
    ids = {"a": ZERO_UUID, "b": ZERO_UUID.__class__(int=7)}
    results = [
        (partition_of_topic(name, index, ids[name]), FetchPartitionResult())
        for name, index in (("a", 0), ("a", 1), ("b", 0), ("a", 2))
    ]
    response = response_of(encode_fetch_response(version, 1, results), version)
    grouped = [(topic.topic, [p.partition_index for p in topic.partitions]) for topic in response.responses]
    assert [indexes for _, indexes in grouped] == [[0, 1], [0], [2]]
    if version < 13:
        assert [name for name, _ in grouped] == ["a", "b", "a"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_default_result_is_kafkas_response_to_a_failed_read(version: int) -> None:
    result = FetchPartitionResult(error_code=3)
    response = response_of(encode_fetch_response(version, 1, [(partition_of_topic("t", 5), result)]), version)
    assert response.responses[0].partitions == (
        fetch.PartitionData(
            partition_index=5,
            error_code=3,
            high_watermark=-1,
            last_stable_offset=-1,
            aborted_transactions=None,
            records=b"",
        ),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_without_partitions_is_one_part(version: int) -> None:
    parts = encode_fetch_response(version, 1, [], error_code=70, session_id=5)
    response = response_of(parts, version)
    assert len(parts) == 1
    assert response == FetchResponse(
        error_code=70 if version >= 7 else 0, session_id=5 if version >= 7 else 0
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_fields_missing_in_a_version_are_omitted(version: int) -> None:
    result = FetchPartitionResult(
        log_start_offset=9,
        preferred_read_replica=3,
        diverging_epoch=(1, 2),
        current_leader=(3, 4),
        snapshot_id=(5, 6),
    )
    parts = encode_fetch_response(
        version, 1, [(partition_of_topic("t", 0), result)], node_endpoints=[NodeEndpoint(3, "host", 9092)]
    )
    response = response_of(parts, version)
    partition = response.responses[0].partitions[0]
    assert partition.log_start_offset == (9 if version >= 5 else -1)
    assert partition.preferred_read_replica == (3 if version >= 11 else -1)
    assert (partition.diverging_epoch.end_offset == 2) == (version >= 12)
    assert (partition.snapshot_id.end_offset == 5) == (version >= 12)
    assert (partition.current_leader.leader_id == 3) == (version >= 12)
    assert len(response.node_endpoints) == (1 if version >= 16 else 0)


def test_a_consumer_request_has_no_replica_id_and_no_high_watermark() -> None:
    request = FetchRequest(topics=(fetch.FetchTopic(partitions=(fetch.FetchPartition(),)),))
    view = read_fetch_request(memoryview(encode(request, 18)), 18)
    assert (view.replica_id, view.replica_epoch) == (-1, -1)
    assert view.partitions[0].high_watermark == UNKNOWN_HIGH_WATERMARK
    assert view.partitions[0].replica_directory_id == ZERO_UUID


@pytest.mark.parametrize(
    "records", [None, b"", b"12345", bytearray(b"123"), memoryview(b"12"), FileRange(b"1")]
)
def test_a_result_knows_the_length_of_its_records(records: Any) -> None:
    expected = 0 if records is None else len(records.data if isinstance(records, FileRange) else records)
    assert FetchPartitionResult(records=records).records_length == expected


def test_a_zero_varint_may_have_redundant_bytes() -> None:
    body = encode(FetchRequest(), 12)
    assert body[-1] == 0
    tagged = body[:-1] + b"\x01\x00\x02\x80\x00"
    expect_equal_results(tagged, 12)
    assert read_fetch_request(memoryview(tagged), 12).cluster_id is None


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_requests_are_refused_exactly_when_the_codec_refuses_them(version: int) -> None:
    for request in random_messages(FetchRequest, version, "damage", mixed=6):
        for body in damaged_copies(encode(request, version), f"fetch {version}"):
            expect_equal_results(body, version)


@settings(max_examples=300, deadline=None)
@given(version=st.sampled_from(VERSIONS), body=st.binary(max_size=120))
def test_random_bytes_are_read_or_refused_as_by_the_codec(version: int, body: bytes) -> None:
    expect_equal_results(body, version)


def expect_equal_results(body: bytes, version: int) -> None:
    try:
        expected = as_view(decode_prefix(FetchRequest, body, version, 0)[0], version)
    except DecodeError:
        with pytest.raises(DecodeError):
            read_fetch_request(memoryview(body), version)
    else:
        assert read_fetch_request(memoryview(body), version) == expected
