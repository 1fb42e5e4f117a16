"""A task's rows are in the log when it reports them; otherwise the task fails and names rows and reason."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pyarrow as pa
import pytest

from tests.support.spark.topics import create_topic
from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.sink_columns import SinkColumns
from tidelog.spark_connector.planning.sink_options import read_sink_options
from tidelog.spark_connector.writing.at_least_once import AtLeastOnce, SinkError
from tidelog.spark_connector.writing.delivery import TaskId, TaskReport
from tidelog.testing.embedded import EmbeddedCluster

TASK = TaskId(query_id="q", batch_id=7, partition_id=0, attempt=0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        yield running


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    name = f"sink-{uuid4().hex[:8]}"
    create_topic(cluster.bootstrap_servers, name, 1, max_message_bytes="20000")
    return name


def delivery(cluster: EmbeddedCluster, topic: str, **options: str) -> AtLeastOnce:
    values = {"kafka." + name.replace("_", "."): text for name, text in options.items()}
    read = read_sink_options({**values, "kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic})
    return AtLeastOnce(read.client, SinkColumns({"value": 0, "partition": 1}, read.topic))


def rows(values: list[bytes], partition: int | None = None) -> pa.RecordBatch:
    partitions = pa.array([partition] * len(values), pa.int32())
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), "partition": partitions})


def log_end(cluster: EmbeddedCluster, topic: str) -> int:
    async def query_end_offset() -> int:
        async with Admin(cluster.bootstrap_servers) as admin:
            end_offset = (await admin.list_offsets({TopicPartition(topic, 0): -1}))[TopicPartition(topic, 0)]
            assert not isinstance(end_offset, Exception)
            return end_offset.offset

    return asyncio.run(query_end_offset())


def test_acknowledged_rows_are_written_with_a_small_buffer(cluster: EmbeddedCluster, topic: str) -> None:
    writer = delivery(cluster, topic, buffer_memory="65536", batch_size="16384")
    with closing(writer.open_task(TASK)) as task:
        for _ in range(3):
            task.write(rows([bytes(1000)] * 1500))
        assert task.finish() == TaskReport(TASK, 4500)
    assert log_end(cluster, topic) == 4500


def test_a_record_above_the_clients_limit_is_refused_with_topic_and_limit(
    cluster: EmbeddedCluster, topic: str
) -> None:
    refusal = rf"{topic}.*5136 bytes is larger than max_request_size=5000; limits are"
    writer = delivery(cluster, topic, max_request_size="5000")
    with closing(writer.open_task(TASK)) as task, pytest.raises(SinkError, match=refusal):
        task.write(rows([b"fits", bytes(5100)]))


def test_a_record_above_the_brokers_limit_fails_the_task_with_partition_and_limit(
    cluster: EmbeddedCluster, topic: str
) -> None:
    with closing(delivery(cluster, topic).open_task(TASK)) as task:
        task.write(rows([b"fits", bytes(30_000)]))
        with pytest.raises(SinkError, match=rf"{topic}-0.*MESSAGE_TOO_LARGE.*max.message.bytes of the topic"):
            task.finish()


def test_a_failure_is_raised_while_rows_are_added(cluster: EmbeddedCluster, topic: str) -> None:
    with closing(delivery(cluster, topic).open_task(TASK)) as task:
        task.write(rows([bytes(30_000)]))
        with pytest.raises(SinkError, match="MESSAGE_TOO_LARGE"):
            for _ in range(100):
                task.write(rows([b"x"] * 5_000))


def test_an_unknown_partition_is_reported(cluster: EmbeddedCluster, topic: str) -> None:
    refusal = rf"'{topic}', partition 3: .* has no partition 3, only 0\.\.0"
    with closing(delivery(cluster, topic).open_task(TASK)) as task, pytest.raises(SinkError, match=refusal):
        task.write(rows([b"x"], partition=3))


def test_an_unavailable_cluster_fails_a_task_that_has_rows() -> None:
    options = read_sink_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.max.block.ms": "300", "topic": "tides"}
    )
    writer = AtLeastOnce(options.client, SinkColumns({"value": 0}, options.topic))
    with closing(writer.open_task(TASK)) as task, pytest.raises(KafkaError, match=r"127\.0\.0\.1"):
        task.write(rows([b"x"]))
    with closing(writer.open_task(TASK)) as task:
        task.write(rows([]))
        assert task.finish() == TaskReport(TASK, 0)


def test_written_rows_stay_when_the_batch_is_aborted(cluster: EmbeddedCluster, topic: str) -> None:
    writer = delivery(cluster, topic)
    with closing(writer.open_task(TASK)) as task:
        task.write(rows([b"x"] * 10))
        report = task.finish()
    writer.abort([report, None], 7)
    assert log_end(cluster, topic) == 10
