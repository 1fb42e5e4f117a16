"""A collector of OpenTelemetry receives the metrics of the broker, and those that clients push (KIP-714).

`make test-collector` builds the collector with Go, and passes its path in TIDELOG_OTEL_COLLECTOR.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, ResourceType
from tidelog.local_cluster.ports import free_ports
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

COLLECTOR = os.environ["TIDELOG_OTEL_COLLECTOR"]
CONFIG = """\
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
exporters:
  debug:
    verbosity: detailed
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    metrics:
      receivers: [otlp]
      exporters: [debug]
"""
READY = "Everything is ready"
STOP_S = 30


@contextmanager
def collector(directory: Path) -> Iterator[tuple[str, Path]]:
    """Run a collector; yield its address, and the file in which it prints what it has received."""
    [port] = free_ports(1)
    config, output = directory / "collector.yaml", directory / "collector.log"
    config.write_text(CONFIG.format(port=port))
    with output.open("wb") as file:
        process = subprocess.Popen([COLLECTOR, "--config", str(config)], stdout=file, stderr=file)
    try:
        wait_until(lambda: READY in output.read_text() or process.poll() is not None)
        assert process.poll() is None, output.read_text()
        yield f"http://127.0.0.1:{port}/v1/metrics", output
    finally:
        process.terminate()
        process.wait(STOP_S)


async def subscribe(servers: str) -> None:
    """Let all clients push all metrics."""
    resource = ConfigResource(ResourceType.CLIENT_METRICS, "everything")
    changes = [ConfigChange(name="metrics", value="*"), ConfigChange(name="interval.ms", value="200")]
    async with Admin(servers) as admin:
        assert await admin.incremental_alter_configs({resource: changes}) == {resource: None}


def test_a_collector_receives_the_metrics_of_the_broker_and_of_its_clients(tmp_path: Path) -> None:
    with collector(tmp_path) as (endpoint, output):
        config = {
            "metrics.otlp.endpoint": endpoint,
            "metrics.otlp.interval.ms": "1000",
            "client.telemetry.otlp.endpoint": endpoint,
        }
        with EmbeddedCluster(config=config) as cluster:
            asyncio.run(subscribe(cluster.bootstrap_servers))
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "harbour"})

            def has_arrived() -> bool:
                producer.produce("tides", b"high")
                producer.flush(10)
                text = output.read_text()
                return all(
                    expected in text
                    for expected in (
                        "service.name: Str(tidelog)",
                        "Name: kafka_server_brokertopicmetrics_messagesin",
                        "Name: org.apache.kafka.producer.connection.creation.total",
                        "client_id: Str(harbour)",
                        "client_software_name: Str(confluent-kafka-python)",
                        "principal: Str(User:ANONYMOUS)",
                    )
                )

            wait_until(has_arrived, "metrics at the collector")
    errors = [line for line in output.read_text().splitlines() if "\terror\t" in line]
    assert errors == []
