"""The view of small OffsetCommit requests, and the encoder of their responses, equal the schema codec."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.batches.damage import damaged_copies
from tests.support.messages.random_messages import random_messages
from tidelog.protocol.codec import decode_prefix, encode
from tidelog.protocol.framing import encode_response
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.protocol.views.offset_commit_view import (
    CommitTopic,
    OffsetCommitRequestView,
    encode_offset_commit_response,
    read_offset_commit_request,
)

VERSIONS = range(8, 11)
SHORT = 127
"""The number of bytes from which on a text, and of elements from which on an array, needs the codec."""


def as_view(request: OffsetCommitRequest, version: int) -> OffsetCommitRequestView:
    """Return the expected view of `request`."""
    return OffsetCommitRequestView(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        [
            CommitTopic(
                topic.name,
                topic.topic_id,
                topic.topic_id.bytes
                if version >= 10
                else bytes((len(topic.name.encode()) + 1,)) + topic.name.encode(),
                [
                    (
                        each.partition_index,
                        each.committed_offset,
                        each.committed_leader_epoch,
                        each.committed_metadata or "",
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def is_small(request: OffsetCommitRequest) -> bool:
    """Return whether all lengths and counts of `request` take one byte."""
    texts = [request.group_id, request.member_id, request.group_instance_id or ""]
    arrays = [len(request.topics)]
    for topic in request.topics:
        texts.append(topic.name)
        texts += [each.committed_metadata or "" for each in topic.partitions]
        arrays.append(len(topic.partitions))
    return all(len(text.encode()) < SHORT for text in texts) and max(arrays) < SHORT


def response_to(topics: list[CommitTopic], error_code: int, throttle_time_ms: int) -> OffsetCommitResponse:
    """Return the message that the encoder shall encode."""
    return OffsetCommitResponse(
        throttle_time_ms=throttle_time_ms,
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=each[0], error_code=error_code)
                    for each in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_view_and_the_response_equal_the_codec(version: int) -> None:
    small = 0
    for request in random_messages(OffsetCommitRequest, version, "offset commit view", mixed=1_000):
        view = read_offset_commit_request(memoryview(encode(request, version)), version)
        if not is_small(request):
            assert view is None
            continue
        small += 1
        assert view == as_view(request, version)
        for error_code, throttle_time_ms in ((0, 0), (16, 250)):
            response = response_to(view.topics, error_code, throttle_time_ms)
            frame = encode_offset_commit_response(42, view.topics, error_code, throttle_time_ms)
            assert frame == encode_response(8, version, 42, response)
    assert small > 100


def commit(partitions: int, metadata: str = "", group_id: str = "group") -> OffsetCommitRequest:
    """Return a commit of `partitions` of one topic."""
    committed = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=index, committed_metadata=metadata
        )
        for index in range(partitions)
    )
    topic = OffsetCommitRequestTopic(name="topic", partitions=committed)
    return OffsetCommitRequest(group_id=group_id, member_id="member", topics=(topic,))


@pytest.mark.parametrize(
    ("request_", "is_view"),
    [
        (commit(SHORT - 1), True),
        (commit(SHORT), False),
        (commit(1, "m" * (SHORT - 1)), True),
        (commit(1, "m" * SHORT), False),
        (commit(1, group_id="g" * (SHORT - 1)), True),
        (commit(1, group_id="g" * SHORT), False),
    ],
)
def test_lengths_of_more_than_one_byte_need_the_codec(request_: OffsetCommitRequest, is_view: bool) -> None:
    view = read_offset_commit_request(memoryview(encode(request_, 9)), 9)
    assert view == (as_view(request_, 9) if is_view else None)


def test_bytes_after_the_request_are_ignored() -> None:
    request = commit(2)
    view = read_offset_commit_request(memoryview(encode(request, 9) + b"rest"), 9)
    assert view == as_view(request, 9)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_request_needs_the_codec_or_is_read_as_the_codec_reads_it(version: int) -> None:
    for request in random_messages(OffsetCommitRequest, version, "damaged commits", mixed=20):
        for damaged in damaged_copies(encode(request, version), f"commit {version}"):
            view = read_offset_commit_request(memoryview(damaged), version)
            if view is not None:
                decoded, _ = decode_prefix(OffsetCommitRequest, damaged, version, 0)
                assert view == as_view(decoded, version)


@settings(max_examples=300, deadline=None)
@given(body=st.binary(max_size=80), version=st.sampled_from(VERSIONS))
def test_random_bytes_need_the_codec_or_are_read_as_the_codec_reads_them(body: bytes, version: int) -> None:
    view = read_offset_commit_request(memoryview(body), version)
    if view is not None:
        decoded, _ = decode_prefix(OffsetCommitRequest, body, version, 0)
        assert view == as_view(decoded, version)
