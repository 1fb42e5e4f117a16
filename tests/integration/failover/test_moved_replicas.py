"""Replicas move between the log directories of running brokers, while clients produce and consume."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.waiting import wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.clients.admin.admin import (
    Admin,
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ReplicaLogDirs,
    ResourceType,
    TopicPartitionReplica,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.directories.meta_properties import MetaPropertiesFile
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.testing.embedded import EmbeddedCluster

RATE_KEY = "replica.alter.log.dirs.io.max.bytes.per.second"
TIMEOUT_S = 60.0

ResultT = TypeVar("ResultT")


class MovedReplicas:
    """A node with several log directories, and the topic `tides` with one partition."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.servers = cluster.bootstrap_servers

    def create_topic(self, **configs: str) -> None:
        """Create the topic, and wait until its replica exists."""
        topic = NewTopic("tides", 1, 1, config={key.replace("_", "."): v for key, v in configs.items()})
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        for future in admin.create_topics([topic]).values():
            future.result(TIMEOUT_S)
        wait_until(lambda: self.places().current_log_dir is not None)

    def admin(self, work: Callable[[Admin], Awaitable[ResultT]]) -> ResultT:
        """Return the result of one operation of our admin client."""

        async def run() -> ResultT:
            async with Admin(self.servers) as admin:
                return await work(admin)

        return asyncio.run(run())

    @property
    def replica(self) -> TopicPartitionReplica:
        """The replica that is moved."""
        return TopicPartitionReplica("tides", 0, min(self.cluster.nodes))

    def alter(self, path: str, topic: str = "tides") -> ErrorCode:
        """Request the move to a log directory; return the error code."""
        replica = self.replica._replace(topic=topic)
        outcome = self.admin(lambda admin: admin.alter_replica_log_dirs({replica: path}))[replica]
        return ErrorCode.NONE if outcome is None else outcome.code

    def places(self) -> ReplicaLogDirs:
        """Return the current and the future log directory."""
        described = self.admin(lambda admin: admin.describe_replica_log_dirs([self.replica]))[self.replica]
        assert not isinstance(described, KafkaError), described
        return described

    def other_directory(self) -> str:
        """Return a log directory in which the replica is not."""
        paths = self.admin(lambda admin: admin.describe_log_dirs())[self.replica.broker_id]
        assert not isinstance(paths, KafkaError)
        return min(path for path in paths if path != self.places().current_log_dir)

    def move(self) -> str:
        """Move the replica to another directory, wait until it is there, and return the directory."""
        target = self.other_directory()
        assert self.alter(target) is ErrorCode.NONE
        self.wait_until_moved(target)
        return target

    def wait_until_moved(self, target: str) -> None:
        """Wait until the replica is in `target`, also in the metadata."""
        wait_until(
            lambda: self.places() == ReplicaLogDirs(current_log_dir=target, offset_lag=0),
            timeout_s=TIMEOUT_S,
        )
        wait_until(lambda: self.cluster.run(_directory_in_metadata) == directory_id(target))

    def set_rate(self, bytes_per_second: int) -> None:
        """Limit the rate of moves."""
        resource = ConfigResource(ResourceType.BROKER, "")
        change = ConfigChange(name=RATE_KEY, value=str(bytes_per_second), operation=AlterOperation.SET)
        outcomes = self.admin(lambda admin: admin.incremental_alter_configs({resource: [change]}))
        assert outcomes == {resource: None}
        wait_until(
            lambda: self.cluster.run(lambda node: node.services.throttles.moves.rate) == bytes_per_second
        )

    def produce(self, values: list[str], **options: Any) -> None:
        """Produce values; every record must be acknowledged."""
        producer = Producer(
            {"bootstrap.servers": self.servers, "enable.idempotence": True, "log_level": 0, **options}
        )
        failed: list[str] = []
        for number, value in enumerate(values):
            producer.produce(
                "tides",
                value,
                key=f"key {number}",
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert failed == []

    def read(self, isolation: str = "read_committed") -> list[tuple[int, str]]:
        """Return all committed records with their offsets."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition("tides", 0, 0)])
        records: list[tuple[int, str]] = []
        try:
            while True:
                message = consumer.poll(TIMEOUT_S)
                assert message is not None, f"{len(records)} records were read"
                if message.error() is not None:
                    return records
                records.append((message.offset() or 0, message.value().decode()))
        finally:
            consumer.close()


def _directory_in_metadata(node: BrokerNode) -> UUID | None:
    partition = node.services.image().topics_by_name["tides"].partitions[0]
    return partition.directory_of(node.services.replicas.node_id)


def directory_id(path: str) -> UUID | None:
    """Return the id of a log directory."""
    return MetaPropertiesFile(OsFileSystem(), path).read().directory_id


class Load:
    """A producer that writes in a thread until the end of its context; with an id, in transactions."""

    def __init__(self, replicas: MovedReplicas, transactional_id: str | None = None, keys: int = 0) -> None:
        options: dict[str, Any] = {"bootstrap.servers": replicas.servers, "log_level": 0, "linger.ms": 2}
        if transactional_id is not None:
            options["transactional.id"] = transactional_id
        self._producer = Producer({"enable.idempotence": True, **options})
        self._is_transactional = transactional_id is not None
        self._keys = keys
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: list[tuple[int, str]] = []
        self.committed: list[str] = []
        self.aborted: list[str] = []
        self.errors: list[object] = []

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        assert self.errors == []

    def _run(self) -> None:
        try:
            if self._is_transactional:
                self._producer.init_transactions(TIMEOUT_S)
            number = 0
            while not self._stopping.is_set():
                number += 1
                self._write(number)
            assert self._producer.flush(TIMEOUT_S) == 0
        except Exception as error:
            self.errors.append(error)

    def _write(self, number: int) -> None:
        values = [f"load {number} {index} " + "x" * 1_000 for index in range(20)]
        if self._is_transactional:
            self._producer.begin_transaction()
        for index, value in enumerate(values):
            key = f"key {(number * 20 + index) % self._keys}" if self._keys else None
            self._producer.produce("tides", value, key=key, on_delivery=self._on_delivery)
        if not self._is_transactional:
            self._producer.poll(0.005)
        elif number % 3:
            self._producer.commit_transaction(TIMEOUT_S)
            self.committed += values
        else:
            self._producer.flush(TIMEOUT_S)
            self._producer.abort_transaction(TIMEOUT_S)
            self.aborted += values

    def _on_delivery(self, error: object, message: Any) -> None:
        if error is None:
            self.acknowledged.append((message.offset(), message.value().decode()))
        elif not self._is_transactional:
            self.errors.append(error)


def start_cluster(data_dir: Path, *, tiered: bool = False) -> EmbeddedCluster:
    """Return a node with three log directories in `data_dir`."""
    config = {
        "log.dirs": ",".join(str(data_dir / "logs" / name) for name in "abc"),
        "log.cleaner.backoff.ms": "200",
        "log.retention.check.interval.ms": "300",
    }
    return EmbeddedCluster(config=config, tiered=tiered, data_dir=data_dir)


@contextmanager
def moved_replicas(data_dir: Path, *, tiered: bool = False, **configs: str) -> Iterator[MovedReplicas]:
    """Run a node with the topic `tides`."""
    with start_cluster(data_dir, tiered=tiered) as cluster:
        replicas = MovedReplicas(cluster)
        replicas.create_topic(**configs)
        yield replicas


def test_a_replica_moves_while_a_producer_writes(tmp_path: Path) -> None:
    with moved_replicas(tmp_path, segment_bytes="1048576") as replicas:
        replicas.produce(["x" * 1_000 for _ in range(3_000)])
        with Load(replicas) as load:
            for _ in range(4):
                replicas.move()
        records = dict(replicas.read())
        assert [offset for offset, value in load.acknowledged if records.get(offset) != value] == []
        assert sorted(records) == list(range(len(records)))
        place = replicas.places().current_log_dir
        copies = [path for path in tmp_path.rglob("tides-0*") if not path.name.endswith("-delete")]
        assert [str(path.parent) for path in copies] == [place]
    with start_cluster(tmp_path) as cluster:
        again = MovedReplicas(cluster)
        wait_until(lambda: again.places().current_log_dir == place)
        assert dict(again.read()) == records


@pytest.mark.parametrize(
    ("tiered", "configs"),
    [
        (False, {}),
        (False, {"flush_messages": "1"}),
        (False, {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "500"}),
        (True, {"remote_storage_enable": "true", "local_retention_bytes": "1100000"}),
    ],
    ids=["plain", "flushed at each append", "compacted", "tiered"],
)
def test_transactions_are_complete_after_moves(tmp_path: Path, tiered: bool, configs: dict[str, str]) -> None:
    with moved_replicas(tmp_path, tiered=tiered, segment_bytes="1048576", **configs) as replicas:
        with Load(replicas, "mover", keys=50 if "cleanup_policy" in configs else 0) as load:
            for _ in range(3):
                wait_for_more(load)
                replicas.move()
            wait_for_more(load)
        values = [value for _, value in replicas.read()]
        if "cleanup_policy" in configs:
            assert set(values) <= set(load.committed)
            assert load.committed[-1] in values
        else:
            assert values == load.committed
        assert load.aborted


def wait_for_more(load: Load) -> None:
    """Wait until further transactions are committed."""
    count = len(load.committed)
    wait_until(lambda: len(load.committed) > count + 200 or load.errors, timeout_s=TIMEOUT_S)


def test_a_throttled_move_is_shown_as_a_future_replica_and_can_be_cancelled(tmp_path: Path) -> None:
    with moved_replicas(tmp_path) as replicas:
        replicas.produce(["x" * 1_000 for _ in range(2_000)])
        before, target = replicas.places(), replicas.other_directory()
        replicas.set_rate(50_000)
        assert replicas.alter(target) is ErrorCode.NONE
        assert replicas.alter(target) is ErrorCode.NONE
        wait_until(lambda: 0 < replicas.places().future_offset_lag < 2_000)
        assert replicas.places().future_log_dir == target
        assert before.current_log_dir is not None
        assert replicas.alter(before.current_log_dir) is ErrorCode.NONE
        wait_until(lambda: replicas.places() == before)
        wait_until(lambda: not [path for path in Path(target).iterdir() if path.name.startswith("tides")])
        replicas.set_rate(100_000_000)
        replicas.move()
        assert len(replicas.read()) == 2_000


def test_an_interrupted_move_continues_at_the_next_start(tmp_path: Path) -> None:
    with moved_replicas(tmp_path) as replicas:
        replicas.produce(["x" * 1_000 for _ in range(2_000)])
        target = replicas.other_directory()
        replicas.set_rate(50_000)
        assert replicas.alter(target) is ErrorCode.NONE
        wait_until(lambda: 0 < replicas.places().future_offset_lag < 2_000)
    with start_cluster(tmp_path) as cluster:
        again = MovedReplicas(cluster)
        wait_until(lambda: again.places().future_log_dir == target)
        again.set_rate(100_000_000)
        again.wait_until_moved(target)
        assert len(again.read()) == 2_000


def test_a_target_whose_disk_fails_during_the_copy_does_not_affect_the_replica(tmp_path: Path) -> None:
    with moved_replicas(tmp_path) as replicas:
        replicas.produce(["x" * 1_000 for _ in range(2_000)])
        before, target = replicas.places(), replicas.other_directory()
        replicas.set_rate(50_000)
        assert replicas.alter(target) is ErrorCode.NONE
        wait_until(lambda: 0 < replicas.places().future_offset_lag < 2_000)
        # In one step: during a deletion file by file, new files would be created.
        Path(target).rename(tmp_path / "taken-away")
        Path(target).write_text("not a directory any more")
        replicas.set_rate(100_000_000)
        wait_until(lambda: replicas.places() == before, timeout_s=TIMEOUT_S)
        assert replicas.alter(target) is ErrorCode.KAFKA_STORAGE_ERROR
        replicas.produce(["more"])
        assert len(replicas.read()) == 2_001
        assert replicas.cluster.run(_directory_in_metadata) == directory_id(before.current_log_dir or "")


def test_directories_that_cannot_be_used_are_rejected(tmp_path: Path) -> None:
    with moved_replicas(tmp_path) as replicas:
        target = replicas.other_directory()
        assert replicas.alter("/no/such/directory") is ErrorCode.LOG_DIR_NOT_FOUND
        assert replicas.alter(target, topic="unknown") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert replicas.alter(target, topic="t" * 249) is ErrorCode.INVALID_TOPIC_EXCEPTION
        resource = ConfigResource(ResourceType.BROKER, str(replicas.replica.broker_id))
        change = ConfigChange(name="cordoned.log.dirs", value=target, operation=AlterOperation.SET)
        replicas.admin(lambda admin: admin.incremental_alter_configs({resource: [change]}))
        wait_until(lambda: replicas.alter(target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT)
