"""A partition as leader and as follower: validation of requests, and commits by fetches."""

from __future__ import annotations

import pytest

from tests.sim.replication.safeguards import Safeguard, ablate
from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import batch
from tests.support.replicas.replica_manager import NODE, Replicas
from tidelog.broker.fetching.read_checks import check_follower
from tidelog.broker.partitions.partition import ACKS_ALL, Partition
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord

SECOND, THIRD = 2, 3
LAG_MS = 30_000


class SharedTopic:
    """Topic `t` with one partition on three brokers, whose leader is this node."""

    def __init__(self, *, isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1, leader: int = NODE) -> None:
        self.replicas = Replicas()
        self.replicas.register(1, 2, 3)
        self.topic_id = self.replicas.create(
            "t", isr=isr, replicas=(1, 2, 3), leader=leader, leader_epoch=3, min_insync_replicas=str(min_isr)
        )

    @property
    def partition(self) -> Partition:
        return self.replicas.manager.partition(TopicPartition("t", 0))

    def change(self, **changes: object) -> None:
        record = PartitionChangeRecord(partition_id=0, topic_id=self.topic_id, **changes)  # type: ignore[arg-type]
        self.replicas.replay(record)

    def append(self, count: int = 1, acks: int = 1) -> None:
        self.partition.append(batch([str(each) for each in range(count)]), acks, NOW_MS)

    def fetch(self, broker: int, offset: int, epoch: int | None = None) -> None:
        self.partition.record_follower_fetch(broker, offset, 0, 100 + broker if epoch is None else epoch)

    def set_config(self, name: str, value: str) -> None:
        self.replicas.replay(ConfigRecord(resource_type=2, resource_name="t", name=name, value=value))

    @property
    def high_watermark(self) -> int:
        return self.partition.log.high_watermark


