"""AlterPartition: accepted ISR changes, and the error of each stale or invalid request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    creatable,
    image_after_records,
    image_after_result,
    image_with_brokers,
    with_topics,
)
from tests.unit.cluster.controller.invariants import check_image, check_step
from tidelog.cluster.controller.alter_partition import alter_partition
from tidelog.cluster.image import MetadataImage, PartitionImage, TopicImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from tidelog.protocol.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord

SETTINGS = controller_settings(node_id=1)
BROKERS = (1, 2, 3, 4)


def orders(image: MetadataImage) -> TopicImage:
    return image.topics_by_name["orders"]


def only_partition(image: MetadataImage) -> PartitionImage:
    return orders(image).partitions[0]


def image_with_partition(**change: Any) -> MetadataImage:
    """Return an image of one partition: replicas 1, 2, 3, all in sync, leader 1, both epochs 1."""
    image = with_topics(
        image_with_brokers(*BROKERS, features=True), creatable("orders", configs={"min.insync.replicas": "2"})
    )
    record = PartitionChangeRecord(
        topic_id=orders(image).id,
        partition_id=0,
        **(dict[str, Any](replicas=(1, 2, 3), isr=(1, 2, 3), leader=1) | change),
    )
    return image_after_records([record], image, offset=500)


def proposal(image: MetadataImage, isr: tuple[int | BrokerState, ...], **fields: Any) -> RequestTopicData:
    members = tuple(
        each if isinstance(each, BrokerState) else BrokerState(broker_id=each, broker_epoch=100 + each)
        for each in isr
    )
    change = RequestPartitionData(
        partition_index=0,
        leader_epoch=only_partition(image).leader_epoch,
        partition_epoch=only_partition(image).partition_epoch,
        new_isr_with_epochs=members,
    )
    change = replace(change, **fields)
    return RequestTopicData(topic_id=orders(image).id, partitions=(change,))


def alter_request(topic: RequestTopicData, leader: int = 1) -> AlterPartitionRequest:
    return AlterPartitionRequest(broker_id=leader, broker_epoch=100 + leader, topics=(topic,))


def alter(
    image: MetadataImage, request: AlterPartitionRequest
) -> tuple[ResponsePartitionData, MetadataImage]:
    result = alter_partition(image, SETTINGS, request)
    after = image_after_result(image, result)
    check_image(after)
    check_step(image, after)
    ((response,),) = (topic.partitions for topic in result.reply.topics)
    assert response.error_code in (0, ErrorCode.NEW_LEADER_ELECTED) or not result.records
    return response, after


def test_isr_shrink_keeps_the_leader_epoch() -> None:
    image = image_with_partition()
    response, after = alter(image, alter_request(proposal(image, (1, 2))))
    assert response == ResponsePartitionData(
        partition_index=0, leader_id=1, leader_epoch=1, isr=(1, 2), partition_epoch=2
    )
    assert only_partition(after).isr == (1, 2)


def test_replica_order_of_the_request_is_kept() -> None:
    image = image_with_partition(isr=(1,))
    response, _ = alter(image, alter_request(proposal(image, (1, 3, 2))))
    assert response.isr == (1, 3, 2)


def test_an_unchanged_isr_writes_no_record() -> None:
    image = image_with_partition()
    response, after = alter(image, alter_request(proposal(image, (1, 2, 3))))
    assert (response.error_code, response.partition_epoch) == (0, 1)
    assert only_partition(after) == only_partition(image)


def test_the_second_change_of_a_partition_in_a_request_is_based_on_the_first() -> None:
    image = image_with_partition()
    topic = proposal(image, (1, 2))
    twice = replace(topic, partitions=topic.partitions * 2)
    result = alter_partition(image, SETTINGS, alter_request(twice))
    ((first, second),) = (topic.partitions for topic in result.reply.topics)
    assert (first.error_code, second.error_code) == (0, ErrorCode.INVALID_UPDATE_VERSION)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"leader_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 2}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"leader_recovery_state": 9}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_stale_or_invalid_request_is_refused(fields: dict[str, Any], code: ErrorCode) -> None:
    image = image_with_partition()
    response, _ = alter(image, alter_request(proposal(image, (1, 2), **fields)))
    assert response.error_code == code


@pytest.mark.parametrize("isr", [(), (2, 3), (1, 4), (1, 1), (1, -1)])
def test_an_invalid_isr_is_refused(isr: tuple[int, ...]) -> None:
    image = image_with_partition()
    response, _ = alter(image, alter_request(proposal(image, isr)))
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_a_request_of_another_broker_than_the_leader_is_refused() -> None:
    image = image_with_partition()
    response, _ = alter(image, alter_request(proposal(image, (1, 2)), leader=2))
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_a_request_with_a_stale_broker_epoch_is_refused() -> None:
    image = image_with_partition()
    with pytest.raises(KafkaError) as error:
        alter_partition(image, SETTINGS, replace(alter_request(proposal(image, (1, 2))), broker_epoch=9))
    assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_an_unknown_topic_id_is_reported_for_each_partition() -> None:
    image = image_with_partition()
    topic = replace(proposal(image, (1, 2)), topic_id=UUID(int=12345))
    response, _ = alter(image, alter_request(topic))
    assert response.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("change", [{"fenced": 1}, {"in_controlled_shutdown": 1}])
def test_kip_841_a_fenced_or_stopping_broker_does_not_join_the_isr(change: dict[str, Any]) -> None:
    image = image_with_partition(isr=(1,))
    record = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=103, **change)
    image = image_after_records([record], image, offset=501)
    response, _ = alter(image, alter_request(proposal(image, (1, 2, 3))))
    assert response.error_code == ErrorCode.INELIGIBLE_REPLICA


def test_kip_903_a_broker_with_a_stale_epoch_does_not_join_the_isr() -> None:
    image = image_with_partition(isr=(1,))
    stale = BrokerState(broker_id=3, broker_epoch=55)
    response, _ = alter(image, alter_request(proposal(image, (1, stale))))
    assert response.error_code == ErrorCode.INELIGIBLE_REPLICA
    unknown = BrokerState(broker_id=3, broker_epoch=-1)
    response, _ = alter(image, alter_request(proposal(image, (1, unknown))))
    assert response.error_code == 0


def test_isr_members_have_no_epochs_before_version_3() -> None:
    image = image_with_partition()
    response, _ = alter(image, alter_request(proposal(image, (), new_isr=(1, 3))))
    assert response.isr == (1, 3)


def test_the_isr_of_a_recovering_leader_grows_only_after_recovery() -> None:
    image = image_with_partition(isr=(1,), leader_recovery_state=1)
    response, _ = alter(image, alter_request(proposal(image, (1, 2), leader_recovery_state=1)))
    assert response.error_code == ErrorCode.INVALID_REQUEST
    response, after = alter(image, alter_request(proposal(image, (1,))))
    assert (response.error_code, response.leader_recovery_state) == (0, 0)
    assert only_partition(after).leader_recovery_state == 0


def test_a_reassignment_ends_when_the_new_replicas_are_in_the_isr() -> None:
    image = image_with_partition(replicas=(1, 4, 2, 3), adding_replicas=(4,), removing_replicas=(2, 3))
    response, after = alter(image, alter_request(proposal(image, (1, 2, 3, 4))))
    assert (response.error_code, response.isr, response.leader_epoch) == (0, (1, 4), 2)
    assert (only_partition(after).replicas, only_partition(after).adding_replicas) == ((1, 4), ())


def test_the_response_names_the_new_leader_when_a_reassignment_ends() -> None:
    image = image_with_partition(replicas=(4, 2, 1, 3), adding_replicas=(4,), removing_replicas=(1, 3))
    response, after = alter(image, alter_request(proposal(image, (1, 2, 3, 4))))
    assert response.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (only_partition(after).leader, only_partition(after).replicas) == (4, (4, 2))


def test_kip_966_a_replica_that_leaves_an_isr_below_min_insync_replicas_becomes_eligible() -> None:
    image = image_with_partition(isr=(1, 2))
    _, after = alter(image, alter_request(proposal(image, (1,))))
    assert only_partition(after).eligible_leader_replicas == (2,)
    _, second_image = alter(after, alter_request(proposal(after, (1, 3))))
    assert only_partition(second_image).eligible_leader_replicas == ()
