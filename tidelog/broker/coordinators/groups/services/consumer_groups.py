"""Serves the consumer groups (KIP-848) of the partitions of `__consumer_offsets` that this node leads.

Expressions are resolved in slices, in a task of its own: matching all topics may take long.

I/O: the StateLog. To be used from one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.coordinator import ConsumerCoordinator
from tidelog.broker.coordinators.groups.consumer.subscriptions import ResolvedExpression
from tidelog.broker.coordinators.groups.coordinator import GroupCoordinator
from tidelog.broker.coordinators.groups.members.prepared_subscription import (
    NOT_PREPARED,
    PreparedSubscription,
)
from tidelog.broker.coordinators.groups.ports import GroupPorts
from tidelog.broker.coordinators.groups.services.target_computations import TargetComputations
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


_Result: TypeAlias = ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]


class ConsumerGroupService:
    """Heartbeats and descriptions of consumer groups."""

    def __init__(self, shards: Shards[GroupCoordinator], ports: GroupPorts) -> None:
        self._shards = shards
        self._slices = ports.slices
        self._image = ports.image
        self._computations = TargetComputations(shards, ports.slices)

    def heartbeat(
        self,
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        topic_filter: TopicFilter,
    ) -> _Result:
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
    ) -> _Result:
        """Return the response, or an awaitable of it, which has a target that is computed in steps."""
        result, computing = self._perform(shard, client, request, version, topic_filter, prepared)
        if not computing:
            return result
        return self._after_computation(client, request, version, topic_filter, result, computing)

    def _perform(
        self,
        shard: Shard[GroupCoordinator],
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        topic_filter: TopicFilter,
        prepared: PreparedSubscription = NOT_PREPARED,
    ) -> tuple[_Result, list[asyncio.Future[None]]]:
        """Return the response, or an awaitable of it, and the ends of the computations that it starts."""
        try:
            outcome = shard.coordinator.consumers.heartbeat(client, request, version, shard.now(), prepared)
            response, to_resolve = outcome.reply
            if to_resolve:
                self._shards.spawn(self._resolve(shard, request.group_id, to_resolve, topic_filter))
            result = self._shards.respond_after(shard, outcome.writes, response)
        finally:
            # Also after a rejection: otherwise no later heartbeat would start a computation.
            computing = self.start_computations(shard)
        return result, computing

    def start_computations(self, shard: Shard[GroupCoordinator]) -> list[asyncio.Future[None]]:
        """Compute the targets that commands have requested; see `TargetComputations.start`."""
        return self._computations.start(shard, _consumers_of)

    async def _after_computation(
        self,
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        topic_filter: TopicFilter,
        result: _Result,
        computing: Iterable[asyncio.Future[None]],
    ) -> ConsumerGroupHeartbeatResponse:
        """Return the response with the target that was computed in steps.

        The member would otherwise get it with its next heartbeat, as all others do. The group may have
        changed meanwhile: if the member is not there any more, its next heartbeat fails.
        """
        response = result if isinstance(result, ConsumerGroupHeartbeatResponse) else await result
        for each in computing:
            await each
        following = ConsumerGroupHeartbeatRequest(
            group_id=request.group_id,
            member_id=response.member_id or "",
            member_epoch=response.member_epoch,
            instance_id=request.instance_id,
            topic_partitions=request.topic_partitions,
        )
        try:
            shard = self._shards.active_shard(request.group_id)
            after, _ = self._perform(shard, client, following, version, topic_filter)
        except KafkaError as error:
            logger.info("Group %s: the response has the last target: %s", request.group_id, error)
            return response
        # If its records are not committed, the member gets the error, and not its state before them.
        latest = after if isinstance(after, ConsumerGroupHeartbeatResponse) else await after
        return latest if latest.assignment is not None else replace(latest, assignment=response.assignment)

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


def _consumers_of(coordinator: GroupCoordinator) -> ConsumerCoordinator:
    return coordinator.consumers


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
