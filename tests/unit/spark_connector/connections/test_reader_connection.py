"""Connections that the tasks of one worker process share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.spark.topics import create_topic, produce, varied_records
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.connections.reader_connection import IDLE_MAX, KeptConnections
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import SourceOptions, read_source_options
from tidelog.spark_connector.reading.range_reader import ReadSettings, read_range
from tidelog.testing.embedded import EmbeddedCluster

RECORDS = varied_records(20, 50)
TIMEOUT_MS = 60_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        create_topic(running.bootstrap_servers, "tides", 2)
        produce(running.bootstrap_servers, "tides", RECORDS, linger_ms=1)
        yield running


@pytest.fixture
def kept() -> Iterator[KeptConnections]:
    connections = KeptConnections()
    yield connections
    connections.close()


def options(cluster: EmbeddedCluster, client_id: str = "tasks") -> SourceOptions:
    values = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.client.id": client_id,
        "subscribe": "tides",
    }
    return read_source_options(values, is_streaming=False)


def run_task(kept: KeptConnections, settings: ReadSettings) -> int:
    """Read the records as a task does; return the number of rows."""
    requested = OffsetRange(TopicPartition("tides", 0), 0, len(RECORDS))
    with kept.connection(settings.client, settings.poll_timeout_ms) as connection:
        return sum(batch.num_rows for batch in read_range(settings, requested, connection))


def test_the_second_task_uses_the_connection_of_the_first(
    cluster: EmbeddedCluster, kept: KeptConnections
) -> None:
    settings = ReadSettings.of(options(cluster))
    with kept.connection(settings.client, TIMEOUT_MS) as first:
        pass
    with kept.connection(settings.client, TIMEOUT_MS) as second:
        assert second is first
    assert run_task(kept, settings) == len(RECORDS)
    assert run_task(kept, settings) == len(RECORDS)


def test_tasks_at_the_same_time_and_other_options_have_connections_of_their_own(
    cluster: EmbeddedCluster, kept: KeptConnections
) -> None:
    one, other = options(cluster).client, options(cluster, "others").client
    with (
        kept.connection(one, TIMEOUT_MS) as first,
        kept.connection(one, TIMEOUT_MS) as second,
        kept.connection(other, TIMEOUT_MS) as third,
    ):
        assert len({id(first), id(second), id(third)}) == 3
    with kept.connection(other, TIMEOUT_MS) as again:
        assert again is third


def test_a_connection_is_not_used_again_after_an_error(
    cluster: EmbeddedCluster, kept: KeptConnections
) -> None:
    client = options(cluster).client
    with pytest.raises(KafkaError), kept.connection(client, TIMEOUT_MS) as failed:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
    with kept.connection(client, TIMEOUT_MS) as later:
        assert later is not failed


def test_idle_connections_are_bounded(cluster: EmbeddedCluster, kept: KeptConnections) -> None:
    clients = [options(cluster, f"client-{number}").client for number in range(IDLE_MAX + 1)]
    connections = []
    for client in clients:
        with kept.connection(client, TIMEOUT_MS) as connection:
            connections.append(connection)
    with kept.connection(clients[0], TIMEOUT_MS) as again:
        assert again is not connections[0]
    with kept.connection(clients[-1], TIMEOUT_MS) as last:
        assert last is connections[-1]


def test_a_kept_connection_is_used_after_a_restart_of_the_broker(kept: KeptConnections) -> None:
    with EmbeddedCluster() as cluster:
        create_topic(cluster.bootstrap_servers, "tides", 1)
        produce(cluster.bootstrap_servers, "tides", RECORDS, linger_ms=1)
        settings = ReadSettings.of(options(cluster))
        assert run_task(kept, settings) == len(RECORDS)
        cluster.restart()
        assert run_task(kept, settings) == len(RECORDS)
