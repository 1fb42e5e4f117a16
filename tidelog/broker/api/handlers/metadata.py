"""Metadata (key 3), versions 0-13: the brokers, and the leader of each partition.

- 0: an empty list of topics means all; 1: null means all
- 4: the client decides whether topics may be created; before 4 they always may
- 6: a leader that is not on the client's listener is LISTENER_NOT_FOUND, before 6 LEADER_NOT_AVAILABLE
- 8: authorized operations (of the cluster until 10)
- 10: topic ids in responses; 12: topics by id, and then only by id
- 13: an error for the whole request

Source: KafkaApis.handleTopicMetadataRequest and KRaftMetadataCache of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, Protocol
from uuid import UUID

from tidelog.broker.api.handlers.partition_places import controller_of, leader_endpoint, offline_replicas
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import (
    accessible_names,
    cluster_operations,
    may_access_cluster,
)
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.security.authorization.supported_operations import NOT_REQUESTED
from tidelog.cluster.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from tidelog.cluster.topic_names import invalid_name_reason, is_internal
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import Steps, map_items, map_steps

_LISTENER_ERROR_FROM: Final = 6
_OPERATIONS_FROM: Final = 8
_CLUSTER_OPERATIONS_TO: Final = 10
_TOPIC_IDS_FROM: Final = 12
_PARTITIONS_PER_STEP: Final = 8
_DESCRIBE_TOPIC: Final = (AclOperation.DESCRIBE, AclResourceType.TOPIC)
_CREATED_MAX: Final = 1000
"""The number of topics that one request can create; the client requests the others again."""


class AutomaticCreation(Protocol):
    """Creates requested topics that do not exist; implemented by `TopicCreation`."""

    def request(self, names: Iterable[str], client: RequestContext) -> object:
        """Start the creation of topics that `client` needs."""


class MetadataHandler:
    """Returns metadata of the image; if `creation` is None, requested topics are never created."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        node_id: BrokerId,
        creation: AutomaticCreation | None,
        authorizer: Authorizer,
    ) -> None:
        self._authorizer = authorizer
        self._image = image
        self._node_id = node_id
        self._creation = creation

    def handle(self, context: RequestContext, request: MetadataRequest) -> Steps[MetadataResponse]:
        """Return the live brokers and the requested topics.

        If one topic has no name, or has an id before version 12, every topic gets INVALID_REQUEST.
        """
        version = context.header.api_version
        if request.topics is not None and not (yield from _is_valid(request.topics, version)):
            return (yield from _invalid_response(request.topics))
        image = self._image()
        view = _View(image, context.listener, version)
        if request.topics is None or (version == 0 and not request.topics):
            topics = yield from self._all_topics(context, view)
        else:
            topics = yield from self._requested_topics(
                context, view, request.topics, request.allow_auto_topic_creation
            )
        if version >= _OPERATIONS_FROM and request.include_topic_authorized_operations:
            topics = yield from map_items(partial(self._with_operations, context), topics)
        wants_cluster_operations = (
            _OPERATIONS_FROM <= version <= _CLUSTER_OPERATIONS_TO
            and request.include_cluster_authorized_operations
        )
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(
                    node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
                )
                for broker, endpoint in image.alive_brokers(context.listener)
            ),
            cluster_id=image.cluster_id,
            controller_id=controller_of(image, self._node_id),
            topics=topics,
            cluster_authorized_operations=(
                cluster_operations(self._authorizer, context) if wants_cluster_operations else NOT_REQUESTED
            ),
        )

    def _all_topics(self, context: RequestContext, view: _View) -> Steps[tuple[MetadataResponseTopic, ...]]:
        """Return the topics that the client may describe."""
        topics = view.image.topics_by_name
        describable = yield from accessible_names(
            self._authorizer, context, _DESCRIBE_TOPIC, topics, logs_denial=False
        )
        return (
            yield from map_steps(view.topic, [topic for name, topic in topics.items() if name in describable])
        )

    def _requested_topics(
        self,
        context: RequestContext,
        view: _View,
        requested: tuple[MetadataRequestTopic, ...],
        may_create: bool,
    ) -> Steps[tuple[MetadataResponseTopic, ...]]:
        """Return the requested topics; start the creation of those that do not exist, if `may_create`."""
        ids: dict[UUID, None] = {}
        names: dict[str, None] = {}
        for topic in requested:
            yield None
            if topic.topic_id != ZERO_UUID:
                ids[topic.topic_id] = None
            elif topic.name is not None:
                names[topic.name] = None
        if ids:
            return (yield from map_steps(partial(self._topic_by_id, context, view), ids))
        known, missing, topics = view.image.topics_by_name, list[str](), []
        may_create = may_create and self._creation is not None
        describable = yield from accessible_names(self._authorizer, context, _DESCRIBE_TOPIC, names)
        for name in names:
            if name not in describable:
                topics.append(_denied_topic(name))
            elif name in known:
                topics.append((yield from view.topic(known[name])))
            elif may_create and not self._may_create(context, name):
                topics.append(replace(_denied_topic(name), is_internal=is_internal(name)))
            else:
                unknown = _unknown_topic(name)
                topics.append(unknown)
                if unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and len(missing) < _CREATED_MAX:
                    missing.append(name)
            yield None
        if self._creation is not None and may_create and missing:
            self._creation.request(missing, context)
        return tuple(topics)

    def _topic_by_id(
        self, context: RequestContext, view: _View, topic_id: UUID
    ) -> Steps[MetadataResponseTopic]:
        """Return a topic. The response for one that the client may not describe has its id, but no name."""
        topic = view.image.topics_by_id.get(topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is not None:
            if self._authorizer.is_authorized(context, *_DESCRIBE_TOPIC, topic.name):
                return (yield from view.topic(topic))
            # As in Kafka, ids are not secret: the client cannot guess them.
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id)

    def _may_create(self, context: RequestContext, name: str) -> bool:
        create, authorizer = AclOperation.CREATE, self._authorizer
        return may_access_cluster(authorizer, context, create, logs_denial=False) or authorizer.is_authorized(
            context, create, AclResourceType.TOPIC, name
        )

    def _with_operations(
        self, context: RequestContext, topic: MetadataResponseTopic
    ) -> MetadataResponseTopic:
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED or topic.name is None:
            return topic
        operations = self._authorizer.authorized_operations(context, AclResourceType.TOPIC, topic.name)
        return replace(topic, topic_authorized_operations=operations)


