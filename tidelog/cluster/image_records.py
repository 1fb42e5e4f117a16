"""The records of an image, which are the content of a snapshot.

Invariant: replaying `image_records(image)` on an empty image gives `image`, except for offset and epoch.
Source: the order of org.apache.kafka.image.MetadataImage.write of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.cluster.features import METADATA_VERSION
from tidelog.cluster.image import BrokerImage, MetadataImage
from tidelog.cluster.partition_changes import partition_record
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.metadata_records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield the records that describe all of `image`, features first."""
    yield from _features(image)
    for broker in image.brokers.values():
        yield broker_record(broker)
    yield from image.controllers.values()
    for topic in image.topics_by_name.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in topic.partitions.items():
            yield partition_record(topic.id, index, partition)
    yield from _configs(image)
    yield from _client_quotas(image)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.access_control_entries.values()
    yield from image.scram_credentials.values()
    yield from image.delegation_tokens.values()


def broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    """Return the registration record of `broker` in its current state."""
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(
            BrokerEndpoint(name=name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for name, e in broker.endpoints.items()
        ),
        features=tuple(
            BrokerFeature(name=name, min_supported_version=f.lowest, max_supported_version=f.highest)
            for name, f in broker.features.items()
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs or None,
    )


def _features(image: MetadataImage) -> Iterator[MetadataRecord]:
    if METADATA_VERSION in image.features:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.features[METADATA_VERSION])
    for name, level in image.features.items():
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)


def _configs(image: MetadataImage) -> Iterator[MetadataRecord]:
    for (resource_type, resource_name), configs in image.configs.items():
        for key, value in configs.items():
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=key, value=value
            )


def _client_quotas(image: MetadataImage) -> Iterator[MetadataRecord]:
    for entity, quotas in image.client_quotas.items():
        data = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity)
        for key, value in quotas.items():
            yield ClientQuotaRecord(entity=data, key=key, value=value)
