"""The requests of a follower to its leader, and the actions after each response."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.sim.replication.safeguards import Safeguard, ablate
from tests.support.replicas.followed_logs import FollowedLog, perform
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.cluster.replication.follower_state import (
    Append,
    PartitionDelayed,
    PartitionFailed,
    ReplicaState,
    RestartAt,
    Truncate,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset as EpochEndQuery,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tidelog.storage.disk.errors import StorageFailure

SETTINGS = FollowerSettings(
    replica_id=2, partition_max_bytes=1_000, max_bytes=10_000, min_bytes=1, max_wait_ms=500, backoff_ms=1_000
)
TOPIC, ID = "events", UUID(int=7)
P0, P1, P2 = (TopicPartition(TOPIC, index) for index in range(3))


def fetcher_of(*logs: FollowedLog, **arguments: object) -> FollowerFetcher:
    fetcher = FollowerFetcher(SETTINGS, **arguments)  # type: ignore[arg-type]
    for index, log in enumerate(logs):
        perform(fetcher, fetcher.add(TopicPartition(TOPIC, index), ID, 5, log))
    return fetcher


def requested_partitions(request: FetchRequest | None) -> dict[int, FetchPartition]:
    assert request is not None
    return {p.partition: p for topic in request.topics for p in topic.partitions}


def fetch_response(*partitions: PartitionData, session_id: int = 9, error: int = 0) -> FetchResponse:
    topics = (FetchableTopicResponse(topic_id=ID, partitions=partitions),) if partitions else ()
    return FetchResponse(error_code=error, session_id=session_id, responses=topics)


def data(index: int = 0, records: bytes = b"", high_watermark: int = 0, error: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=index,
        records=records,
        high_watermark=high_watermark,
        log_start_offset=0,
        error_code=error,
    )


def diverging_partition(epoch: int, end_offset: int, index: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=index, diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset)
    )


def bound(offset: int, error: int = 0) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, offset=offset, error_code=error)
    return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name=TOPIC, partitions=(partition,)),))


def end_of_epoch(epoch: int, end_offset: int, error: int = 0) -> OffsetForLeaderEpochResponse:
    partition = EpochEndQuery(partition=0, leader_epoch=epoch, end_offset=end_offset, error_code=error)
    return OffsetForLeaderEpochResponse(
        topics=(OffsetForLeaderTopicResult(topic=TOPIC, partitions=(partition,)),)
    )


def test_a_fetch_has_replica_offsets_and_epochs() -> None:
    fetcher = fetcher_of(FollowedLog.of((3, 0), (4, 6), end=10))
    request = fetcher.build_fetch(0, broker_epoch=77)
    assert request is not None
    assert (request.replica_id, request.replica_state.replica_id, request.replica_state.replica_epoch) == (
        -1,
        2,
        77,
    )
    requested = requested_partitions(request)[0]
    assert (requested.fetch_offset, requested.last_fetched_epoch, requested.current_leader_epoch) == (
        10,
        4,
        5,
    )


def test_records_are_appended_and_the_next_fetch_starts_after_them() -> None:
    log = FollowedLog.of((4, 0), end=10)
    fetcher = fetcher_of(log)
    fetcher.build_fetch(0)
    actions = fetcher.on_fetch(fetch_response(data(records=b"abc", high_watermark=12)), 0)
    assert [(type(each), each.offset) for each in actions if isinstance(each, Append)] == [(Append, 10)]
    perform(fetcher, actions, epoch=5)
    requested = requested_partitions(fetcher.build_fetch(0))[0]
    assert (requested.fetch_offset, requested.last_fetched_epoch, log.high_watermark) == (13, 5, 12)
    assert fetcher.partitions[P0].is_in_sync


def test_an_incremental_fetch_has_only_changed_partitions() -> None:
    fetcher = fetcher_of(FollowedLog(), FollowedLog(), FollowedLog())
    first = fetcher.build_fetch(0)
    assert first is not None and (first.session_epoch, len(requested_partitions(first))) == (0, 3)
    perform(fetcher, fetcher.on_fetch(fetch_response(data(1, b"x", 1)), 0))
    second = fetcher.build_fetch(0)
    assert second is not None and (second.session_id, second.session_epoch) == (9, 1)
    assert list(requested_partitions(second)) == [1]
    fetcher.on_fetch(fetch_response(), 0)
    fetcher.remove(P2)
    third = fetcher.build_fetch(0)
    assert third is not None and third.session_epoch == 2 and requested_partitions(third) == {}
    assert [t.partitions for t in third.forgotten_topics_data] == [(2,)]


def test_a_recreated_topic_replaces_the_deleted_one_in_the_session() -> None:
    fetcher = fetcher_of(FollowedLog())
    fetcher.build_fetch(0)
    fetcher.on_fetch(fetch_response(), 0)
    fetcher.add(P0, UUID(int=8), 5, FollowedLog())
    request = fetcher.build_fetch(0)
    assert request is not None
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [ID]
    assert [topic.topic_id for topic in request.topics] == [UUID(int=8)]


@pytest.mark.parametrize(
    "code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH]
)
def test_an_unknown_session_is_restarted_with_a_full_fetch(code: ErrorCode) -> None:
    fetcher = fetcher_of(FollowedLog(), FollowedLog())
    fetcher.build_fetch(0)
    fetcher.on_fetch(fetch_response(), 0)
    fetcher.build_fetch(0)
    assert fetcher.on_fetch(fetch_response(error=code), 0) == []
    request = fetcher.build_fetch(0)
    assert request is not None and request.session_epoch == 0 and len(requested_partitions(request)) == 2


def test_partitions_that_returned_data_move_to_the_end_of_the_request() -> None:
    fetcher = fetcher_of(FollowedLog(), FollowedLog(), FollowedLog())
    fetcher.build_fetch(0)
    perform(fetcher, fetcher.on_fetch(fetch_response(data(0, b"x"), session_id=0), 0))
    assert list(requested_partitions(fetcher.build_fetch(0))) == [1, 2, 0]


def test_a_diverging_epoch_truncates_the_log_to_the_end_of_the_common_epoch() -> None:
    log = FollowedLog.of((3, 0), (4, 6), end=10, high_watermark=5)
    fetcher = fetcher_of(log)
    fetcher.build_fetch(0)
    (action,) = fetcher.on_fetch(fetch_response(diverging_partition(4, 8)), 0)
    assert isinstance(action, Truncate) and action.offset == 8 and action.is_complete
    perform(fetcher, [action])
    requested = requested_partitions(fetcher.build_fetch(0))[0]
    assert (requested.fetch_offset, requested.last_fetched_epoch) == (8, 4)


def test_an_epoch_unknown_to_the_follower_is_queried_again_at_the_epoch_below() -> None:
    fetcher = fetcher_of(FollowedLog.of((1, 0), (4, 6), end=10))
    fetcher.build_fetch(0)
    (action,) = fetcher.on_fetch(fetch_response(diverging_partition(3, 9)), 0)
    assert isinstance(action, Truncate) and action.offset == 6 and not action.is_complete
    perform(fetcher, [action])
    requested = requested_partitions(fetcher.build_fetch(0))[0]
    assert (requested.fetch_offset, requested.last_fetched_epoch) == (6, 1)


def test_an_older_leader_is_queried_for_the_end_of_the_last_epoch_before_fetching() -> None:
    log = FollowedLog.of((1, 0), (4, 6), end=10, high_watermark=2)
    fetcher = fetcher_of(log, fetch_version=11)
    assert fetcher.build_fetch(0) is None
    request = fetcher.build_epoch_request(0)
    assert request is not None and request.topics[0].partitions[0].leader_epoch == 4
    perform(fetcher, fetcher.on_epochs(end_of_epoch(3, 9), 0))
    assert (log.log_end_offset, fetcher.partitions[P0].state) == (6, ReplicaState.TRUNCATING)
    request = fetcher.build_epoch_request(0)
    assert request is not None and request.topics[0].partitions[0].leader_epoch == 1
    perform(fetcher, fetcher.on_epochs(end_of_epoch(1, 5), 0))
    assert (log.log_end_offset, fetcher.partitions[P0].state) == (5, ReplicaState.FETCHING)
    requested = requested_partitions(fetcher.build_fetch(0))[0]
    assert (requested.fetch_offset, requested.last_fetched_epoch) == (5, -1)


def test_records_without_epochs_are_truncated_to_the_high_watermark() -> None:
    log = FollowedLog(log_end_offset=10, high_watermark=4)
    fetcher = fetcher_of(log)
    assert log.log_end_offset == 4
    assert requested_partitions(fetcher.build_fetch(0))[0].fetch_offset == 4


def test_an_offset_below_the_leaders_log_start_restarts_the_log_there() -> None:
    log = FollowedLog.of((1, 0), end=10)
    fetcher = fetcher_of(log)
    fetcher.build_fetch(0)
    assert fetcher.on_fetch(fetch_response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)), 0) == []
    requested = fetcher.build_offsets_request(0)
    assert requested is not None and requested.topics[0].partitions[0].timestamp == -1
    assert fetcher.on_offsets(bound(90), 0) == []
    requested = fetcher.build_offsets_request(0)
    assert requested is not None and requested.topics[0].partitions[0].timestamp == -2
    (action,) = fetcher.on_offsets(bound(50), 0)
    assert isinstance(action, RestartAt) and action.offset == 50
    perform(fetcher, [action])
    asked_next = requested_partitions(fetcher.build_fetch(0))[0]
    assert (asked_next.fetch_offset, asked_next.last_fetched_epoch) == (50, -1)


def test_an_offset_above_the_leaders_log_end_truncates_the_log_there() -> None:
    log = FollowedLog.of((1, 0), end=10)
    fetcher = fetcher_of(log)
    fetcher.build_fetch(0)
    fetcher.on_fetch(fetch_response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)), 0)
    fetcher.build_offsets_request(0)
    perform(fetcher, fetcher.on_offsets(bound(7), 0))
    assert log.log_end_offset == 7
    assert requested_partitions(fetcher.build_fetch(0))[0].fetch_offset == 7


def test_an_offset_out_of_range_within_the_leaders_log_is_fetched_again() -> None:
    log = FollowedLog.of((1, 0), end=10)
    fetcher = fetcher_of(log)
    fetcher.build_fetch(0)
    fetcher.on_fetch(fetch_response(data(error=ErrorCode.OFFSET_OUT_OF_RANGE)), 0)
    fetcher.build_offsets_request(0)
    assert fetcher.on_offsets(bound(20), 0) == []
    fetcher.build_offsets_request(0)
    (action,) = fetcher.on_offsets(bound(3), 0)
    assert isinstance(action, PartitionDelayed) and log.log_end_offset == 10
    assert fetcher.build_fetch(0) is None
    assert requested_partitions(fetcher.build_fetch(20))[0].fetch_offset == 10


def test_a_fenced_epoch_stops_a_partition_until_its_metadata_changes() -> None:
    log = FollowedLog()
    fetcher = fetcher_of(log)
    fetcher.build_fetch(0)
    (action,) = fetcher.on_fetch(fetch_response(data(error=ErrorCode.FENCED_LEADER_EPOCH)), 0)
    assert isinstance(action, PartitionFailed) and list(fetcher.failed) == [P0]
    assert fetcher.build_fetch(10_000) is None
    fetcher.add(P0, ID, 6, log)
    assert (
        requested_partitions(fetcher.build_fetch(10_000))[0].current_leader_epoch == 6 and not fetcher.failed
    )


@pytest.mark.parametrize(
    ("code", "delay_ms"),
    [
        (ErrorCode.UNKNOWN_LEADER_EPOCH, 20),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 20),
        (ErrorCode.UNKNOWN_TOPIC_ID, 20),
        (ErrorCode.KAFKA_STORAGE_ERROR, 1_000),
        (ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE, 1_000),
        (9_999, 1_000),
    ],
)
def test_another_error_is_retried_after_a_backoff_without_delaying_others(code: int, delay_ms: int) -> None:
    fetcher = fetcher_of(FollowedLog(), FollowedLog())
    fetcher.build_fetch(0)
    (action,) = fetcher.on_fetch(fetch_response(data(0, error=code)), 0)
    assert isinstance(action, PartitionDelayed) and fetcher.next_ready_ms(0) == delay_ms
    request = fetcher.build_fetch(delay_ms - 1)
    assert request is not None and [t.partitions for t in request.forgotten_topics_data] == [(0,)]
    fetcher.on_fetch(fetch_response(), delay_ms)
    assert list(requested_partitions(fetcher.build_fetch(delay_ms))) == [0]


def test_repeated_errors_increase_the_backoff() -> None:
    fetcher = fetcher_of(FollowedLog())
    now_ms, delays = 0, []
    for _ in range(8):
        fetcher.build_fetch(now_ms)
        fetcher.on_fetch(fetch_response(data(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)), now_ms)
        due = fetcher.next_ready_ms(now_ms)
        assert due is not None
        delays.append(due - now_ms)
        now_ms = due
    assert delays == [20, 40, 80, 160, 320, 640, 1_000, 1_000]


def test_corrupt_records_and_a_full_disk_are_retried_and_a_failed_disk_ends_the_fetch() -> None:
    fetcher = fetcher_of(FollowedLog(), FollowedLog())
    fetcher.build_fetch(0)
    damaged, failed = fetcher.on_fetch(fetch_response(data(0, b"x"), data(1, b"y")), 0)
    assert isinstance(damaged, Append) and isinstance(failed, Append)
    outcome = fetcher.on_action_failed(damaged, KafkaError(ErrorCode.CORRUPT_MESSAGE, "checksum"), 0)
    assert isinstance(outcome, PartitionDelayed)
    outcome = fetcher.on_action_failed(failed, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left"), 0)
    assert isinstance(outcome, PartitionDelayed)
    outcome = fetcher.on_action_failed(failed, StorageFailure("/data/t-1", "append", "input/output error"), 0)
    assert isinstance(outcome, PartitionFailed) and list(fetcher.partitions) == [P0]


def test_a_response_from_before_a_leader_change_is_discarded() -> None:
    log = FollowedLog()
    fetcher = fetcher_of(log)
    fetcher.build_fetch(0)
    fetcher.remove(P0)
    fetcher.add(P0, ID, 7, log)
    assert fetcher.on_fetch(fetch_response(data(records=b"of the old leader")), 0) == []
    assert requested_partitions(fetcher.build_fetch(0))[0].current_leader_epoch == 7


def test_the_same_leader_epoch_changes_nothing() -> None:
    fetcher = fetcher_of(FollowedLog())
    before = fetcher.partitions[P0]
    assert fetcher.add(P0, ID, 5, FollowedLog()) == []
    assert fetcher.partitions[P0] is before


def test_a_lost_connection_delays_all_partitions_and_restarts_the_session() -> None:
    fetcher = fetcher_of(FollowedLog(), FollowedLog())
    fetcher.build_fetch(0)
    fetcher.on_fetch(fetch_response(), 0)
    fetcher.build_fetch(0)
    fetcher.on_fetch_failed(0)
    assert fetcher.build_fetch(19) is None
    request = fetcher.build_fetch(20)
    assert request is not None and request.session_epoch == 0 and len(requested_partitions(request)) == 2


def test_a_lost_epoch_request_is_sent_again() -> None:
    fetcher = fetcher_of(FollowedLog.of((1, 0), end=3), fetch_version=11)
    assert fetcher.build_epoch_request(0) is not None
    fetcher.on_query_failed(0)
    assert fetcher.build_epoch_request(19) is None
    assert fetcher.build_epoch_request(20) is not None


class ExceededThrottle:
    """A throttle that is exceeded for partition 0."""

    def is_exceeded(self, now_ms: int) -> bool:
        return now_ms < 5_000

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        return topic_partition == P0


def test_throttled_partitions_outside_the_isr_are_not_fetched() -> None:
    fetcher = fetcher_of(FollowedLog(), FollowedLog(), throttle=ExceededThrottle())
    assert list(requested_partitions(fetcher.build_fetch(0))) == [1]
    assert fetcher.next_ready_ms(0) == 1_000
    perform(fetcher, fetcher.on_fetch(fetch_response(data(1)), 0))
    assert list(requested_partitions(fetcher.build_fetch(5_000))) == [0]
    perform(fetcher, fetcher.on_fetch(fetch_response(data(0)), 0))
    request = fetcher.build_fetch(0)
    assert request is not None and request.forgotten_topics_data == (), "in sync it is not held back"


def test_without_the_safeguard_a_follower_truncates_to_its_high_watermark() -> None:
    log = FollowedLog.of((1, 0), end=10, high_watermark=4)
    with ablate({Safeguard.TRUNCATION_BY_EPOCH}):
        fetcher = fetcher_of(log)
        assert log.log_end_offset == 4
        assert requested_partitions(fetcher.build_fetch(0))[0].last_fetched_epoch == -1


def test_deleted_topics_are_removed_from_the_session() -> None:
    fetcher = FollowerFetcher(SETTINGS)
    for number in range(1_000):
        topic = TopicPartition(f"topic {number}", 0)
        fetcher.add(topic, UUID(int=number + 1), 0, FollowedLog())
        fetcher.remove(topic)
    assert len(fetcher._fetches._topic_names) < 200
