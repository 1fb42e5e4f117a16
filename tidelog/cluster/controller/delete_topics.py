"""DeleteTopics: deletes topics by name or by id.

Source: ControllerApis.deleteTopics of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from uuid import UUID

from tidelog.cluster.controller.mutation_quota import ChargePartitions, charge_nothing
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.topic_references import check_unreferenced, references
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import Steps


def delete_topics(
    image: MetadataImage,
    settings: ControllerSettings,
    request: DeleteTopicsRequest,
    version: int,
    charge: ChargePartitions = charge_nothing,
) -> Steps[ControllerResult[DeleteTopicsResponse]]:
    """Delete topics; every topic of the request has its own outcome.

    Errors: KafkaError TOPIC_DELETION_DISABLED (INVALID_REQUEST before version 3) if delete.topic.enable is
    false.
    """
    if not settings.delete_topic_enable:
        code = ErrorCode.INVALID_REQUEST if version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        raise KafkaError(code, "Topic deletion is disabled: delete.topic.enable is false")
    counts: Counter[DeleteTopicState] = Counter()
    named_ids: set[UUID] = set()
    for target in chain(request.topics, (DeleteTopicState(name=name) for name in request.topic_names)):
        yield None
        counts[target] += 1
        topic_of_name = None if target.name is None else image.topics_by_name.get(target.name)
        if topic_of_name is not None:
            named_ids.add(topic_of_name.id)
    records = []
    results = []
    by_source = references(image)
    for target, count in counts.items():
        yield None
        if target.name is None and target.topic_id in named_ids and count == 1:
            continue  # The result is that of the topic's name, which is in the request too.
        try:
            topic_id = _topic_id(image, target, count, counts)
            check_unreferenced(image, by_source, topic_id, "delete")
            charge(len(image.topics_by_id[topic_id].partitions))
        except KafkaError as error:
            topic = image.topics_by_name.get(target.name or "")
            has_both = topic is not None and _by_id(topic.id) in counts
            results.append(_result(target.name, topic.id if topic and has_both else target.topic_id, error))
            continue
        records.append(RemoveTopicRecord(topic_id=topic_id))
        results.append(_result(image.topics_by_id[topic_id].name, topic_id, None))
    return ControllerResult(tuple(records), DeleteTopicsResponse(responses=tuple(results)))


def _by_id(topic_id: UUID) -> DeleteTopicState:
    return DeleteTopicState(topic_id=topic_id)


def _topic_id(
    image: MetadataImage, target: DeleteTopicState, count: int, targets: Mapping[DeleteTopicState, int]
) -> UUID:
    name = target.name
    if name is None and target.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and target.topic_id != ZERO_UUID:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"You may not specify both topic name and topic id: {name!r} has id {target.topic_id}",
        )
    if count > 1:
        text = f"Duplicate topic id {target.topic_id}." if name is None else f"Duplicate topic name {name!r}."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    if name is None:
        if target.topic_id not in image.topics_by_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_ID, f"This server does not host a topic with the id {target.topic_id}"
            )
        return target.topic_id
    topic = image.topics_by_name.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"This server does not host topic {name!r}")
    if _by_id(topic.id) in targets:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The provided topic name {name!r} maps to an ID that was already supplied.",
        )
    return topic.id


def _result(name: str | None, topic_id: UUID, error: KafkaError | None) -> DeletableTopicResult:
    if error is None:
        return DeletableTopicResult(name=name, topic_id=topic_id)
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=str(error))
