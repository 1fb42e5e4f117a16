"""Changes of configs: single operations and whole replacements, for topics, groups and brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import creatable, image_after_result, image_with_brokers, with_topics
from tidelog.base.config_definition import ConfigDefinition, ConfigKind
from tidelog.cluster.controller.configs import (
    TOPIC_AND_GROUP_DEFINITIONS,
    ConfigChange,
    ConfigOperation,
    ResourceChange,
    alter_configs,
    replace_configs,
)
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import ConfigResource, MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.metadata_records.clear_elr_record import ClearElrRecord
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.steps import run_steps

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
SETTINGS = controller_settings(
    node_id=1,
    group_limits={
        "group.consumer.min.session.timeout.ms": 45_000,
        "group.consumer.max.session.timeout.ms": 60_000,
        "group.streams.max.standby.replicas": 2,
    },
)
TOPIC: ConfigResource = (2, "orders")
CLUSTER: ConfigResource = (4, "")
BROKER: ConfigResource = (4, "1")
GROUP: ConfigResource = (32, "readers")
DEFINITIONS = {
    **TOPIC_AND_GROUP_DEFINITIONS,
    4: {
        "log.cleanup.policy": ConfigDefinition(
            key="log.cleanup.policy", kind=ConfigKind.LIST, default=("delete",)
        )
    },
}
IMAGE = with_topics(image_with_brokers(1, features=True), creatable("orders", configs={"retention.ms": "5"}))


def alter(
    resource: ConfigResource,
    *changes: tuple[str, int, str | None],
    image: MetadataImage = IMAGE,
    settings: ControllerSettings = SETTINGS,
) -> tuple[ErrorCode, MetadataImage]:
    requested = ResourceChange(resource, tuple(ConfigChange(*change) for change in changes))
    result = run_steps(alter_configs(image, settings, [requested], DEFINITIONS))
    (outcome,) = result.reply
    assert (outcome.text is None) == (outcome.code is ErrorCode.NONE)
    assert outcome.code is ErrorCode.NONE or result.records == ()
    return outcome.code, image_after_result(image, result)


def test_a_key_is_set_and_deleted() -> None:
    code, image = alter(TOPIC, ("segment.ms", SET, "100"), ("retention.ms", DELETE, None))
    assert code is ErrorCode.NONE
    assert image.topic_configs("orders") == {"segment.ms": "100"}


def test_deleting_an_absent_config_changes_nothing() -> None:
    for key in ("segment.ms", "nonsense"):
        code, image = alter(TOPIC, (key, DELETE, None))
        assert code is ErrorCode.NONE
        assert image.configs == IMAGE.configs


def test_an_unchanged_topic_config_writes_no_record() -> None:
    requested = ResourceChange(TOPIC, (ConfigChange("retention.ms", SET, "5"),))
    assert run_steps(alter_configs(IMAGE, SETTINGS, [requested], DEFINITIONS)).records == ()


def test_append_starts_from_the_default_of_a_list() -> None:
    _, image = alter(TOPIC, ("cleanup.policy", APPEND, "compact"))
    assert image.topic_configs("orders")["cleanup.policy"] == "delete,compact"
    _, image = alter(TOPIC, ("cleanup.policy", APPEND, "compact,delete"), image=image)
    assert image.topic_configs("orders")["cleanup.policy"] == "delete,compact"
    _, image = alter(TOPIC, ("cleanup.policy", SUBTRACT, "delete"), image=image)
    assert image.topic_configs("orders")["cleanup.policy"] == "compact"
    code, image = alter(TOPIC, ("cleanup.policy", SUBTRACT, "zzz"), image=image)
    assert code is ErrorCode.NONE
    _, image = alter(TOPIC, ("cleanup.policy", SUBTRACT, "compact"), image=image)
    assert image.topic_configs("orders")["cleanup.policy"] == ""


@pytest.mark.parametrize(
    ("resource", "change", "code"),
    [
        (TOPIC, ("nope", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (TOPIC, ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ("nope", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ("cleanup.policy", APPEND, "archive"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        ((2, "nowhere"), ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((2, "bad name"), ("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((2, ""), ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        ((4, "x"), ("log.cleaner.threads", SET, "1"), ErrorCode.INVALID_REQUEST),
        ((4, "-1"), ("log.cleaner.threads", SET, "1"), ErrorCode.INVALID_REQUEST),
        ((8, "1"), ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        ((16, "s"), ("interval.ms", SET, "99"), ErrorCode.INVALID_REQUEST),
        ((3, "s"), ("a", SET, "b"), ErrorCode.INVALID_REQUEST),
        (GROUP, ("nope", SET, "1"), ErrorCode.INVALID_CONFIG),
        (GROUP, ("consumer.session.timeout.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (GROUP, ("consumer.session.timeout.ms", SET, "44999"), ErrorCode.INVALID_CONFIG),
        (GROUP, ("consumer.session.timeout.ms", SET, "60001"), ErrorCode.INVALID_CONFIG),
        (GROUP, ("streams.num.standby.replicas", SET, "3"), ErrorCode.INVALID_CONFIG),
        (GROUP, ("share.auto.offset.reset", SET, "yesterday"), ErrorCode.INVALID_CONFIG),
        (GROUP, ("share.auto.offset.reset", SET, "by_duration:P"), ErrorCode.INVALID_CONFIG),
        (GROUP, ("share.isolation.level", SET, "none"), ErrorCode.INVALID_CONFIG),
        ((32, ""), ("consumer.session.timeout.ms", SET, "50000"), ErrorCode.INVALID_REQUEST),
        (BROKER, ("min.insync.replicas", SET, "1"), ErrorCode.INVALID_CONFIG),
        (CLUSTER, ("min.insync.replicas", DELETE, None), ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_change_gets_kafkas_error_code_and_changes_nothing(
    resource: ConfigResource, change: tuple[str, int, str | None], code: ErrorCode
) -> None:
    error_code, image = alter(resource, change)
    assert error_code is code
    assert image.configs == IMAGE.configs


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("consumer.session.timeout.ms", "45000"),
        ("consumer.session.timeout.ms", "60000"),
        ("streams.num.standby.replicas", "2"),
        ("share.auto.offset.reset", "earliest"),
        ("share.auto.offset.reset", "by_duration:P1DT2H3M4.5S"),
        ("share.isolation.level", "read_committed"),
        ("share.renew.acknowledge.enable", "false"),
    ],
)
def test_group_configs_are_set_per_group(key: str, value: str) -> None:
    code, image = alter(GROUP, (key, SET, value))
    assert code is ErrorCode.NONE
    assert image.configs[GROUP] == {key: value}


def test_one_invalid_key_leaves_the_whole_resource_unchanged() -> None:
    code, image = alter(TOPIC, ("segment.ms", SET, "100"), ("retention.ms", SET, "x"))
    assert code is ErrorCode.INVALID_CONFIG
    assert image.configs == IMAGE.configs


def test_an_invalid_resource_does_not_affect_others() -> None:
    requested = [
        ResourceChange((2, "nowhere"), (ConfigChange("segment.ms", SET, "100"),)),
        ResourceChange(TOPIC, (ConfigChange("segment.ms", SET, "100"),)),
    ]
    result = run_steps(alter_configs(IMAGE, SETTINGS, requested, DEFINITIONS))
    assert [outcome.code for outcome in result.reply] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert image_after_result(IMAGE, result).topic_configs("orders")["segment.ms"] == "100"


def test_an_unchanged_broker_config_writes_a_record() -> None:
    change = ResourceChange(CLUSTER, (ConfigChange("min.insync.replicas", SET, "1"),))
    record, _ = run_steps(alter_configs(IMAGE, SETTINGS, [change], DEFINITIONS)).records
    assert isinstance(record, ConfigRecord)


def test_a_change_of_min_insync_replicas_clears_eligible_leader_replicas() -> None:
    change = ConfigChange("min.insync.replicas", SET, "2")
    requested = [ResourceChange(TOPIC, (change,)), ResourceChange(CLUSTER, (change,))]
    for command in (
        run_steps(alter_configs(IMAGE, SETTINGS, requested, DEFINITIONS)),
        run_steps(replace_configs(IMAGE, SETTINGS, requested)),
    ):
        cleared = [record for record in command.records if isinstance(record, ClearElrRecord)]
        assert cleared == [ClearElrRecord(topic_name="orders"), ClearElrRecord()]
    without_feature = replace(IMAGE, features={})
    records = run_steps(alter_configs(without_feature, SETTINGS, requested, DEFINITIONS)).records
    assert not any(isinstance(record, ClearElrRecord) for record in records)


def test_append_to_a_broker_config_uses_the_definitions_of_the_broker() -> None:
    _, image = alter(CLUSTER, ("log.cleanup.policy", APPEND, "compact"))
    assert image.cluster_configs()["log.cleanup.policy"] == "delete,compact"


def test_a_broker_may_set_min_insync_replicas_without_eligible_leader_replicas() -> None:
    image = replace(IMAGE, features={"metadata.version": 30})
    code, image = alter(BROKER, ("min.insync.replicas", SET, "2"), image=image)
    assert code is ErrorCode.NONE
    assert image.broker_configs(1) == {"min.insync.replicas": "2"}


def test_alter_configs_deletes_keys_that_are_not_named() -> None:
    requested = ResourceChange(TOPIC, (ConfigChange("segment.ms", SET, "100"),))
    result = run_steps(replace_configs(IMAGE, SETTINGS, [requested]))
    assert result.reply[0].code is ErrorCode.NONE
    assert image_after_result(IMAGE, result).topic_configs("orders") == {"segment.ms": "100"}


def test_alter_configs_refuses_the_same_values() -> None:
    requested = [
        ResourceChange((2, "nowhere"), (ConfigChange("segment.ms", SET, "100"),)),
        ResourceChange(TOPIC, (ConfigChange("nope", SET, "100"),)),
        ResourceChange(CLUSTER, (ConfigChange("log.cleaner.threads", SET, "2"),)),
    ]
    result = run_steps(replace_configs(IMAGE, SETTINGS, requested))
    assert [outcome.code for outcome in result.reply] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_CONFIG,
    ]
    assert result.records == ()


TIERED = controller_settings(node_id=1, remote_storage_system_enable=True)


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"cleanup.policy": "compact"}, ErrorCode.INVALID_CONFIG),
        ({"cleanup.policy": ""}, ErrorCode.NONE),
        ({"retention.ms": "10", "local.retention.ms": "10"}, ErrorCode.NONE),
        ({"retention.ms": "10", "local.retention.ms": "11"}, ErrorCode.INVALID_CONFIG),
        ({"retention.ms": "10", "local.retention.ms": "-1"}, ErrorCode.INVALID_CONFIG),
        ({"retention.ms": "-1", "local.retention.ms": "11"}, ErrorCode.NONE),
        ({"retention.bytes": "10", "local.retention.bytes": "11"}, ErrorCode.INVALID_CONFIG),
        ({"local.retention.bytes": "11"}, ErrorCode.NONE),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "4"}, ErrorCode.INVALID_CONFIG),
        ({"remote.log.copy.disable": "true"}, ErrorCode.NONE),
        ({"retention.ms": "20", "local.retention.ms": "10", "remote.copy.lag.ms": "10"}, ErrorCode.NONE),
        (
            {"retention.ms": "20", "local.retention.ms": "10", "remote.copy.lag.ms": "11"},
            ErrorCode.INVALID_CONFIG,
        ),
        ({"retention.ms": "10", "remote.copy.lag.ms": "11"}, ErrorCode.INVALID_CONFIG),
        ({"retention.bytes": "10", "remote.copy.lag.bytes": "11"}, ErrorCode.INVALID_CONFIG),
        ({"retention.bytes": "-1", "remote.copy.lag.bytes": "11"}, ErrorCode.NONE),
        ({"remote.copy.lag.ms": "-2"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_tiered_topic_refuses_configs_that_tiering_excludes(
    configs: dict[str, str], code: ErrorCode
) -> None:
    changes = [("remote.storage.enable", SET, "true"), *((key, SET, value) for key, value in configs.items())]
    assert alter(TOPIC, *changes, settings=TIERED)[0] is code


@pytest.mark.parametrize("text", ["true", "TRUE"])
def test_remote_storage_is_disabled_only_with_delete_on_disable(text: str) -> None:
    _, image = alter(TOPIC, ("remote.storage.enable", SET, text), settings=TIERED)
    code, _ = alter(TOPIC, ("remote.storage.enable", SET, "false"), image=image, settings=TIERED)
    assert code is ErrorCode.INVALID_CONFIG
    code, _ = alter(
        TOPIC,
        ("remote.storage.enable", SET, "false"),
        ("remote.log.delete.on.disable", SET, "true"),
        image=image,
        settings=TIERED,
    )
    assert code is ErrorCode.NONE


def test_topic_configs_are_checked_against_broker_configs() -> None:
    settings = replace(SETTINGS, static_configs={"log.cleaner.max.compaction.lag.ms": "50"})
    code, _ = alter(TOPIC, ("min.compaction.lag.ms", SET, "60"), settings=settings)
    assert code is ErrorCode.INVALID_CONFIG
