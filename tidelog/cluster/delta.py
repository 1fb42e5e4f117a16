"""A delta: the changes that metadata records make to an image, and the image that results.

`replay` is the only place where metadata changes. A section of the image is copied at its first record, so
the cost of a delta is that of the sections it changes.

Errors: InconsistentMetadata for a record that contradicts the records before it; the log is then damaged, and
its further records must not be replayed.
Source: org.apache.kafka.image.MetadataDelta and the other deltas of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from tidelog.cluster.image import (
    BrokerImage,
    ConfigResource,
    Endpoint,
    FeatureRange,
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ResourceType,
    TopicImage,
)
from tidelog.cluster.partition_changes import changed_partition, new_partition, without_eligible_leaders
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset
from tidelog.protocol.metadata_records import (
    abort_transaction_record,
    access_control_entry_record,
    begin_transaction_record,
    broker_registration_change_record,
    clear_elr_record,
    client_quota_record,
    config_record,
    delegation_token_record,
    end_transaction_record,
    feature_level_record,
    fence_broker_record,
    no_op_record,
    partition_change_record,
    partition_record,
    producer_ids_record,
    register_broker_record,
    register_controller_record,
    remove_access_control_entry_record,
    remove_delegation_token_record,
    remove_topic_record,
    remove_user_scram_credential_record,
    topic_record,
    unfence_broker_record,
    unregister_broker_record,
    user_scram_credential_record,
    zk_migration_state_record,
)
from tidelog.protocol.schema import MetadataRecord


class InconsistentMetadata(Exception):
    """A record of the metadata log that contradicts the records before it."""


class MetadataDelta:
    """The changes since `base`, and the `image` that results from them."""

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self._copies: dict[str, Any] = {}
        self._partitions: dict[UUID, dict[int, PartitionImage]] = {}
        self._names: dict[UUID, str] = {}
        self._topic_ids: dict[str, UUID] = {}
        self._deleted_topics: dict[UUID, TopicImage] = {}
        self._changed_configs: dict[ConfigResource, None] = {}
        self._changed_entries: dict[UUID, None] = {}
        self.invalidates_producer_ids = False
        """Whether a restore has raised the next producer id: unused ids of brokers are invalid."""

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record."""
        _REPLAY[type(record)](self, record)

    def image(self, offset: Offset, epoch: LeaderEpoch) -> MetadataImage:
        """Return the image after all replayed records, of which the last is at `offset` in `epoch`."""
        sections = dict(self._copies)
        if self._partitions or self._deleted_topics:
            by_name, by_id = dict(self.base.topics_by_name), dict(self.base.topics_by_id)
            for topic in self._deleted_topics.values():
                del by_name[topic.name], by_id[topic.id]
            for topic_id, partitions in self._partitions.items():
                name = self._names[topic_id]
                by_name[name] = by_id[topic_id] = TopicImage(
                    name=name, id=topic_id, partitions=dict(partitions)
                )
            sections |= {"topics_by_name": by_name, "topics_by_id": by_id}
        if self._changed_entries:
            sections["acls_by_resource"] = self.base.acls_by_resource.with_changes(
                self.base.access_control_entries, sections["access_control_entries"], self._changed_entries
            )
        return replace(self.base, offset=offset, epoch=epoch, **sections)

    @property
    def changed_topics(self) -> tuple[str, ...]:
        """The names of the topics that are new or whose partitions changed."""
        return tuple(self._names[topic_id] for topic_id in self._partitions)

    @property
    def deleted_topics(self) -> tuple[TopicImage, ...]:
        """The deleted topics of `base`; a topic that was created again is in `changed_topics` too."""
        return tuple(self._deleted_topics.values())

    @property
    def changed_configs(self) -> tuple[ConfigResource, ...]:
        """The resources whose configs changed, deleted topics included."""
        return tuple(self._changed_configs)

    @property
    def changed_access_control_entries(self) -> tuple[UUID, ...]:
        """The ids of the access control entries that were added or removed."""
        return tuple(self._changed_entries)

    # Sections of the image, copied before their first change

    def _section(self, name: str) -> dict[Any, Any]:
        if name not in self._copies:
            self._copies[name] = dict(getattr(self.base, name))
        section: dict[Any, Any] = self._copies[name]
        return section

    def _changed_partitions(self, topic_id: UUID, record: MetadataRecord) -> dict[int, PartitionImage]:
        if topic_id not in self._partitions:
            topic = self.base.topics_by_id.get(topic_id)
            if topic is None or topic_id in self._deleted_topics:
                raise InconsistentMetadata(f"there is no topic with the id {topic_id}: {record}")
            self._set_topic(topic_id, topic.name, dict(topic.partitions))
        return self._partitions[topic_id]

    # Topics and partitions

    def _add_topic(self, record: topic_record.TopicRecord) -> None:
        if self._topic_id(record.name) is not None:
            raise InconsistentMetadata(f"topic {record.name!r} already exists: {record}")
        self._set_topic(record.topic_id, record.name, {})

    def _set_topic(self, topic_id: UUID, name: str, partitions: dict[int, PartitionImage]) -> None:
        self._partitions[topic_id] = partitions
        self._names[topic_id] = name
        self._topic_ids[name] = topic_id

    def _topic_id(self, name: str) -> UUID | None:
        if name in self._topic_ids:
            return self._topic_ids[name]
        existing = self.base.topics_by_name.get(name)
        return existing.id if existing is not None and existing.id not in self._deleted_topics else None

    def _set_partition(self, record: partition_record.PartitionRecord) -> None:
        self._changed_partitions(record.topic_id, record)[record.partition_id] = new_partition(record)

    def _change_partition(self, record: partition_change_record.PartitionChangeRecord) -> None:
        partitions = self._changed_partitions(record.topic_id, record)
        current = partitions.get(record.partition_id)
        if current is None:
            raise InconsistentMetadata(
                f"there is no partition {record.topic_id}-{record.partition_id}: {record}"
            )
        partitions[record.partition_id] = changed_partition(current, record)

    def _clear_elr(self, record: clear_elr_record.ClearElrRecord) -> None:
        if record.topic_name:
            topic_id = self._topic_id(record.topic_name)
            if topic_id is None:
                raise InconsistentMetadata(f"there is no topic {record.topic_name!r}: {record}")
            self._clear_elr_of(topic_id, record)
            return
        for topic_id in [*self._partitions, *self.base.topics_by_id]:
            if topic_id not in self._deleted_topics:
                self._clear_elr_of(topic_id, record)

    def _clear_elr_of(self, topic_id: UUID, record: MetadataRecord) -> None:
        if topic_id not in self._partitions and not any(
            partition.eligible_leader_replicas or partition.last_known_elr
            for partition in self.base.topics_by_id[topic_id].partitions.values()
        ):
            return
        partitions = self._changed_partitions(topic_id, record)
        for index, partition in partitions.items():
            partitions[index] = without_eligible_leaders(partition)

    def _remove_topic(self, record: remove_topic_record.RemoveTopicRecord) -> None:
        self._changed_partitions(record.topic_id, record)
        name = self._names.pop(record.topic_id)
        del self._partitions[record.topic_id], self._topic_ids[name]
        existing = self.base.topics_by_id.get(record.topic_id)
        if existing is not None:
            self._deleted_topics[record.topic_id] = existing
        resource = (int(ResourceType.TOPIC), name)
        if self._section("configs").pop(resource, None) is not None:
            self._changed_configs[resource] = None

    # Brokers and controllers

    def _register_broker(self, record: register_broker_record.RegisterBrokerRecord) -> None:
        self._section("brokers")[record.broker_id] = BrokerImage(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints={e.name: Endpoint(e.host, e.port, e.security_protocol) for e in record.end_points},
            features={
                f.name: FeatureRange(f.min_supported_version, f.max_supported_version)
                for f in record.features
            },
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            cordoned_log_dirs=record.cordoned_log_dirs or (),
        )

    def _unregister_broker(self, record: unregister_broker_record.UnregisterBrokerRecord) -> None:
        self._registration(record.broker_id, record.broker_epoch, record)
        del self._section("brokers")[record.broker_id]

    def _fence_broker(self, record: fence_broker_record.FenceBrokerRecord) -> None:
        broker = self._registration(record.id, record.epoch, record)
        self._section("brokers")[record.id] = replace(broker, fenced=True)

    def _unfence_broker(self, record: unfence_broker_record.UnfenceBrokerRecord) -> None:
        broker = self._registration(record.id, record.epoch, record)
        self._section("brokers")[record.id] = replace(broker, fenced=False)

    def _change_broker(
        self, record: broker_registration_change_record.BrokerRegistrationChangeRecord
    ) -> None:
        broker = self._registration(record.broker_id, record.broker_epoch, record)
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["log_dirs"] = record.log_dirs
        if record.cordoned_log_dirs is not None:
            changes["cordoned_log_dirs"] = record.cordoned_log_dirs
        self._section("brokers")[record.broker_id] = replace(broker, **changes)

    def _registration(self, broker_id: BrokerId, epoch: int, record: MetadataRecord) -> BrokerImage:
        broker: BrokerImage | None = self._section("brokers").get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise InconsistentMetadata(
                f"there is no registration of broker {broker_id} with epoch {epoch}: {record}"
            )
        return broker

    def _register_controller(self, record: register_controller_record.RegisterControllerRecord) -> None:
        self._section("controllers")[record.controller_id] = record

    # Other records

    def _set_config(self, record: config_record.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        section = self._section("configs")
        configs = dict(section.get(resource, {}))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        if configs:
            section[resource] = configs
        else:
            section.pop(resource, None)
        self._changed_configs[resource] = None

    def _set_feature_level(self, record: feature_level_record.FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self._section("features").pop(record.name, None)
        else:
            self._section("features")[record.name] = record.feature_level

    def _set_next_producer_id(self, record: producer_ids_record.ProducerIdsRecord) -> None:
        self._copies["next_producer_id"] = record.next_producer_id
        if record.broker_id < 0 and record.next_producer_id > self.base.next_producer_id:
            self.invalidates_producer_ids = True

    def _set_client_quota(self, record: client_quota_record.ClientQuotaRecord) -> None:
        entity: QuotaEntity = tuple(sorted((e.entity_type, e.entity_name) for e in record.entity))
        section = self._section("client_quotas")
        quotas = dict(section.get(entity, {}))
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if quotas:
            section[entity] = quotas
        else:
            section.pop(entity, None)

    def _add_access_control_entry(self, record: access_control_entry_record.AccessControlEntryRecord) -> None:
        self._section("access_control_entries")[record.id] = record
        self._changed_entries[record.id] = None

    def _remove_access_control_entry(
        self, record: remove_access_control_entry_record.RemoveAccessControlEntryRecord
    ) -> None:
        if self._section("access_control_entries").pop(record.id, None) is None:
            raise InconsistentMetadata(f"there is no access control entry with the id {record.id}: {record}")
        self._changed_entries[record.id] = None

    def _set_scram_credential(self, record: user_scram_credential_record.UserScramCredentialRecord) -> None:
        self._section("scram_credentials")[record.name, record.mechanism] = record

    def _remove_scram_credential(
        self, record: remove_user_scram_credential_record.RemoveUserScramCredentialRecord
    ) -> None:
        self._section("scram_credentials").pop((record.name, record.mechanism), None)

    def _set_delegation_token(self, record: delegation_token_record.DelegationTokenRecord) -> None:
        self._section("delegation_tokens")[record.token_id] = record

    def _remove_delegation_token(
        self, record: remove_delegation_token_record.RemoveDelegationTokenRecord
    ) -> None:
        self._section("delegation_tokens").pop(record.token_id, None)

    def _ignore(self, record: MetadataRecord) -> None:
        """Ignore records that change no metadata: transaction markers, NoOpRecord, ZkMigrationState."""


_REPLAY: Final[Mapping[type[MetadataRecord], Callable[[MetadataDelta, Any], None]]] = {
    topic_record.TopicRecord: MetadataDelta._add_topic,
    partition_record.PartitionRecord: MetadataDelta._set_partition,
    partition_change_record.PartitionChangeRecord: MetadataDelta._change_partition,
    clear_elr_record.ClearElrRecord: MetadataDelta._clear_elr,
    remove_topic_record.RemoveTopicRecord: MetadataDelta._remove_topic,
    register_broker_record.RegisterBrokerRecord: MetadataDelta._register_broker,
    unregister_broker_record.UnregisterBrokerRecord: MetadataDelta._unregister_broker,
    fence_broker_record.FenceBrokerRecord: MetadataDelta._fence_broker,
    unfence_broker_record.UnfenceBrokerRecord: MetadataDelta._unfence_broker,
    broker_registration_change_record.BrokerRegistrationChangeRecord: MetadataDelta._change_broker,
    register_controller_record.RegisterControllerRecord: MetadataDelta._register_controller,
    config_record.ConfigRecord: MetadataDelta._set_config,
    feature_level_record.FeatureLevelRecord: MetadataDelta._set_feature_level,
    producer_ids_record.ProducerIdsRecord: MetadataDelta._set_next_producer_id,
    client_quota_record.ClientQuotaRecord: MetadataDelta._set_client_quota,
    access_control_entry_record.AccessControlEntryRecord: MetadataDelta._add_access_control_entry,
    remove_access_control_entry_record.RemoveAccessControlEntryRecord: (
        MetadataDelta._remove_access_control_entry
    ),
    user_scram_credential_record.UserScramCredentialRecord: MetadataDelta._set_scram_credential,
    remove_user_scram_credential_record.RemoveUserScramCredentialRecord: (
        MetadataDelta._remove_scram_credential
    ),
    delegation_token_record.DelegationTokenRecord: MetadataDelta._set_delegation_token,
    remove_delegation_token_record.RemoveDelegationTokenRecord: MetadataDelta._remove_delegation_token,
    begin_transaction_record.BeginTransactionRecord: MetadataDelta._ignore,
    end_transaction_record.EndTransactionRecord: MetadataDelta._ignore,
    abort_transaction_record.AbortTransactionRecord: MetadataDelta._ignore,
    no_op_record.NoOpRecord: MetadataDelta._ignore,
    zk_migration_state_record.ZkMigrationStateRecord: MetadataDelta._ignore,
}


def replayed_types() -> tuple[type[MetadataRecord], ...]:
    """Return every record type that a delta can replay: all of Kafka 4.3."""
    return tuple(_REPLAY)
