"""Role changes of partitions in the RemoteLogManager, also when tiering is disabled and enabled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast
from uuid import UUID

import pytest

from tests.support.replicas.replica_manager import NODE, Replicas
from tidelog.broker.tier.roles import RemoteRoles
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import ResourceType
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.remote.log_manager.manager import RemoteLogManager
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.tasks.replica import TieredReplica


class RecordingManager:
    """Records its calls; `partitions_to_remove` has the pending deletions."""

    def __init__(self, partitions_to_remove: Iterable[TopicIdPartition] = ()) -> None:
        self.partitions_to_remove = frozenset(partitions_to_remove)
        self.kept: list[TopicIdPartition] = []
        self.stopped: list[tuple[TopicIdPartition, bool]] = []
        self.leader_partitions: list[TopicIdPartition] = []

    def on_leadership_change(
        self, leaders: Iterable[TieredReplica], followers: Iterable[TieredReplica]
    ) -> None:
        self.leader_partitions += [replica.topic_id_partition for replica in leaders]

    def stop_partitions(self, partitions: Iterable[TopicIdPartition], *, deletes_remote: bool) -> None:
        self.stopped += [(partition, deletes_remote) for partition in partitions]

    def keep_partitions(self, partitions: Iterable[TopicIdPartition]) -> None:
        self.kept += partitions


@pytest.mark.parametrize(("value", "is_kept"), [("true", True), ("false", False)])
def test_a_deletion_of_a_reassigned_partition_ends_when_its_topic_is_tiered_again(
    value: str, is_kept: bool
) -> None:
    replicas = Replicas()
    topic_id = replicas.create("t", isr=(NODE + 1,))
    mine, other = TopicIdPartition(topic_id, "t", 0), TopicIdPartition(UUID(int=5), "t", 0)
    manager = RecordingManager([mine, other])
    roles = RemoteRoles(cast(RemoteLogManager, manager), replicas.manager, lambda _: None)
    delta = MetadataDelta(replicas.image)
    delta.replay(
        ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name="t", name="remote.storage.enable", value=value
        )
    )
    roles.on_configs_changed(delta, delta.image(replicas.image.offset + 1, 1))
    assert manager.kept == ([mine] if is_kept else [])


def test_a_node_killed_while_tiering_was_disabled_deletes_remote_segments_after_its_restart() -> None:
    """KIP-950: before the deletion is marked, only the topic's config requests it."""
    replicas = Replicas()
    tiered = replicas.create("tiered", remote_storage_enable="true", remote_log_delete_on_disable="true")
    disabled = replicas.create("disabled", remote_storage_enable="false", remote_log_delete_on_disable="true")
    replicas.create("plain")
    manager = RecordingManager()
    roles = RemoteRoles(cast(RemoteLogManager, manager), replicas.manager, lambda _: None)
    roles.add_existing(replicas.image)
    assert manager.leader_partitions == [TopicIdPartition(tiered, "tiered", 0)]
    assert manager.stopped == [(TopicIdPartition(disabled, "disabled", 0), True)]


def follow_roles(manager: RecordingManager, replicas: Replicas) -> RemoteRoles:
    roles = RemoteRoles(cast(RemoteLogManager, manager), replicas.manager, lambda _: None)
    replicas.manager.add_listener(roles)
    roles.add_existing(replicas.image)
    return roles


def test_a_topic_deleted_after_its_disk_failed_leaves_no_remote_segments() -> None:
    replicas, manager = Replicas(), RecordingManager()
    follow_roles(manager, replicas)
    topic_id = replicas.create("t", remote_storage_enable="true")
    tiered_partition = TopicIdPartition(topic_id, "t", 0)
    replicas.manager.on_directory_failed([tiered_partition.topic_partition], "the disk is gone")
    assert manager.stopped == [(tiered_partition, False)]
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    assert manager.stopped == [(tiered_partition, False), (tiered_partition, True)]


def test_a_topic_deleted_after_its_disk_was_missing_at_the_start_leaves_no_remote_segments() -> None:
    replicas, manager = Replicas(), RecordingManager()
    topic_id = replicas.create("t", remote_storage_enable="true")
    replicas.create("plain")
    tiered_partition = TopicIdPartition(topic_id, "t", 0)
    replicas.manager.on_directory_failed(
        [tiered_partition.topic_partition, TopicPartition("plain", 0)], "disk is gone"
    )
    follow_roles(manager, replicas)
    assert not manager.stopped
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    assert manager.stopped == [(tiered_partition, True)]


def test_a_topic_deleted_while_compacted_by_default_leaves_no_remote_segments() -> None:
    replicas, manager = Replicas(), RecordingManager()
    roles = follow_roles(manager, replicas)
    topic_id = replicas.create("t", remote_storage_enable="true")
    tiered_partition = TopicIdPartition(topic_id, "t", 0)
    replicas.manager.update_defaults({"cleanup.policy": "compact"}, replicas.image)
    delta = MetadataDelta(replicas.image)
    delta.replay(
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name="segment.ms", value="1000")
    )
    roles.on_configs_changed(delta, replicas.image)
    assert manager.stopped == [(tiered_partition, False)]
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    assert manager.stopped == [(tiered_partition, False), (tiered_partition, True)]


def test_remote_segments_of_a_reassigned_partition_are_not_deleted() -> None:
    replicas, manager = Replicas(), RecordingManager()
    follow_roles(manager, replicas)
    topic_id = replicas.create("t", remote_storage_enable="true")
    tiered_partition = TopicIdPartition(topic_id, "t", 0)
    replicas.replay(
        PartitionChangeRecord(
            partition_id=0, topic_id=topic_id, replicas=(NODE + 1,), isr=(NODE + 1,), leader=NODE + 1
        )
    )
    replicas.replay(RemoveTopicRecord(topic_id=topic_id))
    assert manager.stopped == [(tiered_partition, False)]
