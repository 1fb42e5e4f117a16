"""CreateTopics for topics that are restored: their id, leader epochs, recovery state and producer ids."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tests.support.configs import controller_settings
from tests.support.metadata.images import (
    SeededRandomness,
    creatable,
    image_after_result,
    image_with_brokers,
)
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import LeaderRecoveryState, MetadataImage
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.metadata_records.producer_ids_record import ProducerIdsRecord
from tidelog.protocol.steps import run_steps
from tidelog.storage.config.restored_topic import RestoredTopic

SETTINGS = controller_settings(node_id=1, remote_storage_system_enable=True)
IMAGE = image_with_brokers(1, 2, 3)
RESTORED = RestoredTopic(topic_id=UUID(int=0xA11CE), leader_epoch=1005, next_producer_id=2000)


def restored_topic(name: str = "tides", *, is_tiered: bool = True) -> CreatableTopic:
    configs = {"remote.storage.enable": "true"} if is_tiered else {}
    return replace(
        creatable(name, 2, 3),
        configs=tuple(
            CreatableTopicConfig(name=key, value=value) for key, value in (configs | RESTORED.configs).items()
        ),
    )


def creation(*topics: CreatableTopic, image: MetadataImage = IMAGE) -> ControllerResult[CreateTopicsResponse]:
    request = CreateTopicsRequest(topics=topics)
    return run_steps(create_topics(image, SETTINGS, request, SeededRandomness()))


def test_a_restored_topic_has_its_id_and_epoch_and_its_leader_must_recover() -> None:
    result = creation(restored_topic())
    image = image_after_result(IMAGE, result)
    topic = image.topics_by_id[RESTORED.topic_id]
    assert topic.name == "tides"
    for partition in topic.partitions.values():
        assert partition.leader_epoch == 1005
        assert partition.leader_recovery_state == LeaderRecoveryState.RECOVERING
        assert partition.isr == (partition.leader,)
        assert len(partition.replicas) == 3
    assert result.reply.topics[0].topic_id == RESTORED.topic_id


def test_the_restore_configs_are_not_stored() -> None:
    image = image_after_result(IMAGE, creation(restored_topic()))
    assert image.topic_configs("tides") == {"remote.storage.enable": "true"}


def test_a_restored_topic_without_remote_storage_has_nothing_to_recover() -> None:
    image = image_after_result(IMAGE, creation(restored_topic(is_tiered=False)))
    for partition in image.topics_by_id[RESTORED.topic_id].partitions.values():
        assert partition.leader_epoch == 1005
        assert partition.leader_recovery_state == LeaderRecoveryState.RECOVERED
        assert len(partition.isr) == 3


def test_the_next_producer_id_rises_and_never_falls() -> None:
    assert image_after_result(IMAGE, creation(restored_topic())).next_producer_id == 2000
    later = replace(IMAGE, next_producer_id=7000)
    result = creation(restored_topic(), image=later)
    assert not any(isinstance(record, ProducerIdsRecord) for record in result.records)


def test_an_id_that_another_topic_has_is_rejected() -> None:
    image = image_after_result(IMAGE, creation(restored_topic()))
    (outcome,) = creation(restored_topic("other"), image=image).reply.topics
    assert outcome.error_code == ErrorCode.INVALID_REQUEST
    assert outcome.error_message is not None and "tides has it" in outcome.error_message


def test_two_topics_of_one_request_cannot_have_the_same_id() -> None:
    first, second = creation(restored_topic("a"), restored_topic("b")).reply.topics
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)


def test_an_invalid_identity_is_an_invalid_config() -> None:
    topic = restored_topic()
    configs = tuple(config for config in topic.configs if config.name != "tidelog.restore.leader.epoch")
    (outcome,) = creation(replace(topic, configs=configs)).reply.topics
    assert outcome.error_code == ErrorCode.INVALID_CONFIG
