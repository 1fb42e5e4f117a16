"""FindCoordinator (key 10), versions 0-6: the coordinator of a group, transactional id or share partition.

- 0: groups only; 1: a key type, and a text with the error
- 4: several keys at once (KIP-699)
- 6: share partitions, whose keys are group:topicId:partition (KIP-932); for brokers only

The coordinator is the leader of one partition of an internal topic. The first request creates that topic,
and gets COORDINATOR_NOT_AVAILABLE until it exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple, Protocol

from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import require_access
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.acls import CLUSTER_NAME
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tidelog.protocol.steps import Steps, map_items

BATCH_FROM_VERSION: Final = 4
SHARE_FROM_VERSION: Final = 6
NO_ERROR_MESSAGE: Final = "NONE"
"""Kafka's text without an error; from version 4 on it is empty."""
NO_NODE: Final = -1
NO_PORT: Final = -1


class CoordinatorType(IntEnum):
    """The type of a coordinator; the numbers of `key_type`."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_RESOURCE_TYPES: Final[Mapping[int, AclResourceType]] = {
    CoordinatorType.GROUP: AclResourceType.GROUP,
    CoordinatorType.TRANSACTION: AclResourceType.TRANSACTIONAL_ID,
}


class CoordinatorTopic(NamedTuple):
    """The internal topic that stores one type's state, and the function that finds a key's partition.

    `partition_for` may raise KafkaError(INVALID_REQUEST) for an invalid key.
    """

    name: str
    partition_for: Callable[[str], int]


class InternalTopics(Protocol):
    """Creates internal topics; implemented by `TopicCreation`."""

    def ensure(self, topic: str) -> None:
        """Start the creation of `topic` if it has not been started. Do not wait for it."""


class FindCoordinatorHandler:
    """Looks up the leaders of coordinators' partitions in the metadata.

    `topics` has the coordinator types that this cluster serves; for others the error is INVALID_REQUEST.
    """

    def __init__(
        self,
        topics: Mapping[CoordinatorType, CoordinatorTopic],
        image: Callable[[], MetadataImage],
        internal_topics: InternalTopics,
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
        self._topics: dict[int, CoordinatorTopic] = {int(kind): topic for kind, topic in topics.items()}
        self._image = image
        self._internal_topics = internal_topics

    def handle(
        self, context: RequestContext, request: FindCoordinatorRequest
    ) -> Steps[FindCoordinatorResponse]:
        """Return the result of every key; errors are in the response."""
        version = context.header.api_version
        if version >= BATCH_FROM_VERSION:
            find = partial(self._find, context, request.key_type)
            coordinators = yield from map_items(find, dict.fromkeys(request.coordinator_keys))
            return FindCoordinatorResponse(coordinators=coordinators)
        coordinator = self._find(context, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=coordinator.error_code,
            error_message=coordinator.error_message or NO_ERROR_MESSAGE,
            node_id=coordinator.node_id,
            host=coordinator.host,
            port=coordinator.port,
        )

    def _find(self, context: RequestContext, key_type: int, key: str) -> Coordinator:
        try:
            return self._coordinator(context, key_type, key)
        except KafkaError as error:
            return Coordinator(
                key=key,
                node_id=NO_NODE,
                port=NO_PORT,
                error_code=error.code,
                error_message=str(error),
            )

    def _coordinator(self, context: RequestContext, key_type: int, key: str) -> Coordinator:
        """Return the coordinator of a key; raise KafkaError if the client may not know it, or has none."""
        resource_type = _RESOURCE_TYPES.get(key_type)
        if resource_type is not None:
            require_access(self._authorizer, context, AclOperation.DESCRIBE, resource_type, key)
        if key_type == CoordinatorType.SHARE:
            if context.header.api_version < SHARE_FROM_VERSION:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"key type {key_type} requires version 6")
            action, cluster = AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER
            require_access(self._authorizer, context, action, cluster, CLUSTER_NAME)
        topic = self._topics.get(key_type)
        if topic is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"key type {key_type} is not supported")
        partition = topic.partition_for(key)
        image = self._image()
        topic_image = image.topics_by_name.get(topic.name)
        if topic_image is None:
            self._internal_topics.ensure(topic.name)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name} is being created")
        partition_image = topic_image.partitions.get(partition)
        leader = NO_NODE if partition_image is None else partition_image.leader
        broker = image.brokers.get(leader)
        endpoint = None if broker is None or broker.fenced else broker.endpoints.get(context.listener)
        if endpoint is None:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"{topic.name}-{partition} has no leader on listener {context.listener}",
            )
        return Coordinator(key=key, node_id=leader, host=endpoint.host, port=endpoint.port)
