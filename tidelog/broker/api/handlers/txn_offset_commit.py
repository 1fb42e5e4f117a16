"""TxnOffsetCommit (key 28), versions 0-5: commit the offsets of a group as part of a transaction.

- 2: leader epochs (KIP-320)
- 3: the member and generation of the producer's consumer (KIP-447)
- 4: TRANSACTION_ABORTABLE (KIP-890)
- 5: the offsets' partition is added to the transaction if needed (KIP-890)

Each topic or partition that does not exist gets an error; the others are committed together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.broker.api.handlers.readable_topics import ReadableTopics, TopicAccess
from tidelog.broker.coordinators.groups.transactions import GroupTransactions
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.protocol.steps import Steps, map_items

LOAD_IN_PROGRESS_FROM_VERSION: Final = 2
"""Older producers may fail on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""


class TxnOffsetCommitHandler:
    """Looks up the topics in the metadata and passes the commit to the group coordinator."""

    def __init__(self, groups: GroupTransactions, topics: TopicAccess) -> None:
        self._groups = groups
        self._topics = topics

    async def handle(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> TxnOffsetCommitResponse:
        """Return the result of every partition; an error of the whole request is at each that exists."""
        version, image, slices = context.header.api_version, self._topics.image(), self._topics.slices
        names = [topic.name for topic in request.topics]
        readable = await slices.complete(self._topics.readable(context, image, names))
        existing = await slices.complete(_without_unknown_partitions(request, readable))
        coordinator_error, committed = ErrorCode.NONE, TxnOffsetCommitResponse()
        if existing.topics:
            topic_ids = {topic.name: image.topics_by_name[topic.name].id for topic in existing.topics}
            try:
                committed = await self._groups.commit_offsets(existing, topic_ids, version)
            except KafkaError as error:
                coordinator_error = error.code
                if (
                    coordinator_error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    and version < LOAD_IN_PROGRESS_FROM_VERSION
                ):
                    coordinator_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        response = await slices.complete(_response(request, committed, coordinator_error, readable))
        slices.release_later(existing.topics, committed.topics)
        return response


def _without_unknown_partitions(
    request: TxnOffsetCommitRequest, readable: ReadableTopics
) -> Steps[TxnOffsetCommitRequest]:
    """Return the request with only the partitions that exist and that the client may read."""
    topics = []
    for requested in request.topics:
        known = readable.partitions(requested.name)
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
    request: TxnOffsetCommitRequest,
    committed: TxnOffsetCommitResponse,
    coordinator_error: ErrorCode,
    readable: ReadableTopics,
) -> Steps[TxnOffsetCommitResponse]:
    """Return a result for every requested partition: that of the commit, or an error."""
    results = yield from readable.results(
        request.topics,
        committed.topics,
        lambda index, error: TxnOffsetCommitResponsePartition(partition_index=index, error_code=error),
        coordinator_error,
    )
    topics = yield from map_items(
        lambda result: TxnOffsetCommitResponseTopic(name=result[0], partitions=result[1]), results
    )
    return TxnOffsetCommitResponse(topics=topics)
