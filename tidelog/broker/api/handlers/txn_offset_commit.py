"""TxnOffsetCommit (key 28), versions 0-5: commit the offsets of a group as part of a transaction.

- 2: leader epochs (KIP-320)
- 3: the member and generation of the producer's consumer (KIP-447)
- 4: TRANSACTION_ABORTABLE (KIP-890)
- 5: the offsets' partition is added to the transaction if needed (KIP-890)

Each topic or partition that does not exist gets an error; the others are committed together.
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

LOAD_IN_PROGRESS_FROM_VERSION: Final = 2
"""Older producers may fail on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""


class TxnOffsetCommitHandler:
    """Looks up the topics in the metadata and passes the commit to the group coordinator."""

    def __init__(self, groups: GroupTransactions, image: Callable[[], MetadataImage], slices: Slices) -> None:
        self._groups = groups
        self._image = image
        self._slices = slices

    async def handle(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> TxnOffsetCommitResponse:
        """Return the result of every partition; an error of the whole request is at each that exists."""
        image, version, slices = self._image(), context.header.api_version, self._slices
        existing = await slices.complete(_without_unknown_partitions(image, request))
        failed, committed = ErrorCode.NONE, TxnOffsetCommitResponse()
        if existing.topics:
            topic_ids = {topic.name: image.topics_by_name[topic.name].id for topic in existing.topics}
            try:
                committed = await self._groups.commit_offsets(existing, topic_ids, version)
            except KafkaError as error:
                failed = error.code
                if (
                    failed is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    and version < LOAD_IN_PROGRESS_FROM_VERSION
                ):
                    failed = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return await slices.complete(_response(image, request, committed, failed))


def _without_unknown_partitions(
    image: MetadataImage, request: TxnOffsetCommitRequest
) -> Steps[TxnOffsetCommitRequest]:
    """Return the request with only the partitions that exist."""
    topics = []
    for requested in request.topics:
        topic = image.topics_by_name.get(requested.name)
        known = {} if topic is None else topic.partitions
        partitions = []
        for each in requested.partitions:
            if each.partition_index in known:
                partitions.append(each)
            yield None
        if partitions:
            topics.append(replace(requested, partitions=tuple(partitions)))
        yield None
    return replace(request, topics=tuple(topics))


def _response(
    image: MetadataImage,
    request: TxnOffsetCommitRequest,
    committed: TxnOffsetCommitResponse,
    failed: ErrorCode,
) -> Steps[TxnOffsetCommitResponse]:
    errors: dict[tuple[str, int], int] = {}
    for topic in committed.topics:
        for partition in topic.partitions:
            errors[topic.name, partition.partition_index] = partition.error_code
            yield None
    topics = []
    for requested in request.topics:
        found = image.topics_by_name.get(requested.name)
        partitions = []
        for each in requested.partitions:
            index = each.partition_index
            is_known = found is not None and index in found.partitions
            error = failed if is_known and failed else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error_code = errors.get((requested.name, index), error)
            partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error_code))
            yield None
        topics.append(TxnOffsetCommitResponseTopic(name=requested.name, partitions=tuple(partitions)))
        yield None
    return TxnOffsetCommitResponse(topics=tuple(topics))
