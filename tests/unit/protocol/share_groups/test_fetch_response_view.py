"""The fast encoder of ShareFetch responses, compared with the generated one."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.framing import encode_response
from tidelog.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.share_groups.fetch_response_view import (
    ShareFetchResult,
    TopicResults,
    encode_share_fetch_response,
)
from tidelog.protocol.steps import run_steps
from tidelog.protocol.views.response_parts import NodeEndpoint as Endpoint

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.none() | st.text(max_size=20)
ACQUIRED = st.builds(AcquiredRecords, first_offset=INT64, last_offset=INT64, delivery_count=INT16)
RESULTS = st.builds(
    ShareFetchResult,
    error_code=INT16,
    error_message=TEXT,
    acknowledge_error_code=INT16,
    acknowledge_error_message=TEXT,
    leader=st.tuples(INT32, INT32),
    records=st.none() | st.binary(max_size=300),
    acquired=st.lists(ACQUIRED, max_size=3),
)
TOPICS = st.lists(
    st.builds(TopicResults, st.uuids(), st.lists(st.tuples(INT32, RESULTS), max_size=3)), max_size=3
)
ENDPOINTS = st.lists(st.builds(Endpoint, INT32, st.text(max_size=9), INT32, TEXT), max_size=2)


@given(INT32, TOPICS, INT32, INT32, ENDPOINTS, st.sampled_from([1, 2]))
def test_both_encoders_write_the_same_bytes(
    correlation_id: int,
    topics: list[TopicResults],
    throttle_time_ms: int,
    lock_timeout_ms: int,
    endpoints: list[Endpoint],
    version: int,
) -> None:
    steps = encode_share_fetch_response(
        correlation_id,
        topics,
        throttle_time_ms=throttle_time_ms,
        lock_timeout_ms=lock_timeout_ms,
        node_endpoints=endpoints,
    )
    parts = run_steps(steps)
    message = ShareFetchResponse(
        throttle_time_ms=throttle_time_ms,
        acquisition_lock_timeout_ms=lock_timeout_ms,
        responses=tuple(
            ShareFetchableTopicResponse(
                topic_id=UUID(bytes=topic.topic_id.bytes),
                partitions=tuple(_message(index, result) for index, result in topic.partitions),
            )
            for topic in topics
        ),
        node_endpoints=tuple(
            NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in endpoints
        ),
    )
    expected = encode_response(ApiKey.SHARE_FETCH, version, correlation_id, message)
    assert b"".join(bytes(part) for part in parts) == expected  # type: ignore[arg-type]


def _message(index: int, result: ShareFetchResult) -> PartitionData:
    leader_id, leader_epoch = result.leader
    assert result.records is None or isinstance(result.records, bytes)
    return PartitionData(
        partition_index=index,
        error_code=result.error_code,
        error_message=result.error_message,
        acknowledge_error_code=result.acknowledge_error_code,
        acknowledge_error_message=result.acknowledge_error_message,
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
        records=result.records or b"",
        acquired_records=tuple(result.acquired),  # type: ignore[arg-type]
    )
