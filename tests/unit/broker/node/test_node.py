"""A complete node: start, addresses, restarts, durable state, refused configurations."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.configs import metadata_log_config
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.base.clock import SystemClock
from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.dynamic_configs import DynamicBrokerConfig
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.node.wiring.node_context import NodeFailure
from tidelog.broker.raft.log import MetadataLog
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, ResourceType
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.producer.producer import Producer
from tidelog.cluster.metadata_log_codec import encode_record
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import run_steps
from tidelog.storage.disk.os_files import OsFileSystem

BASE = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


@asynccontextmanager
async def run_node(folder: Path, *, clean: bool = True, **configs: str) -> AsyncIterator[BrokerNode]:
    values = {key.replace("_", "."): value for key, value in configs.items()}
    node = await BrokerNode.start(BrokerConfig({**BASE, "log.dirs": str(folder), **values}))
    try:
        yield node
    finally:
        await (node.stop() if clean else node.abandon())


def servers(node: BrokerNode, listener: str | None = None) -> str:
    return f"127.0.0.1:{node.bound_port(listener)}"


async def produce(node: BrokerNode, topic: str, *values: bytes) -> None:
    async with Producer(servers(node)) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def read_all(node: BrokerNode, topic: str, count: int) -> list[bytes | None]:
    values_read: list[bytes | None] = []
    async with Consumer(servers(node), auto_offset_reset="earliest") as consumer, asyncio.timeout(TIMEOUT_S):
        consumer.assign([(topic, 0)])
        while len(values_read) < count:
            for records in (await consumer.poll(timeout_ms=200)).values():
                values_read += [record.value for record in records]
    return values_read


async def set_for_all_brokers(admin: Admin, key: str, value: str) -> None:
    resource = ConfigResource(ResourceType.BROKER, "")
    change = ConfigChange(name=key, value=value)
    assert await admin.incremental_alter_configs({resource: [change]}) == {resource: None}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crash"])
async def test_topics_records_configs_and_offsets_survive_a_restart(tmp_path: Path, clean: bool) -> None:
    async with run_node(tmp_path, clean=clean) as node:
        async with Admin(servers(node)) as admin:
            await admin.create_topic("t", num_partitions=1, configs={"retention.ms": "12345678"})
        await produce(node, "t", b"a", b"b")
        async with Consumer(servers(node), group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            async with asyncio.timeout(TIMEOUT_S):
                assert (await consumer.getone()).value == b"a"
            await consumer.commit()
        cluster_id = node.services.store.image.cluster_id
    async with run_node(tmp_path) as node:
        assert node.services.store.image.cluster_id == cluster_id
        assert await read_all(node, "t", 2) == [b"a", b"b"]
        log = node.services.replicas.partition(TopicPartition("t", 0)).log
        assert log.config.retention_ms == 12345678
        async with Admin(servers(node)) as admin:
            offsets = await admin.list_group_offsets("g")
        assert offsets[TopicPartition("t", 0)].offset == 1


async def test_every_listener_advertises_its_own_address(tmp_path: Path) -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0"
    mapping = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT"
    async with run_node(tmp_path, listeners=listeners, listener_security_protocol_map=mapping) as node:
        advertised = {name: port for name, _, port in node.addresses()}
        assert advertised == {name: node.bound_port(name) for name in ("PLAINTEXT", "INTERNAL")}
        for name, port in advertised.items():
            async with Admin(servers(node, name)) as admin:
                (broker,) = (await admin.describe_cluster()).brokers
                assert broker.port == port


async def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async with run_node(tmp_path):
        with pytest.raises(ConfigError, match="another broker"):
            async with run_node(tmp_path):
                pass


@pytest.mark.parametrize("taken", ["listeners", "metrics.port"])
async def test_a_failed_start_closes_all_parts_and_the_next_needs_no_recovery(
    tmp_path: Path, taken: str
) -> None:
    async with run_node(tmp_path) as node:
        await produce(node, "t", b"a")
    with socket.create_server(("127.0.0.1", 0), family=socket.AF_INET) as other:
        port = other.getsockname()[1]
        text = str(port) if taken == "metrics.port" else f"PLAINTEXT://127.0.0.1:{port}"
        config = BrokerConfig({**BASE, "log.dirs": str(tmp_path), taken: text})
        with pytest.raises(OSError, match=str(port)):
            await BrokerNode.start(config)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    async with run_node(tmp_path) as node:
        assert await read_all(node, "t", 1) == [b"a"]


async def test_a_deleted_offsets_topic_removes_the_groups_in_memory(tmp_path: Path) -> None:
    async with run_node(tmp_path) as node, Admin(servers(node)) as admin:
        await produce(node, "t", b"a")
        async with Consumer(servers(node), group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            async with asyncio.timeout(TIMEOUT_S):
                while not await consumer.poll(timeout_ms=100):
                    pass
            await consumer.commit()
        assert [group.group_id for group in run_steps(node.services.groups.list_groups((), ()))] == ["g"]
        await admin.delete_topics(["__consumer_offsets"])
        assert run_steps(node.services.groups.list_groups((), ())) == []


async def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async with run_node(tmp_path):
        pass
    with pytest.raises(ConfigError, match=r"node\.id"):
        async with run_node(tmp_path, node_id="2"):
            pass


async def test_a_deleted_topic_completes_waiting_requests(tmp_path: Path) -> None:
    async with run_node(tmp_path) as node:
        await produce(node, "t", b"a")
        async with (
            Consumer(servers(node), fetch_max_wait_ms=60_000, auto_offset_reset="latest") as consumer,
            Admin(servers(node)) as admin,
        ):
            consumer.assign([("t", 0)])
            await consumer.poll(timeout_ms=100)
            purgatory = node.services.fetch_purgatory
            async with asyncio.timeout(TIMEOUT_S):
                while not purgatory.delayed_count:
                    await consumer.poll(timeout_ms=20)
                await admin.delete_topics(["t"])
                assert purgatory.delayed_count == 0


async def test_partitions_that_are_not_in_the_metadata_become_strays(tmp_path: Path) -> None:
    async with run_node(tmp_path) as node:
        await produce(node, "t", b"a")
    (tmp_path / "t-0").rename(tmp_path / "gone-0")
    async with run_node(tmp_path) as node:
        with pytest.raises(KafkaError) as caught:
            node.services.replicas.partition(TopicPartition("gone", 0))
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert any(name.endswith("-stray") for name in os.listdir(tmp_path))


async def test_flush_messages_1_makes_every_response_wait_for_the_disk(tmp_path: Path) -> None:
    async with run_node(tmp_path) as node:
        async with Admin(servers(node)) as admin:
            await admin.create_topic("t", num_partitions=1, configs={"flush.messages": "1"})
        log = node.services.replicas.partition(TopicPartition("t", 0)).log
        async with Producer(servers(node)) as producer:
            for expected in (1, 2, 3):
                await producer.send_and_wait("t", b"x")
                assert log.durability.recovery_point == expected


async def test_a_changed_producer_id_expiration_applies_to_existing_and_new_logs(
    tmp_path: Path,
) -> None:
    def expirations(node: BrokerNode) -> set[int]:
        return {log.producers.producer_id_expiration_ms for log in node.services.logs.logs}

    async with run_node(tmp_path) as node, Admin(servers(node)) as admin:
        await admin.create_topic("old", num_partitions=1)
        await set_for_all_brokers(admin, "producer.id.expiration.ms", "5000")
        await eventually(lambda: expirations(node) == {5000})
        await admin.create_topic("new", num_partitions=1)
        assert expirations(node) == {5000}
    async with run_node(tmp_path) as node:
        assert expirations(node) == {5000}


async def test_an_error_in_applying_configs_does_not_prevent_role_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of the metadata is published once: it is not repeated before the next start."""

    def fail(*_: object) -> bool:
        raise ValueError("a fault")

    async with run_node(tmp_path) as node:
        monkeypatch.setattr(DynamicBrokerConfig, "apply", fail)
        async with Admin(servers(node)) as admin:
            await admin.create_topic("t", num_partitions=1)
        assert node.services.replicas.partition(TopicPartition("t", 0)).is_leader


