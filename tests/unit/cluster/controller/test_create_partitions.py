"""CreatePartitions: more partitions, and Kafka's error for every other number."""

from __future__ import annotations

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    SeededRandomness,
    creatable,
    image_after_result,
    image_with_brokers,
    with_topics,
)
from tidelog.cluster.controller.create_partitions import create_partitions
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1)
IMAGE = with_topics(image_with_brokers(1, 2, 3), creatable("orders", 2, 2), creatable("users", 1, 1))


def more(name: str, count: int, *brokers: tuple[int, ...], automatic: bool = True) -> CreatePartitionsTopic:
    assignments = tuple(CreatePartitionsAssignment(broker_ids=each) for each in brokers)
    return CreatePartitionsTopic(
        name=name, count=count, assignments=None if automatic and not brokers else assignments
    )


def create(*topics: CreatePartitionsTopic, validate_only: bool = False) -> tuple[list[int], MetadataImage]:
    request = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
    result = run_steps(create_partitions(IMAGE, SETTINGS, request, SeededRandomness()))
    codes = [each.error_code for each in result.reply.results]
    assert all(bool(each.error_message) == bool(each.error_code) for each in result.reply.results)
    return codes, image_after_result(IMAGE, result)


def test_new_partitions_have_the_replication_factor_of_the_topic() -> None:
    codes, image = create(more("orders", 5))
    assert codes == [0]
    old, new = IMAGE.topics_by_name["orders"].partitions, image.topics_by_name["orders"].partitions
    assert list(new) == [0, 1, 2, 3, 4]
    assert {index: new[index] for index in old} == dict(old)
    assert all(len(partition.replicas) == 2 for partition in new.values())


def test_an_explicit_assignment_is_used() -> None:
    codes, image = create(more("orders", 4, (3, 1), (2, 3)))
    assert codes == [0]
    partitions = image.topics_by_name["orders"].partitions
    assert [partitions[index].replicas for index in (2, 3)] == [(3, 1), (2, 3)]


def test_validate_only_changes_nothing() -> None:
    codes, image = create(more("orders", 5), validate_only=True)
    assert codes == [0]
    assert image.topics_by_name["orders"] is IMAGE.topics_by_name["orders"]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (more("nowhere", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more("bad name", 5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more("orders", 2), ErrorCode.INVALID_PARTITIONS),
        (more("orders", 1), ErrorCode.INVALID_PARTITIONS),
        (more("orders", 0), ErrorCode.INVALID_PARTITIONS),
        (more("orders", -1), ErrorCode.INVALID_PARTITIONS),
        (more("orders", 10_003), ErrorCode.POLICY_VIOLATION),
        (more("orders", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (more("orders", 4, (1, 2)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("orders", 3, automatic=False), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("orders", 3, (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("orders", 3, (1, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("orders", 3, (1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("orders", 3, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_invalid_request_gets_kafkas_error_code(topic: CreatePartitionsTopic, code: ErrorCode) -> None:
    codes, image = create(topic)
    assert codes == [code]
    assert image.topics_by_name == IMAGE.topics_by_name


def test_a_duplicate_topic_is_refused_once_and_others_succeed() -> None:
    codes, image = create(more("orders", 3), more("users", 2), more("orders", 4))
    assert codes == [ErrorCode.INVALID_REQUEST, 0]
    assert len(image.topics_by_name["users"].partitions) == 2


def test_the_partition_limit_applies_to_the_whole_request() -> None:
    codes, image = create(more("orders", 9002), more("users", 2001))
    assert codes == [0, ErrorCode.POLICY_VIOLATION]
    assert len(image.topics_by_name["orders"].partitions) == 9002
