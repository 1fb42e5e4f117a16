"""Brokers register, are let in, and lead again; producer ids; a cluster's first records."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from cluster.controller.bootstrap import bootstrap_records
from cluster.controller.brokers import (
    lead_again,
    register_broker,
    register_single_broker,
    supported_features,
    unfence_broker,
)
from cluster.controller.producer_ids import allocate_producer_ids
from cluster.controller.result import MAX_RECORDS_PER_COMMAND, ControllerResult
from cluster.controller.settings import ControllerSettings
from cluster.features import finalized_features
from cluster.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from protocol.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from protocol.metadata_records.no_op_record import NoOpRecord
from protocol.metadata_records.partition_change_record import PartitionChangeRecord
from protocol.metadata_records.register_broker_record import RegisterBrokerRecord
from tests.support.metadata import CLUSTER_ID, applied, creatable, image_with_brokers, replayed, with_topics

NEW_CLUSTER = replayed(bootstrap_records(1), offset=8)
REQUEST = BrokerRegistrationRequest(
    broker_id=1,
    cluster_id=CLUSTER_ID,
    incarnation_id=UUID(int=70),
    listeners=(Listener(name="PLAINTEXT", host="h", port=9092),),
    features=supported_features(),
    rack="r",
    log_dirs=(UUID(int=300),),
)
OLD_METADATA_VERSION = (Feature(name="metadata.version", min_supported_version=7, max_supported_version=29),)
SETTINGS = ControllerSettings(node_id=1)


def register(
    image: MetadataImage, request: BrokerRegistrationRequest, *, has_session: bool = False
) -> ControllerResult[int]:
    return register_broker(image, SETTINGS, request, has_session=has_session)


def registered() -> MetadataImage:
    return applied(NEW_CLUSTER, register(NEW_CLUSTER, REQUEST))


def refusal(
    image: MetadataImage, request: BrokerRegistrationRequest, *, has_session: bool = False
) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        register(image, request, has_session=has_session)
    return error.value.code


def test_a_broker_registers_fenced_with_the_offset_of_its_record_as_epoch() -> None:
    result = register(NEW_CLUSTER, REQUEST)
    (record,) = result.records
    assert isinstance(record, RegisterBrokerRecord)
    assert result.reply == record.broker_epoch == NEW_CLUSTER.offset + 1
    broker = applied(NEW_CLUSTER, result).brokers[1]
    assert (broker.fenced, broker.rack, broker.log_dirs) == (True, "r", (UUID(int=300),))


def test_a_registered_broker_is_let_in_once() -> None:
    image = registered()
    epoch = image.brokers[1].epoch
    result = unfence_broker(image, 1, epoch)
    image = applied(image, result)
    assert image.brokers[1].is_active
    assert unfence_broker(image, 1, epoch).records == ()


@pytest.mark.parametrize(
    ("broker", "epoch", "code"),
    [(2, 9, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 99, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_only_the_latest_registration_counts(broker: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as error:
        unfence_broker(registered(), broker, epoch)
    assert error.value.code is code
    with pytest.raises(KafkaError) as error:
        allocate_producer_ids(registered(), broker, epoch)
    assert error.value.code is code


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (replace(REQUEST, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (replace(REQUEST, listeners=()), ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, log_dirs=(UUID(int=300),) * 2), ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, log_dirs=(UUID(int=0),)), ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, log_dirs=(UUID(int=99),)), ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, log_dirs=()), ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, features=()), ErrorCode.INVALID_REGISTRATION),
        (replace(REQUEST, features=OLD_METADATA_VERSION), ErrorCode.UNSUPPORTED_VERSION),
        (replace(REQUEST, features=supported_features()[:1]), ErrorCode.UNSUPPORTED_VERSION),
        (replace(REQUEST, is_migrating_zk_broker=True), ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_a_registration_that_cannot_be_is_refused(
    request_: BrokerRegistrationRequest, code: ErrorCode
) -> None:
    assert refusal(NEW_CLUSTER, request_) is code


def test_an_id_that_a_living_process_holds_is_refused_to_another() -> None:
    image = registered()
    image = applied(image, unfence_broker(image, 1, image.brokers[1].epoch))
    other = replace(REQUEST, incarnation_id=UUID(int=71))
    assert refusal(image, other, has_session=True) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register_single_broker(image, other).reply == image.offset + 1


def test_a_broker_that_was_not_heard_of_may_come_back_as_another_process() -> None:
    image = registered()
    result = register(image, replace(REQUEST, incarnation_id=UUID(int=71)))
    assert result.reply == image.offset + 1


def test_the_same_process_keeps_its_epoch() -> None:
    image = registered()
    assert register(image, REQUEST).reply == image.brokers[1].epoch


def test_a_broker_that_came_back_leads_in_a_new_epoch() -> None:
    image = with_topics(image_with_brokers(1, 2), creatable("orders", 4, 2))
    (records,) = lead_again(image, 1)
    changed = replayed(records, image).topics_by_name["orders"].partitions
    for index, before in image.topics_by_name["orders"].partitions.items():
        expected = before.leader_epoch + (before.leader == 1)
        assert (changed[index].leader, changed[index].leader_epoch) == (before.leader, expected)


def test_a_broker_that_stopped_cleanly_takes_back_what_nobody_leads() -> None:
    image = with_topics(image_with_brokers(1, 2), creatable("orders", 2, 1))
    topic = image.topics_by_name["orders"]
    mine = topic.partitions[0].replicas[0]
    stopping = [
        PartitionChangeRecord(
            topic_id=topic.id, partition_id=0, leader=-1, isr=(), eligible_leader_replicas=(mine,)
        ),
        BrokerRegistrationChangeRecord(broker_id=mine, broker_epoch=100 + mine, fenced=1),
    ]
    image = replayed(stopping, image)
    (records,) = lead_again(image, mine)
    partition = replayed(records, image).topics_by_name["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (mine, (mine,), 2)
    assert partition.eligible_leader_replicas == ()


def test_a_broker_without_every_committed_record_does_not_lead() -> None:
    image = with_topics(image_with_brokers(1, 2), creatable("orders", 1, 2))
    topic = image.topics_by_name["orders"]
    lost = PartitionChangeRecord(
        topic_id=topic.id, partition_id=0, leader=-1, isr=(2,), eligible_leader_replicas=()
    )
    assert list(lead_again(replayed([lost], image), 1)) == []


def test_leaderships_come_in_batches_that_the_log_can_take() -> None:
    image = with_topics(image_with_brokers(1), creatable("a", 9000), settings=None)
    image = with_topics(image, creatable("b", 3000))
    assert [len(records) for records in lead_again(image, 1)] == [MAX_RECORDS_PER_COMMAND, 2000]


def test_producer_ids_come_in_blocks_that_never_repeat() -> None:
    image = registered()
    epoch = image.brokers[1].epoch
    first = allocate_producer_ids(image, 1, epoch)
    second = allocate_producer_ids(applied(image, first), 1, epoch)
    assert (first.reply, second.reply) == ((0, 1000), (1000, 1000))


def test_producer_ids_end() -> None:
    image = replace(registered(), next_producer_id=2**63 - 1)
    with pytest.raises(KafkaError):
        allocate_producer_ids(image, 1, image.brokers[1].epoch)


def test_a_new_cluster_is_at_the_levels_of_4_3() -> None:
    image = replayed(bootstrap_records(2), offset=9)
    assert image.features == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert image.cluster_configs() == {"min.insync.replicas": "2"}
    assert finalized_features(image) == (image.features, 9)


def test_no_features_are_final_before_the_first_record() -> None:
    assert finalized_features(MetadataImage(cluster_id="x")) == ({}, -1)


def test_a_command_writes_a_limited_number_of_records() -> None:
    with pytest.raises(KafkaError) as error:
        ControllerResult((NoOpRecord(),) * (MAX_RECORDS_PER_COMMAND + 1), None)
    assert error.value.code is ErrorCode.POLICY_VIOLATION
