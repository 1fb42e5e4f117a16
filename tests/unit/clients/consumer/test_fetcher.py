from __future__ import annotations

import pytest

from tests.support.transactions.accumulators import P0, P1, NoJitter, cluster
from tidelog.base.backoff import ExponentialBackoff
from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.consumer.consumer_types import FetchPosition
from tidelog.clients.consumer.fetcher import Fetcher
from tidelog.clients.consumer.partition_state import AssignedPartitions, FetchState, PartitionState
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)


class FetcherFixture:
    """A fetcher that reads tides-0 and tides-1, led by brokers 1 and 2."""

    def __init__(self, **options: object) -> None:
        self.metadata: ClusterMetadata = cluster({P0: 1, P1: 2})
        self.assigned = AssignedPartitions()
        self.assigned.set([P0, P1])
        config = ConsumerConfig(**options)  # type: ignore[arg-type]
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.fetcher = Fetcher(config, self.assigned, self.metadata, retry_backoff=backoff, rng=NoJitter())
        for state in self.assigned:
            state.seek(FetchPosition(0), 1)

    def state(self, partition: TopicPartition = P0) -> PartitionState:
        state = self.assigned.get(partition)
        assert state is not None
        return state

    def send_requests(self, now_ms: int = 0) -> list[int]:
        """Send the planned requests and return the ids of their brokers."""
        plan = self.fetcher.plan(now_ms)
        for node_id, states in plan.items():
            self.fetcher.request(node_id, states)
        return sorted(plan)

    def respond(self, node_id: int, data: PartitionData, now_ms: int = 0, **fields: object) -> bool:
        topic = FetchableTopicResponse(topic="tides", partitions=(data,))
        response = FetchResponse(session_id=7, responses=(topic,), **fields)  # type: ignore[arg-type]
        return self.fetcher.on_response(node_id, response, now_ms)

    def poll(self, at_most: int = 100) -> list[int]:
        return [record.offset for _, records in self.fetcher.take(at_most) for record in records]


def records(base_offset: int, count: int = 1) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=1)
    for number in range(count):
        builder.append(0, None, str(base_offset + number).encode(), ())
    return bytes(builder.build())


def data(partition: int = 0, content: bytes = b"", **fields: object) -> PartitionData:
    return PartitionData(partition_index=partition, records=content, high_watermark=50, **fields)  # type: ignore[arg-type]


def test_each_leader_gets_one_request_at_a_time_for_its_partitions() -> None:
    fixture = FetcherFixture()
    assert fixture.send_requests() == [1, 2]
    assert fixture.send_requests() == []
    fixture.respond(1, data())
    assert fixture.send_requests() == [1]


def test_returned_records_advance_the_position() -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    assert not fixture.respond(1, data(content=records(0, 3)))
    assert fixture.poll(2) == [0, 1]
    assert fixture.state().position == FetchPosition(2, 1, 1)
    assert fixture.poll(2) == [2]
    assert fixture.state().high_watermark == 50


def test_one_response_is_prefetched() -> None:
    fixture = FetcherFixture()
    for offset in (0, 3):
        fixture.send_requests()
        fixture.respond(1, data(content=records(offset, 3)))
    assert fixture.send_requests() == []
    assert fixture.poll(3) == [0, 1, 2]
    assert fixture.send_requests() == [1]
    fixture.respond(1, data(content=records(6)))
    assert fixture.poll() == [3, 4, 5, 6]


def test_fetching_pauses_while_the_buffer_is_full() -> None:
    fixture = FetcherFixture(fetch_max_bytes=100)
    fixture.send_requests()
    fixture.respond(1, data(content=records(0, 10)))
    assert fixture.send_requests() == []
    fixture.poll()
    assert fixture.send_requests() == [1]


def test_paused_partitions_are_neither_fetched_nor_returned() -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    fixture.respond(1, data(content=records(0)))
    fixture.state().paused = True
    assert fixture.poll() == []
    assert fixture.send_requests() == []
    fixture.state().paused = False
    assert fixture.poll() == [0]


def test_a_response_for_an_abandoned_position_is_discarded() -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    fixture.state().seek(FetchPosition(40), 1)
    fixture.respond(1, data(content=records(0, 3)))
    assert fixture.poll() == []
    fixture.send_requests()
    fixture.respond(1, data(content=records(40)))
    assert fixture.poll() == [40]