def code(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


def test_records_are_committed_when_every_isr_member_fetched_them() -> None:
    shared = SharedTopic()
    shared.append(5)
    assert shared.high_watermark == 0
    shared.fetch(SECOND, 5)
    assert shared.high_watermark == 0
    shared.fetch(THIRD, 3)
    assert shared.high_watermark == 3
    shared.fetch(THIRD, 5)
    assert shared.high_watermark == 5


def test_acks_all_is_refused_before_the_append_while_the_isr_is_too_small() -> None:
    shared = SharedTopic(isr=(1,), min_isr=2)
    with pytest.raises(KafkaError) as refused:
        shared.append(acks=ACKS_ALL)
    assert code(refused) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert shared.partition.log.log_end_offset == 0


def test_kip_966_acks_1_appends_below_min_insync_replicas_without_advancing_the_high_watermark() -> None:
    shared = SharedTopic(isr=(1,), min_isr=2)
    shared.append(2)
    assert (shared.partition.log.log_end_offset, shared.high_watermark) == (2, 0)
    shared.fetch(SECOND, 2)
    assert shared.replicas.proposals.commit() == (1, 2)
    assert shared.high_watermark == 2


def test_without_kip_966_a_single_leader_commits() -> None:
    shared = SharedTopic(isr=(1,), min_isr=2)
    with ablate({Safeguard.MIN_ISR_FOR_HIGH_WATERMARK}):
        shared.change(leader=SECOND)
        shared.change(leader=NODE, isr=(1,))
        shared.append(2)
        assert shared.high_watermark == 2


def test_a_smaller_min_insync_replicas_advances_the_high_watermark() -> None:
    shared = SharedTopic(isr=(1,), min_isr=2)
    shared.append(2)
    shared.set_config("min.insync.replicas", "1")
    assert shared.high_watermark == 2


async def test_with_flush_messages_a_record_is_committed_when_the_leader_has_flushed_it() -> None:
    """Otherwise a consumer reads a record that a power failure of the leader removes."""
    shared = SharedTopic(isr=(1, 2))
    shared.set_config("flush.messages", "1")
    shared.append(2)
    shared.fetch(SECOND, 2)
    assert shared.high_watermark == 0
    await shared.replicas.flusher.finish()
    assert shared.high_watermark == 2


async def test_without_followers_too_a_record_is_committed_when_the_leader_has_flushed_it() -> None:
    replicas = Replicas()
    replicas.create("t", flush_messages="3")
    partition = replicas.manager.partition(TopicPartition("t", 0))
    partition.append(batch(["a", "b"]), 1, NOW_MS)
    assert (partition.log.high_watermark, replicas.flusher.has_waiting) == (2, False)
    partition.append(batch(["c", "d"]), 1, NOW_MS)
    assert (partition.log.high_watermark, replicas.flusher.has_waiting) == (2, True)
    await replicas.flusher.finish()
    assert partition.log.high_watermark == 4


async def test_a_new_leader_flushes_what_it_appended_as_follower_before_it_is_committed() -> None:
    shared = SharedTopic(isr=(1, 2), leader=SECOND)
    shared.set_config("flush.messages", "1")
    shared.partition.log.append_as_follower(batch(["a"], leader_epoch=3), NOW_MS)
    shared.change(leader=NODE, isr=(1,))
    assert shared.high_watermark == 0
    await shared.replicas.flusher.finish()
    assert shared.high_watermark == 1


async def test_a_smaller_flush_messages_flushes_uncommitted_records() -> None:
    shared = SharedTopic(isr=(1, 2))
    shared.append(2)
    shared.set_config("flush.messages", "1")
    shared.fetch(SECOND, 2)
    assert shared.high_watermark == 0
    await shared.replicas.flusher.finish()
    assert shared.high_watermark == 2


async def test_a_larger_flush_messages_commits_records_that_waited_for_their_flush() -> None:
    """Otherwise the next append would pass them, and the requests that wait for them would never complete."""
    replicas = Replicas()
    replicas.create("t", flush_messages="1")
    partition = replicas.manager.partition(TopicPartition("t", 0))
    partition.append(batch(["a"]), ACKS_ALL, NOW_MS)
    committed = replicas.leadership.commits.wait(partition, 1)
    replicas.replay(ConfigRecord(resource_type=2, resource_name="t", name="flush.messages", value="9"))
    assert partition.log.high_watermark == 1
    assert committed.done()


async def test_records_that_arrive_during_a_flush_are_flushed_next() -> None:
    shared = SharedTopic(isr=(1,))
    shared.set_config("flush.messages", "1")
    shared.append()
    plan = shared.partition.log.durability.flush_plan()
    shared.append()
    plan.run()
    shared.partition.log.durability.flushed(plan, NOW_MS)
    shared.partition.on_flushed()
    assert (shared.high_watermark, shared.replicas.flusher.has_waiting) == (1, True)


def test_acks_all_after_the_isr_shrank_is_not_enough_replicas_after_append() -> None:
    shared = SharedTopic(isr=(1, 2), min_isr=2)
    shared.append(2, acks=ACKS_ALL)
    assert shared.partition.commit_outcome(2) is None
    shared.fetch(SECOND, 2)
    assert shared.partition.commit_outcome(2) is ErrorCode.NONE
    shared.change(isr=(1,))
    assert shared.partition.commit_outcome(2) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_caught_up_follower_is_proposed_once_and_joins_on_confirmation() -> None:
    shared = SharedTopic(isr=(1, 2))
    shared.fetch(SECOND, 0)
    shared.append(2)
    shared.fetch(THIRD, 0)
    shared.fetch(THIRD, 2)
    (proposed,) = shared.replicas.proposals.history
    assert [tuple(member) for member in proposed[1].members] == [(1, 101), (2, 102), (3, 103)]
    shared.fetch(SECOND, 2)
    assert shared.replicas.proposals.commit() == (1, 2, 3)
    assert shared.replicas.leadership.isr_expands == 1
    assert shared.high_watermark == 2


def test_a_refused_isr_change_is_proposed_again_by_the_next_fetch() -> None:
    shared = SharedTopic(isr=(1, 2))
    shared.fetch(THIRD, 0)
    partition, proposal = shared.replicas.proposals.history[0]
    assert not partition.on_isr_response(proposal, ErrorCode.INELIGIBLE_REPLICA)
    shared.fetch(THIRD, 0)
    assert len(shared.replicas.proposals.history) == 2
    assert shared.replicas.leadership.failed_isr_updates == 1


async def test_records_delayed_by_a_follower_are_acknowledged_when_it_leaves() -> None:
    """No later event would complete the request: the high watermark is past its records already."""
    shared = SharedTopic(isr=(1,))
    shared.fetch(SECOND, 0)
    partition, proposal = shared.replicas.proposals.history[0]
    partition.on_isr_response(proposal, ErrorCode.INELIGIBLE_REPLICA)
    shared.append(2, acks=ACKS_ALL)
    assert shared.high_watermark == 0
    waiting = shared.replicas.leadership.commits.wait(shared.partition, 2)
    shared.replicas.clock.now_ms += LAG_MS + 1
    shared.append(1, acks=ACKS_ALL)
    assert shared.high_watermark == 3
    shared.partition.check_isr()
    assert waiting.done()


async def test_records_delayed_by_a_joining_follower_are_committed_when_it_is_refused() -> None:
    shared = SharedTopic(isr=(1,))
    shared.fetch(SECOND, 0)
    shared.append(2, acks=ACKS_ALL)
    waiting = shared.replicas.leadership.commits.wait(shared.partition, 2)
    shared.replicas.register(SECOND, fenced=True)
    assert not waiting.done()
    partition, proposal = shared.replicas.proposals.history[0]
    partition.on_isr_response(proposal, ErrorCode.INELIGIBLE_REPLICA)
    assert waiting.done()


def test_an_unexpected_error_of_the_controller_is_retried() -> None:
    shared = SharedTopic(isr=(1, 2))
    shared.fetch(THIRD, 0)
    partition, proposal = shared.replicas.proposals.history[0]
    assert partition.on_isr_response(proposal, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert partition.pending_isr is proposal


def test_kip_841_a_fenced_broker_is_not_proposed() -> None:
    shared = SharedTopic(isr=(1, 2))
    record = BrokerRegistrationChangeRecord(broker_id=THIRD, broker_epoch=103, fenced=1)
    shared.replicas.replay(record)
    shared.fetch(THIRD, 0)
    assert shared.replicas.proposals.history == []


def test_kip_903_a_stale_broker_epoch_is_refused() -> None:
    shared = SharedTopic(isr=(1, 2))
    with pytest.raises(KafkaError) as refused:
        shared.fetch(THIRD, 0, epoch=50)
    assert code(refused) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert shared.replicas.proposals.history == []


def test_a_lagging_follower_leaves_the_isr_and_its_records_are_committed() -> None:
    shared = SharedTopic(isr=(1, 2))
    shared.fetch(SECOND, 0)
    shared.append(3)
    shared.replicas.clock.now_ms += LAG_MS + 1
    shared.replicas.manager.check_isrs()
    assert shared.high_watermark == 0
    assert shared.replicas.proposals.commit() == (1,)
    assert shared.high_watermark == 3
    assert shared.replicas.leadership.isr_shrinks == 1


def test_a_former_leader_refuses_appends_and_fetches_and_fails_waiting_ones() -> None:
    shared = SharedTopic()
    shared.append(2, acks=ACKS_ALL)
    shared.change(leader=SECOND)
    assert shared.partition.commit_outcome(2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for refused in (lambda: shared.append(), lambda: shared.partition.require_leader(4)):
        with pytest.raises(KafkaError) as error:
            refused()
        assert code(error) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError) as fenced:
        shared.partition.require_leader(3)
    assert code(fenced) is ErrorCode.FENCED_LEADER_EPOCH
    with pytest.raises(KafkaError) as unknown:
        shared.partition.require_leader(9)
    assert code(unknown) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_re_elected_leader_has_no_follower_positions() -> None:
    shared = SharedTopic()
    shared.append(2)
    shared.fetch(SECOND, 2)
    shared.fetch(THIRD, 1)
    shared.change(leader=SECOND)
    shared.change(leader=NODE)
    leader = shared.partition.leader
    assert leader is not None
    assert {follower.log_end_offset for follower in leader.followers.values()} == {-1}
    assert shared.high_watermark == 1
    assert leader.epoch_start_offset == 2


def test_kip_207_the_end_is_unknown_until_the_epoch_start_is_committed() -> None:
    shared = SharedTopic()
    shared.append(2)
    shared.change(leader=SECOND)
    shared.change(leader=NODE)
    with pytest.raises(KafkaError) as refused:
        shared.partition.check_high_watermark_known()
    assert code(refused) is ErrorCode.OFFSET_NOT_AVAILABLE
    shared.fetch(SECOND, 2)
    shared.fetch(THIRD, 2)
    shared.partition.check_high_watermark_known()


def test_a_fetch_of_an_unassigned_broker_in_the_current_epoch_is_a_retriable_error() -> None:
    shared = SharedTopic()
    for epoch, expected in ((3, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        with pytest.raises(KafkaError) as refused:
            check_follower(shared.partition, 9, epoch)
        assert code(refused) is expected
    check_follower(shared.partition, SECOND, 3)


def test_kip_279_only_the_leader_records_an_epoch() -> None:
    shared = SharedTopic(leader=SECOND)
    assert shared.partition.log.leader_epochs.entries == []
    shared.change(leader=NODE)
    assert [entry.epoch for entry in shared.partition.log.leader_epochs.entries] == [4]


def test_a_change_of_another_partition_keeps_a_pending_isr_change() -> None:
    replicas = Replicas()
    replicas.register(1, 2)
    topic_id = replicas.create("t", 2, isr=(1,), replicas=(1, 2))
    partition = replicas.manager.partition(TopicPartition("t", 0))
    partition.record_follower_fetch(SECOND, 0, 0, 102)
    assert partition.pending_isr is not None
    replicas.replay(PartitionChangeRecord(partition_id=1, topic_id=topic_id, isr=(1, 2)))
    assert partition.pending_isr is not None
    replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(1, 2)))
    assert partition.pending_isr is None


def test_metadata_older_than_a_response_is_ignored() -> None:
    shared = SharedTopic(isr=(1, 2))
    shared.fetch(THIRD, 0)
    assert shared.replicas.proposals.commit() == (1, 2, 3)
    assert shared.partition.partition_epoch == 1
    shared.change(isr=(1, 2, 3))
    leader = shared.partition.leader
    assert leader is not None
    assert leader.isr == (1, 2, 3)


def test_the_low_watermark_is_the_smallest_log_start_of_the_replicas() -> None:
    shared = SharedTopic()
    shared.append(5)
    for broker in (SECOND, THIRD):
        shared.partition.record_follower_fetch(broker, 5, 0, 100 + broker)
    assert shared.partition.delete_records_before(4) == 4
    assert shared.partition.low_watermark == 0
    shared.partition.record_follower_fetch(SECOND, 5, 4, 102)
    shared.partition.record_follower_fetch(THIRD, 5, 3, 103)
    assert shared.partition.low_watermark == 3


def test_a_partition_on_a_failed_disk_loses_leadership() -> None:
    shared = SharedTopic()
    shared.append(2, acks=ACKS_ALL)
    partition = shared.partition
    logs, manager = shared.replicas.logs, shared.replicas.manager
    logs.directories.call_when_offline(
        lambda directory: manager.on_directory_failed(directory.lost_partitions, "the disk is gone")
    )
    logs.directories.take_offline(logs.directories[0], "the disk is gone")
    with pytest.raises(KafkaError) as refused:
        manager.partition(TopicPartition("t", 0))
    assert code(refused) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.commit_outcome(2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert manager.unavailable_count == 1