class _View:
    """The image for one client: for its listener and its version of the API."""

    def __init__(self, image: MetadataImage, listener: str, version: int) -> None:
        self.image = image
        self.version = version
        self._listener = listener
        self._alive = {broker.id for broker, _ in image.alive_brokers(listener)} if version == 0 else set()

    def topic(self, topic: TopicImage) -> Steps[MetadataResponseTopic]:
        """Return a topic with the leader of each partition."""
        partitions = []
        for index, partition_image in topic.partitions.items():
            partitions.append(self._partition(index, partition_image))
            if len(partitions) % _PARTITIONS_PER_STEP == 0:
                yield None
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=is_internal(topic.name),
            partitions=tuple(partitions),
        )

    def _partition(self, index: int, partition: PartitionImage) -> MetadataResponsePartition:
        leader = partition.leader
        error = ErrorCode.NONE
        replicas, isr = partition.replicas, partition.isr
        if self.version == 0:
            # Clients of version 0 fail on a broker that is not in the list.
            replicas = tuple(broker for broker in replicas if broker in self._alive)
            isr = tuple(broker for broker in isr if broker in self._alive)
        if leader_endpoint(self.image, partition, self._listener) is None:
            error = ErrorCode.LEADER_NOT_AVAILABLE
            if leader in self.image.brokers and self.version >= _LISTENER_ERROR_FROM:
                error = ErrorCode.LISTENER_NOT_FOUND
            leader = NO_LEADER
        elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=offline_replicas(self.image, partition, self._listener),
        )


def _is_valid(topics: tuple[MetadataRequestTopic, ...], version: int) -> Steps[bool]:
    """Return whether all topics have names, or ids in a version that has ids."""
    has_ids, has_names = False, True
    for topic in topics:
        yield None
        has_ids = has_ids or topic.topic_id != ZERO_UUID
        has_names = has_names and topic.name is not None
    return version >= _TOPIC_IDS_FROM if has_ids else has_names


def _invalid_response(topics: tuple[MetadataRequestTopic, ...]) -> Steps[MetadataResponse]:
    error = ErrorCode.INVALID_REQUEST
    invalid = yield from map_items(
        lambda topic: MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id),
        topics,
    )
    return MetadataResponse(error_code=error, topics=invalid)


def _unknown_topic(name: str) -> MetadataResponseTopic:
    is_name = invalid_name_reason(name) is None
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_name else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal(name))


def _denied_topic(name: str) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
