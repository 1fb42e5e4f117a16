"""Partitions get their roles in several turns of the event loop when one update changes many of them."""

from __future__ import annotations

from uuid import UUID

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.replicas.replica_manager import NODE, Replicas
from tidelog.broker.partitions.changed_partitions import ROLES_PER_TURN, ChangedPartitions
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.image_difference import difference
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord

OTHER = NODE + 1
COUNT = 2 * ROLES_PER_TURN + 1


class Changes:
    """A listener that keeps the role changes that it was notified of."""

    def __init__(self) -> None:
        self.received: list[RoleChanges] = []

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        self.received.append(changes)

    @property
    def leader_counts(self) -> list[int]:
        return [len(changes.leaders) for changes in self.received]


def followers(replicas: Replicas) -> UUID:
    """Create a topic of which this node follows COUNT partitions; define later turns by `next_turn`."""
    topic_id = replicas.create("t", COUNT, isr=(NODE, OTHER), leader=OTHER)
    replicas.defer_log_work()
    return topic_id


def make_leader_of_all(replicas: Replicas, topic_id: UUID) -> None:
    """Apply one update that makes this node leader of all partitions."""
    replicas.replay(
        *(
            PartitionChangeRecord(partition_id=index, topic_id=topic_id, leader=NODE, isr=(NODE,))
            for index in range(COUNT)
        )
    )


def leader_count(replicas: Replicas) -> int:
    return sum(partition.is_leader for partition in replicas.manager.partitions.values())


def test_a_node_becomes_leader_of_many_partitions_in_several_turns_of_the_event_loop() -> None:
    replicas, changes = Replicas(), Changes()
    topic_id = followers(replicas)
    replicas.manager.add_listener(changes)
    make_leader_of_all(replicas, topic_id)
    assert leader_count(replicas) == ROLES_PER_TURN
    replicas.log_work.next_turn()
    replicas.log_work.next_turn()
    assert leader_count(replicas) == COUNT
    assert changes.leader_counts == [ROLES_PER_TURN, ROLES_PER_TURN, 1]
    assert not replicas.log_work.callbacks


def test_a_partition_that_changes_again_before_its_turn_gets_the_newest_role() -> None:
    replicas = Replicas()
    topic_id = followers(replicas)
    make_leader_of_all(replicas, topic_id)
    last = COUNT - 1
    replicas.replay(PartitionChangeRecord(partition_id=last, topic_id=topic_id, leader=OTHER))
    replicas.log_work.finish_with_callbacks()
    partition = replicas.manager.partition(TopicPartition("t", last))
    assert (partition.is_leader, partition.leader_id, partition.leader_epoch) == (False, OTHER, 2)
    assert leader_count(replicas) == COUNT - 1


def test_a_topic_that_is_deleted_before_the_turn_of_its_partitions_has_no_roles() -> None:
    replicas = Replicas()
    topic_id = followers(replicas)
    make_leader_of_all(replicas, topic_id)
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    replicas.create("t", 1)
    replicas.log_work.finish_with_callbacks()
    assert list(replicas.manager.partitions) == [TopicPartition("t", 0)]
    assert not replicas.manager.unavailable_count


def test_all_partitions_have_their_roles_when_the_node_starts() -> None:
    stopped = Replicas()
    make_leader_of_all(stopped, followers(stopped))
    stopped.log_work.finish_with_callbacks()
    stopped.logs.shutdown(NOW_MS)
    started = Replicas(stopped.fs)
    everything = difference(MetadataImage(cluster_id="test"), stopped.image)
    started.manager.apply(everything, stopped.image, NOW_MS)
    assert leader_count(started) == COUNT


def test_a_changed_partition_waits_once() -> None:
    changed, topic_id = ChangedPartitions(), UUID(int=1)
    changed.add(topic_id, 0, is_new=True)
    changed.add(topic_id, 1, is_new=False)
    changed.add(topic_id, 0, is_new=False)
    assert changed.take(1) == [(topic_id, 0, True)]
    assert changed.take(5) == [(topic_id, 1, False)]
    assert len(changed) == 0
