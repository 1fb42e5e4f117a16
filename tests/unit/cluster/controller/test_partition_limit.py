"""Partitions beyond the brokers' descriptor limits are refused by every request that assigns them."""

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
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.partition_limit import PartitionLimit
from tidelog.cluster.controller.reassignments import alter_partition_reassignments
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1, partitions_per_broker_max=10)
ALONE = image_with_brokers(1)


def create(image: MetadataImage, *topics: CreatableTopic) -> tuple[list[tuple[int, str]], MetadataImage]:
    result = run_steps(create_topics(image, SETTINGS, CreateTopicsRequest(topics=topics), SeededRandomness()))
    outcomes = [(each.error_code, each.error_message or "") for each in result.reply.topics]
    return outcomes, image_after_result(image, result)


def test_a_topic_beyond_the_limit_is_refused_with_the_required_action() -> None:
    (outcome,), image = create(ALONE, creatable("orders", 11, 1))
    assert outcome == (
        ErrorCode.POLICY_VIOLATION,
        "topic 'orders': broker 1 would have 11 partitions, the limit is 10, half of its limit of open "
        "files; raise that (ulimit -n)",
    )
    assert "orders" not in image.topics_by_name
    assert create(ALONE, creatable("orders", 10, 1))[0] == [(ErrorCode.NONE, "")]


def test_topics_of_one_request_and_existing_topics_count_together() -> None:
    image = with_topics(ALONE, creatable("old", 4, 1))
    outcomes, image = create(image, creatable("a", 4, 1), creatable("b", 4, 1), creatable("c", 2, 1))
    assert [code for code, _ in outcomes] == [
        ErrorCode.NONE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.NONE,
    ]
    assert sorted(image.topics_by_name) == ["a", "c", "old"]


def test_the_limit_applies_per_broker() -> None:
    three = image_with_brokers(1, 2, 3)
    assert create(three, creatable("a", 30, 1))[0] == [(ErrorCode.NONE, "")]
    assert create(three, creatable("a", 10, 3))[0] == [(ErrorCode.NONE, "")]
    assert create(three, creatable("a", 11, 3))[0][0][0] == ErrorCode.POLICY_VIOLATION


def test_added_partitions_count() -> None:
    image = with_topics(ALONE, creatable("a", 4, 1), creatable("b", 4, 1))

    def codes(count: int) -> list[int]:
        request = CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name="a", count=count, assignments=None),)
        )
        result = run_steps(create_partitions(image, SETTINGS, request, SeededRandomness()))
        return [each.error_code for each in result.reply.results]

    assert codes(6) == [ErrorCode.NONE]
    assert codes(7) == [ErrorCode.POLICY_VIOLATION]


def test_replicas_added_to_a_full_broker_are_refused_and_existing_ones_are_not() -> None:
    settings = controller_settings(node_id=1, partitions_per_broker_max=11)
    image = with_topics(image_with_brokers(1, 2), creatable("full", 10, 2), creatable("a", 2, 1))
    places = {index: each.replicas for index, each in image.topics_by_name["a"].partitions.items()}
    assert sorted(places.values()) == [(1,), (2,)], "each broker holds eleven"

    def codes(*replicas: tuple[int, ...]) -> list[int]:
        partitions = tuple(
            ReassignablePartition(partition_index=index, replicas=each) for index, each in enumerate(replicas)
        )
        request = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name="a", partitions=partitions),)
        )
        reply = run_steps(alter_partition_reassignments(image, settings, request)).reply
        return [each.error_code for each in reply.responses[0].partitions]

    assert codes(places[0], places[1]) == [ErrorCode.NONE, ErrorCode.NONE]
    assert codes(places[1], places[1]) == [ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]
    assert codes((1, 2), places[1]) == [ErrorCode.POLICY_VIOLATION, ErrorCode.NONE]


def test_internal_topics_are_never_refused() -> None:
    image = with_topics(ALONE, creatable("a", 10, 1))
    assert create(image, creatable("__consumer_offsets", 50, 1))[0] == [(ErrorCode.NONE, "")]


def test_partitions_are_not_counted_without_a_limit() -> None:
    placements = [(1,)] * 100_000
    with pytest.raises(KafkaError, match="would have 100000 partitions"):
        PartitionLimit(ALONE, 99_999).add_replicas("a", placements)
    PartitionLimit(ALONE, None).add_replicas("a", placements)
