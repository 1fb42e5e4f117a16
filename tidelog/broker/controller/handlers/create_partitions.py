"""CreatePartitions (key 37), versions 0-3: add partitions to topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.base.randomness import Randomness
from tidelog.broker.controller.handlers.topic_changes import TopicChangeServices
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.cluster.controller.create_partitions import create_partitions
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.protocol.steps import Steps

_FIRST_STRICT_VERSION: Final = 3
"""Before this version a client that exceeds its quota is throttled, but gets no error (KIP-599)."""


class CreatePartitionsHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, services: TopicChangeServices, randomness: Randomness) -> None:
        self._services = services
        self._randomness = randomness

    async def handle(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> CreatePartitionsResponse:
        """Return the outcome of each topic when its partitions are durable and in this node's image."""
        services = self._services
        quota = services.quotas.of(context, _FIRST_STRICT_VERSION)
        allowed, denied = await services.slices.complete(self._allowed(context, request))
        response = await services.store.submit(
            lambda image: create_partitions(image, services.settings, allowed, self._randomness, quota.charge)
        )
        results, throttle_time_ms = (*response.results, *denied), quota.throttle_time_ms()
        return replace(response, results=results, throttle_time_ms=throttle_time_ms)

    def _allowed(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> Steps[tuple[CreatePartitionsRequest, tuple[CreatePartitionsTopicResult, ...]]]:
        """Return the request without topics that the client may not alter, and the results of these."""
        names = dict.fromkeys(topic.name for topic in request.topics)
        alter_topic = (AclOperation.ALTER, AclResourceType.TOPIC)
        alterable = yield from accessible_names(self._services.authorizer, context, alter_topic, names)
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        denied = tuple(
            CreatePartitionsTopicResult(name=name, error_code=code, error_message=code.text)
            for name in names
            if name not in alterable
        )
        topics = tuple(topic for topic in request.topics if topic.name in alterable)
        return replace(request, topics=topics), denied
