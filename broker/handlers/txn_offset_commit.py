"""TxnOffsetCommit (key 28), versions 0-5: remember how far a group has consumed, as part of a transaction.

- 2: leader epochs (KIP-320)
- 3: the member and the generation for which the producer speaks (KIP-447)
- 4: TRANSACTION_ABORTABLE (KIP-890)
- 5: the offsets' partition is added to the transaction if it is not part of it yet (KIP-890)

Topics and partitions that do not exist are refused one by one; the others are committed together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from broker.groups.transactions import GroupTransactions
from broker.request_context import RequestContext
from cluster.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

KNOWS_LOADING_FROM_VERSION: Final = 2
"""Older producers may end themselves on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""

_Answers = dict[tuple[str, int], int]


class TxnOffsetCommitHandler:
    """Looks topics up in the metadata and hands the commit to the coordinator of the group."""

    def __init__(self, groups: GroupTransactions, image: Callable[[], MetadataImage]) -> None:
        self._groups = groups
        self._image = image

    async def handle(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> TxnOffsetCommitResponse:
        """Answer every partition by itself; an error of the whole request stands at each that exists."""
        image, version = self._image(), context.header.api_version
        existing = tuple(topic for asked in request.topics if (topic := _existing(asked, image)).partitions)
        answers = await self._commit(replace(request, topics=existing), image, version) if existing else {}
        return TxnOffsetCommitResponse(topics=tuple(_answer(asked, answers) for asked in request.topics))

    async def _commit(self, request: TxnOffsetCommitRequest, image: MetadataImage, version: int) -> _Answers:
        topic_ids = {topic.name: image.topics_by_name[topic.name].id for topic in request.topics}
        try:
            response = await self._groups.commit_offsets(request, topic_ids, version)
        except KafkaError as error:
            code = error.code
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < KNOWS_LOADING_FROM_VERSION:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return {
                (topic.name, partition.partition_index): code
                for topic in request.topics
                for partition in topic.partitions
            }
        return {
            (topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }


def _existing(asked: TxnOffsetCommitRequestTopic, image: MetadataImage) -> TxnOffsetCommitRequestTopic:
    """What was asked, with only the partitions that exist."""
    topic = image.topics_by_name.get(asked.name)
    known = {} if topic is None else topic.partitions
    return replace(asked, partitions=tuple(p for p in asked.partitions if p.partition_index in known))


def _answer(asked: TxnOffsetCommitRequestTopic, answers: _Answers) -> TxnOffsetCommitResponseTopic:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TxnOffsetCommitResponseTopic(
        name=asked.name,
        partitions=tuple(
            TxnOffsetCommitResponsePartition(
                partition_index=partition.partition_index,
                error_code=answers.get((asked.name, partition.partition_index), unknown),
            )
            for partition in asked.partitions
        ),
    )
