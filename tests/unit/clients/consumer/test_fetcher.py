from __future__ import annotations

import pytest

from tests.support.transactions.accumulators import P0, P1, NoJitter, cluster
from tidelog.clients.config.client_config import ConsumerConfig
from tidelog.clients.consumer.consumer_types import FetchPosition
from tidelog.clients.consumer.fetcher import Fetcher
from tidelog.clients.consumer.partition_state import AssignedPartitions, FetchState
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tidelog.protocol.record import BatchBuilder


class Rig:
    """A fetcher that reads tides-0 and tides-1, led by brokers 1 and 2."""

    def __init__(self, **options: object) -> None:
        self.metadata: ClusterMetadata = cluster({P0: 1, P1: 2})
        self.assigned = AssignedPartitions()
        self.assigned.set([P0, P1])
        config = ConsumerConfig(**options)  # type: ignore[arg-type]
        self.fetcher = Fetcher(config, self.assigned, self.metadata, NoJitter())
        for state in self.assigned:
            state.seek(FetchPosition(0), 1)

    def state(self, partition: TopicPartition = P0):  # type: ignore[no-untyped-def]
        found = self.assigned.get(partition)
        assert found is not None
        return found

    def ask(self, now_ms: int = 0) -> list[int]:
        """Send what is planned; the brokers asked."""
        plan = self.fetcher.plan(now_ms)
        for node_id, states in plan.items():
            self.fetcher.request(node_id, states)
        return sorted(plan)

    def answer(self, node_id: int, data: PartitionData, now_ms: int = 0, **fields: object) -> bool:
        topic = FetchableTopicResponse(topic="tides", partitions=(data,))
        response = FetchResponse(session_id=7, responses=(topic,), **fields)  # type: ignore[arg-type]
        return self.fetcher.on_response(node_id, response, now_ms)

    def taken(self, at_most: int = 100) -> list[int]:
        return [record.offset for _, records in self.fetcher.take(at_most) for record in records]


def records(base_offset: int, count: int = 1) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=1)
    for number in range(count):
        builder.append(0, None, str(base_offset + number).encode(), ())
    return bytes(builder.build())


def data(partition: int = 0, content: bytes = b"", **fields: object) -> PartitionData:
    return PartitionData(partition_index=partition, records=content, high_watermark=50, **fields)  # type: ignore[arg-type]


def test_each_leader_is_asked_for_its_partitions_and_only_once_at_a_time() -> None:
    rig = Rig()
    assert rig.ask() == [1, 2]
    assert rig.ask() == []
    rig.answer(1, data())
    assert rig.ask() == [1]


def test_records_are_handed_out_and_the_position_moves() -> None:
    rig = Rig()
    rig.ask()
    assert not rig.answer(1, data(content=records(0, 3)))
    assert rig.taken(2) == [0, 1]
    assert rig.state().position == FetchPosition(2, 1, 1)
    assert rig.taken(2) == [2]
    assert rig.state().high_watermark == 50


def test_the_next_range_is_fetched_ahead_but_no_third_one() -> None:
    rig = Rig()
    for offset in (0, 3):
        rig.ask()
        rig.answer(1, data(content=records(offset, 3)))
    assert rig.ask() == []
    assert rig.taken(3) == [0, 1, 2]
    assert rig.ask() == [1]
    rig.answer(1, data(content=records(6)))
    assert rig.taken() == [3, 4, 5, 6]


def test_fetching_stops_while_enough_is_buffered() -> None:
    rig = Rig(fetch_max_bytes=100)
    rig.ask()
    rig.answer(1, data(content=records(0, 10)))
    assert rig.ask() == []
    rig.taken()
    assert rig.ask() == [1]


def test_paused_partitions_are_neither_fetched_nor_handed_out() -> None:
    rig = Rig()
    rig.ask()
    rig.answer(1, data(content=records(0)))
    rig.state().paused = True
    assert rig.taken() == []
    assert rig.ask() == []
    rig.state().paused = False
    assert rig.taken() == [0]


def test_an_answer_for_a_position_that_was_left_is_dropped() -> None:
    rig = Rig()
    rig.ask()
    rig.state().seek(FetchPosition(40), 1)
    rig.answer(1, data(content=records(0, 3)))
    assert rig.taken() == []
    rig.ask()
    rig.answer(1, data(content=records(40)))
    assert rig.taken() == [40]


