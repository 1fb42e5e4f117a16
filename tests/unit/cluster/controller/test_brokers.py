"""Broker registration, eligibility after a restart, producer ids, and a cluster's first records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    CLUSTER_ID,
    broker_registration_record,
    creatable,
    image_after_records,
    image_after_result,
    image_with_brokers,
    with_topics,
)
from tidelog.cluster.controller import broker_changes
from tidelog.cluster.controller.bootstrap import bootstrap_records
from tidelog.cluster.controller.brokers import register_broker, supported_features
from tidelog.cluster.controller.partition_change import RequestedChange
from tidelog.cluster.controller.partition_updates import PartitionUpdates
from tidelog.cluster.controller.producer_ids import allocate_producer_ids
from tidelog.cluster.controller.result import MAX_RECORDS_PER_COMMAND, ControllerResult
from tidelog.cluster.features import METADATA_VERSION, SUPPORTED_FEATURES, finalized_features
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.metadata_records.no_op_record import NoOpRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.metadata_records.register_broker_record import RegisterBrokerRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps, run_steps

NEW_CLUSTER = image_after_records(bootstrap_records(1), offset=8)
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
SETTINGS = controller_settings(node_id=1)


def register(
    image: MetadataImage, request: BrokerRegistrationRequest, *, has_session: bool = False
) -> ControllerResult[int]:
    return run_steps(register_broker(image, SETTINGS, request, has_session=has_session))


def image_with_registered_brokers() -> MetadataImage:
    return image_after_result(NEW_CLUSTER, register(NEW_CLUSTER, REQUEST))


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
    broker = image_after_result(NEW_CLUSTER, result).brokers[1]
    assert (broker.fenced, broker.rack, broker.log_dirs) == (True, "r", (UUID(int=300),))


@pytest.mark.parametrize(
    ("broker", "epoch", "code"),
    [(2, 9, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 99, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_only_the_latest_registration_counts(broker: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as error:
        allocate_producer_ids(image_with_registered_brokers(), broker, epoch)
    assert error.value.code is code


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (replace(REQUEST, cluster_id="other"), ErrorCode.INCONSISTENT_CLUSTER_ID),
        (replace(REQUEST, broker_id=-1), ErrorCode.INVALID_REGISTRATION),
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
def test_an_invalid_registration_is_refused(request_: BrokerRegistrationRequest, code: ErrorCode) -> None:
    assert refusal(NEW_CLUSTER, request_) is code


def test_a_registration_needs_directories_only_if_the_metadata_version_has_them() -> None:
    level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=16)
    image = image_after_records([level], NEW_CLUSTER, offset=9)
    (record,) = register(image, replace(REQUEST, log_dirs=())).records
    assert isinstance(record, RegisterBrokerRecord) and record.log_dirs == ()


def test_a_broker_id_with_a_live_session_is_refused_to_another_process() -> None:
    image = image_with_registered_brokers()
    other = replace(REQUEST, incarnation_id=UUID(int=71))
    assert refusal(image, other, has_session=True) is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert register(image, other).reply == image.offset + 1


def test_a_broker_id_without_session_may_be_registered_by_another_process() -> None:
    image = image_with_registered_brokers()
    result = register(image, replace(REQUEST, incarnation_id=UUID(int=71)))
    assert result.reply == image.offset + 1


def test_a_second_registration_of_a_process_keeps_its_broker_epoch() -> None:
    image = image_with_registered_brokers()
    assert register(image, REQUEST).reply == image.brokers[1].epoch


def image_with_partition_on_1(**change: Any) -> MetadataImage:
    """Return an image with broker 1 registered at epoch 500, broker 2 alive, and one partition."""
    image = replace(image_with_registered_brokers(), offset=499)
    again = replace(REQUEST, incarnation_id=UUID(int=72))
    image = image_after_result(image, register(image, again))
    image = image_after_records([broker_registration_record(2)], image, offset=501)
    image = with_topics(image, creatable("orders", configs={"min.insync.replicas": "2"}))
    record = PartitionChangeRecord(topic_id=image.topics_by_name["orders"].id, partition_id=0, **change)
    return image_after_records([record], image, offset=600)


@pytest.mark.parametrize(
    ("previous_epoch", "eligible"), [(500, (1,)), (-1, ()), (499, ())], ids=["clean", "killed", "older"]
)
def test_a_broker_stays_eligible_only_after_a_clean_shutdown(
    previous_epoch: int, eligible: tuple[int, ...]
) -> None:
    image = image_with_partition_on_1(replicas=(1, 2), isr=(2,), leader=2, eligible_leader_replicas=(1,))
    request = replace(REQUEST, incarnation_id=UUID(int=73), previous_broker_epoch=previous_epoch)
    result = register(image, request)
    after = image_after_result(image, result)
    assert after.topics_by_name["orders"].partitions[0].eligible_leader_replicas == eligible
    assert after.brokers[1].epoch == result.reply == after.offset


@pytest.mark.parametrize(
    ("directory", "eligible", "leader"), [(300, (1, 2), 1), (301, (2,), -1)], ids=["kept", "lost"]
)
def test_a_broker_that_lost_a_directory_is_not_eligible_for_its_partitions(
    directory: int, eligible: tuple[int, ...], leader: int
) -> None:
    """The broker recreates such a replica empty: it must not lead before a replica with the records."""
    kept = UUID(int=300)
    places = (UUID(int=directory), UUID(int=9002))
    image = image_with_partition_on_1(
        replicas=(1, 2), isr=(), leader=-1, eligible_leader_replicas=(1, 2), directories=places
    )
    image = image_after_records([broker_registration_record(2, fenced=True)], image, offset=600)
    request = replace(REQUEST, incarnation_id=UUID(int=73), previous_broker_epoch=500, log_dirs=(kept,))
    image = image_after_result(image, register(image, request))
    assert image.topics_by_name["orders"].partitions[0].eligible_leader_replicas == eligible
    image = image_after_records(
        run_steps(broker_changes.unfence_records(image, SETTINGS, image.brokers[1])), image, offset=700
    )
    moved = PartitionUpdates(image, SETTINGS)
    moved.change(image.topics_by_name["orders"], 0, RequestedChange(directories={1: kept}))
    image = image_after_records(moved.records, image, offset=701)
    assert image.topics_by_name["orders"].partitions[0].leader == leader


def test_a_registration_without_previous_broker_epoch_counts_as_unclean_shutdown() -> None:
    image = image_with_partition_on_1(replicas=(1, 2), isr=(2,), leader=2, eligible_leader_replicas=(1,))
    request = replace(REQUEST, incarnation_id=UUID(int=73), previous_broker_epoch=500)
    result = run_steps(register_broker(image, SETTINGS, request, has_session=False, has_previous_epoch=False))
    assert (
        image_after_result(image, result).topics_by_name["orders"].partitions[0].eligible_leader_replicas
        == ()
    )


def test_a_restarted_broker_leaves_the_isr() -> None:
    image = image_with_partition_on_1(replicas=(1, 2), isr=(1, 2), leader=1)
    after = image_after_result(image, register(image, replace(REQUEST, incarnation_id=UUID(int=73))))
    partition = after.topics_by_name["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (2, (2,), ())


def test_the_last_known_leader_stays_a_candidate_after_an_unclean_shutdown() -> None:
    image = image_with_partition_on_1(replicas=(1,), isr=(1,), leader=1)
    after = image_after_result(image, register(image, replace(REQUEST, incarnation_id=UUID(int=73))))
    partition = after.topics_by_name["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.last_known_elr) == (-1, (), (1,))
    back = image_after_records(
        run_steps(broker_changes.unfence_records(after, SETTINGS, after.brokers[1])), after, offset=700
    )
    partition = back.topics_by_name["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 1)


def test_producer_id_blocks_never_overlap() -> None:
    image = image_with_registered_brokers()
    epoch = image.brokers[1].epoch
    first = allocate_producer_ids(image, 1, epoch)
    second = allocate_producer_ids(image_after_result(image, first), 1, epoch)
    assert (first.reply, second.reply) == ((0, 1000), (1000, 1000))


def test_exhausted_producer_ids_are_an_error() -> None:
    image = replace(image_with_registered_brokers(), next_producer_id=2**63 - 1)
    with pytest.raises(KafkaError):
        allocate_producer_ids(image, 1, image.brokers[1].epoch)


def test_a_new_cluster_has_the_feature_levels_of_4_3() -> None:
    image = image_after_records(bootstrap_records(2), offset=9)
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


def test_a_new_cluster_finalizes_only_supported_features() -> None:
    levels = image_after_records(bootstrap_records(2)).features
    assert levels.keys() <= SUPPORTED_FEATURES.keys()
    assert all(level <= SUPPORTED_FEATURES[name].highest for name, level in levels.items())


def test_a_kafka_cluster_keeps_its_feature_levels_and_clients_see_the_supported_ones() -> None:
    kafkas = [FeatureLevelRecord(name=name, feature_level=1) for name in ("share.version", "later.version")]
    image = image_after_records(kafkas, image_after_records(bootstrap_records(2)), offset=9)
    assert image.features["later.version"] == 1
    levels = finalized_features(image).levels
    assert levels == {name: level for name, level in image.features.items() if name in SUPPORTED_FEATURES}
    assert "share.version" in levels
    assert "later.version" not in levels


def test_no_features_are_finalized_before_the_first_record() -> None:
    assert finalized_features(MetadataImage(cluster_id="x")) == ({}, -1)


def test_a_command_writes_a_limited_number_of_records() -> None:
    with pytest.raises(KafkaError) as error:
        ControllerResult((NoOpRecord(),) * (MAX_RECORDS_PER_COMMAND + 1), None)
    assert error.value.code is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize(
    "records_of",
    [
        broker_changes.fence_records,
        broker_changes.controlled_shutdown_records,
        broker_changes.unregistration_records,
    ],
    ids=["fenced", "stopped", "unregistered"],
)
def test_the_partitions_of_a_broker_that_goes_are_changed_in_steps(
    records_of: Callable[..., Steps[list[MetadataRecord]]],
) -> None:
    """2,000 partitions took 24 ms at once, during which the controller served no request."""
    image = with_topics(image_with_brokers(1, 2), creatable("t", 50, 2))
    steps = records_of(image, SETTINGS, image.brokers[1])
    assert sum(1 for _ in steps) == 50
