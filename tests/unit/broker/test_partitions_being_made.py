"""Logs that are made elsewhere while the metadata goes on: what is asked meanwhile, and what they become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from tests.support.logs import batch
from tests.support.replicas import NODE, NOW_MS, Replicas
from tidelog.broker.partitions.replica_manager import RETIREMENTS_PER_TURN
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.directories.log_directory import Retirement
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.log.partition_log import PartitionLog

OTHER = NODE + 1


class HandMaker:
    """Makes logs and puts them aside when the test says so, in the order that was asked for."""

    def __init__(self, replicas: Replicas) -> None:
        self.planned: list[LogCreation | Retirement] = []
        self.callbacks: list[Callable[[], None]] = []
        self._replicas = replicas
        replicas.manager.log_work = self

    def submit(self, planned: Sequence[LogCreation | Retirement]) -> None:
        self.planned += planned

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def next_turn(self) -> None:
        """Run the callbacks that are scheduled now."""
        callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback()

    @property
    def creations(self) -> list[LogCreation]:
        """What is to be made."""
        return [each for each in self.planned if isinstance(each, LogCreation)]

    def finish(self, outcome: Exception | None = None) -> None:
        """Do all that is planned by now, or let it fail with `outcome`."""
        planned, self.planned = self.planned, []
        done: list[tuple[LogCreation | Retirement, PartitionLog | Exception | None]] = [
            (each, outcome or each.run()) for each in planned
        ]
        self._replicas.manager.on_log_work_done(done, NOW_MS)

    def finish_all(self) -> None:
        """Do what is planned, and what follows from it."""
        while self.planned:
            self.finish()


class Listener:
    """Remembers who leads, follows and is gone, by partition."""

    def __init__(self, replicas: Replicas) -> None:
        self.heard: list[tuple[str, int]] = []
        replicas.manager.listeners.append(self)

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        self.heard += [("led", each.topic_partition.partition) for each in changes.leaders]
        self.heard += [("followed", each.topic_partition.partition) for each in changes.followers]
        self.heard += [("gone", each.partition) for each in changes.removed]


@pytest.fixture
def replicas() -> Replicas:
    return Replicas()


@pytest.fixture
def maker(replicas: Replicas) -> HandMaker:
    return HandMaker(replicas)


def code_of(replicas: Replicas, topic: str, partition: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        replicas.manager.partition(TopicPartition(topic, partition))
    return caught.value.code


def change(topic_id: UUID, **fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=topic_id, **fields)  # type: ignore[arg-type]


def names(replicas: Replicas) -> list[str]:
    """The directories of the topic that are in use."""
    listed = replicas.fs.listdir("/data")
    return sorted(name for name in listed if name.startswith("t-") and not name.endswith("-delete"))


def test_a_partition_is_asked_for_again_while_it_is_made_and_led_once_it_is(
    replicas: Replicas, maker: HandMaker
) -> None:
    listener = Listener(replicas)
    replicas.create("t", 2)
    assert code_of(replicas, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert listener.heard == []
    maker.finish()
    assert replicas.manager.partition(TopicPartition("t", 1)).leader is not None
    assert listener.heard == [("led", 0), ("led", 1)]


def test_a_partition_that_is_made_is_not_made_twice(replicas: Replicas, maker: HandMaker) -> None:
    topic_id = replicas.create("t", leader_epoch=1)
    replicas.replay(change(topic_id, leader=NODE, isr=(NODE,)))
    assert len(maker.planned) == 1
    maker.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).leader_epoch == 2


def test_a_partition_takes_the_role_that_the_metadata_says_when_it_is_made(
    replicas: Replicas, maker: HandMaker
) -> None:
    listener = Listener(replicas)
    topic_id = replicas.create("t", isr=(NODE, OTHER))
    replicas.replay(change(topic_id, leader=OTHER))
    maker.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).leader_id == OTHER
    assert listener.heard == [("followed", 0)]


def test_settings_that_changed_while_a_partition_was_made_count(replicas: Replicas, maker: HandMaker) -> None:
    replicas.create("t")
    replicas.replay(ConfigRecord(resource_type=2, resource_name="t", name="max.message.bytes", value="500"))
    maker.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).log.config.max_message_bytes == 500


def test_a_topic_that_is_deleted_while_it_is_made_leaves_nothing_in_use(
    replicas: Replicas, maker: HandMaker
) -> None:
    listener = Listener(replicas)
    replicas.replay(RemoveTopicRecord(topic_id=replicas.create("t")))
    maker.finish_all()
    assert code_of(replicas, "t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert replicas.logs.get(TopicPartition("t", 0)) is None
    assert names(replicas) == []
    assert listener.heard == [("gone", 0)]


def test_a_topic_that_is_deleted_and_created_anew_while_it_is_made_is_the_new_one(
    replicas: Replicas, maker: HandMaker
) -> None:
    older = replicas.create("t")
    replicas.create("other")
    replicas.replay(RemoveTopicRecord(topic_id=older))
    topic_id = replicas.create("t", partitions=1, leader_epoch=3)
    assert topic_id != older
    assert [each.topic_partition.topic for each in maker.creations] == ["t", "other"]
    maker.finish()
    assert code_of(replicas, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [type(each) for each in maker.planned] == [Retirement, LogCreation]
    maker.finish()
    partition = replicas.manager.partition(TopicPartition("t", 0))
    assert (partition.topic_id, partition.log.topic_id) == (topic_id, topic_id)
    assert names(replicas) == ["t-0"]


def test_the_newer_topic_is_made_although_the_older_one_could_not_be(
    replicas: Replicas, maker: HandMaker
) -> None:
    older = replicas.create("t")
    replicas.create("other")
    replicas.replay(RemoveTopicRecord(topic_id=older))
    topic_id = replicas.create("t", partitions=1, leader_epoch=3)
    assert topic_id != older
    maker.finish(ValueError("a bug"))
    maker.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).topic_id == topic_id


def test_a_partition_that_is_moved_away_while_it_is_made_is_dropped(
    replicas: Replicas, maker: HandMaker
) -> None:
    topic_id = replicas.create("t")
    replicas.replay(change(topic_id, leader=OTHER, isr=(OTHER,), replicas=(OTHER,)))
    maker.finish_all()
    assert code_of(replicas, "t") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert names(replicas) == []


def test_a_disk_that_fails_while_a_partition_is_made_goes_offline(
    replicas: Replicas, maker: HandMaker
) -> None:
    listener = Listener(replicas)
    replicas.create("t")
    maker.finish(StorageFailure("/data/t-0", "open", "input/output error"))
    assert code_of(replicas, "t") is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.logs.online_directories == []
    assert listener.heard == [("gone", 0)]


def test_a_partition_is_not_used_whose_directory_went_offline_while_it_was_made() -> None:
    replicas = Replicas(None, "/data", "/more")
    maker = HandMaker(replicas)
    replicas.create("t", 2)
    first, second = (each.directory for each in maker.creations)
    assert first is not second
    replicas.logs.take_offline(first, "broken")
    assert TopicPartition("t", 0) in first.lost
    maker.finish()
    assert code_of(replicas, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.manager.partition(TopicPartition("t", 1)).leader is not None


def test_a_fault_of_our_own_while_a_partition_is_made_leaves_the_disk_in_use(
    replicas: Replicas, maker: HandMaker
) -> None:
    topic_id = replicas.create("t", leader_epoch=1)
    maker.finish(ValueError("a bug"))
    assert code_of(replicas, "t") is ErrorCode.KAFKA_STORAGE_ERROR
    assert replicas.logs.online_directories
    replicas.replay(change(topic_id, leader=NODE, isr=(NODE,)))
    maker.finish()
    assert replicas.manager.partition(TopicPartition("t", 0)).leader is not None
    assert replicas.manager.unavailable_count == 0


def test_a_deleted_topic_is_gone_at_once_and_put_aside_when_the_disk_comes_to_it(
    replicas: Replicas, maker: HandMaker
) -> None:
    topic_id = replicas.create("t", 2)
    maker.finish()
    replicas.manager.partition(TopicPartition("t", 0)).append(batch(["a"]), 1, NOW_MS)
    replicas.logs.checkpoint(CheckpointKind.HIGH_WATERMARK)
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    assert code_of(replicas, "t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert names(replicas) == ["t-0", "t-1"]
    newer = replicas.create("t")
    maker.finish()
    partition = replicas.manager.partition(TopicPartition("t", 0))
    assert (partition.topic_id, partition.log.log_end_offset) == (newer, 0)
    assert names(replicas) == ["t-0"]
    assert replicas.logs.delete_expired(NOW_MS + 60_000) == 2
    assert b"t 0 1" not in replicas.fs.read("/data/replication-offset-checkpoint")


def test_a_disk_that_fails_to_put_a_partition_aside_goes_offline(
    replicas: Replicas, maker: HandMaker
) -> None:
    topic_id = replicas.create("t")
    replicas.create("other")
    maker.finish()
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    maker.finish(StorageFailure("/data/t-0", "rename", "input/output error"))
    assert replicas.logs.online_directories == []


MANY = 2 * RETIREMENTS_PER_TURN + 1


def test_the_logs_of_a_large_deleted_topic_are_retired_in_several_turns(
    replicas: Replicas, maker: HandMaker
) -> None:
    topic_id = replicas.create("t", MANY)
    maker.finish_all()
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    assert code_of(replicas, "t", MANY - 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for left in (MANY - RETIREMENTS_PER_TURN, 1, 0):
        assert len(list(replicas.logs.logs)) == left
        maker.next_turn()
    assert [type(each) for each in maker.planned] == [Retirement] * 3
    maker.finish_all()
    assert names(replicas) == []


def test_a_topic_that_is_created_before_its_predecessor_is_retired_gets_new_logs(
    replicas: Replicas, maker: HandMaker
) -> None:
    older = replicas.create("t", MANY)
    maker.finish_all()
    replicas.replay(RemoveTopicRecord(topic_id=older))
    topic_id = replicas.create("t", MANY)
    maker.next_turn()
    maker.finish_all()
    maker.next_turn()
    assert not maker.planned and not maker.callbacks
    partitions = [replicas.manager.partition(TopicPartition("t", index)) for index in range(MANY)]
    assert {each.log.topic_id for each in partitions} == {topic_id}
    assert len(names(replicas)) == MANY
