"""The partition changes of one command, each applied to the result of the earlier ones.

`PartitionUpdates` determines the rules of a topic's partitions (min.insync.replicas, unclean election,
eligible leaders) and which brokers can lead, so that commands only specify the changes.

Source: ReplicationControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.cluster.controller.config_rules import broker_layers
from tidelog.cluster.controller.partition_change import (
    Election,
    PartitionRules,
    RequestedChange,
    change_partition,
)
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.effective_configs import effective_topic_entry
from tidelog.cluster.features import METADATA_VERSION, eligible_leader_replicas_enabled
from tidelog.cluster.image import MetadataImage, PartitionImage, TopicImage
from tidelog.cluster.partition_changes import changed_partition
from tidelog.cluster.replica_directories import default_directory, is_online
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.steps import Steps
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
_METADATA_VERSION_3_6: Final = 12
"""Below it, a leader ignores a smaller ISR that has no new leader epoch (KAFKA-15021)."""


PartitionOfTopic: TypeAlias = tuple[TopicImage, int]
"""A topic of the image, and the index of one of its partitions."""


class PartitionUpdates:
    """The changes of one command; `records` are those of the changes so far.

    `removed_broker`: a broker that can no longer lead, whatever its state is; `unfenced_broker`: a broker
    that can lead from now on.
    """

    def __init__(
        self,
        image: MetadataImage,
        settings: ControllerSettings,
        *,
        removed_broker: BrokerId | None = None,
        unfenced_broker: BrokerId | None = None,
    ) -> None:
        self.records: list[PartitionChangeRecord] = []
        self._image = image
        self._removed_broker = removed_broker
        self._unfenced_broker = unfenced_broker
        self._tracks_eligible = eligible_leader_replicas_enabled(image)
        level = image.features.get(METADATA_VERSION, _METADATA_VERSION_3_6)
        self._bumps_on_shrink = level < _METADATA_VERSION_3_6
        self._layers = broker_layers(image, settings)
        self._defaults: dict[str, str] = {}
        self._rules: dict[UUID, PartitionRules] = {}
        self._changed_partitions: dict[tuple[UUID, int], PartitionImage] = {}

    def partition(self, topic: TopicImage, index: int) -> PartitionImage | None:
        """Return the partition after the changes so far; None if it does not exist."""
        return self._changed_partitions.get((topic.id, index)) or topic.partitions.get(index)

    def change(
        self, topic: TopicImage, index: int, requested: RequestedChange
    ) -> PartitionChangeRecord | None:
        """Change an existing partition; return the record, or None if nothing changes."""
        partition = self.partition(topic, index)
        assert partition is not None, f"{topic.name}-{index} does not exist"
        record = change_partition(topic.id, index, partition, self._rules_of(topic), requested)
        if record is not None:
            self.records.append(record)
            self._changed_partitions[topic.id, index] = changed_partition(partition, record)
        return record

    def remove_from_isrs(
        self,
        partitions: Iterable[PartitionOfTopic],
        removed: BrokerId | None = None,
        *,
        is_unclean: bool = False,
    ) -> Steps[None]:
        """Remove the broker `removed`, if any, from the ISRs of `partitions`, and elect missing leaders.

        `is_unclean`: whether the broker may have lost records, so that it is no longer an eligible leader.
        """
        for topic, index in partitions:
            partition = self.partition(topic, index)
            assert partition is not None, f"{topic.name}-{index} does not exist"
            requested = RequestedChange(
                isr=tuple(replica for replica in partition.isr if replica != removed),
                election=self.election(topic),
                unclean_shutdown=removed if is_unclean else None,
            )
            self.change(topic, index, requested)
            yield None

    def election(self, topic: TopicImage) -> Election:
        """Return the kind of election that keeps a topic's partitions online."""
        return Election.UNCLEAN if self.allows_unclean_election(topic) else Election.ONLINE

    def allows_unclean_election(self, topic: TopicImage) -> bool:
        """Return whether the topic allows unclean leader elections."""
        return self._config(topic, _UNCLEAN_ELECTION) == "true"

    def _rules_of(self, topic: TopicImage) -> PartitionRules:
        rules = self._rules.get(topic.id)
        if rules is None:
            replication_factor = len(topic.partitions[0].replicas)
            rules = self._rules[topic.id] = PartitionRules(
                can_lead=self._can_lead,
                default_directory=self._default_directory,
                min_insync_replicas=min(int(self._config(topic, _MIN_INSYNC_REPLICAS)), replication_factor),
                tracks_eligible_leaders=self._tracks_eligible,
                bumps_epoch_on_isr_shrink=self._bumps_on_shrink,
            )
        return rules

    def _config(self, topic: TopicImage, key: str) -> str:
        own = self._image.topic_configs(topic.name)
        if key in own:
            entry = effective_topic_entry(TOPIC_CONFIGS[key], own, self._layers)
            return str(entry.value)
        if key not in self._defaults:
            entry = effective_topic_entry(TOPIC_CONFIGS[key], {}, self._layers)
            self._defaults[key] = str(entry.value)
        return self._defaults[key]

    def _can_lead(self, partition: PartitionImage, broker: BrokerId) -> bool:
        registered = self._image.brokers.get(broker)
        if registered is None or broker == self._removed_broker:
            return False
        if not (registered.is_active or broker == self._unfenced_broker):
            return False
        directory = partition.directory_of(broker)
        return directory is None or is_online(directory, registered.log_dirs)

    def _default_directory(self, broker: BrokerId) -> UUID:
        registered = self._image.brokers.get(broker)
        return default_directory(registered.log_dirs if registered is not None else None)
