"""Serves the consumer groups (KIP-848) of the partitions of `__consumer_offsets` that this node leads.

Expressions are resolved in slices, in a task of its own: matching all topics may take long.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import TypeAlias

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.subscriptions import ResolvedExpression
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.members.prepared_subscription import (
    NOT_PREPARED,
    PreparedSubscription,
)
from tidelog.broker.coordinators.groups.ports import GroupPorts
from tidelog.broker.coordinators.shared.regular_expression import RegularExpression
from tidelog.broker.coordinators.shared.shard import Shard, ShardState
from tidelog.broker.coordinators.shared.shards import Shards
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.consumer_group_describe import DescribedGroup
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

TopicFilter: TypeAlias = Callable[[Iterable[str]], Steps[Container[str]]]
"""Returns those of the topics that the client of a heartbeat may describe."""


class ConsumerGroupService:
    """Heartbeats and descriptions of consumer groups."""

    def __init__(self, shards: Shards[GroupCoordinator], ports: GroupPorts) -> None:
        self._shards = shards
        self._slices = ports.slices
        self._image = ports.image

    def heartbeat(
        self,
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        topic_filter: TopicFilter,
    ) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
        """Return the response, or an awaitable of it if records must be committed before.

        Raise KafkaError if the heartbeat is rejected; the awaitable raises it if the commit fails.
        """
        shard = self._shards.active_shard(request.group_id)
        if shard.coordinator.consumers.must_prepare(request):
            return self._prepare_heartbeat(shard, client, request, version, topic_filter)
        return self._heartbeat(shard, client, request, version, topic_filter, NOT_PREPARED)

    async def _prepare_heartbeat(
        self,
        shard: Shard[GroupCoordinator],
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        topic_filter: TopicFilter,
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the response to a heartbeat with, or in a group with, a wide subscription."""
        prepared = await self._slices.complete(shard.coordinator.consumers.prepare(client, request))
        # Meanwhile, another node may have become the coordinator.
        shard = self._shards.active_shard(request.group_id)
        result = self._heartbeat(shard, client, request, version, topic_filter, prepared)
        self._slices.release_later(prepared.replaced.ordered)
        return result if isinstance(result, ConsumerGroupHeartbeatResponse) else await result

    def _heartbeat(
        self,
        shard: Shard[GroupCoordinator],
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        topic_filter: TopicFilter,
        prepared: PreparedSubscription,
    ) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
        outcome = shard.coordinator.consumers.heartbeat(client, request, version, shard.now(), prepared)
        response, to_resolve = outcome.reply
        if to_resolve:
            self._shards.spawn(self._resolve(shard, request.group_id, to_resolve, topic_filter))
        return self._shards.respond_after(shard, outcome.writes, response)

    def describe(self, group_id: str) -> Steps[DescribedGroup]:
        """Return the description of a group; errors are in it."""
        try:
            shard = self._shards.active_shard(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=error.code, error_message=str(error))
        return (yield from shard.coordinator.consumers.describe(group_id))

    def on_topics_changed(self, names: Iterable[str], created_version: int | None) -> None:
        """Let the groups of created, changed and deleted topics check the metadata.

        `created_version` is the version of the metadata if topics were created, else None.
        """
        changed = frozenset(names)
        for shard in self._shards.active_shards():
            shard.coordinator.consumers.on_topics_changed(changed, created_version)

    async def _resolve(
        self,
        shard: Shard[GroupCoordinator],
        group_id: str,
        expressions: frozenset[str],
        topic_filter: TopicFilter,
    ) -> None:
        """Find the topics that match the expressions of a group, and write the result."""
        image, now = self._image(), shard.now()
        try:
            topics = await self._slices.complete(_matching_topics(image, expressions, topic_filter))
        except KafkaError as error:
            logger.error("Group %s: cannot resolve the expressions: %s", group_id, error)
            shard.coordinator.consumers.on_not_resolved(group_id)
            return
        resolved = {
            expression: ResolvedExpression(names, image.offset, now.wall_ms)
            for expression, names in topics.items()
        }
        if shard.state is ShardState.ACTIVE:
            shard.perform(shard.coordinator.consumers.on_resolved(group_id, resolved))


def _matching_topics(
    image: MetadataImage, expressions: Iterable[str], topic_filter: TopicFilter
) -> Steps[Mapping[str, frozenset[str]]]:
    """Return the topics that match each expression and that the client may describe."""
    compiled = []
    for expression in sorted(expressions):
        try:
            compiled.append((expression, RegularExpression(expression)))
        except KafkaError as error:
            # The record of a coordinator of Apache Kafka may have an expression that is longer than ours.
            logger.error("Ignoring an expression: %s", error)
        yield None
    matching: dict[str, set[str]] = {expression: set() for expression in expressions}
    for topic in image.topics_by_name:
        for expression, pattern in compiled:
            if pattern.matches(topic):
                matching[expression].add(topic)
        yield None
    allowed = yield from topic_filter(sorted(set().union(*matching.values())))
    return {
        expression: frozenset(topic for topic in topics if topic in allowed)
        for expression, topics in matching.items()
    }
