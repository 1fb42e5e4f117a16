"""AssignReplicasToDirs: recorded directories, and replicas in failed directories."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    broker_registration_record,
    creatable,
    image_after_records,
    image_after_result,
    image_with_brokers,
    with_topics,
)
from tests.unit.cluster.controller.invariants import check_image, check_step
from tidelog.cluster.controller.assign_directories import assign_replicas_to_directories
from tidelog.cluster.features import METADATA_VERSION
from tidelog.cluster.image import MetadataImage, PartitionImage
from tidelog.cluster.replica_directories import LOST, MIGRATING, UNASSIGNED, default_directory, is_online
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from tidelog.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1)
FIRST, SECOND, OFFLINE = (UUID(int=each) for each in (801, 802, 899))


def image_with_directories() -> MetadataImage:
    """Return an image: broker 1 has two directories, broker 2 one; `orders` has two partitions on both."""
    image = image_after_records(
        [broker_registration_record(1, rack="r", log_dirs=(FIRST, SECOND))],
        image_with_brokers(2, features=True),
        offset=500,
    )
    return with_topics(image, creatable("orders", 2, 2))


def partition(image: MetadataImage, index: int) -> PartitionImage:
    return image.topics_by_name["orders"].partitions[index]


def assign(
    image: MetadataImage, directory: UUID, *indexes: int, broker: int = 1, topic_id: UUID | None = None
) -> tuple[list[int], MetadataImage]:
    topic = RequestTopicData(
        topic_id=topic_id or image.topics_by_name["orders"].id,
        partitions=tuple(RequestPartitionData(partition_index=index) for index in indexes),
    )
    request = AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=100 + broker,
        directories=(RequestDirectoryData(id=directory, topics=(topic,)),),
    )
    result = run_steps(assign_replicas_to_directories(image, SETTINGS, request))
    after = image_after_result(image, result)
    check_image(after)
    check_step(image, after)
    (directory_response,) = result.reply.directories
    ((topic_response,),) = (directory_response.topics,)
    assert (directory_response.id, topic_response.topic_id) == (directory, topic.topic_id)
    assert [each.partition_index for each in topic_response.partitions] == list(indexes)
    return [each.error_code for each in topic_response.partitions], after


def test_assignments_are_refused_by_a_metadata_version_without_directories() -> None:
    level = FeatureLevelRecord(name=METADATA_VERSION, feature_level=16)
    image = image_after_records([level], image_with_directories(), offset=501)
    with pytest.raises(KafkaError) as error:
        assign(image, SECOND, 0)
    assert error.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_assignment_is_recorded_once() -> None:
    image = image_with_directories()
    assert partition(image, 0).directory_of(1) is None
    codes, after = assign(image, SECOND, 0, 1)
    assert codes == [0, 0]
    assert partition(after, 0).directory_of(1) == partition(after, 1).directory_of(1) == SECOND
    assert partition(after, 0).leader_epoch == partition(image, 0).leader_epoch
    assert assign(after, SECOND, 0, 1) == ([0, 0], after)


def test_a_replica_in_a_failed_directory_loses_leadership() -> None:
    image = image_with_directories()
    codes, after = assign(image, OFFLINE, 0, 1)
    assert codes == [0, 0]
    for index in (0, 1):
        assert (partition(after, index).leader, partition(after, index).isr) == (2, (2,))


def test_a_replica_that_is_in_an_online_directory_again_leads_a_partition_without_a_leader() -> None:
    """A move to another directory ended with the failure of that directory, which the metadata named."""
    image = image_with_brokers(2, features=True)
    image = image_after_records(
        [broker_registration_record(1, rack="r", log_dirs=(FIRST, SECOND))], image, offset=500
    )
    image = with_topics(image, creatable("single", 1, 1))
    topic = image.topics_by_name["single"]
    (broker,) = topic.partitions[0].replicas
    online = FIRST if broker == 1 else image.brokers[broker].log_dirs[0]
    codes, after = assign(image, OFFLINE, 0, broker=broker, topic_id=topic.id)
    assert (codes, after.topics_by_name["single"].partitions[0].leader) == ([0], -1)
    codes, after = assign(after, online, 0, broker=broker, topic_id=topic.id)
    assert (codes, after.topics_by_name["single"].partitions[0].leader) == ([0], broker)


def test_partitions_that_cannot_be_assigned_are_reported() -> None:
    image = image_with_directories()
    assert assign(image, FIRST, 9)[0] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert assign(image, FIRST, 0, topic_id=UUID(int=4))[0] == [ErrorCode.UNKNOWN_TOPIC_ID]
    image = image_after_records([broker_registration_record(3)], image, offset=600)
    assert assign(image, UUID(int=9003), 0, broker=3)[0] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=7)
    with pytest.raises(KafkaError) as error:
        run_steps(assign_replicas_to_directories(image, SETTINGS, request))
    assert error.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_reserved_ids_are_no_directories() -> None:
    online = (FIRST, SECOND)
    assert [is_online(each, online) for each in (UNASSIGNED, MIGRATING, FIRST)] == [True] * 3
    assert [is_online(each, online) for each in (LOST, OFFLINE)] == [False] * 2
    assert is_online(OFFLINE, ())


def test_reserved_ids_equal_kafkas() -> None:
    assert [each.int for each in (MIGRATING, UNASSIGNED, LOST)] == [0, 1, 2]


def test_a_new_replica_is_placed_in_the_only_directory_of_its_broker() -> None:
    assert default_directory((FIRST, SECOND)) == UNASSIGNED
    assert default_directory((FIRST,)) == FIRST
    assert default_directory(()) == MIGRATING
    assert default_directory(None) == UNASSIGNED
    assert (
        partition(image_with_directories(), 0).directories[
            partition(image_with_directories(), 0).replicas.index(1)
        ]
        == UNASSIGNED
    )
    assert partition(image_with_directories(), 0).directory_of(1) is None
