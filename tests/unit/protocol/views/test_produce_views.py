"""The specialised Produce reader and encoder equal the schema codec and kio."""

from __future__ import annotations

from collections.abc import Generator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.batches.damage import damaged_copies
from tests.support.messages.random_messages import random_messages
from tidelog.protocol.codec import ELEMENTS_MAX, decode, decode_prefix, encode
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.framing import encode_response
from tidelog.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tidelog.protocol.primitives import write_unsigned_varint
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import run_steps
from tidelog.protocol.views.produce_request_view import (
    ProducePartition,
    ProduceRequestView,
    read_produce_request,
)
from tidelog.protocol.views.produce_response_view import (
    ProducePartitionResult,
    encode_produce_response,
    encode_produce_response_in_steps,
)
from tidelog.protocol.views.response_parts import NodeEndpoint as Endpoint

VERSIONS = range(3, 14)


def as_view(request: ProduceRequest, version: int) -> ProduceRequestView:
    """Return the expected view of `request`."""
    partitions = [
        ProducePartition(
            None if version >= 13 else topic.name,
            topic.topic_id if version >= 13 else None,
            data.index,
            None if data.records is None else memoryview(data.records),
        )
        for topic in request.topic_data
        for data in topic.partition_data
    ]
    return ProduceRequestView(request.transactional_id, request.acks, request.timeout_ms, partitions)


def have_different_neighbours(response: Any, version: int) -> bool:
    """Return whether adjacent topics differ, so that the encoder does not merge them."""
    names = [topic.topic_id if version >= 13 else topic.name for topic in response.responses]
    filled = all(topic.partition_responses for topic in response.responses)
    return filled and all(a != b for a, b in pairwise(names))


def read(body: memoryview, version: int) -> ProduceRequestView:
    """Read the request with any number of steps."""
    result = read_produce_request(body, version)
    return run_steps(result) if isinstance(result, Generator) else result


def encode_by_hand(response: ProduceResponse, version: int) -> bytes:
    """Encode `response` with the specialised encoder."""
    results = [
        (
            ProducePartition(
                None if version >= 13 else topic.name,
                topic.topic_id if version >= 13 else None,
                partition.index,
                None,
            ),
            ProducePartitionResult(
                error_code=partition.error_code,
                base_offset=partition.base_offset,
                log_append_time_ms=partition.log_append_time_ms,
                log_start_offset=partition.log_start_offset,
                record_errors=[
                    (error.batch_index, error.batch_index_error_message) for error in partition.record_errors
                ],
                error_message=partition.error_message,
                current_leader=None
                if partition.current_leader == LeaderIdAndEpoch()
                else (partition.current_leader.leader_id, partition.current_leader.leader_epoch),
            ),
        )
        for topic in response.responses
        for partition in topic.partition_responses
    ]
    endpoints = [Endpoint(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]
    return bytes(encode_produce_response(version, 42, results, response.throttle_time_ms, endpoints))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_request_view_equals_the_codec(version: int) -> None:
    for request in random_messages(ProduceRequest, version, "produce view", mixed=300):
        body = memoryview(encode(request, version))
        assert read(body, version) == as_view(request, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_response_encoder_equals_the_codec(version: int) -> None:
    compared = 0
    for response in random_messages(ProduceResponse, version, "produce view", mixed=300):
        if have_different_neighbours(response, version):
            compared += 1
            assert encode_by_hand(response, version) == encode_response(0, version, 42, response)
    assert compared > 100


@pytest.mark.parametrize("version", VERSIONS)
def test_adjacent_results_of_a_topic_are_merged(version: int) -> None:
    topics = [
        TopicProduceResponse(
            name=name if version < 13 else "",
            topic_id=ZERO_UUID,
            partition_responses=tuple(PartitionProduceResponse(index=index) for index in indexes),
        )
        for name, indexes in (("a", (0, 1)), ("b", (5,)), ("a", (2,)))
    ]
    if version >= 13:
        merged = tuple(partition for topic in topics for partition in topic.partition_responses)
        topics = [TopicProduceResponse(topic_id=ZERO_UUID, partition_responses=merged)]
    response = ProduceResponse(responses=tuple(topics))
    assert encode_by_hand(response, version) == encode_response(0, version, 42, response)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_default_result_is_kafkas_response_to_a_failed_append(version: int) -> None:
    frame = encode_produce_response(
        version, 7, [(ProducePartition("t", ZERO_UUID, 3, None), ProducePartitionResult(error_code=6))]
    )
    body = memoryview(frame)[9 if version >= 9 else 8 :]
    partition = decode(ProduceResponse, body, version).responses[0].partition_responses[0]
    assert partition == PartitionProduceResponse(index=3, error_code=6, base_offset=-1)


def test_fields_missing_in_a_version_are_omitted() -> None:
    result = ProducePartitionResult(
        error_code=87, record_errors=[(0, "bad")], error_message="worse", current_leader=(1, 2)
    )
    for version in VERSIONS:
        frame = encode_produce_response(
            version, 7, [(ProducePartition("t", ZERO_UUID, 3, None), result)], 9, [Endpoint(1, "host", 9092)]
        )
        body = memoryview(frame)[9 if version >= 9 else 8 :]
        response = decode(ProduceResponse, body, version)
        partition = response.responses[0].partition_responses[0]
        assert response.throttle_time_ms == 9
        assert partition.error_code == 87
        assert partition.error_message == ("worse" if version >= 8 else None)
        assert partition.record_errors == (
            (BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="bad"),)
            if version >= 8
            else ()
        )
        has_leader = version >= 10
        expected_leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=2) if has_leader else LeaderIdAndEpoch()
        assert partition.current_leader == expected_leader
        assert response.node_endpoints == (
            (NodeEndpoint(node_id=1, host="host", port=9092),) if has_leader else ()
        )


