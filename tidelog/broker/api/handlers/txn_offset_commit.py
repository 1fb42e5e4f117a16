"""TxnOffsetCommit (key 28), versions 0-5: commit the offsets of a group as part of a transaction.

- 2: leader epochs (KIP-320)
- 3: the member and generation of the producer's consumer (KIP-447)
- 4: TRANSACTION_ABORTABLE (KIP-890)
- 5: the offsets' partition is added to the transaction if needed (KIP-890)

Each topic or partition that does not exist gets an error; the others are committed together.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from typing import Final

from tidelog.broker.coordinators.groups.transactions import GroupTransactions
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import ALLOW_EVERYTHING, Authorizer
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
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

    def __init__(
        self,
        groups: GroupTransactions,
        image: Callable[[], MetadataImage],
        slices: Slices,
        authorizer: Authorizer = ALLOW_EVERYTHING,
    ) -> None:
        self._authorizer = authorizer
        self._groups = groups
        self._image = image
        self._slices = slices

    async def handle(
        self, context: RequestContext, request: TxnOffsetCommitRequest
    ) -> TxnOffsetCommitResponse:
        """Return the result of every partition; an error of the whole request is at each that exists."""
        image, version, slices = self._image(), context.header.api_version, self._slices
        readable = await slices.complete(
            accessible_names(
                self._authorizer,
                context,
                (AclOperation.READ, AclResourceType.TOPIC),
                [topic.name for topic in request.topics],
            )
        )
        existing = await slices.complete(_without_unknown_partitions(image, request, readable))
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
        return await slices.complete(_response(image, request, committed, failed, readable))


def _without_unknown_partitions(
    image: MetadataImage, request: TxnOffsetCommitRequest, readable: Container[str]
) -> Steps[TxnOffsetCommitRequest]:
    """Return the request with only the partitions that exist and that the client may read."""
    topics = []
    for requested in request.topics:
        topic = image.topics_by_name.get(requested.name)
        known = {} if topic is None or topic.name not in readable else topic.partitions
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
    readable: Container[str],
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
            if requested.name not in readable:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            error_code = errors.get((requested.name, index), error)
            partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=error_code))
            yield None
        topics.append(TxnOffsetCommitResponseTopic(name=requested.name, partitions=tuple(partitions)))
        yield None
    return TxnOffsetCommitResponse(topics=tuple(topics))
