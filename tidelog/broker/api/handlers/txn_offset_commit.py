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

from tidelog.broker.coordinators.groups.transactions import GroupTransactions
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.protocol.steps import Steps

KNOWS_LOADING_FROM_VERSION: Final = 2
"""Older producers may end themselves on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""


class TxnOffsetCommitHandler:
    """Looks topics up in the metadata and hands the commit to the coordinator of the group."""

    def __init__(self, groups: GroupTransactions, image: Callable[[], MetadataImage], slices: Slices) -> None:
        self._groups = groups
        self._image = image
        self._slices = slices

    async def handle(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> TxnOffsetCommitResponse:
        """Answer every partition by itself; an error of the whole request stands at each that exists."""
        image, version, slices = self._image(), context.header.api_version, self._slices
        existing = await slices.complete(_existing(image, request))
        failed, committed = ErrorCode.NONE, TxnOffsetCommitResponse()
        if existing.topics:
            topic_ids = {topic.name: image.topics_by_name[topic.name].id for topic in existing.topics}
            try:
                committed = await self._groups.commit_offsets(existing, topic_ids, version)
            except KafkaError as error:
                failed = error.code
                if failed is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < KNOWS_LOADING_FROM_VERSION:
                    failed = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return await slices.complete(_response(image, request, committed, failed))


def _existing(image: MetadataImage, request: TxnOffsetCommitRequest) -> Steps[TxnOffsetCommitRequest]:
    """The request with only the partitions that exist."""
    topics = []
    for asked in request.topics:
        topic = image.topics_by_name.get(asked.name)
        known = {} if topic is None else topic.partitions
        partitions = []
        for each in asked.partitions:
            if each.partition_index in known:
                partitions.append(each)
            yield None
        if partitions:
            topics.append(replace(asked, partitions=tuple(partitions)))
        yield None
    return replace(request, topics=tuple(topics))


def _response(
    image: MetadataImage,
    request: TxnOffsetCommitRequest,
    committed: TxnOffsetCommitResponse,
    failed: ErrorCode,
) -> Steps[TxnOffsetCommitResponse]:
    answers: dict[tuple[str, int], int] = {}
    for topic in committed.topics:
        for partition in topic.partitions:
            answers[topic.name, partition.partition_index] = partition.error_code
            yield None
    topics = []
    for asked in request.topics:
        found = image.topics_by_name.get(asked.name)
        partitions = []
        for each in asked.partitions:
            index = each.partition_index
            is_known = found is not None and index in found.partitions
            error = failed if is_known and failed else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error_code = answers.get((asked.name, index), error)
            partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error_code))
            yield None
        topics.append(TxnOffsetCommitResponseTopic(name=asked.name, partitions=tuple(partitions)))
        yield None
    return TxnOffsetCommitResponse(topics=tuple(topics))
