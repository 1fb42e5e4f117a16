"""The replica manager applies metadata: it opens, updates and closes partitions, and reports failures."""

from __future__ import annotations

import gc
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import batch
from tests.support.replicas.replica_manager import NODE, Replicas
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.cluster.image import MetadataImage, PartitionImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture
def replicas() -> Replicas:
    return Replicas()


def code_of(replicas: Replicas, topic: str, partition: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        replicas.manager.partition(TopicPartition(topic, partition))
    return caught.value.code


def test_a_created_topic_is_found_by_name_and_by_id(replicas: Replicas) -> None:
    topic_id = replicas.create("t", 2)
    manager = replicas.manager
    assert manager.partition(TopicPartition("t", 1)).leader_id == NODE
    assert manager.resolve(None, topic_id, 1) == TopicPartition("t", 1)
    assert manager.topic_name(topic_id) == "t"
    with pytest.raises(KafkaError) as unknown:
        manager.resolve(None, UUID(int=99), 0)
    assert unknown.value.code is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_partition_assigned_to_other_brokers_is_not_opened(replicas: Replicas) -> None:
    replicas.create("t", isr=(NODE + 1,))
    assert code_of(replicas, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(replicas, "t", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replicas.manager.assigned_partitions(replicas.image) == {}


def test_a_recreated_topic_is_empty(replicas: Replicas) -> None:
    topic_id = replicas.create("t")
    replicas.manager.partition(TopicPartition("t", 0)).append(batch(["a"]), 1, NOW_MS)
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    assert code_of(replicas, "t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replicas.manager.topic_name(topic_id) is None
    replicas.create("other")
    assert replicas.create("t") != topic_id
    assert replicas.manager.partition(TopicPartition("t", 0)).log.log_end_offset == 0


def test_a_topic_deleted_and_recreated_in_one_delta_is_the_new_one(replicas: Replicas) -> None:
    old = replicas.create("t")
    replicas.manager.partition(TopicPartition("t", 0)).append(batch(["a"]), 1, NOW_MS)
    new = UUID(int=77)
    replicas.replay(
        RemoveTopicRecord(topic_id=old),
        TopicRecord(name="t", topic_id=new),
        PartitionRecord(
            partition_id=0,
            topic_id=new,
            replicas=(NODE,),
            isr=(NODE,),
            leader=NODE,
            leader_epoch=0,
            partition_epoch=0,
            directories=(UUID(int=1),),
        ),
    )
    assert replicas.manager.topic_name(new) == "t"
    assert replicas.manager.topic_name(old) is None
    assert replicas.manager.partition(TopicPartition("t", 0)).log.log_end_offset == 0


def test_changed_topic_configs_apply_to_the_log(replicas: Replicas) -> None:
    replicas.create("t", max_message_bytes="500")
    log = replicas.manager.partition(TopicPartition("t", 0)).log
    assert log.config.max_message_bytes == 500
    replicas.replay(ConfigRecord(resource_type=2, resource_name="t", name="max.message.bytes", value="700"))
    assert log.config.max_message_bytes == 700
    replicas.manager.update_defaults({"retention.ms": "123"}, replicas.image)
    assert (log.config.retention_ms, log.config.max_message_bytes) == (123, 700)


def test_kip_279_a_new_epoch_is_recorded_before_its_first_record(replicas: Replicas) -> None:
    topic_id = replicas.create("t", leader_epoch=1)
    partition = replicas.manager.partition(TopicPartition("t", 0))
    partition.append(batch(["a", "b"]), 1, NOW_MS)
    replicas.replay(
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=NODE, isr=(NODE,)),
    )
    assert partition.leader_epoch == 2
    entries = [(entry.epoch, entry.start_offset) for entry in partition.log.leader_epochs.entries]
    assert entries == [(1, 0), (2, 2)]


def test_a_partition_in_an_unusable_directory_is_reported(replicas: Replicas) -> None:
    replicas.logs.directories.take_offline(replicas.logs.directories[0], "the disk is gone")
    replicas.create("t")
    assert code_of(replicas, "t") is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_partition_of_an_offline_disk_is_not_recreated_on_another_at_a_restart(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = CrashFileSystem()
    before = Replicas(fs, "/old")
    before.create("t")
    before.manager.partition(TopicPartition("t", 0)).append(batch(["promised"]), 1, NOW_MS)
    before.logs.shutdown(NOW_MS)
    fs.rename("/old", "/away")
    fs.open("/old", create=True)  # a disk that does not respond
    after = Replicas(fs, "/old", "/new")
    after.create("t")
    assert code_of(after, "t") is ErrorCode.KAFKA_STORAGE_ERROR
    assert "/old, which is offline" in caplog.text
    after.create("made meanwhile")
    assert after.manager.partition(TopicPartition("made meanwhile", 0)).log.directory.startswith("/new/")


def test_a_log_whose_epochs_cannot_be_written_is_not_flushed_and_others_are() -> None:
    fs = CrashFileSystem()
    replicas = Replicas(fs, "/one", "/two")
    replicas.create("first", leader_epoch=1)
    replicas.create("second", leader_epoch=1)
    first = replicas.manager.partition(TopicPartition("first", 0))
    fs.fail_next_fsync(f"{first.log.directory}/leader-epoch-checkpoint")
    replicas.replay(
        *(
            PartitionChangeRecord(partition_id=0, topic_id=topic.id, leader=NODE, isr=(NODE,))
            for topic in replicas.image.topics_by_name.values()
        )
    )
    first.append(batch(["a"]), 1, NOW_MS)
    with pytest.raises(KafkaError) as refused:
        first.log.flush(NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert first.log.durability.recovery_point == 0
    second = replicas.manager.partition(TopicPartition("second", 0))
    second.append(batch(["a"]), 1, NOW_MS)
    second.log.flush(NOW_MS)
    assert (second.leader_epoch, second.log.log_end_offset, second.log.durability.recovery_point) == (2, 1, 1)


def test_a_deleted_topic_that_could_not_be_opened_can_be_recreated() -> None:
    fs = CrashFileSystem()
    before = Replicas(fs)
    before.create("t")
    before.manager.partition(TopicPartition("t", 0)).append(batch(["a"]), 1, NOW_MS)
    before.logs.shutdown(NOW_MS)
    fs.open("/data/t-0/partition.metadata", create=False).truncate(5)
    after = Replicas(fs)
    topic_id = after.create("t")
    assert code_of(after, "t") is ErrorCode.KAFKA_STORAGE_ERROR
    after.replay(RemoveTopicRecord(topic_id=topic_id))
    after.create("other")
    after.create("t")
    assert after.manager.partition(TopicPartition("t", 0)).log.log_end_offset == 0


def test_an_error_in_one_partition_does_not_affect_role_changes_of_others(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetcher that is not notified would continue to append to a log of which this node is the leader."""

    class Listener:
        def __init__(self) -> None:
            self.leader_partitions: list[int] = []

        def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
            self.leader_partitions += [partition.topic_partition.partition for partition in changes.leaders]

    class FailingListener:
        def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
            raise ValueError("a bug")

    make_leader = Partition.make_leader

    def fail_at_partition_0(partition: Partition, placed: PartitionImage) -> bool:
        if partition.topic_partition.partition == 0:
            raise AssertionError("a bug")
        return make_leader(partition, placed)

    listener = Listener()
    replicas.manager.add_listener(FailingListener())
    replicas.manager.add_listener(listener)
    monkeypatch.setattr(Partition, "make_leader", fail_at_partition_0)
    replicas.create("t", 2)
    assert listener.leader_partitions == [1]
    assert code_of(replicas, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.manager.partition(TopicPartition("t", 1)).leader is not None


def test_invalid_topic_configs_do_not_prevent_role_changes(
    replicas: Replicas,
) -> None:
    topic_id = replicas.create("t", max_message_bytes="500", leader_epoch=1)
    partition = replicas.manager.partition(TopicPartition("t", 0))
    replicas.replay(
        ConfigRecord(resource_type=2, resource_name="t", name="max.message.bytes", value="many"),
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=NODE, isr=(NODE,)),
    )
    assert partition.log.config.max_message_bytes == 500
    assert partition.leader_epoch == 2


def test_a_deleted_partition_is_released_without_a_garbage_collection(replicas: Replicas) -> None:
    """A full collection may never visit it: see `tidelog.broker.node.garbage_collection`."""

    def log_count() -> int:
        return sum(isinstance(each, PartitionLog) for each in gc.get_objects())

    gc.collect()
    before = log_count()
    topic_id = replicas.create("t", 2)
    replicas.manager.partition(TopicPartition("t", 0)).append(batch(["a"]), 1, NOW_MS)
    assert log_count() == before + 2
    gc.disable()
    try:
        replicas.replay(RemoveTopicRecord(topic_id=topic_id))
        assert log_count() == before
    finally:
        gc.enable()