async def test_changed_connection_limits_apply_at_once(tmp_path: Path) -> None:
    async with run_node(tmp_path) as node, Admin(servers(node)) as admin:
        await admin.create_topic("t", num_partitions=1)
        await set_for_all_brokers(admin, "max.connections.per.ip.overrides", "127.0.0.1:1")

        async def is_refused() -> bool:
            reader, writer = await asyncio.open_connection("127.0.0.1", node.bound_port())
            try:
                async with asyncio.timeout(0.2):
                    return await reader.read(1) == b""
            except TimeoutError:
                return False
            finally:
                writer.transport.abort()

        async with asyncio.timeout(TIMEOUT_S):
            while not await is_refused():
                pass
        resource = ConfigResource(ResourceType.BROKER, "1")
        bad = ConfigChange(name="listener.name.plaintext.max.connections", value="0")
        refused = (await admin.incremental_alter_configs({resource: [bad]}))[resource]
        assert refused is not None
        assert refused.code is ErrorCode.INVALID_REQUEST


async def test_data_is_stored_in_the_directory_with_the_fewest_partitions(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    async with run_node(first, log_dirs=f"{first},{second}") as node:
        async with Admin(servers(node)) as admin:
            await admin.create_topic("t", num_partitions=6)
        sizes = [len(directory.logs) for directory in node.services.logs.directories]
        assert sizes == [3, 3]


async def test_a_directory_whose_logs_cannot_be_opened_is_reported_to_the_controller(tmp_path: Path) -> None:
    """If it were registered as usable, this broker would become leader of partitions that it cannot read."""
    first, second = tmp_path / "one", tmp_path / "two"
    dirs = f"{first},{second}"
    async with run_node(first, log_dirs=dirs) as node:
        async with Admin(servers(node)) as admin:
            await admin.create_topic("t", num_partitions=2)
        assert len(node.raft.store.image.brokers[1].log_dirs) == 2
    (second / "recovery-point-offset-checkpoint").unlink()
    (second / "recovery-point-offset-checkpoint").mkdir()
    async with run_node(first, log_dirs=dirs) as node:
        assert [each.path for each in node.services.logs.directories.online] == [str(first)]
        await eventually(lambda: len(node.raft.store.image.brokers[1].log_dirs) == 1)
        leaders = node.raft.store.image.topics_by_name["t"].partitions
        assert sorted(each.leader for each in leaders.values()) == [-1, 1]


async def test_kip_1066_cordoned_directories_get_no_new_partitions_and_are_reported(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    async with run_node(first, log_dirs=f"{first},{second}", cordoned_log_dirs=str(second)) as node:
        async with Admin(servers(node)) as admin:
            await admin.create_topic("t", num_partitions=4)
            assert [len(each.logs) for each in node.services.logs.directories] == [4, 0]
            resource = ConfigResource(ResourceType.BROKER, "1")
            everywhere = ConfigChange(name="cordoned.log.dirs", value="*")
            assert await admin.incremental_alter_configs({resource: [everywhere]}) == {resource: None}
            image = lambda: node.raft.store.image.brokers[1]  # noqa: E731
            await eventually(lambda: len(image().cordoned_log_dirs) == 2)
            with pytest.raises(KafkaError) as caught:
                await admin.create_topic("none", num_partitions=1)
            assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
            nowhere = ConfigChange(name="cordoned.log.dirs", value="")
            assert await admin.incremental_alter_configs({resource: [nowhere]}) == {resource: None}
            await eventually(lambda: not image().cordoned_log_dirs)
            await admin.create_topic("u", num_partitions=4)
        assert [len(each.logs) for each in node.services.logs.directories] == [4, 4]


def append_metadata(folder: Path, *records: MetadataRecord) -> None:
    """Append records to the log of a stopped node."""
    log = MetadataLog.open(OsFileSystem(), str(folder), metadata_log_config(), SystemClock())
    builder = BatchBuilder(base_offset=log.end_offset, leader_epoch=log.last_epoch)
    for record in records:
        builder.append(5, None, encode_record(record))
    log.append(builder.build(), log.last_epoch)
    log.close(clean=True)


def topic_config(key: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name=key, value=value)


@pytest.mark.parametrize(
    "record",
    [
        topic_config("config.of.a.later.version", "on"),
        topic_config("retention.ms", "for ever"),
        topic_config("max.compaction.lag.ms", "5"),
    ],
    ids=lambda record: str(record.name),
)
async def test_an_unknown_or_invalid_config_of_a_topic_does_not_prevent_the_start(
    tmp_path: Path, record: ConfigRecord
) -> None:
    async with run_node(tmp_path) as node:
        await produce(node, "t", b"kept")
        async with Admin(servers(node)) as admin:
            change = ConfigChange(name="segment.ms", value="1234567")
            await admin.incremental_alter_configs({ConfigResource(ResourceType.TOPIC, "t"): [change]})
    append_metadata(tmp_path, record)
    async with run_node(tmp_path, log_cleaner_min_compaction_lag_ms="6") as node:
        assert await read_all(node, "t", 1) == [b"kept"]
        await produce(node, "t", b"more")
        assert node.services.replicas.partition(TopicPartition("t", 0)).log.config.segment_ms == 1234567
        await produce(node, "new", b"too")


async def test_metadata_that_cannot_be_applied_ends_the_start_at_once(tmp_path: Path) -> None:
    async with run_node(tmp_path):
        pass
    append_metadata(tmp_path, RemoveTopicRecord(topic_id=UUID(int=4711)))
    failure = NodeFailure(1)
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(KafkaError, match="contradicts itself"):
            await BrokerNode.start(BrokerConfig({**BASE, "log.dirs": str(tmp_path)}), failure=failure)
    assert failure.event.is_set()
