"""The records that change one image into another, to apply a snapshot as one delta.

Invariant: replaying `difference_records(old, new)` on `old` gives `new`, except for offset and epoch. Equal
parts have no records, so that subscribers see only real changes. Controllers remain registered and a topic
keeps its partitions: there is no record that removes one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import ConfigResource, MetadataImage, ResourceType, TopicImage
from tidelog.cluster.image_records import broker_record
from tidelog.cluster.partition_changes import partition_record
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.metadata_records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from tidelog.protocol.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.metadata_records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from tidelog.protocol.schema import MetadataRecord

Configs: TypeAlias = Mapping[ConfigResource, Mapping[str, str]]


def difference(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """Return the delta on `old` whose image is `new`."""
    delta = MetadataDelta(old)
    for record in difference_records(old, new):
        delta.replay(record)
    return delta


def difference_records(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield the records that change `old` into `new`."""
    yield from _features(old, new)
    yield from _brokers(old, new)
    removed = [topic for topic in old.topics_by_name.values() if topic.id not in new.topics_by_id]
    for topic in removed:
        yield RemoveTopicRecord(topic_id=topic.id)
    for topic in new.topics_by_name.values():
        yield from _topic(old.topics_by_id.get(topic.id), topic)
    # The removal of a topic removes its configs.
    deleted = {(int(ResourceType.TOPIC), topic.name) for topic in removed}
    yield from _configs({key: value for key, value in old.configs.items() if key not in deleted}, new.configs)
    yield from _client_quotas(old, new)
    if new.next_producer_id != old.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=new.next_producer_id)
    yield from _credentials(old, new)


def _features(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    for name, level in new.features.items():
        if old.features.get(name) != level:
            yield FeatureLevelRecord(name=name, feature_level=level)
    for name in old.features.keys() - new.features.keys():
        yield FeatureLevelRecord(name=name, feature_level=0)


def _brokers(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    for broker in old.brokers.values():
        if broker.id not in new.brokers:
            yield UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    for broker in new.brokers.values():
        if old.brokers.get(broker.id) != broker:
            yield broker_record(broker)
    for controller_id, controller in new.controllers.items():
        if old.controllers.get(controller_id) != controller:
            yield controller


def _topic(old: TopicImage | None, new: TopicImage) -> Iterator[MetadataRecord]:
    if old is None:
        yield TopicRecord(name=new.name, topic_id=new.id)
    known = {} if old is None else old.partitions
    for index, partition in new.partitions.items():
        if known.get(index) != partition:
            yield partition_record(new.id, index, partition)


def _configs(old: Configs, new: Configs) -> Iterator[MetadataRecord]:
    for resource in [*new, *(resource for resource in old if resource not in new)]:
        kind, name = resource
        before, after = old.get(resource, {}), new.get(resource, {})
        for key in before:
            if key not in after:
                yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=None)
        for key, value in after.items():
            if before.get(key) != value:
                yield ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def _client_quotas(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    removed = [entity for entity in old.client_quotas if entity not in new.client_quotas]
    for entity in [*new.client_quotas, *removed]:
        data = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
        before, after = old.client_quotas.get(entity, {}), new.client_quotas.get(entity, {})
        for key in before:
            if key not in after:
                yield ClientQuotaRecord(entity=data, key=key, remove=True)
        for key, value in after.items():
            if before.get(key) != value:
                yield ClientQuotaRecord(entity=data, key=key, value=value)


def _credentials(old: MetadataImage, new: MetadataImage) -> Iterator[MetadataRecord]:
    for entry_id, entry in old.access_control_entries.items():
        if new.access_control_entries.get(entry_id) != entry:
            yield RemoveAccessControlEntryRecord(id=entry_id)
    for entry_id, entry in new.access_control_entries.items():
        if old.access_control_entries.get(entry_id) != entry:
            yield entry
    for name, mechanism in old.scram_credentials:
        if (name, mechanism) not in new.scram_credentials:
            yield RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)
    for key, credential in new.scram_credentials.items():
        if old.scram_credentials.get(key) != credential:
            yield credential
    for token_id in old.delegation_tokens:
        if token_id not in new.delegation_tokens:
            yield RemoveDelegationTokenRecord(token_id=token_id)
    for token_id, token in new.delegation_tokens.items():
        if old.delegation_tokens.get(token_id) != token:
            yield token
