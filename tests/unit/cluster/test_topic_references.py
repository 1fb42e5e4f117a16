"""Topics that refer to the segments of others: when their sources may be deleted or changed."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    SeededRandomness,
    creatable,
    image_after_result,
    image_with_brokers,
)
from tidelog.cluster.controller.configs import (
    ConfigChange,
    ConfigOperation,
    ResourceChange,
    alter_configs,
    replace_configs,
)
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.delete_topics import delete_topics
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopicConfig, CreateTopicsRequest
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.steps import run_steps
from tidelog.storage.config.restored_topic import RestoredTopic
from tidelog.storage.config.topic_source import SOURCE_KEY, TopicSource

SETTINGS = controller_settings(node_id=1, remote_storage_system_enable=True)
IDENTITY = RestoredTopic(topic_id=UUID(int=0xA11CE), leader_epoch=1005, next_producer_id=0)
TIERED = {"remote.storage.enable": "true"}


def image_after_creation(image: MetadataImage, name: str, configs: dict[str, str]) -> MetadataImage:
    topic = replace(
        creatable(name, 1, 1),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
    result = run_steps(
        create_topics(image, SETTINGS, CreateTopicsRequest(topics=(topic,)), SeededRandomness())
    )
    assert result.reply.topics[0].error_code == ErrorCode.NONE, result.reply.topics[0].error_message
    return image_after_result(image, result)


def with_reference(*, mount: str | None = None) -> MetadataImage:
    """Return an image of the topic tides, and of yesterday, which refers to its segments."""
    image = image_after_creation(image_with_brokers(1), "tides", TIERED)
    source = TopicSource(
        topic="tides",
        topic_id=image.topics_by_name["tides"].id,
        timestamp_ms=5 if mount is None else None,
        mount=mount,
    )
    configs = {**TIERED, SOURCE_KEY: source.text, **IDENTITY.configs}
    return image_after_creation(image, "yesterday", configs)


def deletion(image: MetadataImage, name: str) -> tuple[ErrorCode, MetadataImage]:
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),))
    result = run_steps(delete_topics(image, SETTINGS, request, 6))
    return ErrorCode(result.reply.responses[0].error_code), image_after_result(image, result)


def change(image: MetadataImage, topic: str, **values: str | None) -> ErrorCode:
    changes = tuple(
        ConfigChange(
            key.replace("_", "."), ConfigOperation.DELETE if value is None else ConfigOperation.SET, value
        )
        for key, value in values.items()
    )
    requested = [ResourceChange((int(ResourceType.TOPIC), topic), changes)]
    return ErrorCode(run_steps(alter_configs(image, SETTINGS, requested, {})).reply[0].code)


def test_a_topic_to_which_another_refers_can_be_deleted_only_after_it() -> None:
    image = with_reference()
    code, _ = deletion(image, "tides")
    assert code is ErrorCode.POLICY_VIOLATION
    code, image = deletion(image, "yesterday")
    assert code is ErrorCode.NONE
    assert deletion(image, "tides")[0] is ErrorCode.NONE


def test_a_mount_prevents_no_deletion_because_its_source_is_in_another_bucket() -> None:
    assert deletion(with_reference(mount="west"), "tides")[0] is ErrorCode.NONE


def test_remote_storage_of_a_referenced_topic_cannot_be_disabled() -> None:
    disabled = {"remote_storage_enable": "false", "remote_log_delete_on_disable": "true"}
    assert change(with_reference(), "tides", **disabled) is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("value", [None, "topic=x id=AAAAAAAAAAAAAAAAAAAAAQ mount=west"])
def test_the_source_of_a_topic_never_changes(value: str | None) -> None:
    assert change(with_reference(), "yesterday", tidelog_source=value) is ErrorCode.INVALID_CONFIG


def test_a_client_cannot_create_a_topic_with_a_source() -> None:
    source = TopicSource(topic="x", topic_id=UUID(int=9), mount="west")
    with pytest.raises(AssertionError, match="is set when a topic is created by tidelog tier"):
        image_after_creation(image_with_brokers(1), "other", {**TIERED, SOURCE_KEY: source.text})


def test_configs_that_are_replaced_keep_the_source() -> None:
    image = with_reference()
    requested = [
        ResourceChange(
            (int(ResourceType.TOPIC), "yesterday"), (ConfigChange("remote.storage.enable", 0, "true"),)
        )
    ]
    result = run_steps(replace_configs(image, SETTINGS, requested))
    assert image_after_result(image, result).topic_configs("yesterday")[SOURCE_KEY]
