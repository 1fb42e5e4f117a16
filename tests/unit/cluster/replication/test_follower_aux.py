"""A follower below the leader's local log start restores the remote log state (KIP-405)."""

from __future__ import annotations

import pytest

from tests.sim.replication.safeguards import Safeguard, ablate
from tests.support.replicas.followed_logs import perform
from tests.support.replicas.tiered_follower import (
    EPOCH,
    ID,
    P0,
    P1,
    Follower,
    Segment,
    Tier,
    producer,
    tiered_log,
)
from tests.support.states import state_of
from tidelog.cluster.replication.follower_state import (
    Append,
    FetchAuxiliary,
    PartitionDelayed,
    PartitionFailed,
    ReplicaState,
    RestartAt,
    RestartFromRemote,
    Truncate,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tidelog.storage.producers.producer_snapshot import decode_snapshot, encode_snapshot


def test_a_follower_restores_remote_log_state_and_fetches_from_the_leaders_local_log_start() -> None:
    tier = Tier(Segment(0, 2, ((0, 0),)), Segment(3, 5, ((1, 3), (2, 5))))
    follower = Follower(tiered_log(), tier)
    assert follower.on_refused() == []
    assert state_of(follower) is ReplicaState.BUILDING_REMOTE_LOG_AUX
    assert follower.fetcher.build_fetch(0) is None, "it does not fetch meanwhile"
    assert follower.offset(-2, 0) == []
    assert follower.offset(-4, 6, epoch=2) == []
    (action,) = follower.epoch_end(1, 1, 5)
    assert tier.lookups == [(2, 5)]
    snapshot = encode_snapshot([producer(77, 4)])
    restart = follower.auxiliary(action, (0, 0), (1, 3), (2, 5), producers=snapshot)
    assert isinstance(restart, RestartFromRemote)
    assert (restart.log_start_offset, restart.offset) == (0, 6)
    assert restart.leader_epochs == ((0, 0), (1, 3), (2, 5)) and restart.producer_snapshot == snapshot
    perform(follower.fetcher, [restart])
    assert state_of(follower) is ReplicaState.FETCHING
    assert (follower.next_fetch().fetch_offset, follower.next_fetch().last_fetched_epoch) == (6, 2)


def test_the_previous_epoch_is_requested_when_the_local_log_starts_with_an_epoch() -> None:
    tier = Tier(Segment(0, 2, ((0, 0),)))
    follower = Follower(tiered_log(), tier)
    follower.on_refused()
    follower.offset(-2, 0)
    follower.offset(-4, 3, epoch=3)
    (action,) = follower.epoch_end(2, 0, 3)  # epochs 1 and 2 had no records
    assert tier.lookups == [(0, 2)]
    restart = follower.auxiliary(action, (0, 0))
    assert isinstance(restart, RestartFromRemote)
    assert restart.leader_epochs == ((0, 0), (3, 3)), (
        "the next records have the epoch of the leader's response"
    )


def test_epochs_below_the_leaders_log_start_are_not_restored() -> None:
    follower = Follower(tiered_log(), Tier(Segment(3, 5, ((1, 3), (2, 5)))))
    follower.on_refused()
    follower.offset(-2, 4)
    follower.offset(-4, 6, epoch=2)
    (action,) = follower.epoch_end(1, 1, 5)
    restart = follower.auxiliary(action, (0, 0), (1, 3), (2, 5))
    assert isinstance(restart, RestartFromRemote)
    assert (restart.log_start_offset, restart.leader_epochs) == (4, ((1, 4), (2, 5)))


def test_the_old_log_is_kept_until_the_remote_log_state_is_complete() -> None:
    """Kafka truncates the log first; if remote storage then fails, it has no epochs left."""
    log = tiered_log(4, (0, 0), (1, 3))
    follower = Follower(log, Tier(Segment(0, 8, ((0, 0), (1, 3)))))
    follower.on_refused()
    follower.offset(-2, 0)
    follower.offset(-4, 9, epoch=1)
    (action,) = follower.epoch_end(0, 0, 3)
    assert isinstance(action, FetchAuxiliary)
    failed = follower.fetcher.on_auxiliary_failed(action, "503", 0)
    assert isinstance(failed, PartitionDelayed) and failed.reason == "503"
    assert (log.log_end_offset, log.leader_epochs.entries) == (4, [(0, 0), (1, 3)])


def test_missing_remote_metadata_is_awaited_and_the_leader_queried_again() -> None:
    tier = Tier()
    follower = Follower(tiered_log(), tier)
    follower.on_refused()
    waits = []
    for _ in range(8):
        follower.offset(-2, 0)
        follower.offset(-4, 3, epoch=0)
        (delayed,) = follower.epoch_end(0, 0, 9)
        assert isinstance(delayed, PartitionDelayed) and "offset 2 of epoch 0" in delayed.reason
        assert follower.fetcher.build_offsets_request(follower.now_ms) is None, "not at once"
        due_ms = follower.fetcher.next_ready_ms(follower.now_ms)
        assert due_ms is not None
        waits.append(due_ms - follower.now_ms)
        follower.now_ms = due_ms
    assert waits == [20, 40, 80, 160, 320, 640, 1_000, 1_000]
    tier.segments.append(Segment(0, 5, ((0, 0),)))
    follower.offset(-2, 0)
    follower.offset(-4, 6, epoch=0)  # The leader has deleted more local segments in the meantime.
    (action,) = follower.epoch_end(0, 0, 9)
    assert tier.lookups[-1] == (0, 5) and isinstance(action, FetchAuxiliary)


def test_a_wait_that_ends_between_two_requests_of_a_round_continues() -> None:
    """Otherwise a fetcher without other partitions would sleep until the metadata changes."""
    follower = Follower(tiered_log(), Tier(Segment(0, 2, ((0, 0),))))
    follower.on_refused()
    follower.offset(-2, -1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert follower.fetcher.next_ready_ms(0) == 20
    assert follower.fetcher.build_offsets_request(19) is None
    assert follower.fetcher.build_fetch(20) is None
    assert follower.fetcher.next_ready_ms(20) == 20
    follower.now_ms = 21
    follower.offset(-2, 0)
    follower.offset(-4, 3, epoch=0)
    follower.epoch_end(0, 0, 9)
    assert follower.fetcher.build_fetch(21) is None
    assert follower.fetcher.next_ready_ms(21) is None, "it waits for remote storage, not for a time"


def test_kafka_16105_a_partition_that_waits_for_remote_metadata_does_not_delay_others() -> None:
    follower = Follower(tiered_log(), Tier(Segment(0, 2, ((0, 0),))))
    other = tiered_log()
    follower.fetcher.add(P1, ID, EPOCH, other)
    follower.on_refused()
    follower.offset(-2, 0)
    follower.offset(-4, 3, epoch=0)
    (action,) = follower.epoch_end(0, 0, 9)
    assert isinstance(action, FetchAuxiliary)
    for _ in range(3):
        request = follower.fetcher.build_fetch(0)
        assert request is not None
        data = PartitionData(partition_index=1, records=b"abc", high_watermark=99)
        topics = (FetchableTopicResponse(topic_id=ID, partitions=(data,)),)
        actions = follower.fetcher.on_fetch(FetchResponse(session_id=9, responses=topics), 0)
        perform(follower.fetcher, actions, epoch=5)
    assert other.log_end_offset == 9
    # A lost connection to the leader does not cancel requests to remote storage.
    follower.fetcher.build_fetch(0)
    follower.fetcher.on_fetch_failed(0)
    assert isinstance(follower.auxiliary(action, (0, 0)), RestartFromRemote)


def test_a_new_leader_epoch_discards_restored_remote_log_state() -> None:
    follower = Follower(tiered_log(), Tier(Segment(0, 2, ((0, 0),))))
    follower.on_refused()
    follower.offset(-2, 0)
    follower.offset(-4, 3, epoch=0)
    (action,) = follower.epoch_end(0, 0, 9)
    follower.fetcher.add(P0, ID, EPOCH + 1, follower.log)
    assert follower.auxiliary(action, (0, 0)) is None
    assert isinstance(action, FetchAuxiliary)
    assert follower.fetcher.on_auxiliary_failed(action, "gone", 0) is None
    assert follower.state is ReplicaState.FETCHING


@pytest.mark.parametrize("question", ["log start", "local start", "epoch"])
def test_a_leader_with_another_epoch_ends_the_attempt(question: str) -> None:
    follower = Follower(tiered_log(), Tier(Segment(0, 2, ((0, 0),))))
    follower.on_refused()
    fenced = ErrorCode.FENCED_LEADER_EPOCH
    if question == "log start":
        (action,) = follower.offset(-2, -1, error=fenced)
    else:
        follower.offset(-2, 0)
        if question == "local start":
            (action,) = follower.offset(-4, -1, error=fenced)
        else:
            follower.offset(-4, 3, epoch=1)
            (action,) = follower.epoch_end(0, -1, -1, error=fenced)
    assert isinstance(action, PartitionFailed) and P0 in follower.fetcher.failed


def test_an_error_restarts_the_attempt() -> None:
    follower = Follower(tiered_log(), Tier(Segment(0, 2, ((0, 0),))))
    follower.on_refused()
    follower.offset(-2, 0)
    (action,) = follower.offset(-4, -1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert isinstance(action, PartitionDelayed)
    follower.now_ms = 1_000
    follower.offset(-2, 1)
    follower.offset(-4, 3, epoch=0)
    follower.fetcher.build_epoch_request(follower.now_ms)
    follower.fetcher.on_query_failed(follower.now_ms)
    follower.now_ms = 3_000
    assert follower.offset(-2, 1) == []


def test_a_fully_local_log_is_fetched_from_its_start() -> None:
    follower = Follower(tiered_log(4, (0, 0)), Tier())
    follower.on_refused()
    follower.offset(-2, 9)
    (action,) = follower.offset(-4, 9, epoch=1)
    assert isinstance(action, RestartAt) and action.offset == 9
    perform(follower.fetcher, [action])
    assert (follower.state, follower.next_fetch().fetch_offset) == (ReplicaState.FETCHING, 9)


@pytest.mark.parametrize("is_tiered", [True, False])
def test_a_follower_without_remote_storage_waits(is_tiered: bool) -> None:
    log = tiered_log()
    log.remote_log_enabled = is_tiered
    follower = Follower(log, None if is_tiered else Tier())
    (action,) = follower.on_refused()
    assert isinstance(action, PartitionDelayed) and action.code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    assert follower.state is ReplicaState.FETCHING and follower.fetcher.next_ready_ms(0) == 1_000


# -- segments that extend beyond the leader's local log start


def test_a_follower_starts_after_a_segment_of_the_leaders_lineage() -> None:
    """The producer state is that at the segment's end. Another replica copied it with other boundaries."""
    follower = Follower(tiered_log(), Tier(Segment(0, 7, ((0, 0), (1, 3)))))
    follower.on_refused()
    follower.offset(-2, 0)
    follower.offset(-4, 5, epoch=1)
    assert follower.epoch_end(0, 0, 3) == []
    (action,) = follower.epoch_end(1, 1, 20)
    restart = follower.auxiliary(action, (0, 0), (1, 3))
    assert isinstance(restart, RestartFromRemote)
    assert (restart.offset, restart.leader_epochs) == (8, ((0, 0), (1, 3)))


def test_a_segment_of_another_lineage_counts_only_up_to_the_divergence() -> None:
    """An unclean election: epoch 1 wrote 3..5 and copied 0..5, the leader has epoch 2 from offset 3."""
    follower = Follower(tiered_log(), Tier(Segment(0, 5, ((0, 0), (1, 3)))))
    follower.on_refused()
    follower.offset(-2, 0)
    follower.offset(-4, 3, epoch=2)
    assert follower.epoch_end(1, 0, 3) == []
    (action,) = follower.epoch_end(1, 0, 3)
    snapshot = encode_snapshot([producer(77, 2), producer(78, 4)])
    restart = follower.auxiliary(action, (0, 0), (1, 3), producers=snapshot)
    assert isinstance(restart, RestartFromRemote)
    assert (restart.offset, restart.leader_epochs) == (3, ((0, 0), (2, 3)))
    assert restart.producer_snapshot is not None
    assert [each.producer_id for each in decode_snapshot(restart.producer_snapshot, "")] == [77]


def test_without_the_safeguard_a_follower_starts_after_records_the_leader_never_had() -> None:
    with ablate({Safeguard.REMOTE_SEGMENT_COMPARED}):
        follower = Follower(tiered_log(), Tier(Segment(0, 5, ((0, 0), (1, 3)))))
        follower.on_refused()
        follower.offset(-2, 0)
        follower.offset(-4, 3, epoch=2)
        (action,) = follower.epoch_end(1, 0, 3)
        restart = follower.auxiliary(action, (0, 0), (1, 3))
        assert isinstance(restart, RestartFromRemote) and restart.offset == 6


@pytest.mark.parametrize(
    "epochs", [(), ((3, 0),), ((0, 0), (1, 2)), ((-1, 0),), ((0, -5),)], ids=lambda epochs: str(epochs)
)
def test_inconsistent_leader_epochs_are_refused(epochs: tuple[tuple[int, int], ...]) -> None:
    follower = Follower(tiered_log(), Tier(Segment(0, 2, ((0, 0),))))
    follower.on_refused()
    follower.offset(-2, 0)
    follower.offset(-4, 3, epoch=0)
    (action,) = follower.epoch_end(0, 0, 9)
    delayed = follower.auxiliary(action, *epochs)
    assert isinstance(delayed, PartitionDelayed) and "leader epochs" in delayed.reason


def test_an_unreadable_producer_snapshot_is_fetched_again() -> None:
    follower = Follower(tiered_log(), Tier(Segment(0, 2, ((0, 0),))))
    follower.on_refused()
    follower.offset(-2, 0)
    follower.offset(-4, 3, epoch=0)
    (action,) = follower.epoch_end(0, 0, 9)
    delayed = follower.auxiliary(action, (0, 0), producers=b"damaged")
    assert isinstance(delayed, PartitionDelayed) and "snapshot" in delayed.reason


# -- logs that diverge below the local log start


@pytest.mark.parametrize("fetch_version", [18, 11])
def test_truncation_below_the_local_log_start_restores_the_remote_log_state(fetch_version: int) -> None:
    log = tiered_log(10, (0, 0), (1, 3), (3, 6))
    log.local_log_start_offset = 6
    follower = Follower(log, Tier(Segment(0, 3, ((0, 0), (1, 3)))), fetch_version=fetch_version)
    if fetch_version == 18:
        diverging = EpochEndOffset(epoch=1, end_offset=4)
        assert follower.on_fetched(PartitionData(partition_index=0, diverging_epoch=diverging)) == []
    else:
        assert follower.epoch_end(3, 1, 4) == []
    assert (follower.state, log.log_end_offset) == (ReplicaState.BUILDING_REMOTE_LOG_AUX, 10)
    follower.offset(-2, 0)
    follower.offset(-4, 4, epoch=4)
    (action,) = follower.epoch_end(3, 1, 4)
    restart = follower.auxiliary(action, (0, 0), (1, 3))
    assert isinstance(restart, RestartFromRemote)
    assert (restart.offset, restart.leader_epochs) == (4, ((0, 0), (1, 3), (4, 4)))


def test_without_the_safeguard_truncation_below_the_local_log_start_loses_producer_state() -> None:
    with ablate({Safeguard.REMOTE_CUT_REBUILDS}):
        log = tiered_log(10, (0, 0), (1, 3), (3, 6))
        log.local_log_start_offset = 6
        follower = Follower(log, Tier())
        diverging = EpochEndOffset(epoch=1, end_offset=4)
        (action,) = follower.on_fetched(PartitionData(partition_index=0, diverging_epoch=diverging))
        assert isinstance(action, Truncate) and action.offset == 4


def test_truncation_within_the_local_log_is_local() -> None:
    log = tiered_log(10, (0, 0), (1, 3), (3, 6))
    log.local_log_start_offset = 6
    follower = Follower(log, Tier())
    diverging = EpochEndOffset(epoch=1, end_offset=6)
    (action,) = follower.on_fetched(PartitionData(partition_index=0, diverging_epoch=diverging))
    assert isinstance(action, Truncate) and action.offset == 6


def test_a_leader_whose_log_ends_below_the_local_log_start_restores_the_remote_log_state() -> None:
    log = tiered_log(10, (0, 0))
    log.local_log_start_offset = 6
    follower = Follower(log, Tier())
    follower.on_refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert follower.offset(-1, 5) == []
    assert follower.state is ReplicaState.BUILDING_REMOTE_LOG_AUX


def test_a_follower_that_restores_is_not_in_sync_while_appends_continue() -> None:
    follower = Follower(tiered_log(), Tier(Segment(0, 2, ((0, 0),))))
    (append,) = follower.on_fetched(PartitionData(partition_index=0, high_watermark=0))
    perform(follower.fetcher, [append])
    assert follower.fetcher.partitions[P0].is_in_sync
    follower.on_refused()
    assert not follower.fetcher.partitions[P0].is_in_sync
    follower.offset(-2, 0)
    follower.offset(-4, 3, epoch=0)
    (action,) = follower.epoch_end(0, 0, 9)
    restart = follower.auxiliary(action, (0, 0))
    assert restart is not None
    perform(follower.fetcher, [restart])
    data = PartitionData(partition_index=0, records=b"abc", high_watermark=6)
    (append,) = follower.on_fetched(data)
    assert isinstance(append, Append) and append.offset == 3
    perform(follower.fetcher, [append], epoch=0)
    assert follower.fetcher.partitions[P0].is_in_sync and follower.log.log_end_offset == 6
