"""Client telemetry (KIP-714): Tidelog and Apache Kafka respond alike, and Kafka's clients push their metrics.

A reporter of its own makes Apache Kafka's broker serve the APIs; without one neither engine lists them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.kafka.conftest import JARS
from tests.kafka.kafka_node import MixedCluster
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.tools import KafkaTools
from tests.reference_software.kafka_programs import Engine
from tests.support.messages.otlp_metrics import gauge, metrics_data
from tests.support.network.raw_client import RawClient
from tests.support.nodes.exposed_metrics import metric_samples
from tests.support.waiting import wait_until
from tidelog.cluster.image import ResourceType
from tidelog.protocol.compression import Compression, compress
from tidelog.protocol.messages import incremental_alter_configs as alter
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tidelog.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from tidelog.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tidelog.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from tidelog.protocol.registry import ApiKey
from tidelog.testing.embedded import EmbeddedCluster

RECEIVER = Path(__file__).parent / "TelemetryReceiver.java"
MAX_BYTES = 3_000
METRICS = metrics_data(gauge("org.apache.kafka.producer.rate", 1.5)).SerializeToString()
SET, DELETE, APPEND, SUBTRACT = range(4)
LOG_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z ")


@dataclass
class Broker:
    """A controller and a broker of one engine, and a connection to the broker."""

    engine: Engine
    cluster: MixedCluster
    client: RawClient
    tools: KafkaTools

    def alter(self, name: str, *changes: tuple[str, int, str | None], validate_only: bool = True) -> int:
        """Change the configs of a subscription; return the error code."""
        configs = tuple(
            alter.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        )
        resource = alter.AlterConfigsResource(
            resource_type=ResourceType.CLIENT_METRICS, resource_name=name, configs=configs
        )
        request = alter.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
        response = self.client.send_request(request, 1, alter.IncrementalAlterConfigsResponse)
        return response.responses[0].error_code

    def get(self, client_instance_id: UUID) -> GetTelemetrySubscriptionsResponse:
        """Return the subscription of a client."""
        request = GetTelemetrySubscriptionsRequest(client_instance_id=client_instance_id)
        return self.client.send_request(request, 0, GetTelemetrySubscriptionsResponse)

    def push(self, request: PushTelemetryRequest) -> int:
        """Push metrics; return the error code."""
        return self.client.send_request(request, 0, PushTelemetryResponse).error_code

    def subscribe(self, interval_ms: int) -> None:
        """Subscribe to all metrics, and wait until the broker knows it."""
        changes = (("metrics", SET, "*"), ("interval.ms", SET, str(interval_ms)))
        assert self.alter("all", *changes, validate_only=False) == 0
        wait_until(lambda: self.get(uuid4()).push_interval_ms == interval_ms, "the subscription")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the class that makes Apache Kafka serve telemetry."""
    folder = tmp_path_factory.mktemp("plugin")
    subprocess.run(["javac", "-cp", f"{JARS}/*", "-d", str(folder), str(RECEIVER)], check=True, timeout=90)
    return folder


def start_broker(engine: Engine, path: Path, plugins: tuple[str, ...], settings: dict[str, str]) -> Broker:
    path.mkdir()
    cluster = MixedCluster(path, plugins=plugins)
    cluster.add(100, engine, "controller")
    node = cluster.add(1, engine, "broker", settings)
    for each in cluster.nodes.values():
        cluster.format(each)
    cluster.start(*cluster.nodes.values())
    MixedClients(cluster).wait_for_brokers(1)
    host, _, port = node.address.partition(":")
    return Broker(engine, cluster, RawClient(host, int(port)), KafkaTools(cluster.jars, node.address))