def test_partitions_take_turns_when_records_are_few() -> None:
    rig = Rig()
    rig.ask()
    rig.answer(1, data(0, records(0, 4)))
    rig.answer(2, data(1, records(10, 4)))
    assert [rig.taken(2) for _ in range(4)] == [[0, 1], [10, 11], [2, 3], [12, 13]]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_stale_leader_asks_for_metadata_and_backs_off(code: ErrorCode) -> None:
    rig = Rig()
    rig.ask()
    assert rig.answer(1, data(error_code=code))
    assert rig.ask(50) == []
    assert rig.fetcher.next_retry_ms(50) == 50
    assert rig.ask(100) == [1]


def test_a_leader_hint_is_followed_at_once() -> None:
    rig = Rig()
    rig.ask()
    rig.answer(2, data(1))
    hint = LeaderIdAndEpoch(leader_id=9, leader_epoch=2)
    endpoint = NodeEndpoint(node_id=9, host="h", port=9)
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.answer(1, data(error_code=code, current_leader=hint), node_endpoints=(endpoint,))
    assert rig.ask() == [2, 9]


def test_an_offset_out_of_range_resets_by_policy() -> None:
    rig = Rig(auto_offset_reset="earliest")
    rig.ask()
    rig.answer(1, data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert rig.state().state is FetchState.AWAIT_RESET


def test_an_offset_out_of_range_without_policy_is_raised_with_the_offset() -> None:
    rig = Rig(auto_offset_reset="none")
    rig.state().seek(FetchPosition(123), 1)
    rig.ask()
    rig.answer(1, data(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(KafkaError, match="123") as caught:
        rig.taken()
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_that_lacks_the_offset_sends_us_back_to_the_leader() -> None:
    rig = Rig()
    rig.ask()
    rig.answer(1, data(preferred_read_replica=2))
    rig.answer(2, data(1))
    assert rig.ask() == [2]
    rig.answer(2, data(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    assert rig.state().state is FetchState.FETCHING
    assert 1 in rig.ask()


def test_a_preferred_replica_is_asked_until_its_time_has_expired() -> None:
    rig = Rig(metadata_max_age_ms=1_000)
    rig.ask()
    rig.answer(1, data(preferred_read_replica=2))
    assert rig.ask(999) == []  # broker 2 has a request on its way
    rig.answer(2, data(1), 999)
    assert rig.ask(1_000) == [1, 2]


def test_an_error_of_one_partition_is_raised_once_and_only_when_nothing_is_in_hand() -> None:
    rig = Rig()
    rig.ask()
    rig.answer(1, data(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    rig.answer(2, data(1, records(0)))
    assert rig.taken() == [0]
    with pytest.raises(KafkaError) as caught:
        rig.taken()
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert rig.taken() == []


def test_damage_is_raised_after_the_good_records_before_it_and_the_position_stays_in_front() -> None:
    damaged = bytearray(records(3))
    damaged[-2] ^= 1
    rig = Rig()
    rig.ask()
    rig.answer(1, data(content=records(0, 3) + bytes(damaged)))
    assert rig.taken() == [0, 1, 2]
    with pytest.raises(KafkaError) as caught:
        rig.taken()
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert rig.state().position.offset == 3


def test_a_lost_answer_backs_off_and_makes_the_session_full_again() -> None:
    rig = Rig()
    rig.ask()
    rig.answer(1, data())
    rig.ask()
    rig.fetcher.on_failure(1, 0)
    assert rig.ask(99) == []
    plan = rig.fetcher.plan(100)
    request, _ = rig.fetcher.request(1, plan[1])
    assert (request.session_id, request.session_epoch, len(request.topics)) == (7, 0, 1)


def test_names_are_used_up_to_version_12_when_a_topic_id_is_missing() -> None:
    rig = Rig()
    request, highest = rig.fetcher.request(1, [rig.state()])
    assert highest == 12
    assert request.topics[0].topic == "tides"


def test_open_sessions_are_ended_on_request() -> None:
    rig = Rig()
    rig.ask()
    rig.answer(1, data())
    closing = rig.fetcher.closing_requests()
    assert list(closing) == [1]
    assert (closing[1].session_id, closing[1].session_epoch) == (7, -1)
