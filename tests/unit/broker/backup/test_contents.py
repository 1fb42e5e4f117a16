"""What a cluster is restored with from a backup: first records, topics, and offsets."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tests.support.backup import BACKUP
from tests.support.metadata.images import image_after_records, image_with_brokers
from tests.support.metadata.topic_records import topic_records
from tidelog.broker.backup.archive import ClusterBackup, CommittedOffset
from tidelog.broker.backup.collection import metadata_snapshot
from tidelog.broker.backup.contents import (
    PRODUCER_ID_MARGIN,
    RestoredOffset,
    backup_image,
    backup_topics,
    first_records,
    restored_offsets,
)
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.storage.disk.errors import CorruptFile

IMAGE = image_after_records(
    [
        *topic_records("tides", 1, 4, 9),
        *topic_records("__consumer_offsets", 2, 0),
        *topic_records("__remote_log_metadata", 3, 0),
        ConfigRecord(resource_type=2, resource_name="tides", name="remote.storage.enable", value="true"),
        ConfigRecord(resource_type=4, resource_name="1", name="message.max.bytes", value="2000000"),
        ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=3_000),
        ClientQuotaRecord(entity=(EntityData(entity_type="user", entity_name="a"),), key="x", value=1.0),
        UserScramCredentialRecord(
            name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
    ],
    image_with_brokers(1, 2, features=True),
)


def backup_of(image: MetadataImage) -> ClusterBackup:
    return replace(
        BACKUP, metadata=metadata_snapshot(image, 5), metadata_offset=image.offset, metadata_epoch=image.epoch
    )


def test_the_image_of_a_backup_is_that_of_the_cluster() -> None:
    assert replace(backup_image(backup_of(IMAGE)), cluster_id=IMAGE.cluster_id) == IMAGE


def test_a_backup_has_no_delegation_tokens() -> None:
    token = DelegationTokenRecord(owner="User:alice", requester="User:alice", token_id="t")
    with_token = image_after_records([token], IMAGE)
    assert with_token.delegation_tokens
    assert not backup_image(backup_of(with_token)).delegation_tokens


def test_a_damaged_snapshot_is_a_corrupt_file() -> None:
    with pytest.raises(CorruptFile):
        backup_image(replace(BACKUP, metadata=b"snapshot"))


def test_the_first_records_have_everything_but_brokers_and_topics() -> None:
    delta = MetadataDelta(MetadataImage(cluster_id="new"))
    for record in first_records(IMAGE):
        delta.replay(record)
    image = delta.image(0, 0)
    assert image.features == IMAGE.features
    assert image.client_quotas == IMAGE.client_quotas
    assert image.scram_credentials == IMAGE.scram_credentials
    assert image.configs == {
        (ResourceType.BROKER, ""): IMAGE.cluster_configs(),
        (ResourceType.BROKER, "1"): {"message.max.bytes": "2000000"},
    }
    assert not image.brokers and not image.topics_by_name
    assert image.next_producer_id == 3_000 + PRODUCER_ID_MARGIN


def test_topics_of_users_are_restored_with_id_configs_and_highest_epoch() -> None:
    (topic,) = backup_topics(IMAGE)
    assert (topic.name, topic.topic_id, topic.partitions) == ("tides", UUID(int=1_001), 2)
    assert (topic.replication_factor, topic.leader_epoch) == (2, 9)
    assert topic.is_tiered


def test_offsets_beyond_the_restored_end_are_set_to_the_end() -> None:
    name = TopicPartition("tides", 3)
    (offsets,) = restored_offsets(BACKUP, {name: 7}).values()
    assert offsets == {name: RestoredOffset(CommittedOffset(7, 2, "note"))}
    (offsets,) = restored_offsets(BACKUP, {name: 5}).values()
    assert offsets == {name: RestoredOffset(CommittedOffset(5, None, "note"), 7)}
    assert restored_offsets(BACKUP, {}) == {}
