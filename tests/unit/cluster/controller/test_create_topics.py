"""CreateTopics: created topics, and Kafka's error for every invalid one."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    SeededRandomness,
    creatable,
    image_after_result,
    image_with_brokers,
    with_topics,
)
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.steps import run_steps
from tidelog.storage.config.topic_configs import TOPIC_CONFIGS

SETTINGS = controller_settings(node_id=1, num_partitions=4, default_replication_factor=2)
IMAGE = image_with_brokers(1, 2, 3)


def outcome(
    topic: CreatableTopic, image: MetadataImage = IMAGE, settings: ControllerSettings = SETTINGS
) -> CreatableTopicResult:
    result = run_steps(
        create_topics(image, settings, CreateTopicsRequest(topics=(topic,)), SeededRandomness())
    )
    (only,) = result.reply.topics
    assert (only.error_code == 0) == bool(result.records)
    return only


def topic_with_assignments(
    name: str, *brokers: tuple[int, ...], indexes: tuple[int, ...] | None = None
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=each)
            for index, each in zip(indexes or range(len(brokers)), brokers, strict=True)
        ),
    )


def test_a_topic_has_the_requested_partitions_and_replicas() -> None:
    image = with_topics(IMAGE, creatable("orders", 5, 3))
    topic = image.topics_by_name["orders"]
    assert list(topic.partitions) == [0, 1, 2, 3, 4]
    for partition in topic.partitions.values():
        assert sorted(partition.replicas) == [1, 2, 3]
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
        assert partition.directories == tuple(UUID(int=9000 + broker) for broker in partition.replicas)


def test_minus_one_uses_the_broker_defaults() -> None:
    result = outcome(creatable("orders", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_records_are_in_kafkas_order() -> None:
    request = CreateTopicsRequest(topics=(creatable("orders", 2, 1, {"retention.ms": "5"}),))
    result = run_steps(create_topics(IMAGE, SETTINGS, request, SeededRandomness()))
    assert [type(record) for record in result.records] == [
        TopicRecord,
        ConfigRecord,
        PartitionRecord,
        PartitionRecord,
    ]


def test_the_response_describes_the_created_topic() -> None:
    result = outcome(creatable("orders", 1, 1, {"retention.ms": "5000"}))
    assert result.topic_id.int
    assert result.error_message is None
    assert result.configs is not None
    configs = {config.name: (config.value, config.config_source) for config in result.configs}
    assert configs["retention.ms"] == ("5000", 1)
    assert configs["segment.ms"] == ("604800000", 5)
    assert configs.keys() == {key for key, definition in TOPIC_CONFIGS.items() if not definition.internal}
    assert list(configs) == sorted(configs)


def test_the_response_names_the_source_of_each_config() -> None:
    settings = replace(SETTINGS, static_configs={"log.retention.hours": "2", "log.segment.bytes": "2097152"})
    result = outcome(creatable("orders"), settings=settings)
    assert result.configs is not None
    configs = {config.name: (config.value, config.config_source) for config in result.configs}
    assert configs["retention.ms"] == ("7200000", 4)
    assert configs["segment.bytes"] == ("2097152", 4)


def test_validate_only_responds_and_changes_nothing() -> None:
    request = CreateTopicsRequest(topics=(creatable("orders"), creatable("a b")), validate_only=True)
    result = run_steps(create_topics(IMAGE, SETTINGS, request, SeededRandomness()))
    assert result.records == ()
    assert [topic.error_code for topic in result.reply.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_one_invalid_topic_does_not_affect_others() -> None:
    request = CreateTopicsRequest(topics=(creatable("good"), creatable("bad", 0), creatable("fine")))
    result = run_steps(create_topics(IMAGE, SETTINGS, request, SeededRandomness()))
    assert [topic.error_code for topic in result.reply.topics] == [0, ErrorCode.INVALID_PARTITIONS, 0]
    assert list(image_after_result(IMAGE, result).topics_by_name) == ["good", "fine"]


def test_a_duplicate_name_is_refused_once_for_the_request() -> None:
    request = CreateTopicsRequest(topics=(creatable("a"), creatable("b"), creatable("a")))
    result = run_steps(create_topics(IMAGE, SETTINGS, request, SeededRandomness()))
    assert [(topic.name, topic.error_code) for topic in result.reply.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", 0),
    ]


def test_an_empty_request_has_an_empty_response() -> None:
    assert (
        run_steps(create_topics(IMAGE, SETTINGS, CreateTopicsRequest(), SeededRandomness())).reply.topics
        == ()
    )


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (creatable(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (creatable("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (creatable("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (creatable("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (creatable("t", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (creatable("t", 10_001, 1), ErrorCode.POLICY_VIOLATION),
        (creatable("t", 2**31 - 1, 1), ErrorCode.POLICY_VIOLATION),
        (creatable("t", configs={"nope": "1"}), ErrorCode.INVALID_CONFIG),
        (creatable("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (creatable("t", configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (creatable("t", configs={"segment.bytes": "1"}), ErrorCode.INVALID_CONFIG),
        (creatable("t", configs={"cleanup.policy": "delete,"}), ErrorCode.INVALID_CONFIG),
        (creatable("t", configs={"remote.storage.enable": "true"}), ErrorCode.INVALID_CONFIG),
        (
            creatable("t", configs={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}),
            ErrorCode.INVALID_CONFIG,
        ),
        (topic_with_assignments("t", ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic_with_assignments("t", (7,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic_with_assignments("t", (1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic_with_assignments("t", (1, 2), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic_with_assignments("t", (1,), indexes=(1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic_with_assignments("t", (1,), (1,), indexes=(0, 0)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (replace(topic_with_assignments("t", (1,)), num_partitions=1), ErrorCode.INVALID_REQUEST),
        (replace(topic_with_assignments("t", (1,)), replication_factor=1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_topic_gets_kafkas_error_code_and_a_message(
    topic: CreatableTopic, code: ErrorCode
) -> None:
    result = outcome(topic)
    assert ErrorCode(result.error_code) is code
    assert result.error_message


def test_an_existing_topic_is_refused() -> None:
    image = with_topics(IMAGE, creatable("orders"))
    assert outcome(creatable("orders"), image).error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_name_whose_metric_name_collides_is_refused() -> None:
    image = with_topics(IMAGE, creatable("a.b"))
    result = outcome(creatable("a_b"), image)
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.error_message is not None
    assert "'a.b'" in result.error_message


def test_too_many_partitions_refuse_the_whole_request() -> None:
    request = CreateTopicsRequest(topics=(creatable("a", 6000), creatable("b", 6000)))
    result = run_steps(create_topics(IMAGE, SETTINGS, request, SeededRandomness()))
    assert [topic.error_code for topic in result.reply.topics] == [ErrorCode.POLICY_VIOLATION] * 2
    assert result.records == ()


def test_an_explicit_assignment_is_used() -> None:
    image = with_topics(IMAGE, topic_with_assignments("orders", (3, 1), (2, 3)))
    partitions = image.topics_by_name["orders"].partitions
    assert [partition.replicas for partition in partitions.values()] == [(3, 1), (2, 3)]
    assert [partition.leader for partition in partitions.values()] == [3, 2]


def test_a_fenced_broker_is_assigned_but_not_in_the_isr() -> None:
    image = image_with_brokers(1, 2, fenced=[1])
    result = run_steps(
        create_topics(
            image,
            SETTINGS,
            CreateTopicsRequest(topics=(topic_with_assignments("t", (1, 2)),)),
            SeededRandomness(),
        )
    )
    partition = image_after_result(image, result).topics_by_name["t"].partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (2,), 2)


def test_an_assignment_of_only_fenced_brokers_is_refused() -> None:
    image = image_with_brokers(1, 2, fenced=[1])
    assert (
        outcome(topic_with_assignments("t", (1,)), image).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


def test_no_topic_is_created_while_all_brokers_are_fenced() -> None:
    image = image_with_brokers(1, fenced=[1])
    assert outcome(creatable("t"), image).error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_last_value_of_a_duplicate_config_is_used() -> None:
    configs = creatable("t", configs={"retention.ms": "10"}).configs
    topic = replace(creatable("t"), configs=(*configs, replace(configs[0], value="20")))
    assert with_topics(IMAGE, topic).topic_configs("t") == {"retention.ms": "20"}


def test_thousands_of_configs_of_a_topic_are_read_in_steps() -> None:
    topic = creatable("t", configs={f"unknown.{number}": "1" for number in range(5_000)})
    request = CreateTopicsRequest(topics=(topic,))
    assert sum(1 for _ in create_topics(IMAGE, SETTINGS, request, SeededRandomness())) >= 5_000
    result = outcome(topic)
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert "unknown.0" in str(result.error_message)


def test_an_internal_topic_may_be_created_by_a_client() -> None:
    assert outcome(creatable("__consumer_offsets", 50)).error_code == 0