@pytest.fixture(scope="module")
def brokers(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    """Return brokers of Tidelog and of Apache Kafka with receivers of telemetry."""
    path = tmp_path_factory.mktemp("telemetry")
    common = {"telemetry.max.bytes": str(MAX_BYTES)}
    own = {
        "client.telemetry.metrics.enable": "true",
        "client.telemetry.file": str(path / "metrics.jsonl"),
    }
    kafkas = {"metric.reporters": "TelemetryReceiver"}
    started = (
        start_broker(Engine.TIDELOG, path / "tidelog", (), common | own),
        start_broker(Engine.KAFKA, path / "kafka", (str(plugin),), common | kafkas),
    )
    yield started
    for broker in started:
        broker.client.close()
        broker.cluster.end()


def listed_apis(client: RawClient) -> dict[ApiKey, tuple[int, int]]:
    response = client.send_request(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return {ApiKey(each.api_key): (each.min_version, each.max_version) for each in response.api_keys}


def test_a_broker_lists_the_apis_of_apache_kafka(tmp_path: Path) -> None:
    apis = {}
    for engine in Engine:
        broker = start_broker(engine, tmp_path / engine.value, (), {})
        with closing(broker.client):
            apis[engine] = listed_apis(broker.client)
        broker.cluster.end()
    assert apis[Engine.TIDELOG] == apis[Engine.KAFKA]
    assert ApiKey.PUSH_TELEMETRY not in apis[Engine.TIDELOG]


def test_telemetry_is_listed_if_there_is_a_receiver(brokers: tuple[Broker, Broker]) -> None:
    for broker in brokers:
        apis = listed_apis(broker.client)
        assert apis[ApiKey.GET_TELEMETRY_SUBSCRIPTIONS] == apis[ApiKey.PUSH_TELEMETRY] == (0, 0)


CHANGES: tuple[tuple[tuple[str, int, str | None], ...], ...] = (
    (("metrics", SET, "*"),),
    (("metrics", SET, ""),),
    (("metrics", SET, "a,a"),),
    (("metrics", SET, "a,,b"),),
    (("metrics", SET, ","),),
    (("metrics", APPEND, "a"),),
    (("metrics", SUBTRACT, "a"),),
    (("interval.ms", SET, "99"),),
    (("interval.ms", SET, "100"),),
    (("interval.ms", SET, "3600000"),),
    (("interval.ms", SET, "3600001"),),
    (("interval.ms", SET, "often"),),
    (("interval.ms", SET, " 500 "),),
    (("interval.ms", APPEND, "500"),),
    (("interval.ms", DELETE, None),),
    (("interval", SET, "500"),),
    (("match", SET, ""),),
    (("match", SET, "client_id=a.*"),),
    (("match", SET, "client_id=a.*,client_software_version = 1.*"),),
    (("match", SET, "client_id=a,client_id=b"),),
    (("match", SET, "client_id=a,client_id=a"),),
    (("match", SET, "client_id"),),
    (("match", SET, "client_id="),),
    (("match", SET, "client_id=a="),),
    (("match", SET, "client_id=a=b"),),
    (("match", SET, "=a"),),
    (("match", SET, "color=red"),),
    (("match", SET, "client_id=("),),
    (("match", SET, "client_source_address=10[.].*"),),
    (("match", SET, "client_source_port=1,client_instance_id=b,client_software_name=c"),),
    (("metrics", SET, "a"), ("interval.ms", SET, "1000"), ("match", SET, "client_id=a")),
)


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_configs_are_accepted_and_rejected_alike(
    brokers: tuple[Broker, Broker], changes: tuple[tuple[str, int, str | None], ...]
) -> None:
    own, kafkas = (broker.alter("s", *changes) for broker in brokers)
    assert own == kafkas


def test_a_subscription_needs_a_name(brokers: tuple[Broker, Broker]) -> None:
    own, kafkas = (broker.alter("", ("metrics", SET, "*")) for broker in brokers)
    assert own == kafkas != 0


def test_subscriptions_are_described_and_listed_alike(brokers: tuple[Broker, Broker]) -> None:
    responses = []
    for broker in brokers:
        broker.subscribe(60_000)
        resources = tuple(
            DescribeConfigsResource(resource_type=ResourceType.CLIENT_METRICS, resource_name=name)
            for name in ("all", "none", "")
        )
        request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
        described = broker.client.send_request(request, 4, DescribeConfigsResponse)
        listed = [
            broker.client.send_request(each, version, ListConfigResourcesResponse)
            for version, each in (
                (0, ListConfigResourcesRequest()),
                (1, ListConfigResourcesRequest(resource_types=(16,))),
                (1, ListConfigResourcesRequest(resource_types=(16, 32))),
                (1, ListConfigResourcesRequest(resource_types=(3,))),
            )
        ]
        all_types = broker.client.send_request(ListConfigResourcesRequest(), 1, ListConfigResourcesResponse)
        results = [
            (
                result.error_code,
                result.resource_name,
                sorted(
                    (config.name, config.value, config.config_source, config.config_type, config.synonyms)
                    for config in result.configs
                ),
            )
            for result in described.results
        ]
        everything = sorted((each.resource_type, each.resource_name) for each in all_types.config_resources)
        responses.append((sorted(results, key=str), listed, everything))
    assert responses[0] == responses[1]


Scenario = Callable[[Broker, UUID, PushTelemetryRequest], list[object]]


def pushes_twice_and_ends(broker: Broker, client: UUID, request: PushTelemetryRequest) -> list[object]:
    return [
        broker.push(request),
        broker.push(request),
        broker.get(client).error_code,
        broker.push(replace(request, terminating=True)),
        broker.push(replace(request, terminating=True)),
        broker.push(request),
        broker.push(request),
    ]


def has_an_old_subscription(broker: Broker, client: UUID, request: PushTelemetryRequest) -> list[object]:
    return [
        broker.push(replace(request, subscription_id=request.subscription_id + 1)),
        broker.get(client),
        broker.get(client).error_code,
        broker.push(request),
    ]


def uses_an_unknown_codec(broker: Broker, client: UUID, request: PushTelemetryRequest) -> list[object]:
    return [
        *(broker.push(replace(request, compression_type=number)) for number in (5, -1)),
        broker.get(client),
        broker.push(request),
    ]


def sends_too_much(broker: Broker, client: UUID, request: PushTelemetryRequest) -> list[object]:
    return [broker.push(replace(request, metrics=b"\0" * (MAX_BYTES + 1))), broker.get(client).error_code]


def sends_a_bomb(broker: Broker, client: UUID, request: PushTelemetryRequest) -> list[object]:
    bomb = compress(Compression.GZIP, b"\0" * 1_000_000)
    return [broker.push(replace(request, metrics=bomb, compression_type=Compression.GZIP))]


def sends_no_metrics(broker: Broker, client: UUID, request: PushTelemetryRequest) -> list[object]:
    return [broker.push(replace(request, metrics=b""))]


def sends_bytes_that_are_not_metrics(
    broker: Broker, client: UUID, request: PushTelemetryRequest
) -> list[object]:
    return [broker.push(replace(request, metrics=b"\xff" * 40)), broker.get(client).error_code]


def sends_damaged_gzip(broker: Broker, client: UUID, request: PushTelemetryRequest) -> list[object]:
    return [broker.push(replace(request, metrics=b"\xff" * 40, compression_type=Compression.GZIP))]


def has_a_reserved_id(broker: Broker, client: UUID, request: PushTelemetryRequest) -> list[object]:
    return [broker.push(replace(request, client_instance_id=UUID(int=number))) for number in (0, 1, 99)]


def starts_with_a_push(broker: Broker, client: UUID, request: PushTelemetryRequest) -> list[object]:
    other = UUID(int=client.int + 1)
    return [
        broker.push(replace(request, client_instance_id=other)),
        broker.get(other).error_code,
        broker.push(replace(request, client_instance_id=other)),
    ]


@pytest.mark.parametrize(
    "scenario",
    [
        pushes_twice_and_ends,
        has_an_old_subscription,
        uses_an_unknown_codec,
        sends_too_much,
        sends_a_bomb,
        sends_no_metrics,
        sends_bytes_that_are_not_metrics,
        sends_damaged_gzip,
        has_a_reserved_id,
        starts_with_a_push,
    ],
)
def test_a_client_gets_the_same_responses(brokers: tuple[Broker, Broker], scenario: Scenario) -> None:
    number = sum(scenario.__name__.encode()) * 10_000
    responses = []
    for broker in brokers:
        broker.subscribe(200_000)
        client = UUID(int=number << 64 | 0x9C0FFEE)
        subscription = broker.get(client)
        push = PushTelemetryRequest(
            client_instance_id=client, subscription_id=subscription.subscription_id, metrics=METRICS
        )
        responses.append([subscription, *scenario(broker, client, push)])
    assert responses[0] == responses[1]


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_is_accepted(brokers: tuple[Broker, Broker], codec: Compression) -> None:
    for broker in brokers:
        broker.subscribe(200_000)
        client = UUID(int=0xABC0000 + codec)
        request = PushTelemetryRequest(
            client_instance_id=client,
            subscription_id=broker.get(client).subscription_id,
            compression_type=codec,
            metrics=compress(codec, METRICS),
        )
        assert broker.push(request) == 0


def test_kafkas_tools_print_the_same(brokers: tuple[Broker, Broker]) -> None:
    outputs = []
    group = ("--entity-type", "groups", "--entity-name", "g")
    metrics = ("--entity-type", "client-metrics")
    for broker in brokers:
        lines: list[object] = []
        for tool, *arguments in (
            ("kafka-client-metrics", "--alter", "--name", "java", "--metrics", "a.,b.", "--interval", "900"),
            ("kafka-client-metrics", "--alter", "--name", "java", "--match", "client_id=a.*"),
            ("kafka-client-metrics", "--alter", "--name", "java", "--interval", "9"),
            ("kafka-client-metrics", "--describe", "--name", "java"),
            ("kafka-client-metrics", "--list"),
            ("kafka-configs", "--describe", *metrics, "--entity-name", "java"),
            ("kafka-configs", "--describe", *metrics),
            ("kafka-configs", "--alter", *metrics, "--entity-name", "x", "--add-config", "metrics=c."),
            ("kafka-configs", "--alter", *group, "--add-config", "consumer.session.timeout.ms=50000"),
            ("kafka-configs", "--describe", *group),
            ("kafka-configs", "--describe", "--entity-type", "groups"),
            ("kafka-client-metrics", "--delete", "--name", "java"),
            ("kafka-client-metrics", "--delete", "--name", "x"),
            ("kafka-client-metrics", "--list"),
        ):
            done = broker.tools.call(tool, *arguments)
            text = LOG_TIME.sub("", done.stdout + done.stderr)
            lines.append((tool, *arguments, done.returncode, sorted(text.split("\n"))))
        outputs.append(lines)
    for own, kafkas in zip(*outputs, strict=True):
        assert own == kafkas


def test_java_clients_push_their_metrics() -> None:
    with EmbeddedCluster(config={"client.telemetry.metrics.enable": "true"}) as cluster:
        tools = KafkaTools(Path(JARS), cluster.bootstrap_servers)

        def names() -> set[str]:
            return set(cluster.run(lambda node: metric_samples(node.metrics, "tidelog_client_")))

        tools.run("kafka-client-metrics", "--alter", "--name", "a", "--metrics", "*", "--interval", "300")
        tools.run("kafka-topics", "--create", "--topic", "tides", "--partitions", "1")
        with tools.running("kafka-console-consumer", "--topic", "tides", "--group", "readers"):
            expected = {"consumer_coordinator_heartbeat_total", "consumer_fetch_manager_fetch_total"}
            wait_until(lambda: expected <= names(), "the metrics of the consumer", timeout_s=150)
