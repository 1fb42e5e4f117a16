"""Logs that are created in a thread while the metadata changes: errors meanwhile, and roles afterwards."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.log_managers import remove_deleted_files, write_checkpoint
from tests.support.logs.manual_log_work import ManualLogWork
from tests.support.logs.partition_logs import batch
from tests.support.replicas.replica_manager import NODE, Replicas
from tidelog.broker.partitions.log_retirements import RETIREMENTS_PER_TURN
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.directories.log_directory import Retirement
from tidelog.storage.disk.errors import StorageFailure

OTHER = NODE + 1


class Listener:
    """A listener that records the roles of partitions."""

    def __init__(self, replicas: Replicas) -> None:
        self.recorded_changes: list[tuple[str, int]] = []
        replicas.manager.add_listener(self)

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        self.recorded_changes += [("led", each.topic_partition.partition) for each in changes.leaders]
        self.recorded_changes += [("followed", each.topic_partition.partition) for each in changes.followers]
        self.recorded_changes += [("gone", each.partition) for each in changes.removed]


@pytest.fixture
def replicas() -> Replicas:
    return Replicas()


@pytest.fixture
def log_work(replicas: Replicas) -> ManualLogWork:
    return replicas.defer_log_work()


def code_of(replicas: Replicas, topic: str, partition: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        replicas.manager.partition(TopicPartition(topic, partition))
    return caught.value.code


def change(topic_id: UUID, **fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=topic_id, **fields)  # type: ignore[arg-type]


def names(replicas: Replicas) -> list[str]:
    """Return the directories of the topic that are in use."""
    listed = replicas.fs.listdir("/data")
    return sorted(name for name in listed if name.startswith("t-") and not name.endswith("-delete"))


def test_a_partition_gives_a_retriable_error_until_it_is_created(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    listener = Listener(replicas)
    replicas.create("t", 2)
    assert code_of(replicas, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert listener.recorded_changes == []
    log_work.finish()
    assert replicas.manager.partition(TopicPartition("t", 1)).leader is not None
    assert listener.recorded_changes == [("led", 0), ("led", 1)]


def test_a_partition_is_created_once(replicas: Replicas, log_work: ManualLogWork) -> None:
    topic_id = replicas.create("t", leader_epoch=1)
    replicas.replay(change(topic_id, leader=NODE, isr=(NODE,)))
    assert len(log_work.planned) == 1
    log_work.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).leader_epoch == 2


def test_a_created_partition_gets_its_current_role(replicas: Replicas, log_work: ManualLogWork) -> None:
    listener = Listener(replicas)
    topic_id = replicas.create("t", isr=(NODE, OTHER))
    replicas.replay(change(topic_id, leader=OTHER))
    log_work.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).leader_id == OTHER
    assert listener.recorded_changes == [("followed", 0)]


def test_configs_that_change_during_the_creation_apply(replicas: Replicas, log_work: ManualLogWork) -> None:
    replicas.create("t")
    replicas.replay(ConfigRecord(resource_type=2, resource_name="t", name="max.message.bytes", value="500"))
    log_work.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).log.config.max_message_bytes == 500


def test_a_topic_deleted_during_its_creation_leaves_no_directory(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    listener = Listener(replicas)
    replicas.replay(RemoveTopicRecord(topic_id=replicas.create("t")))
    log_work.finish_all()
    assert code_of(replicas, "t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replicas.logs.get(TopicPartition("t", 0)) is None
    assert names(replicas) == []
    assert listener.recorded_changes == [("gone", 0)]


def test_a_topic_recreated_during_its_creation_is_the_new_one(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    older = replicas.create("t")
    replicas.create("other")
    replicas.replay(RemoveTopicRecord(topic_id=older))
    topic_id = replicas.create("t", partitions=1, leader_epoch=3)
    assert topic_id != older
    assert [each.topic_partition.topic for each in log_work.creations] == ["t", "other"]
    log_work.finish()
    assert code_of(replicas, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [type(each) for each in log_work.planned] == [Retirement, LogCreation]
    log_work.finish()
    partition = replicas.manager.partition(TopicPartition("t", 0))
    assert (partition.topic_id, partition.log.topic_id) == (topic_id, topic_id)
    assert names(replicas) == ["t-0"]


def test_the_newer_topic_is_created_after_the_older_one_failed(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    older = replicas.create("t")
    replicas.create("other")
    replicas.replay(RemoveTopicRecord(topic_id=older))
    topic_id = replicas.create("t", partitions=1, leader_epoch=3)
    assert topic_id != older
    log_work.finish(ValueError("a bug"))
    log_work.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).topic_id == topic_id


def test_a_partition_that_is_reassigned_during_its_creation_is_removed(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    topic_id = replicas.create("t")
    replicas.replay(change(topic_id, leader=OTHER, isr=(OTHER,), replicas=(OTHER,)))
    log_work.finish_all()
    assert code_of(replicas, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert names(replicas) == []


def test_a_disk_that_fails_during_a_creation_goes_offline(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    listener = Listener(replicas)
    replicas.create("t")
    log_work.finish(StorageFailure("/data/t-0", "open", "input/output error"))
    assert code_of(replicas, "t") is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.logs.directories.online == []
    assert listener.recorded_changes == [("gone", 0)]


def test_a_partition_is_not_used_if_its_directory_went_offline_during_its_creation() -> None:
    replicas = Replicas(None, "/data", "/more")
    log_work = replicas.defer_log_work()
    replicas.create("t", 2)
    first, second = (each.directory for each in log_work.creations)
    assert first is not second
    replicas.logs.directories.take_offline(first, "broken")
    assert TopicPartition("t", 0) in first.lost_partitions
    log_work.finish()
    assert code_of(replicas, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.manager.partition(TopicPartition("t", 1)).leader is not None


def test_an_unexpected_error_during_a_creation_keeps_the_disk_online(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    topic_id = replicas.create("t", leader_epoch=1)
    log_work.finish(ValueError("a bug"))
    assert code_of(replicas, "t") is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.logs.directories.online
    replicas.replay(change(topic_id, leader=NODE, isr=(NODE,)))
    log_work.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).leader is not None
    assert replicas.manager.unavailable_count == 0


def test_a_deleted_topic_is_removed_at_once_and_its_files_later(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    topic_id = replicas.create("t", 2)
    log_work.finish()
    replicas.manager.partition(TopicPartition("t", 0)).append(batch(["a"]), 1, NOW_MS)
    write_checkpoint(replicas.logs, CheckpointKind.HIGH_WATERMARK)
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    assert code_of(replicas, "t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert names(replicas) == ["t-0", "t-1"]
    newer = replicas.create("t")
    log_work.finish()
    partition = replicas.manager.partition(TopicPartition("t", 0))
    assert (partition.topic_id, partition.log.log_end_offset) == (newer, 0)
    assert names(replicas) == ["t-0"]
    assert remove_deleted_files(replicas.logs, NOW_MS + 60_000) == 2
    assert b"t 0 1" not in replicas.fs.read("/data/replication-offset-checkpoint")


def test_a_disk_that_fails_to_retire_a_partition_goes_offline(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    topic_id = replicas.create("t")
    replicas.create("other")
    log_work.finish()
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    log_work.finish(StorageFailure("/data/t-0", "rename", "input/output error"))
    assert replicas.logs.directories.online == []


MANY = 2 * RETIREMENTS_PER_TURN + 1


def test_the_logs_of_a_large_deleted_topic_are_removed_in_several_iterations(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    topic_id = replicas.create("t", MANY)
    log_work.finish_all()
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    assert code_of(replicas, "t", MANY - 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for left in (MANY - RETIREMENTS_PER_TURN, 1, 0):
        assert len(list(replicas.logs.logs)) == left
        log_work.next_turn()
    assert [type(each) for each in log_work.planned] == [Retirement] * 3
    log_work.finish_all()
    assert names(replicas) == []


def test_a_topic_that_is_created_before_its_predecessor_is_retired_gets_new_logs(
    replicas: Replicas, log_work: ManualLogWork
) -> None:
    older = replicas.create("t", MANY)
    log_work.finish_all()
    replicas.replay(RemoveTopicRecord(topic_id=older))
    topic_id = replicas.create("t", MANY)
    log_work.next_turn()
    log_work.finish_all()
    log_work.next_turn()
    assert not log_work.planned and not log_work.callbacks
    partitions = [replicas.manager.partition(TopicPartition("t", index)) for index in range(MANY)]
    assert {each.log.topic_id for each in partitions} == {topic_id}
    assert len(names(replicas)) == MANY


@pytest.fixture
def planning(replicas: Replicas, log_work: ManualLogWork) -> ManualLogWork:
    """Log work that is planned when the test requests it, on a node that has started."""
    replicas.register(NODE)
    log_work.plans_at_once = False
    return log_work


def test_the_logs_of_new_partitions_are_planned_one_by_one(
    replicas: Replicas, planning: ManualLogWork
) -> None:
    """A metadata update with 10,000 partitions therefore does not block the event loop."""
    replicas.create("t", MANY)
    assert planning.planned == []
    assert code_of(replicas, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for planned in (1, 2):
        planning.plan_next()
        assert [each.topic_partition.partition for each in planning.creations] == list(range(planned))
    planning.finish_all()
    assert len(replicas.manager.partitions) == MANY


def test_partitions_that_change_before_they_are_planned_get_their_current_role(
    replicas: Replicas, planning: ManualLogWork
) -> None:
    topic_id = replicas.create("t", 2, isr=(NODE, OTHER))
    replicas.replay(change(topic_id, leader=OTHER))
    assert planning.planned == []
    planning.finish_all()
    assert replicas.manager.partition(TopicPartition("t", 0)).leader_id == OTHER
    assert replicas.manager.partition(TopicPartition("t", 1)).leader_id == NODE


def test_partitions_that_are_added_before_the_first_are_planned_are_created_too(
    replicas: Replicas, planning: ManualLogWork
) -> None:
    topic_id = replicas.create("t", 1)
    added = PartitionRecord(
        partition_id=1,
        topic_id=topic_id,
        replicas=(NODE,),
        isr=(NODE,),
        leader=NODE,
        directories=(UUID(int=1),),
    )
    replicas.replay(added)
    planning.finish_all()
    assert replicas.manager.partition(TopicPartition("t", 0)).leader is not None
    assert replicas.manager.partition(TopicPartition("t", 1)).leader is not None


def test_a_topic_that_is_deleted_or_reassigned_before_its_logs_are_planned_leaves_no_log(
    replicas: Replicas, planning: ManualLogWork
) -> None:
    deleted, reassigned = replicas.create("t", 2), replicas.create("u")
    replicas.replay(RemoveTopicRecord(topic_id=deleted))
    replicas.replay(change(reassigned, leader=OTHER, isr=(OTHER,), replicas=(OTHER,)))
    newer = replicas.create("t")
    planning.finish_all()
    assert replicas.manager.partition(TopicPartition("t", 0)).topic_id == newer
    assert set(replicas.manager.partitions) == {TopicPartition("t", 0)}
    assert names(replicas) == ["t-0"]


def test_a_partition_that_cannot_be_planned_is_unavailable(
    replicas: Replicas, planning: ManualLogWork
) -> None:
    listener = Listener(replicas)
    replicas.create("t")
    replicas.logs.directories.take_offline(replicas.logs.directories.online[0], "broken")
    planning.finish_all()
    assert code_of(replicas, "t") is ErrorCode.KAFKA_STORAGE_ERROR
    assert listener.recorded_changes == [("gone", 0)]
