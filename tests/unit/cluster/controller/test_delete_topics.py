"""DeleteTopics: by name, by id, and every way to ask for it wrongly."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import applied, creatable, image_with_brokers, with_topics
from tidelog.cluster.controller.delete_topics import delete_topics
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tidelog.protocol.steps import completed

SETTINGS = controller_settings(node_id=1)
IMAGE = with_topics(image_with_brokers(1), creatable("orders"), creatable("users"))
ORDERS = IMAGE.topics_by_name["orders"].id
USERS = IMAGE.topics_by_name["users"].id


def named(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name)


def by_id(topic_id: UUID) -> DeleteTopicState:
    return DeleteTopicState(topic_id=topic_id)


def delete(*topics: DeleteTopicState) -> tuple[list[DeletableTopicResult], list[str]]:
    result = completed(delete_topics(IMAGE, SETTINGS, DeleteTopicsRequest(topics=topics), 6))
    return list(result.reply.responses), list(applied(IMAGE, result).topics_by_name)


def test_topics_go_by_name_and_by_id() -> None:
    results, left = delete(named("orders"), by_id(USERS))
    assert [(result.name, result.topic_id, result.error_code) for result in results] == [
        ("orders", ORDERS, 0),
        ("users", USERS, 0),
    ]
    assert left == []


def test_older_versions_name_topics_in_a_list_of_their_own() -> None:
    request = DeleteTopicsRequest(topic_names=("orders", "nowhere"))
    result = completed(delete_topics(IMAGE, SETTINGS, request, 5))
    assert [(each.name, each.error_code) for each in result.reply.responses] == [
        ("orders", 0),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(applied(IMAGE, result).topics_by_name) == ["users"]


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        ([named("nowhere")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([named("bad name")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([by_id(UUID(int=3))], ErrorCode.UNKNOWN_TOPIC_ID),
        ([DeleteTopicState()], ErrorCode.INVALID_REQUEST),
        ([DeleteTopicState(name="orders", topic_id=ORDERS)], ErrorCode.INVALID_REQUEST),
        ([named("orders"), named("orders")], ErrorCode.INVALID_REQUEST),
        ([by_id(ORDERS), by_id(ORDERS)], ErrorCode.INVALID_REQUEST),
        ([named("orders"), by_id(ORDERS)], ErrorCode.INVALID_REQUEST),
        ([by_id(ORDERS), named("orders")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_deleted_gets_one_answer_with_kafkas_code(
    targets: list[DeleteTopicState], code: ErrorCode
) -> None:
    results, left = delete(*targets)
    assert [ErrorCode(result.error_code) for result in results] == [code]
    assert results[0].error_message
    assert left == ["orders", "users"]


def test_a_topic_by_name_and_id_is_answered_with_both() -> None:
    results, _ = delete(named("orders"), by_id(ORDERS))
    assert (results[0].name, results[0].topic_id) == ("orders", ORDERS)


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deletion_can_be_switched_off(version: int, code: ErrorCode) -> None:
    settings = controller_settings(node_id=1, delete_topic_enable=False)
    with pytest.raises(KafkaError) as error:
        completed(delete_topics(IMAGE, settings, DeleteTopicsRequest(topic_names=("orders",)), version))
    assert error.value.code is code