@pytest.mark.parametrize("version", range(8, 14))
def test_a_long_error_message_is_shortened(version: int) -> None:
    text = "no topic " + "ü" * 32_000
    result = ProducePartitionResult(error_code=3, error_message=text, record_errors=[(0, text)])
    frame = encode_produce_response(version, 7, [(ProducePartition("t", ZERO_UUID, 3, None), result)])
    response = decode(ProduceResponse, memoryview(frame)[9 if version >= 9 else 8 :], version)
    partition = response.responses[0].partition_responses[0]
    assert partition.error_message == text[:997] + "..."
    assert partition.record_errors[0].batch_index_error_message == text[:997] + "..."


def test_records_are_views_of_the_request_and_not_copies() -> None:
    frame = bytearray(encode(one_partition(b"abcdef"), 9))
    records = read(memoryview(frame), 9).partitions[0].records
    assert records is not None
    frame[frame.index(b"abcdef")] = ord("X")
    assert bytes(records) == b"Xbcdef"


def one_partition(records: bytes | None) -> ProduceRequest:
    data = PartitionProduceData(index=1, records=records)
    return ProduceRequest(acks=1, topic_data=(TopicProduceData(name="topic", partition_data=(data,)),))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 16384, 100_000])
def test_every_length_of_the_records_prefix_is_read(version: int, size: int) -> None:
    request = one_partition(bytes(size))
    body = memoryview(encode(request, version))
    assert read(body, version).partitions[0].records == bytes(size)


def test_a_zero_varint_may_have_redundant_bytes() -> None:
    plain = encode(one_partition(None), 9)
    assert plain[0] == 0
    expect_equal_results(b"\x80\x00" + plain[1:], 9)
    assert read(memoryview(b"\x80\x00" + plain[1:]), 9).transactional_id is None


@pytest.mark.parametrize("version", VERSIONS)
def test_damaged_requests_are_refused_exactly_when_the_codec_refuses_them(version: int) -> None:
    for request in random_messages(ProduceRequest, version, "damage", mixed=6):
        for body in damaged_copies(encode(request, version), f"produce {version}"):
            expect_equal_results(body, version)


@settings(max_examples=300, deadline=None)
@given(version=st.sampled_from(VERSIONS), body=st.binary(max_size=80))
def test_random_bytes_are_read_or_refused_as_by_the_codec(version: int, body: bytes) -> None:
    expect_equal_results(body, version)


def expect_equal_results(body: bytes, version: int) -> None:
    try:
        expected = as_view(decode_prefix(ProduceRequest, body, version, 0)[0], version)
    except DecodeError:
        with pytest.raises(DecodeError):
            read(memoryview(body), version)
    else:
        assert read(memoryview(body), version) == expected


@pytest.mark.parametrize("version", [8, 12, 13])
@pytest.mark.parametrize("topics, partitions", [(3000, 0), (3000, 1), (1, 3000)])
def test_requests_for_many_partitions_are_read_and_their_responses_built_in_steps(
    version: int, topics: int, partitions: int
) -> None:
    of_topic = tuple(PartitionProduceData(index=n, records=b"r") for n in range(partitions))
    request = ProduceRequest(
        topic_data=tuple(
            TopicProduceData(name="" if version >= 13 else f"t{n}", partition_data=of_topic)
            for n in range(topics)
        )
    )
    body = memoryview(encode(request, version))
    read_steps = read_produce_request(body, version)
    assert isinstance(read_steps, Generator)
    assert sum(1 for _ in read_steps) > 150
    view = read(body, version)
    assert view == as_view(request, version)
    results = [(requested, ProducePartitionResult()) for requested in view.partitions]
    if results:
        steps = encode_produce_response_in_steps(version, 1, results)
        assert sum(1 for _ in steps) > 150


def test_record_errors_have_a_step_for_each_result() -> None:
    requested = ProducePartition("t", None, 0, None)
    result = ProducePartitionResult(record_errors=[(n, "bad") for n in range(1000)])
    assert sum(1 for _ in encode_produce_response_in_steps(9, 1, [(requested, result)] * 10)) >= 10


def test_a_request_for_more_partitions_than_the_bound_is_refused() -> None:
    count = ELEMENTS_MAX + 100
    partitions = bytes.fromhex("00000000 00 00") * count
    for body in (
        bytes.fromhex("00 0001 00000000 02 0261") + unsigned_varint(count + 1) + partitions + b"\0\0",
        bytes.fromhex("00 0001 00000000")
        + unsigned_varint(count + 1)
        + bytes.fromhex("0261 01 00") * count
        + b"\0",
    ):
        with pytest.raises(DecodeError, match="more than 1000000 topics or partitions"):
            read(memoryview(body), 9)


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)
