"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.yields import STEPS_PER_SLICE, IterationCounter, counted_slices
from tests.support.messages.request_contexts import request_context
from tests.support.metadata.stores import running_store
from tests.support.nodes.config_admin import APPEND, CONFIG, DELETE, SET, SUBTRACT, ConfigAdmin, admin
from tidelog.broker.config.dynamic_configs import DynamicBrokerConfig
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.partitions.topic_log_configs import TopicLogConfigs
from tidelog.cluster.image import ResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages import incremental_alter_configs
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
)


def synonyms(entry: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


@on_both_loops
async def test_topics_are_created_extended_and_deleted() -> None:
    async with admin() as node:
        more = CreatePartitionsRequest(
            topics=(CreatePartitionsTopic(name="orders", count=5, assignments=None),)
        )
        response = await node.grow.handle(request_context(3), more)
        assert response.results[0].error_code == 0
        assert len(node.store.image.topics_by_name["orders"].partitions) == 5
        deleted = await node.delete.handle(request_context(5), DeleteTopicsRequest(topic_names=("orders",)))
        assert deleted.responses[0].error_code == 0
        assert node.store.image.topics_by_name == {}


@on_both_loops
async def test_delete_topic_enable_false_fails_the_request() -> None:
    config = BrokerConfig({"node.id": "1", "delete.topic.enable": "false"})
    async with admin(config) as node:
        with pytest.raises(KafkaError) as error:
            await node.delete.handle(request_context(6), DeleteTopicsRequest())
        assert error.value.code is ErrorCode.TOPIC_DELETION_DISABLED


@on_both_loops
async def test_topic_configs_have_value_source_and_type() -> None:
    async with admin() as node:
        result = node.describe(2, "orders")
        assert (result.error_code, len(result.configs)) == (0, 35)
        entry = node.entry(2, "orders", "retention.ms")
        assert (entry.value, entry.config_source, entry.config_type) == ("5000", 1, 5)
        assert synonyms(entry) == [("retention.ms", "5000", 1)]
        assert not entry.read_only
        entry = node.entry(2, "orders", "segment.bytes")
        assert (entry.value, entry.config_source, entry.config_type) == ("2097152", 4, 3)
        assert synonyms(entry) == [
            ("log.segment.bytes", "2097152", 4),
            ("log.segment.bytes", "1073741824", 5),
        ]
        entry = node.entry(2, "orders", "min.insync.replicas")
        assert (entry.value, entry.config_source) == ("1", 3)
        entry = node.entry(2, "orders", "segment.ms")
        assert (entry.value, entry.config_source, synonyms(entry)) == ("604800000", 5, [])
        entry = node.entry(2, "orders", "remote.storage.enable")
        assert (entry.value, entry.config_source, entry.config_type) == ("false", 5, 1)


@on_both_loops
async def test_a_topic_inherits_cluster_and_broker_configs() -> None:
    async with admin() as node:
        assert await node.change(2, "orders", ("retention.ms", DELETE, None)) is ErrorCode.NONE
        assert await node.change(4, "", ("log.retention.ms", SET, "7000")) is ErrorCode.NONE
        entry = node.entry(2, "orders", "retention.ms")
        assert (entry.value, entry.config_source) == ("7000", 3)
        assert synonyms(entry) == [("log.retention.ms", "7000", 3), ("log.retention.hours", "168", 5)]
        assert await node.change(4, "1", ("log.retention.ms", SET, "8000")) is ErrorCode.NONE
        entry = node.entry(2, "orders", "retention.ms")
        assert (entry.value, entry.config_source) == ("8000", 2)


@on_both_loops
async def test_only_requested_keys_are_described() -> None:
    async with admin() as node:
        result = node.describe(2, "orders", "retention.ms", "nonsense")
        assert [entry.name for entry in result.configs] == ["retention.ms"]


@on_both_loops
async def test_a_duplicate_resource_is_described_once() -> None:
    async with admin() as node:
        assert [entry.name for entry in node.describe(2, "orders", "retention.ms", copies=100).configs] == [
            "retention.ms"
        ]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_each_version_has_its_fields(version: int) -> None:
    async with admin() as node:
        result = node.describe(2, "orders", "retention.ms", version=version, documentation=version >= 3)
        (entry,) = result.configs
        assert (entry.value, entry.config_source) == ("5000", 1)
        assert synonyms(entry) == [("retention.ms", "5000", 1)]
        assert entry.config_type == (5 if version >= 3 else 0)
        assert bool(entry.documentation) == (version >= 3)


@on_both_loops
async def test_documentation_is_returned_only_on_request() -> None:
    async with admin() as node:
        assert node.entry(2, "orders", "retention.ms").documentation is None
        for result in (
            node.describe(2, "orders", documentation=True),
            node.describe(4, "1", documentation=True),
        ):
            assert all(entry.documentation for entry in result.configs if entry.name != "my.own.key")


@on_both_loops
async def test_a_broker_describes_itself() -> None:
    async with admin() as node:
        result = node.describe(4, "1")
        assert result.error_code == 0
        entries = {entry.name: entry for entry in result.configs}
        assert len(entries) > 330
        assert (entries["log.segment.bytes"].value, entries["log.segment.bytes"].config_source) == (
            "2097152",
            4,
        )
        assert not entries["log.segment.bytes"].read_only
        assert entries["num.partitions"].read_only
        assert (entries["num.partitions"].value, entries["num.partitions"].config_source) == ("1", 5)
        assert entries["log.retention.ms"].value is None
        assert synonyms(entries["node.id"]) == [("node.id", "1", 4)]
        assert "unstable.api.versions.enable" not in entries


@on_both_loops
async def test_secrets_and_unknown_keys_are_not_shown() -> None:
    async with admin() as node:
        for key in ("sasl.jaas.config", "my.own.key"):
            entry = node.entry(4, "1", key)
            assert entry.is_sensitive
            assert entry.value is None
            assert {each.value for each in entry.synonyms} == {None}


@on_both_loops
async def test_cluster_wide_broker_configs_are_described_with_an_empty_name() -> None:
    async with admin() as node:
        await node.change(4, "", ("log.cleaner.threads", SET, "2"), ("custom", SET, "x"))
        entries = {entry.name: (entry.value, entry.config_source) for entry in node.describe(4, "").configs}
        assert entries == {
            "min.insync.replicas": ("1", 3),
            "log.cleaner.threads": ("2", 3),
            "custom": (None, 3),
        }


@on_both_loops
async def test_a_group_has_its_own_configs_and_inherits_the_brokers() -> None:
    async with admin() as node:
        assert (
            await node.change(32, "readers", ("consumer.session.timeout.ms", SET, "50000")) is ErrorCode.NONE
        )
        assert len(node.describe(32, "readers").configs) == 17
        entry = node.entry(32, "readers", "consumer.session.timeout.ms")
        assert (entry.value, entry.config_source) == ("50000", 8)
        assert synonyms(entry) == [
            ("consumer.session.timeout.ms", "50000", 8),
            ("group.consumer.session.timeout.ms", "45000", 5),
        ]
        entry = node.entry(32, "others", "consumer.session.timeout.ms")
        assert (entry.value, entry.config_source) == ("45000", 5)
        entry = node.entry(32, "others", "share.auto.offset.reset")
        assert synonyms(entry) == [("share.auto.offset.reset", "latest", 5)]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (2, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (2, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (4, "2", ErrorCode.INVALID_REQUEST),
        (4, "x", ErrorCode.INVALID_REQUEST),
        (8, "", ErrorCode.INVALID_REQUEST),
        (8, "2", ErrorCode.INVALID_REQUEST),
        (8, "x", ErrorCode.INVALID_REQUEST),
        (16, "", ErrorCode.INVALID_REQUEST),
        (32, "", ErrorCode.INVALID_REQUEST),
        (3, "1", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_an_invalid_resource_gets_kafkas_error_code(kind: int, name: str, code: ErrorCode) -> None:
    async with admin() as node:
        result = node.describe(kind, name)
        assert ErrorCode(result.error_code) is code
        assert result.error_message
        assert result.configs == ()


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"),
    [
        (2, "orders", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (2, "orders", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (2, "nowhere", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (4, "2", ("log.cleaner.threads", SET, "2"), ErrorCode.INVALID_REQUEST),
        (4, "x", ("log.cleaner.threads", SET, "2"), ErrorCode.INVALID_REQUEST),
        (4, "1", ("num.partitions", SET, "2"), ErrorCode.INVALID_REQUEST),
        (4, "1", ("log.cleaner.threads", SET, "x"), ErrorCode.INVALID_REQUEST),
        (4, "1", ("log.segment.bytes", SET, "1"), ErrorCode.INVALID_REQUEST),
        (4, "1", ("ssl.keystore.location", SET, "/a"), ErrorCode.INVALID_REQUEST),
        (4, "", ("listeners", SET, "PLAINTEXT://:1"), ErrorCode.INVALID_REQUEST),
        (4, "", ("listener.name.plaintext.ssl.keystore.location", SET, "/a"), ErrorCode.INVALID_REQUEST),
        (4, "", ("log.cleaner.min.compaction.lag.ms", SET, str(2**63 - 1)), ErrorCode.NONE),
        (4, "", ("log.cleaner.max.compaction.lag.ms", SET, "0"), ErrorCode.INVALID_REQUEST),
        (4, "", ("log.cleanup.policy", APPEND, "compact"), ErrorCode.NONE),
        (4, "", ("log.retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (4, "", ("zork", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (4, "", ("zork", SET, "1"), ErrorCode.NONE),
        (4, "1", ("listener.name.plaintext.ssl.keystore.location", SET, "/a"), ErrorCode.NONE),
        (4, "", ("leader.replication.throttled.rate", SET, "1000"), ErrorCode.NONE),
        (4, "", ("leader.replication.throttled.rate", SET, "-1"), ErrorCode.INVALID_REQUEST),
        (8, "", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        (8, "2", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        (8, "x", ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        (8, "1", ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (8, "1", ("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (8, "1", ("root", SUBTRACT, "INFO"), ErrorCode.INVALID_REQUEST),
        (8, "1", ("root", 9, "INFO"), ErrorCode.INVALID_REQUEST),
        (8, "1", ("root", SET, None), ErrorCode.INVALID_REQUEST),
        (8, "1", ("root", SET, "WARNING"), ErrorCode.INVALID_CONFIG),
        (8, "1", ("root", SET, "info"), ErrorCode.INVALID_CONFIG),
        (8, "1", ("not.there", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (8, "1", ("not.there", DELETE, None), ErrorCode.INVALID_CONFIG),
        (16, "s", ("interval.ms", SET, "99"), ErrorCode.INVALID_REQUEST),
        (3, "1", ("a", SET, "b"), ErrorCode.INVALID_REQUEST),
        (0, "1", ("a", SET, "b"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_changes_get_kafkas_error_codes(
    kind: int, name: str, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    async with admin() as node:
        before = node.store.image
        assert await node.change(kind, name, change) is code
        assert (node.store.image is before) == (code is not ErrorCode.NONE)


@on_both_loops
async def test_duplicate_keys_and_resources_are_refused() -> None:
    async with admin() as node:
        code = await node.change(2, "orders", ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
        assert code is ErrorCode.INVALID_REQUEST
        twice = incremental_alter_configs.AlterConfigsResource(
            resource_type=2,
            resource_name="orders",
            configs=(incremental_alter_configs.AlterableConfig(name="retention.ms", value="1"),),
        )
        other = incremental_alter_configs.AlterConfigsResource(
            resource_type=4,
            resource_name="",
            configs=(incremental_alter_configs.AlterableConfig(name="log.cleaner.threads", value="2"),),
        )
        codes = await node.change_all(twice, other, twice)
        assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
        assert node.store.image.topic_configs("orders") == {"retention.ms": "5000"}


@on_both_loops
@pytest.mark.parametrize("is_one_resource", [True, False])
async def test_very_many_config_changes_are_checked_and_submitted_in_slices(is_one_resource: bool) -> None:
    many, slices = 1_000, counted_slices()
    keys = [
        incremental_alter_configs.AlterableConfig(name=f"unknown.{number}", config_operation=0, value="1")
        for number in range(many)
    ]
    resources = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=ResourceType.TOPIC, resource_name=name, configs=configs
        )
        for name, configs in (
            [("tides", tuple(keys))] if is_one_resource else [(key.name, (key,)) for key in keys]
        )
    ]
    async with running_store(slices=slices) as store:
        admin = ConfigAdmin(store, slices=slices)
        turns, before = IterationCounter(), slices.slice_count
        codes = await admin.change_all(*resources, validate_only=True)
        turns.stop()
    assert set(codes) == {ErrorCode.INVALID_CONFIG}
    assert slices.slice_count - before >= 3 * many // STEPS_PER_SLICE
    assert turns.count >= 3 * many // STEPS_PER_SLICE - 10


@on_both_loops
async def test_validate_only_changes_nothing() -> None:
    async with admin() as node:
        before = node.store.image
        change = ("retention.ms", SET, "1")
        assert await node.change(2, "orders", change, validate_only=True) is ErrorCode.NONE
        assert await node.change(2, "orders", ("x", SET, "1"), validate_only=True) is ErrorCode.INVALID_CONFIG
        assert await node.replace(2, "orders", {}, validate_only=True) is ErrorCode.NONE
        assert node.store.image is before


@on_both_loops
async def test_alter_configs_replaces_all_configs() -> None:
    async with admin() as node:
        assert await node.replace(2, "orders", {"segment.ms": "100"}) is ErrorCode.NONE
        assert node.store.image.topic_configs("orders") == {"segment.ms": "100"}
        assert await node.replace(2, "orders", {"segment.ms": None}) is ErrorCode.INVALID_REQUEST
        assert await node.replace(2, "nowhere", {}) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await node.replace(8, "1", {"root": "INFO"}) is ErrorCode.INVALID_REQUEST
        assert await node.replace(4, "1", {"log.cleaner.threads": "2"}) is ErrorCode.NONE
        assert await node.replace(4, "", {"log.cleaner.threads": "2"}) is ErrorCode.INVALID_CONFIG


@on_both_loops
async def test_dynamic_configs_are_applied_while_the_node_runs() -> None:
    async with admin() as node:
        dynamic = DynamicBrokerConfig(CONFIG)
        changes: list[bool] = []
        node.store.subscribe(lambda delta, image: changes.append(dynamic.apply(delta, image)))
        await node.change(4, "", ("log.retention.ms", SET, "7000"), ("num.io.threads", SET, "16"))
        assert changes == [True, True]
        assert dynamic.current.num_io_threads == 16
        configs = TopicLogConfigs(dynamic.topic_defaults)
        config = configs.of("orders", node.store.image)
        assert (config.retention_ms, config.segment_bytes) == (5000, 2097152)
        assert configs.of("another", node.store.image).retention_ms == 7000
        await node.change(4, "", ("num.io.threads", DELETE, None))
        assert dynamic.current.num_io_threads == 8
        await node.change(2, "orders", ("segment.ms", SET, "100"))
        assert changes[-1] is False
