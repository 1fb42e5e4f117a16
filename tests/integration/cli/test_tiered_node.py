"""One node with tiered storage: enabling and disabling, dynamic settings, metrics, start and stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from uuid import uuid4

from prometheus_client.openmetrics.parser import text_string_to_metric_families as strictly_parsed

from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.time_limits import result_within
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.tier.tiered_storage import TieredStorage
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, ResourceType
from tidelog.testing.embedded import EmbeddedCluster

CONFLUENT = CLIENTS["confluent"]
SENT = [Message(b"%d" % number + bytes(900)) for number in range(3000)]


def remote_of(node: BrokerNode) -> TieredStorage:
    assert node.remote is not None
    return node.remote


def alter_broker(cluster: EmbeddedCluster, configs: Mapping[str, str]) -> None:
    async def alter() -> None:
        resource = ConfigResource(ResourceType.BROKER, "")
        changes = [ConfigChange(name=key, value=value) for key, value in configs.items()]
        async with Admin(cluster.bootstrap_servers) as admin:
            assert (await admin.incremental_alter_configs({resource: changes}))[resource] is None

    asyncio.run(alter())


def test_kip_950_a_topic_that_is_untiered_loses_remote_and_keeps_local_records(
    topic: str, tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    client_factory.produce(CONFLUENT, topic, SENT, idempotent=True)
    border = tiered.wait_until_tiered(topic)
    tiered.alter(topic, {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"})
    wait_until(lambda: not tiered.objects(f"/{topic}-"))
    assert tiered.offset(topic, -2) == border.local_start
    received = client_factory.consume(CONFLUENT, topic, len(SENT) - border.local_start)
    assert received[0].offset == border.local_start


def test_tiering_is_enabled_on_an_existing_topic(
    tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    topic = f"late-{uuid4().hex[:8]}"
    tiered.create(topic, {"remote.storage.enable": "false", "local.retention.bytes": "-2"})
    client_factory.produce(CONFLUENT, topic, SENT, idempotent=True)
    assert tiered.border(topic).highest_remote == -1
    tiered.alter(topic, {"remote.storage.enable": "true", "local.retention.bytes": "1"})
    tiered.wait_until_tiered(topic)
    received = client_factory.consume(CONFLUENT, topic, len(SENT))
    assert [one.value for one in received] == [one.value for one in SENT]


def test_copying_pauses_and_continues_with_remote_log_copy_disable(
    topic: str, tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    tiered.alter(
        topic,
        {"remote.log.copy.disable": "true", "local.retention.bytes": "-2", "local.retention.ms": "-2"},
    )
    client_factory.produce(CONFLUENT, topic, SENT, idempotent=True)
    before = tiered.border(topic).highest_remote
    tiered.alter(topic, {"remote.log.copy.disable": "false", "local.retention.bytes": "1"})
    assert tiered.wait_until_tiered(topic).highest_remote > before == -1


def test_remote_storage_configs_are_changed_dynamically(cluster: EmbeddedCluster) -> None:
    alter_broker(
        cluster,
        {
            "remote.log.reader.threads": "5",
            "remote.log.manager.copier.thread.pool.size": "6",
            "remote.log.manager.copy.max.bytes.per.second": "123456789",
            "remote.fetch.max.wait.ms": "777",
        },
    )

    def remote_settings(node: BrokerNode) -> tuple[int, int, int, int]:
        remote = remote_of(node)
        manager = remote.manager
        return (
            manager.reader_pool.threads,
            manager.copier_pool.threads,
            manager.copy_quota.bytes_per_second,
            remote.access.fetch_max_wait_ms(),
        )

    wait_until(lambda: cluster.run(remote_settings) == (5, 6, 123456789, 777))


def test_metrics_have_kafkas_names(
    topic: str, tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    client_factory.produce(CONFLUENT, topic, SENT, idempotent=True)
    tiered.wait_until_tiered(topic)
    client_factory.consume(CONFLUENT, topic, len(SENT))
    text = cluster.run(lambda node: Exposition(node.metrics).text()[0].decode())
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    label = f'{{topic="{topic}"}}'
    for name in ("remotecopybytes", "remotecopyrequests", "remotefetchbytes", "remotefetchrequests"):
        assert float(values[f"kafka_server_brokertopicmetrics_{name}_total{label}"]) > 0, name
    for name in ("remotecopylagbytes", "remotelogsizebytes", "remotelogmetadatacount"):
        assert f"kafka_server_brokertopicmetrics_{name}{label}" in values
    assert values["kafka_log_remote_remotelogmanager_remotelogreadertaskqueuesize"] == "0.0"
    for kind in ("PUT", "GET"):
        store_label = f'{{kind="{kind}",topic="{topic}"}}'
        assert float(values[f"tidelog_tier_store_requests_total{store_label}"]) > 0
        assert float(values[f"tidelog_tier_store_bytes_total{store_label}"]) > 1_000_000
    assert values['tidelog_tier_store_failures{kind="PUT"}'] == "0.0"
    reads = [float(values[f"tidelog_tier_chunk_cache_{name}_total"]) for name in ("hits", "misses")]
    assert sum(reads) > 0


def test_a_tiered_node_reports_each_metric_once(cluster: EmbeddedCluster) -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    text = cluster.run(lambda node: Exposition(node.metrics).text(accept)[0].decode())
    # Fails if a name is repeated, like promtool and others.
    metrics = {metric.name: metric for metric in strictly_parsed(text)}
    waiting = metrics["kafka_server_delayedoperationpurgatory_numdelayedoperations"].samples
    kinds = {sample.labels["delayedoperation"] for sample in waiting}
    assert {"Produce", "Fetch", "RemoteFetch", "RemoteListOffsets"} <= kinds


def test_a_node_without_remote_storage_has_no_remote_metrics() -> None:
    with EmbeddedCluster() as cluster:
        assert cluster.run(lambda node: node.remote) is None


def test_a_broker_starts_and_stops_while_its_object_store_is_unavailable() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # accepts connections, and never responds
        port = silent.getsockname()[1]
        config = {
            "rsm.config.storage.backend.class": "s3",
            "rsm.config.storage.s3.bucket.name": "tides",
            "rsm.config.storage.s3.region": "us-east-1",
            "rsm.config.storage.s3.endpoint.url": f"http://127.0.0.1:{port}",
            "rsm.config.storage.s3.path.style.access.enabled": "true",
            "rsm.config.storage.s3.api.call.timeout": "600000",
            "rsm.config.storage.s3.api.call.attempt.timeout": "600000",
            "rsm.config.storage.aws.access.key.id": "unknown",
            "rsm.config.storage.aws.secret.access.key": "nothing",
        }
        with EmbeddedCluster(tiered=True, config=config) as cluster:
            tiered, client_factory = TieredTopics(cluster), ClientFactory(cluster.bootstrap_servers)
            tiered.create("tides")
            client_factory.produce(CONFLUENT, "tides", SENT, idempotent=True)
            received = client_factory.consume(CONFLUENT, "tides", len(SENT))
            assert len(received) == len(SENT)
            assert tiered.border("tides").local_start == 0
            wait_until(lambda: cluster.run(lambda node: remote_of(node).manager.copier_pool.idle_share < 1.0))
            client_factory.close()
            result_within(lambda: cluster.stop_node(1), TIMEOUT_S)
