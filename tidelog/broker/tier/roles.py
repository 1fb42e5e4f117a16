"""Which partitions of this node are tiered, and what the RemoteLogManager has to hear of them.

    leads, follows             -> on_leadership_change
    topic deleted              -> stop, and the remote data goes, by topic id
    moved away, disk failed    -> stop
    tiering switched off       -> stop; the remote data goes with remote.log.delete.on.disable (KIP-950),
                                  also when that was so before the node started: it may have died meanwhile

A topic that is made again under its name has another id: both are told, in this order.
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
    """A listener of the ReplicaManager's role changes, and of changed topic configs.

    `on_stopped` hears which partitions are here no more, or tiered no more.
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
        self._dormant: dict[TopicPartition, TopicIdPartition] = {}
        """Those with a remote part that cannot be used now: compacted by a default, or on a failed disk."""
        self._is_closed = False

    @property
    def tiered(self) -> Iterable[TopicIdPartition]:
        """The tiered partitions that are here."""
        return self._tiered.values()

    def add_existing(self, image: MetadataImage) -> None:
        """Tell of the partitions that were here before anybody listened.

        A node that dies before it marks a deletion leaves no word of it but the topic's config.
        """
        here = self._replicas.partitions
        for name, topic_id in self._replicas.assigned_partitions(image).items():
            if name not in here and _wants_tiering(name.topic, image):
                self._dormant[name] = TopicIdPartition(topic_id, *name)
        self._assign(here.values())
        disabled = [_known(each) for each in here.values() if _is_disabled(each)]
        self._stop(disabled, deletes_remote=True)

    def on_roles_changed(self, changes: RoleChanges, image: MetadataImage) -> None:
        """Follow what the ReplicaManager did."""
        if self._is_closed:
            return
        gone = [known for name in changes.removed if (known := self._forget(name)) is not None]
        deleted = [each for each in gone if each.topic_id not in image.topics_by_id]
        self._stop(deleted, deletes_remote=True)
        left = [each for each in gone if each not in deleted]
        self._stop(left, deletes_remote=False)
        # Of one whose disk failed nobody else may be there to delete what is remote.
        here = (each for each in left if self._is_placed_here(each, image))
        self._dormant.update((each.topic_partition, each) for each in here)
        self._assign((*changes.leaders, *changes.followers))

    def on_configs_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow topics that become tiered, or cease to be; after the logs have their new configs."""
        if self._is_closed:
            return
        for resource_type, name in delta.changed_configs:
            if resource_type == ResourceType.TOPIC:
                self._follow_config(name)
                self._keep_what_is_tiered_again(name, image)

    def close(self) -> None:
        """Hear nothing more: the node shuts down."""
        self._is_closed = True

    def _follow_config(self, topic: str) -> None:
        here = list(self._replicas.of_topic(topic))
        for partition in here:
            if not partition.log.remote_log_enabled:
                known = self._forget(partition.topic_partition)
                if known is not None:
                    self._stop([known], deletes_remote=_is_disabled(partition))
        self._assign(each for each in here if each.topic_partition not in self._tiered)

    def _keep_what_is_tiered_again(self, topic: str, image: MetadataImage) -> None:
        """A deletion that this node has not come to yet may be of a partition that is elsewhere by now."""
        found = image.topics_by_name.get(topic)
        removing = [each for each in self._manager.removing if found and each.topic_id == found.id]
        if removing and _wants_tiering(topic, image):
            self._manager.keep_partitions(removing)

    def _assign(self, partitions: Iterable[Partition]) -> None:
        leaders: list[TieredReplica] = []
        followers: list[TieredReplica] = []
        for partition in partitions:
            known = _known(partition)
            if not partition.log.remote_log_enabled:
                if partition.log.config.remote_storage_enable:
                    self._dormant[partition.topic_partition] = known
                continue
            self._dormant.pop(partition.topic_partition, None)
            self._tiered[partition.topic_partition] = known
            replica = TieredReplica(known, partition.log, partition.leader_epoch)
            (followers if partition.leader is None else leaders).append(replica)
        if leaders or followers:
            self._manager.on_leadership_change(leaders, followers)

    def _forget(self, name: TopicPartition) -> TopicIdPartition | None:
        dormant = self._dormant.pop(name, None)
        return self._tiered.pop(name, dormant)

    def _is_placed_here(self, partition: TopicIdPartition, image: MetadataImage) -> bool:
        placed = image.topics_by_id[partition.topic_id].partitions.get(partition.partition)
        return placed is not None and self._replicas.node_id in placed.replicas

    def _stop(self, partitions: list[TopicIdPartition], *, deletes_remote: bool) -> None:
        if partitions:
            self._manager.stop_partitions(partitions, deletes_remote=deletes_remote)
            for partition in partitions:
                self._on_stopped(partition)


def _wants_tiering(topic: str, image: MetadataImage) -> bool:
    own = image.configs.get((ResourceType.TOPIC, topic), {})
    return own.get("remote.storage.enable", "").lower() == "true"


def _known(partition: Partition) -> TopicIdPartition:
    name = partition.topic_partition
    return TopicIdPartition(partition.topic_id, name.topic, name.partition)


def _is_disabled(partition: Partition) -> bool:
    """Whether its topic's config has the remote data deleted.

    It does not when it is only a default of compaction that keeps the topic from being tiered.
    """
    config = partition.log.config
    return config.remote_log_delete_on_disable and not config.remote_storage_enable
