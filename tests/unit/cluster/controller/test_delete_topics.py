"""DeleteTopics by name and by id, and invalid requests."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.support.configs import controller_settings
from tests.support.metadata.images import creatable, image_after_result, image_with_brokers, with_topics
from tidelog.cluster.controller.delete_topics import delete_topics
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tidelog.protocol.steps import run_steps

SETTINGS = controller_settings(node_id=1)
IMAGE = with_topics(image_with_brokers(1), creatable("orders"), creatable("users"))
ORDERS = IMAGE.topics_by_name["orders"].id
USERS = IMAGE.topics_by_name["users"].id


def topic_named(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name)


def by_id(topic_id: UUID) -> DeleteTopicState:
    return DeleteTopicState(topic_id=topic_id)


def delete(*topics: DeleteTopicState) -> tuple[list[DeletableTopicResult], list[str]]:
    result = run_steps(delete_topics(IMAGE, SETTINGS, DeleteTopicsRequest(topics=topics), 6))
    return list(result.reply.responses), list(image_after_result(IMAGE, result).topics_by_name)


def test_topics_are_deleted_by_name_and_by_id() -> None:
    results, left = delete(topic_named("orders"), by_id(USERS))
    assert [(result.name, result.topic_id, result.error_code) for result in results] == [
        ("orders", ORDERS, 0),
        ("users", USERS, 0),
    ]
    assert left == []


def test_older_versions_have_a_list_of_names() -> None:
    request = DeleteTopicsRequest(topic_names=("orders", "nowhere"))
    result = run_steps(delete_topics(IMAGE, SETTINGS, request, 5))
    assert [(each.name, each.error_code) for each in result.reply.responses] == [
        ("orders", 0),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(image_after_result(IMAGE, result).topics_by_name) == ["users"]


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        ([topic_named("nowhere")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([topic_named("bad name")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([by_id(UUID(int=3))], ErrorCode.UNKNOWN_TOPIC_ID),
        ([DeleteTopicState()], ErrorCode.INVALID_REQUEST),
        ([DeleteTopicState(name="orders", topic_id=ORDERS)], ErrorCode.INVALID_REQUEST),
        ([topic_named("orders"), topic_named("orders")], ErrorCode.INVALID_REQUEST),
        ([by_id(ORDERS), by_id(ORDERS)], ErrorCode.INVALID_REQUEST),
        ([topic_named("orders"), by_id(ORDERS)], ErrorCode.INVALID_REQUEST),
        ([by_id(ORDERS), topic_named("orders")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_topic_gets_one_response_with_kafkas_error_code(
    targets: list[DeleteTopicState], code: ErrorCode
) -> None:
    results, left = delete(*targets)
    assert [ErrorCode(result.error_code) for result in results] == [code]
    assert results[0].error_message
    assert left == ["orders", "users"]


def test_the_response_has_the_name_and_the_id() -> None:
    results, _ = delete(topic_named("orders"), by_id(ORDERS))
    assert (results[0].name, results[0].topic_id) == ("orders", ORDERS)


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_delete_topic_enable_false_refuses_deletion(version: int, code: ErrorCode) -> None:
    settings = controller_settings(node_id=1, delete_topic_enable=False)
    with pytest.raises(KafkaError) as error:
        run_steps(delete_topics(IMAGE, settings, DeleteTopicsRequest(topic_names=("orders",)), version))
    assert error.value.code is code
