"""Metadata records change the image as in Kafka."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.metadata.images import CLUSTER_ID, broker_registration_record, image_after_records
from tidelog.cluster.delta import InconsistentMetadata, MetadataDelta
from tidelog.cluster.image import Endpoint, FeatureRange, MetadataImage, PartitionImage, ResourceType
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.metadata_records.clear_elr_record import ClearElrRecord
from tidelog.protocol.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.fence_broker_record import FenceBrokerRecord
from tidelog.protocol.metadata_records.no_op_record import NoOpRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.metadata_records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from tidelog.protocol.metadata_records.remove_access_control_entry_record import (
    RemoveAccessControlEntryRecord,
)
from tidelog.protocol.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.metadata_records.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.metadata_records.unfence_broker_record import UnfenceBrokerRecord
from tidelog.protocol.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from tidelog.protocol.metadata_records.zk_migration_state_record import ZkMigrationStateRecord
from tidelog.protocol.schema import ZERO_UUID, MetadataRecord

ORDERS = UUID(int=77)
DIRECTORY = UUID(int=500)

EMPTY = MetadataImage(cluster_id=CLUSTER_ID)


def topic_records(topic_id: UUID = ORDERS, name: str = "orders", partitions: int = 2) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=(1, 2),
                isr=(1, 2),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=(DIRECTORY, DIRECTORY),
            )
            for index in range(partitions)
        ),
    ]


def partition(image: MetadataImage, index: int = 0) -> PartitionImage:
    return image.topics_by_id[ORDERS].partitions[index]


def test_an_image_has_its_offset_and_epoch() -> None:
    delta = MetadataDelta(EMPTY)
    delta.replay(NoOpRecord())
    delta.replay(ZkMigrationStateRecord())
    image = delta.image(41, 7)
    assert (image.offset, image.epoch, image.cluster_id) == (41, 7, CLUSTER_ID)


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = image_after_records(topic_records())
    assert image.topics_by_name["orders"] is image.topics_by_id[ORDERS]
    assert list(partition(image).replicas) == [1, 2]
    assert partition(image).directory_of(2) == DIRECTORY


def test_a_partition_of_an_older_record_has_no_directories_yet() -> None:
    records = [
        TopicRecord(name="orders", topic_id=ORDERS),
        PartitionRecord(partition_id=0, topic_id=ORDERS, replicas=(1, 2), isr=(1,), leader=1),
    ]
    image = image_after_records(records)
    assert partition(image).directories == (ZERO_UUID, ZERO_UUID)
    assert partition(image).directory_of(1) is None
    assert partition(image).directory_of(3) is None


def test_a_change_of_leader_begins_a_leader_epoch() -> None:
    image = image_after_records(topic_records())
    image = image_after_records([PartitionChangeRecord(topic_id=ORDERS, partition_id=0, leader=2)], image)
    assert (partition(image).leader, partition(image).leader_epoch) == (2, 1)
    assert partition(image).partition_epoch == 1
    assert partition(image, 1).partition_epoch == 0


def test_a_record_with_the_same_leader_begins_a_leader_epoch() -> None:
    image = image_after_records(topic_records())
    image = image_after_records([PartitionChangeRecord(topic_id=ORDERS, partition_id=0, leader=1)], image)
    assert (partition(image).leader, partition(image).leader_epoch) == (1, 1)


def test_a_change_without_a_leader_leaves_the_leader_epoch() -> None:
    image = image_after_records(topic_records())
    change = PartitionChangeRecord(topic_id=ORDERS, partition_id=0, isr=(1,))
    image = image_after_records([change], image)
    assert partition(image).isr == (1,)
    assert (partition(image).leader_epoch, partition(image).partition_epoch) == (0, 1)


def test_a_change_affects_only_the_given_fields() -> None:
    change = PartitionChangeRecord(
        topic_id=ORDERS,
        partition_id=0,
        removing_replicas=(2,),
        adding_replicas=(3,),
        replicas=(1, 2, 3),
        leader_recovery_state=1,
        eligible_leader_replicas=(2,),
        last_known_elr=(3,),
    )
    changed = partition(image_after_records([change], image_after_records(topic_records())))
    assert changed.replicas == (1, 2, 3)
    assert changed.directories == (DIRECTORY, DIRECTORY, ZERO_UUID)
    assert changed.removing_replicas == (2,)
    assert changed.adding_replicas == (3,)
    assert changed.leader_recovery_state == 1
    assert changed.eligible_leader_replicas == (2,)
    assert changed.last_known_elr == (3,)
    assert (changed.isr, changed.leader) == ((1, 2), 1)


def test_directories_change_when_given() -> None:
    other = UUID(int=501)
    change = PartitionChangeRecord(topic_id=ORDERS, partition_id=0, directories=(other, DIRECTORY))
    changed = partition(image_after_records([change], image_after_records(topic_records())))
    assert changed.directory_of(1) == other


def test_eligible_leaders_are_cleared_for_one_topic_or_all() -> None:
    other = UUID(int=78)
    elr = {"eligible_leader_replicas": (2,), "last_known_elr": (1,)}
    records = [
        *topic_records(),
        *topic_records(other, "other"),
        PartitionChangeRecord(topic_id=ORDERS, partition_id=0, **elr),  # type: ignore[arg-type]
        PartitionChangeRecord(topic_id=other, partition_id=0, **elr),  # type: ignore[arg-type]
    ]
    image = image_after_records(records)
    one = image_after_records([ClearElrRecord(topic_name="orders")], image)
    assert partition(one).eligible_leader_replicas == ()
    assert partition(one).partition_epoch == partition(image).partition_epoch + 1
    assert one.topics_by_id[other].partitions[0].eligible_leader_replicas == (2,)
    every = image_after_records([ClearElrRecord()], image)
    assert every.topics_by_id[other].partitions[0].last_known_elr == ()
    delta = MetadataDelta(every)
    delta.replay(ClearElrRecord())
    assert delta.changed_topics == ()


def test_a_deleted_topic_loses_its_configs() -> None:
    records = [
        *topic_records(),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="5"),
    ]
    image = image_after_records(records)
    delta = MetadataDelta(image)
    delta.replay(RemoveTopicRecord(topic_id=ORDERS))
    image_after_removal = delta.image(9, 1)
    assert not image_after_removal.topics_by_name
    assert not image_after_removal.topics_by_id
    assert not image_after_removal.configs
    assert [topic.name for topic in delta.deleted_topics] == ["orders"]
    assert delta.changed_topics == ()
    assert delta.changed_configs == ((ResourceType.TOPIC, "orders"),)


def test_a_topic_can_be_recreated_in_one_delta() -> None:
    image = image_after_records(topic_records())
    delta = MetadataDelta(image)
    delta.replay(RemoveTopicRecord(topic_id=ORDERS))
    new_id = UUID(int=79)
    for record in topic_records(new_id, "orders", partitions=1):
        delta.replay(record)
    renewed = delta.image(9, 1)
    assert renewed.topics_by_name["orders"].id == new_id
    assert list(renewed.topics_by_id) == [new_id]
    assert [topic.id for topic in delta.deleted_topics] == [ORDERS]
    assert delta.changed_topics == ("orders",)


def test_a_topic_created_and_deleted_in_one_delta_is_absent() -> None:
    delta = MetadataDelta(EMPTY)
    for record in [*topic_records(), RemoveTopicRecord(topic_id=ORDERS)]:
        delta.replay(record)
    assert delta.deleted_topics == ()
    assert delta.changed_topics == ()
    assert not delta.image(1, 1).topics_by_name


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord(topic_id=UUID(int=3), partition_id=0),
        PartitionChangeRecord(topic_id=UUID(int=3), partition_id=0),
        PartitionChangeRecord(topic_id=ORDERS, partition_id=9),
        RemoveTopicRecord(topic_id=UUID(int=3)),
        TopicRecord(name="orders", topic_id=UUID(int=3)),
        ClearElrRecord(topic_name="nowhere"),
        UnfenceBrokerRecord(id=9, epoch=1),
        FenceBrokerRecord(id=1, epoch=999),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=999),
        BrokerRegistrationChangeRecord(broker_id=9, broker_epoch=1),
        RemoveAccessControlEntryRecord(id=UUID(int=3)),
    ],
)
def test_an_inconsistent_record_is_refused(record: MetadataRecord) -> None:
    image = image_after_records([*topic_records(), broker_registration_record(1)])
    with pytest.raises(InconsistentMetadata):
        MetadataDelta(image).replay(record)


def test_a_registration_keeps_every_field() -> None:
    record = RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=UUID(int=8),
        broker_epoch=5,
        end_points=(BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),
        features=(BrokerFeature(name="f", min_supported_version=1, max_supported_version=2),),
        rack="r",
        log_dirs=(DIRECTORY,),
        cordoned_log_dirs=(DIRECTORY,),
    )
    broker = image_after_records([record]).brokers[1]
    assert broker.endpoints == {"PLAINTEXT": Endpoint("h", 9092, 0)}
    assert broker.features == {"f": FeatureRange(1, 2)}
    assert (broker.rack, broker.epoch, broker.fenced) == ("r", 5, True)
    assert (broker.log_dirs, broker.cordoned_log_dirs) == ((DIRECTORY,), (DIRECTORY,))
    assert not broker.is_active


def test_a_broker_is_fenced_and_unfenced_by_old_and_new_records() -> None:
    image = image_after_records([broker_registration_record(1, fenced=True)])
    image = image_after_records([UnfenceBrokerRecord(id=1, epoch=101)], image)
    assert image.brokers[1].is_active
    image = image_after_records([FenceBrokerRecord(id=1, epoch=101)], image)
    assert image.brokers[1].fenced
    image = image_after_records(
        [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=-1)], image
    )
    assert not image.brokers[1].fenced
    stopping = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, in_controlled_shutdown=1)
    image = image_after_records([stopping], image)
    assert not image.brokers[1].is_active
    image = image_after_records(
        [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1)], image
    )
    assert image.brokers[1].fenced


def test_a_brokers_directories_change() -> None:
    image = image_after_records([broker_registration_record(1)])
    change = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=101, log_dirs=(DIRECTORY,), cordoned_log_dirs=()
    )
    changed = image_after_records([change], image).brokers[1]
    assert (changed.log_dirs, changed.cordoned_log_dirs) == ((DIRECTORY,), ())
    unnamed = image_after_records(
        [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101)], image
    ).brokers[1]
    assert unnamed == image.brokers[1]


def test_an_unregistered_broker_is_removed() -> None:
    delta = MetadataDelta(image_after_records([broker_registration_record(1)]))
    delta.replay(UnregisterBrokerRecord(broker_id=1, broker_epoch=101))
    assert not delta.image(5, 1).brokers


def test_a_config_is_set_and_deleted() -> None:
    setting = ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="5")
    image = image_after_records([setting])
    assert image.cluster_configs() == {"log.retention.ms": "5"}
    assert image.broker_configs(1) == {}
    dropping = ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=None)
    assert not image_after_records([dropping], image).configs


def test_features_at_level_0_are_not_in_use() -> None:
    image = image_after_records([FeatureLevelRecord(name="metadata.version", feature_level=30)])
    assert image.features == {"metadata.version": 30}
    image = image_after_records([FeatureLevelRecord(name="metadata.version", feature_level=0)], image)
    assert not image.features


def test_quota_entities_are_equal_in_any_order() -> None:
    user, client = (
        EntityData(entity_type="user", entity_name="a"),
        EntityData(entity_type="client-id", entity_name=None),
    )
    image = image_after_records([ClientQuotaRecord(entity=(user, client), key="rate", value=2.5)])
    entity = (("client-id", None), ("user", "a"))
    assert image.client_quotas == {entity: {"rate": 2.5}}
    image = image_after_records([ClientQuotaRecord(entity=(client, user), key="rate", remove=True)], image)
    assert not image.client_quotas


def test_credentials_acls_and_tokens_are_added_and_removed() -> None:
    entry = AccessControlEntryRecord(id=UUID(int=4), principal="User:a")
    scram = UserScramCredentialRecord(name="a", mechanism=1, salt=b"s")
    token = DelegationTokenRecord(token_id="t")
    image = image_after_records([entry, scram, token, ProducerIdsRecord(next_producer_id=3000)])
    assert image.access_control_entries == {UUID(int=4): entry}
    assert image.scram_credentials == {("a", 1): scram}
    assert image.delegation_tokens == {"t": token}
    assert image.next_producer_id == 3000
    image = image_after_records(
        [
            RemoveAccessControlEntryRecord(id=UUID(int=4)),
            RemoveUserScramCredentialRecord(name="a", mechanism=1),
            RemoveDelegationTokenRecord(token_id="t"),
        ],
        image,
    )
    assert not image.access_control_entries
    assert not image.scram_credentials
    assert not image.delegation_tokens


def test_a_delta_does_not_change_the_previous_image() -> None:
    first = image_after_records([*topic_records(), broker_registration_record(1)])
    copy = (dict(first.topics_by_name), dict(first.brokers), dict(first.configs))
    image_after_records(
        [
            PartitionChangeRecord(topic_id=ORDERS, partition_id=0, leader=2),
            FenceBrokerRecord(id=1, epoch=101),
            ConfigRecord(resource_type=2, resource_name="orders", name="a", value="b"),
        ],
        first,
    )
    assert (dict(first.topics_by_name), dict(first.brokers), dict(first.configs)) == copy
    assert partition(first).leader == 1


def test_unchanged_parts_are_shared_between_images() -> None:
    first = image_after_records(topic_records())
    second = image_after_records(
        [ConfigRecord(resource_type=2, resource_name="orders", name="a", value="b")], first
    )
    assert second.topics_by_name is first.topics_by_name
    assert second.brokers is first.brokers
