"""OffsetDelete (key 47), version 0: delete the offsets of topics that a group does not consume (KIP-496)."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from functools import partial

from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import ALLOW_EVERYTHING, Authorizer
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.protocol.steps import Steps, each_in_steps


class OffsetDeleteHandler:
    """Passes the deletion of partitions that exist to the coordinator."""

    def __init__(
        self,
        groups: GroupService,
        image: Callable[[], MetadataImage],
        slices: Slices,
        authorizer: Authorizer = ALLOW_EVERYTHING,
    ) -> None:
        self._authorizer = authorizer
        self._groups = groups
        self._image = image
        self._slices = slices

    async def handle(self, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        """Return the result of every partition; an error of the whole group raises KafkaError."""
        image, slices = self._image(), self._slices
        readable = await slices.complete(
            accessible_names(
                self._authorizer,
                context,
                (AclOperation.READ, AclResourceType.TOPIC),
                [topic.name for topic in request.topics],
            )
        )
        existing = await slices.complete(
            each_in_steps(partial(_without_unknown_partitions, image, readable), request.topics)
        )
        response = await self._groups.delete_offsets(replace(request, topics=existing))
        return await slices.complete(_response(request, response, readable))


def _without_unknown_partitions(
    image: MetadataImage, readable: Container[str], requested: OffsetDeleteRequestTopic
) -> Steps[OffsetDeleteRequestTopic]:
    topic = image.topics_by_name.get(requested.name)
    known = () if topic is None or topic.name not in readable else topic.partitions
    partitions = []
    for partition in requested.partitions:
        if partition.partition_index in known:
            partitions.append(partition)
        yield None
    return replace(requested, partitions=tuple(partitions))


def _response(
    request: OffsetDeleteRequest, response: OffsetDeleteResponse, readable: Container[str]
) -> Steps[OffsetDeleteResponse]:
    errors: dict[tuple[str, int], int] = {}
    for deleted in response.topics:
        for partition in deleted.partitions:
            errors[deleted.name, partition.partition_index] = partition.error_code
            yield None
    topics = []
    for requested in request.topics:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if requested.name not in readable:
            unknown = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = []
        for each in requested.partitions:
            error = errors.get((requested.name, each.partition_index), unknown)
            partitions.append(
                OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
            )
            yield None
        topics.append(OffsetDeleteResponseTopic(name=requested.name, partitions=tuple(partitions)))
    return replace(response, topics=tuple(topics))
