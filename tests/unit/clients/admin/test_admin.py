"""Every admin call against our own broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tidelog.clients.admin.admin import (
    Admin,
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.clients.producer.producer import Producer
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.schema import ZERO_UUID
from tidelog.testing.embedded import EmbeddedCluster


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex[:8]}"


def code(result: object) -> ErrorCode:
    assert isinstance(result, KafkaError), result
    return result.code


async def test_topics_are_created_described_listed_and_deleted(servers: str, topic: str) -> None:
    async with Admin(servers) as admin:
        created = await admin.create_topic(topic, num_partitions=3, configs={"retention.ms": "1000"})
        assert (created.name, created.num_partitions, created.replication_factor) == (topic, 3, 1)
        assert created.topic_id != ZERO_UUID
        description = (await admin.describe_topics([topic]))[topic]
        assert not isinstance(description, KafkaError)
        assert [partition.partition for partition in description.partitions] == [0, 1, 2]
        assert description.topic_id == created.topic_id
        listed = (await admin.list_topics())[topic]
        assert (listed.partition_count, listed.is_internal) == (3, False)
        assert await admin.delete_topics([topic]) == {topic: None}
        assert topic not in await admin.list_topics()


async def test_a_string_instead_of_a_list_of_names_is_refused(
    servers: str,
) -> None:
    async with Admin(servers) as admin:
        await admin.create_topic("t")
        for asking in (
            admin.delete_topics("t"),
            admin.describe_topics("t"),
            admin.describe_groups("t"),
            admin.delete_groups("t"),
            admin.list_groups(states="Stable"),
            admin.describe_configs([ConfigResource(ResourceType.TOPIC, "t")], keys="retention.ms"),
        ):
            with pytest.raises(TypeError, match="give a list of names"):
                await asking
        assert "t" in await admin.list_topics()


async def test_each_item_has_its_own_error(servers: str, topic: str) -> None:
    async with Admin(servers) as admin:
        results = await admin.create_topics(
            [NewTopic(name=topic), NewTopic(name="no good"), NewTopic(name="..")]
        )
        assert not isinstance(results[topic], KafkaError)
        assert code(results["no good"]) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert code(results[".."]) is ErrorCode.INVALID_TOPIC_EXCEPTION
        with pytest.raises(KafkaError, match=topic) as caught:
            await admin.create_topic(topic)
        assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        described = await admin.describe_topics([topic, "missing"])
        assert code(described["missing"]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        deleted = await admin.delete_topics([topic, "missing"])
        assert deleted[topic] is None
        assert code(deleted["missing"]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_validate_only_creates_nothing(servers: str, topic: str) -> None:
    async with Admin(servers) as admin:
        results = await admin.create_topics([NewTopic(name=topic, num_partitions=2)], validate_only=True)
        assert not isinstance(results[topic], KafkaError)
        assert topic not in await admin.list_topics()


async def test_replicas_can_be_assigned_explicitly(servers: str, topic: str) -> None:
    async with Admin(servers) as admin:
        broker_id = (await admin.describe_cluster()).brokers[0].node_id
        placed = NewTopic(name=topic, replica_assignments={0: [broker_id], 1: [broker_id]})
        assert not isinstance((await admin.create_topics([placed]))[topic], KafkaError)
        impossible = NewTopic(name=f"{topic}-2", replica_assignments={0: [999]})
        assert isinstance((await admin.create_topics([impossible]))[f"{topic}-2"], KafkaError)


async def test_partitions_are_added_and_cannot_be_removed(servers: str, topic: str) -> None:
    async with Admin(servers) as admin:
        await admin.create_topic(topic, num_partitions=2)
        assert await admin.create_partitions({topic: 5}) == {topic: None}
        assert (await admin.list_topics())[topic].partition_count == 5
        assert code((await admin.create_partitions({topic: 1}))[topic]) is ErrorCode.INVALID_PARTITIONS


async def test_logger_levels_are_described_and_altered(servers: str) -> None:
    logger = logging.getLogger("tests.of.the.admin.client")
    async with Admin(servers) as admin:
        node_id = (await admin.describe_cluster()).brokers[0].node_id
        resource = ConfigResource(ResourceType.BROKER_LOGGER, str(node_id))
        try:
            change = ConfigChange(name=logger.name, value="FATAL")
            assert await admin.incremental_alter_configs({resource: [change]}) == {resource: None}
            entries = (await admin.describe_configs([resource]))[resource]
            assert not isinstance(entries, KafkaError)
            assert entries[logger.name].value == "FATAL"
            assert entries[logger.name].source is ConfigSource.DYNAMIC_BROKER_LOGGER
        finally:
            logger.setLevel(logging.NOTSET)


async def test_configs_are_described_and_altered(servers: str, topic: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    async with Admin(servers) as admin:
        await admin.create_topic(topic, configs={"cleanup.policy": "compact"})
        entries = (await admin.describe_configs([resource]))[resource]
        assert not isinstance(entries, KafkaError)
        assert entries["cleanup.policy"].value == "compact"
        assert entries["cleanup.policy"].source is ConfigSource.TOPIC
        assert entries["retention.ms"].is_default
        changes = [
            ConfigChange(name="retention.ms", value="5000"),
            ConfigChange(name="cleanup.policy", value="delete", operation=AlterOperation.APPEND),
        ]
        assert await admin.incremental_alter_configs({resource: changes}) == {resource: None}
        await assert_configs(admin, resource, {"retention.ms": "5000", "cleanup.policy": "compact,delete"})
        back = ConfigChange(name="retention.ms", value=None, operation=AlterOperation.DELETE)
        assert await admin.incremental_alter_configs({resource: [back]}) == {resource: None}
        await assert_configs(
            admin, resource, {"retention.ms": "604800000", "cleanup.policy": "compact,delete"}
        )
        assert await admin.alter_configs({resource: {"retention.ms": "7000"}}) == {resource: None}
        await assert_configs(admin, resource, {"retention.ms": "7000", "cleanup.policy": "delete"})


async def assert_configs(admin: Admin, resource: ConfigResource, expected: dict[str, str]) -> None:
    entries = (await admin.describe_configs([resource], keys=expected))[resource]
    assert not isinstance(entries, KafkaError)
    assert {name: entry.value for name, entry in entries.items()} == expected


async def test_an_invalid_config_value_is_refused_for_its_resource(servers: str, topic: str) -> None:
    present, missing = (ConfigResource(ResourceType.TOPIC, name) for name in (topic, "missing"))
    async with Admin(servers) as admin:
        await admin.create_topic(topic)
        bad = [ConfigChange(name="retention.ms", value="soon")]
        fine = [ConfigChange(name="retention.ms", value="5000")]
        results = await admin.incremental_alter_configs({present: bad, missing: fine})
        assert code(results[present]) is ErrorCode.INVALID_CONFIG
        assert code(results[missing]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_broker_configs_are_requested_from_the_broker(servers: str) -> None:
    async with Admin(servers) as admin:
        broker = ConfigResource(ResourceType.BROKER, str((await admin.describe_cluster()).brokers[0].node_id))
        entries = (await admin.describe_configs([broker]))[broker]
        assert not isinstance(entries, KafkaError)
        assert entries["node.id"].value == broker.name
        with pytest.raises(KafkaError, match="'one' is not a broker id"):
            await admin.describe_configs([ConfigResource(ResourceType.BROKER, "one")])


async def test_offsets_are_listed_and_records_deleted(servers: str, topic: str) -> None:
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 7)
    async with Admin(servers) as admin, Producer(servers) as producer:
        await admin.create_topic(topic, num_partitions=1)
        for number in range(10):
            await producer.send(topic, b"x", timestamp_ms=1_000 * (number + 1))
        await producer.flush()
        for spec, expected in [
            (OffsetSpec.EARLIEST, 0),
            (OffsetSpec.LATEST, 10),
            (OffsetSpec.MAX_TIMESTAMP, 9),
            (4_500, 4),
            (99_000, -1),
        ]:
            listed = (await admin.list_offsets({zero: spec}))[zero]
            assert not isinstance(listed, KafkaError)
            assert listed.offset == expected, spec
        assert await admin.delete_records({zero: 4}) == {zero: 4}
        earliest = (await admin.list_offsets({zero: OffsetSpec.EARLIEST}))[zero]
        assert not isinstance(earliest, KafkaError)
        assert earliest.offset == 4
        assert code((await admin.delete_records({zero: 99}))[zero]) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert await admin.delete_records({zero: -1}) == {zero: 10}
        missing = await admin.list_offsets({one: OffsetSpec.LATEST}, timeout_ms=300)
        assert code(missing[one]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_producers_of_a_partition_are_described(servers: str, topic: str) -> None:
    zero = TopicPartition(topic, 0)
    async with Admin(servers) as admin, Producer(servers) as producer:
        await admin.create_topic(topic, num_partitions=1)
        for _ in range(3):
            await producer.send_and_wait(topic, b"x")
        producers = (await admin.describe_producers([zero]))[zero]
        assert not isinstance(producers, KafkaError)
        assert [(entry.last_sequence, entry.current_transaction_start_offset) for entry in producers] == [
            (2, None)
        ]


async def test_the_cluster_and_its_log_directories_are_described(servers: str, topic: str) -> None:
    async with Admin(servers) as admin, Producer(servers) as producer:
        await producer.send_and_wait(topic, b"x" * 500, partition=0)
        cluster = await admin.describe_cluster()
        assert cluster.cluster_id
        (broker,) = cluster.brokers
        assert f"{broker.host}:{broker.port}" == servers
        directories = (await admin.describe_log_dirs())[broker.node_id]
        assert not isinstance(directories, KafkaError)
        ((path, directory),) = directories.items()
        assert (directory.path, directory.error) == (path, None)
        assert directory.partitions[TopicPartition(topic, 0)].size_bytes > 500
        directories_by_broker = await admin.describe_log_dirs(
            [broker.node_id], partitions=[TopicPartition(topic, 0)]
        )
        directories = directories_by_broker[broker.node_id]
        assert not isinstance(directories, KafkaError)
        assert list(directories[path].partitions) == [TopicPartition(topic, 0)]


async def test_groups_are_listed_described_and_deleted(servers: str, topic: str) -> None:
    group = f"group-{topic}"
    async with Admin(servers) as admin:
        await admin.create_topic(topic, num_partitions=2)
        async with Consumer(servers, group_id=group, client_id="harbour-1") as consumer:
            consumer.subscribe([topic])
            while not consumer.assignment():
                await consumer.poll(100)
            listing = (await admin.list_groups())[group]
            assert (listing.state, listing.protocol_type) == ("Stable", "consumer")
            assert group not in await admin.list_groups(states=["Empty"])
            described = (await admin.describe_groups([group]))[group]
            assert not isinstance(described, KafkaError)
            assert (described.state, described.protocol) == ("Stable", "range")
            (member,) = described.members
            assert member.client_id == "harbour-1"
            assert member.subscription is not None
            assert member.subscription.topics == (topic,)
            assert member.assignment is not None
            assert member.assignment.partitions == (TopicPartition(topic, 0), TopicPartition(topic, 1))
            assert code((await admin.delete_groups([group]))[group]) is ErrorCode.NON_EMPTY_GROUP
        assert await admin.delete_groups([group]) == {group: None}
        assert code((await admin.delete_groups([group]))[group]) is ErrorCode.GROUP_ID_NOT_FOUND
        assert code((await admin.describe_groups([group]))[group]) is ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_of_a_group_are_set_read_and_deleted(servers: str, topic: str) -> None:
    group = f"group-{topic}"
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with Admin(servers) as admin:
        await admin.create_topic(topic, num_partitions=2)
        offsets: dict[TopicPartition, OffsetAndMetadata | int] = {
            zero: 5,
            one: OffsetAndMetadata(7, "by hand"),
        }
        assert await admin.alter_group_offsets(group, offsets) == {zero: None, one: None}
        assert await admin.list_group_offsets(group) == {
            zero: OffsetAndMetadata(5),
            one: OffsetAndMetadata(7, "by hand"),
        }
        assert await admin.list_group_offsets(group, [one]) == {one: OffsetAndMetadata(7, "by hand")}
        assert await admin.delete_group_offsets(group, [zero]) == {zero: None}
        assert list(await admin.list_group_offsets(group)) == [one]


async def test_a_closed_admin_client_refuses_calls(servers: str) -> None:
    admin = Admin(servers)
    with pytest.raises(KafkaError, match="not started"):
        await admin.list_topics()
    await admin.start()
    await admin.close()
    with pytest.raises(KafkaError, match="is closed"):
        await admin.list_topics()
