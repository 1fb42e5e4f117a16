"""StreamsGroupHeartbeat (key 88), version 0: join, stay in and leave a streams group (KIP-1071).

The API is served if `streams.version` is finalized at 1 and `group.coordinator.rebalance.protocols` has
`streams`. Missing internal topics are created on behalf of the client, which needs CREATE on the cluster or
on each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Protocol

from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.services.streams_groups import StreamsGroupService
from tidelog.broker.coordinators.groups.streams.topic_configuration import InternalTopic
from tidelog.broker.coordinators.groups.streams.topology_status import HeartbeatStatus
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import may_access_cluster
from tidelog.cluster.topic_names import invalid_name_reason, is_internal
from tidelog.protocol.access_control import AclOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from tidelog.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

_DEFAULT_REPLICATION_FACTOR: Final = -1
_ERRORS_IN_TEXT_MAX: Final = 3
_INTERVALS_BEFORE_RETRY: Final = 2
"""The heartbeat intervals for which a topic that cannot be created is not requested again."""


class TopicsOfClients(Protocol):
    """Creates internal topics on behalf of clients; implemented by `InternalTopicCreation`."""

    def request(
        self, topics: Iterable[CreatableTopic], client: RequestContext, retry_after_ms: int
    ) -> Mapping[str, str]:
        """Begin to create topics for `client`. Return the errors of earlier attempts by topic."""
        ...


class StreamsGroupHeartbeatHandler:
    """Passes heartbeats to the coordinator, and creates missing internal topics."""

    def __init__(self, groups: StreamsGroupService, access: GroupAccess, creation: TopicsOfClients) -> None:
        self._groups = groups
        self._access = access
        self._creation = creation

    async def handle(
        self, context: RequestContext, request: StreamsGroupHeartbeatRequest
    ) -> StreamsGroupHeartbeatResponse:
        """Return the response when the records of the heartbeat are committed; errors are in the response."""
        if not self._access.is_enabled():
            return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        topics = [] if request.topology is None else list(dict.fromkeys(_topics_of(request.topology)))
        try:
            _check_names(topics)
            if not await self._access.may_subscribe(context, topics):
                return StreamsGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            client = Client(context.header.client_id or "", context.client_host)
            reply = await self._groups.heartbeat(client, request)
        except KafkaError as error:
            return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=str(error))
        response, missing = reply.response, reply.topics_to_create
        if not missing:
            return response
        return _with_detail(response, await self._create(context, response.heartbeat_interval_ms, missing))

    async def _create(
        self, context: RequestContext, interval_ms: int, missing: Collection[InternalTopic]
    ) -> str:
        """Begin to create internal topics. Return why some cannot be created; empty if there is no reason."""
        names = [topic.name for topic in missing]
        denied = await self._denied(context, names)
        if denied:
            return f"; Unauthorized to CREATE on topics {', '.join(denied)}."
        topics = (_creatable(topic) for topic in missing)
        errors = self._creation.request(topics, context, _INTERVALS_BEFORE_RETRY * interval_ms)
        return f"; Creation failed: {_summary(errors)}." if errors else ""

    async def _denied(self, context: RequestContext, names: Collection[str]) -> list[str]:
        """Return the topics that the client may not create."""
        create = AclOperation.CREATE
        if may_access_cluster(self._access.authorizer, context, create, logs_denial=False):
            return []
        allowed = await self._access.accessible_topics(context, create, names)
        return [name for name in names if name not in allowed]


def _topics_of(topology: Topology) -> Iterator[str]:
    """Yield all topics of a topology."""
    for subtopology in topology.subtopologies:
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            yield topic.name


def _check_names(topics: Collection[str]) -> None:
    """Raise STREAMS_INVALID_TOPOLOGY for topics of brokers, and for invalid names."""
    internal = [topic for topic in topics if is_internal(topic)]
    if internal:
        text = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    invalid = [topic for topic in topics if invalid_name_reason(topic) is not None]
    if invalid:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor or _DEFAULT_REPLICATION_FACTOR,
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()),
    )


def _summary(errors: Mapping[str, str]) -> str:
    """Return the first errors as text, with the number of the others."""
    shown = ", ".join(f"{name} ({text})" for name, text in list(errors.items())[:_ERRORS_IN_TEXT_MAX])
    further = len(errors) - _ERRORS_IN_TEXT_MAX
    return f"{shown} and {further} more" if further > 0 else shown


def _with_detail(response: StreamsGroupHeartbeatResponse, detail: str) -> StreamsGroupHeartbeatResponse:
    """Return the response with `detail` appended to its status MISSING_INTERNAL_TOPICS."""
    missing = HeartbeatStatus.MISSING_INTERNAL_TOPICS
    statuses = (
        replace(status, status_detail=status.status_detail + detail)
        if status.status_code == missing
        else status
        for status in response.status or ()
    )
    return replace(response, status=tuple(statuses))