def test_partitions_are_fetched_in_rotation_when_max_records_is_small() -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    fixture.respond(1, data(0, records(0, 4)))
    fixture.respond(2, data(1, records(10, 4)))
    assert [fixture.poll(2) for _ in range(4)] == [[0, 1], [10, 11], [2, 3], [12, 13]]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_stale_leader_causes_a_metadata_update_and_a_backoff(code: ErrorCode) -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    assert fixture.respond(1, data(error_code=code))
    assert fixture.send_requests(50) == []
    assert fixture.fetcher.next_retry_ms(50) == 50
    assert fixture.send_requests(100) == [1]


def test_current_leader_in_a_response_is_used_at_once() -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    fixture.respond(2, data(1))
    hint = LeaderIdAndEpoch(leader_id=9, leader_epoch=2)
    endpoint = NodeEndpoint(node_id=9, host="h", port=9)
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fixture.respond(1, data(error_code=code, current_leader=hint), node_endpoints=(endpoint,))
    assert fixture.send_requests() == [2, 9]


def test_an_offset_out_of_range_is_reset_by_policy() -> None:
    fixture = FetcherFixture(auto_offset_reset="earliest")
    fixture.send_requests()
    fixture.respond(1, data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert fixture.state().state is FetchState.AWAIT_RESET


def test_an_offset_out_of_range_without_policy_is_raised_with_the_offset() -> None:
    fixture = FetcherFixture(auto_offset_reset="none")
    fixture.state().seek(FetchPosition(123), 1)
    fixture.send_requests()
    fixture.respond(1, data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(KafkaError, match="123") as caught:
        fixture.poll()
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_without_the_offset_redirects_to_the_leader() -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    fixture.respond(1, data(preferred_read_replica=2))
    fixture.respond(2, data(1))
    assert fixture.send_requests() == [2]
    fixture.respond(2, data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert fixture.state().state is FetchState.FETCHING
    assert 1 in fixture.send_requests()


def test_a_preferred_replica_is_used_until_it_expires() -> None:
    fixture = FetcherFixture(metadata_max_age_ms=1_000)
    fixture.send_requests()
    fixture.respond(1, data(preferred_read_replica=2))
    assert fixture.send_requests(999) == []  # broker 2 has a request in flight
    fixture.respond(2, data(1), 999)
    assert fixture.send_requests(1_000) == [1, 2]


def test_an_error_of_a_partition_is_raised_once_when_no_records_are_buffered() -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    fixture.respond(1, data(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    fixture.respond(2, data(1, records(0)))
    assert fixture.poll() == [0]
    with pytest.raises(KafkaError) as caught:
        fixture.poll()
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert fixture.poll() == []


def test_corruption_is_raised_after_the_valid_records_before_it() -> None:
    damaged = bytearray(records(3))
    damaged[-2] ^= 1
    fixture = FetcherFixture()
    fixture.send_requests()
    fixture.respond(1, data(content=records(0, 3) + bytes(damaged)))
    assert fixture.poll() == [0, 1, 2]
    with pytest.raises(KafkaError) as caught:
        fixture.poll()
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert fixture.state().position.offset == 3


def test_a_lost_response_causes_a_backoff_and_a_full_request() -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    fixture.respond(1, data())
    fixture.send_requests()
    fixture.fetcher.on_failure(1, 0)
    assert fixture.send_requests(99) == []
    plan = fixture.fetcher.plan(100)
    request, _ = fixture.fetcher.request(1, plan[1])
    assert (request.session_id, request.session_epoch, len(request.topics)) == (7, 0, 1)


def test_names_are_sent_up_to_version_12_without_a_topic_id() -> None:
    fixture = FetcherFixture()
    request, highest = fixture.fetcher.request(1, [fixture.state()])
    assert highest == 12
    assert request.topics[0].topic == "tides"


def test_open_sessions_are_closed_on_request() -> None:
    fixture = FetcherFixture()
    fixture.send_requests()
    fixture.respond(1, data())
    closing = fixture.fetcher.closing_requests()
    assert list(closing) == [1]
    assert (closing[1].session_id, closing[1].session_epoch) == (7, -1)
