"""The tiered partitions of this node; notifies the RemoteLogManager of their changes.

    leader, follower           -> on_leadership_change
    topic deleted              -> stop, and delete the remote data, by topic id
    reassigned, disk failed    -> stop
    tiering disabled           -> stop; delete the remote data with remote.log.delete.on.disable (KIP-950),
                                  also if it was disabled before the start: the node may have crashed

A re-created topic of the same name has another id: the old topic is stopped before the new one starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.partitions.role_changes import RoleChanges
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.log_manager.manager import RemoteLogManager
from tidelog.remote.ports.segment_metadata import TopicIdPartition
from tidelog.remote.tasks.replica import TieredReplica


class RemoteRoles:
    """Tracks the tiered partitions; a listener of role changes and of changed topic configs.

    `on_stopped` is called for each partition that has left this node, or is no longer tiered.
    """

    def __init__(
        self,
        manager: RemoteLogManager,
        replicas: ReplicaManager,
        on_stopped: Callable[[TopicIdPartition], None],
    ) -> None:
        self._manager = manager
        self._replicas = replicas
        self._on_stopped = on_stopped
        self._tiered: dict[TopicPartition, TopicIdPartition] = {}
        self._untiered: dict[TopicPartition, TopicIdPartition] = {}
        """Partitions with remote data that are not tiered now: compacted by default, or on a failed disk.

        Their remote data must be deleted with their topic.
        """
        self._is_closed = False

    def add_existing(self, image: MetadataImage) -> None:
        """Add the partitions that this node had before this listener was registered.

        Resume deletions: if a node crashed before it marked a deletion, only the topic's config shows it.
        """
        local_partitions = self._replicas.partitions
        for name, topic_id in self._replicas.assigned_partitions(image).items():
            if name not in local_partitions and _is_tiering_enabled(name.topic, image):
                self._untiered[name] = TopicIdPartition(topic_id, *name)
        self._assign(local_partitions.values())
        disabled_partitions = [
            _topic_id_partition(each) for each in local_partitions.values() if _is_disabled(each)
        ]
        self._stop(disabled_partitions, deletes_remote=True)

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Apply role changes."""
        if self._is_closed:
            return
        removed_partitions = [
            partition for name in changes.removed if (partition := self._remove(name)) is not None
        ]
        deleted_partitions = [each for each in removed_partitions if each.topic_id not in image.topics_by_id]
        other_partitions = [each for each in removed_partitions if each.topic_id in image.topics_by_id]
        self._stop(deleted_partitions, deletes_remote=True)
        self._stop(other_partitions, deletes_remote=False)
        # If this node has the only replica, on a failed disk, only this node can delete the remote data.
        local_partitions = (each for each in other_partitions if self._is_placed_here(each, image))
        self._untiered.update((each.topic_partition, each) for each in local_partitions)
        self._assign((*changes.leaders, *changes.followers))

    def on_configs_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changes of topic configs to tiering; called after the logs have their new configs."""
        if self._is_closed:
            return
        for resource_type, name in delta.changed_configs:
            if resource_type == ResourceType.TOPIC:
                self._apply_config(name)
                self._cancel_deletion_if_tiered(name, image)

    def close(self) -> None:
        """Ignore further changes, because the node shuts down."""
        self._is_closed = True

    def _apply_config(self, topic: str) -> None:
        local_partitions = list(self._replicas.partitions_of_topic(topic))
        for partition in local_partitions:
            if not partition.log.remote_log_enabled:
                former_partition = self._remove(partition.topic_partition)
                if former_partition is not None:
                    self._stop([former_partition], deletes_remote=_is_disabled(partition))
        self._assign(each for each in local_partitions if each.topic_partition not in self._tiered)

    def _cancel_deletion_if_tiered(self, topic: str, image: MetadataImage) -> None:
        """Cancel pending deletions of a topic that is tiered again, also of partitions on other nodes."""
        topic_image = image.topics_by_name.get(topic)
        if topic_image is None or not _is_tiering_enabled(topic, image):
            return
        partitions = [each for each in self._manager.partitions_to_remove if each.topic_id == topic_image.id]
        if partitions:
            self._manager.keep_partitions(partitions)

    def _assign(self, partitions: Iterable[Partition]) -> None:
        leaders: list[TieredReplica] = []
        followers: list[TieredReplica] = []
        for partition in partitions:
            topic_id_partition = _topic_id_partition(partition)
            if not partition.log.remote_log_enabled:
                if partition.log.config.remote_storage_enable:
                    self._untiered[partition.topic_partition] = topic_id_partition
                continue
            self._untiered.pop(partition.topic_partition, None)
            self._tiered[partition.topic_partition] = topic_id_partition
            replica = TieredReplica(topic_id_partition, partition.log, partition.leader_epoch)
            (followers if partition.leader is None else leaders).append(replica)
        if leaders or followers:
            self._manager.on_leadership_change(leaders, followers)

    def _remove(self, name: TopicPartition) -> TopicIdPartition | None:
        """Remove a partition and return it with its topic id; None if it has no remote data."""
        untiered_partition = self._untiered.pop(name, None)
        return self._tiered.pop(name, untiered_partition)

    def _is_placed_here(self, partition: TopicIdPartition, image: MetadataImage) -> bool:
        partition_image = image.topics_by_id[partition.topic_id].partitions.get(partition.partition)
        return partition_image is not None and self._replicas.node_id in partition_image.replicas

    def _stop(self, partitions: list[TopicIdPartition], *, deletes_remote: bool) -> None:
        if partitions:
            self._manager.stop_partitions(partitions, deletes_remote=deletes_remote)
            for partition in partitions:
                self._on_stopped(partition)


def _is_tiering_enabled(topic: str, image: MetadataImage) -> bool:
    topic_configs = image.configs.get((ResourceType.TOPIC, topic), {})
    return topic_configs.get("remote.storage.enable", "").lower() == "true"


def _topic_id_partition(partition: Partition) -> TopicIdPartition:
    name = partition.topic_partition
    return TopicIdPartition(partition.topic_id, name.topic, name.partition)


def _is_disabled(partition: Partition) -> bool:
    """Return whether the topic's config disables tiering and requires that the remote data is deleted.

    It does not if the topic is not tiered only because the broker's default compacts it.
    """
    config = partition.log.config
    return config.remote_log_delete_on_disable and not config.remote_storage_enable
