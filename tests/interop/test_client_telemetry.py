"""librdkafka pushes its metrics to a broker, which serves them to Prometheus and writes them to a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.nodes.exposed_metrics import metric_samples
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, ResourceType
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

SUBSCRIPTION = ConfigResource(ResourceType.CLIENT_METRICS, "everything")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


@pytest.fixture
def cluster(path: Path) -> Iterator[EmbeddedCluster]:
    config = {"client.telemetry.metrics.enable": "true", "client.telemetry.file": str(path)}
    with EmbeddedCluster(config=config) as running:
        yield running


def subscribe(servers: str, **configs: str) -> None:
    async def alter() -> None:
        async with Admin(servers) as admin:
            changes = [
                ConfigChange(name=key.replace("_", "."), value=value) for key, value in configs.items()
            ]
            result = await admin.incremental_alter_configs({SUBSCRIPTION: changes})
            assert result == {SUBSCRIPTION: None}
            assert await admin.list_config_resources([ResourceType.CLIENT_METRICS]) == [SUBSCRIPTION]

    asyncio.run(alter())


def produce_until(servers: str, client_id: str, condition: Callable[[], bool]) -> None:
    """Produce records until the condition holds."""
    producer = Producer({"bootstrap.servers": servers, "client.id": client_id})

    def has_enough() -> bool:
        producer.produce("tides", b"high")
        producer.flush(10)
        return condition()

    wait_until(has_enough, "pushed metrics")


def test_librdkafka_pushes_metrics_to_the_endpoint_and_to_a_file(
    cluster: EmbeddedCluster, path: Path
) -> None:
    subscribe(cluster.bootstrap_servers, metrics="*", interval_ms="200")

    def samples() -> dict[str, float]:
        return cluster.run(lambda node: metric_samples(node.metrics, "tidelog_client_"))

    produce_until(
        cluster.bootstrap_servers,
        "harbour",
        lambda: samples().get("producer_node_request_latency_max", 0) > 0,
    )
    pushes = [json.loads(line) for line in path.read_text().splitlines()]
    attributes = {
        each["key"]: each["value"]["stringValue"]
        for each in pushes[0]["resourceMetrics"][0]["resource"]["attributes"]
    }
    assert attributes["client_id"] == "harbour"
    assert attributes["client_software_name"] == "confluent-kafka-python"
    assert attributes["principal"] == "User:ANONYMOUS"
    names = {
        metric["name"]
        for push in pushes
        for scope in push["resourceMetrics"][0]["scopeMetrics"]
        for metric in scope["metrics"]
    }
    assert "org.apache.kafka.producer.connection.creation.total" in names
    counts = cluster.run(lambda node: metric_samples(node.metrics, "kafka_server_clientmetrics_"))
    assert counts["plugin_export_total"] >= 1
    assert counts["plugin_error_total"] == 0


def test_a_client_that_does_not_match_pushes_nothing(cluster: EmbeddedCluster, path: Path) -> None:
    subscribe(cluster.bootstrap_servers, metrics="*", interval_ms="200", match="client_id=other.*")
    produce_until(
        cluster.bootstrap_servers,
        "other-1",
        lambda: path.exists() and len(path.read_text().splitlines()) >= 2,
    )
    before = len(path.read_text().splitlines())
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "harbour"})
    producer.produce("tides", b"high")
    producer.flush(10)

    def instances() -> float:
        counts = cluster.run(lambda node: metric_samples(node.metrics, "kafka_server_clientmetrics_"))
        return counts["instances"]

    wait_until(lambda: instances() >= 1, "the client has its subscription")
    text = path.read_text()
    assert '"harbour"' not in text and len(text.splitlines()) >= before
