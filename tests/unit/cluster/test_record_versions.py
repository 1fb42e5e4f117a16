"""The form of metadata records at each level of metadata.version."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.metadata.images import image_after_records, image_with_brokers
from tidelog.cluster.features import METADATA_VERSION, SUPPORTED_FEATURES
from tidelog.cluster.image_records import image_records
from tidelog.cluster.metadata_log_codec import decode_record, encode_record
from tidelog.cluster.record_versions import record_version, supported_record
from tidelog.protocol.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.register_broker_record import RegisterBrokerRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord

DIRECTORY = UUID(int=500)
BROKER = RegisterBrokerRecord(broker_id=1, log_dirs=(DIRECTORY,), cordoned_log_dirs=(DIRECTORY,))
PARTITION = PartitionRecord(
    partition_id=0,
    replicas=(1, 2),
    isr=(1,),
    directories=(DIRECTORY, DIRECTORY),
    eligible_leader_replicas=(2,),
    last_known_elr=(1,),
)
CHANGE = PartitionChangeRecord(
    partition_id=0, isr=(1,), directories=(DIRECTORY,), eligible_leader_replicas=(2,), last_known_elr=(1,)
)
SUPPORTED = SUPPORTED_FEATURES[METADATA_VERSION]
LEVELS = range(SUPPORTED.lowest, SUPPORTED.highest + 1)


@pytest.mark.parametrize(
    ("level", "broker", "partition"),
    [(7, 1, 0), (8, 2, 0), (16, 2, 0), (17, 3, 1), (22, 3, 1), (23, 3, 2), (29, 3, 2), (30, 4, 2)],
)
def test_brokers_and_partitions_have_the_version_of_the_level(
    level: int, broker: int, partition: int
) -> None:
    assert record_version(BROKER, level) == broker
    assert record_version(PARTITION, level) == record_version(CHANGE, level) == partition
    assert record_version(TopicRecord(name="a"), level) == 0


@pytest.mark.parametrize(
    ("change", "version"),
    [
        (BrokerRegistrationChangeRecord(fenced=1), 0),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 1),
        (BrokerRegistrationChangeRecord(log_dirs=(DIRECTORY,)), 2),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=()), 3),
    ],
)
def test_a_change_of_a_broker_has_the_lowest_version_with_its_field(
    change: BrokerRegistrationChangeRecord, version: int
) -> None:
    assert {record_version(change, level) for level in LEVELS} == {version}
    assert decode_record(encode_record(change)) == change


@pytest.mark.parametrize("record", [BROKER, PARTITION, CHANGE, TopicRecord(name="a")])
def test_what_is_applied_is_what_other_nodes_read_at_every_level(record: MetadataRecord) -> None:
    for level in LEVELS:
        assert decode_record(encode_record(record, level)) == supported_record(record, level)


def test_a_level_without_directories_and_eligible_leaders_removes_them() -> None:
    assert supported_record(PARTITION, 22) == PartitionRecord(
        partition_id=0, replicas=(1, 2), isr=(1,), directories=(DIRECTORY, DIRECTORY)
    )
    assert supported_record(PARTITION, 16) == PartitionRecord(partition_id=0, replicas=(1, 2), isr=(1,))
    assert supported_record(BROKER, 29) == RegisterBrokerRecord(broker_id=1, log_dirs=(DIRECTORY,))
    assert supported_record(BROKER, 16) == RegisterBrokerRecord(broker_id=1)
    assert supported_record(BROKER, 30) is BROKER


def test_a_snapshot_after_a_downgrade_gives_the_same_image_in_the_form_of_the_lower_level() -> None:
    level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=25)
    image = image_after_records([level], image_with_brokers(1, 2, features=True))
    values = [encode_record(record, 25) for record in image_records(image)]
    assert {value[2] for value in values if isinstance(decode_record(value), RegisterBrokerRecord)} == {3}
    again = image_after_records([decode_record(value) for value in values])
    assert (again.brokers, again.features) == (image.brokers, image.features)
