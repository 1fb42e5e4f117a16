"""CreateTopics (key 19), versions 2-7: create topics.

From version 5 the response describes the created topics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.base.randomness import Randomness
from tidelog.broker.controller.handlers.topic_changes import TopicChangeServices
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import accessible_names, may_access_cluster
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.topic_names import CLUSTER_METADATA_TOPIC
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.steps import Steps
from tidelog.storage.config.restored_topic import RESTORE_PREFIX

_FIRST_STRICT_VERSION: Final = 6
"""Before this version a client that exceeds its quota is throttled, but gets no error (KIP-599)."""


class CreateTopicsHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, services: TopicChangeServices, randomness: Randomness) -> None:
        self._services = services
        self._randomness = randomness

    async def handle(self, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Return the outcome of each topic when the topics are durable and in this node's image."""
        services = self._services
        quota = services.quotas.of(context, _FIRST_STRICT_VERSION)
        allowed, denied = await services.slices.complete(self._allowed(context, request))
        response = await services.store.submit(
            lambda image: create_topics(image, services.settings, allowed, self._randomness, quota.charge)
        )
        throttle_time_ms = quota.throttle_time_ms()
        topics = await services.slices.complete(self._visible(context, response))
        return replace(response, topics=(*topics, *denied), throttle_time_ms=throttle_time_ms)

    def _allowed(
        self, context: RequestContext, request: CreateTopicsRequest
    ) -> Steps[tuple[CreateTopicsRequest, tuple[CreatableTopicResult, ...]]]:
        """Return the request without topics that the client may not create, and the results of these."""
        create = AclOperation.CREATE
        request, rejected = yield from self._without_forbidden_restores(context, request)
        if may_access_cluster(self._services.authorizer, context, create, logs_denial=False):
            return request, rejected
        # No client may create this topic; the command has its error.
        names = {topic.name: None for topic in request.topics if topic.name != CLUSTER_METADATA_TOPIC}
        allowed = yield from accessible_names(
            self._services.authorizer, context, (create, AclResourceType.TOPIC), names
        )
        denied = {name for name in names if name not in allowed}
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        results = tuple(
            CreatableTopicResult(name=name, error_code=code, error_message="Authorization failed.")
            for name in names
            if name in denied
        )
        topics = tuple(topic for topic in request.topics if topic.name not in denied)
        return replace(request, topics=topics), (*rejected, *results)

    def _without_forbidden_restores(
        self, context: RequestContext, request: CreateTopicsRequest
    ) -> Steps[tuple[CreateTopicsRequest, tuple[CreatableTopicResult, ...]]]:
        """Return the request without topics to restore, and their results, if the client may not do this.

        Restored topics have a given id and raise the next producer id: this requires ALTER on the cluster.
        """
        restores: dict[str, None] = {}
        for topic in request.topics:
            if (yield from _is_restore(topic)):
                restores[topic.name] = None
            yield None
        if not restores or may_access_cluster(self._services.authorizer, context, AclOperation.ALTER):
            return request, ()
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        results = tuple(
            CreatableTopicResult(name=name, error_code=code, error_message=code.text) for name in restores
        )
        topics = tuple(topic for topic in request.topics if topic.name not in restores)
        return replace(request, topics=topics), results

    def _visible(
        self, context: RequestContext, response: CreateTopicsResponse
    ) -> Steps[tuple[CreatableTopicResult, ...]]:
        """Return the results, with the configs of topics only if the client may describe them."""
        visible = yield from accessible_names(
            self._services.authorizer,
            context,
            (AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC),
            [topic.name for topic in response.topics],
            logs_denial=False,
        )
        return tuple(
            topic if topic.name in visible or topic.error_code else _without_configs(topic)
            for topic in response.topics
        )


def _is_restore(topic: CreatableTopic) -> Steps[bool]:
    for config in topic.configs:
        if config.name.startswith(RESTORE_PREFIX):
            return True
        yield None
    return False


def _without_configs(topic: CreatableTopicResult) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=topic.error_message,
        topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )
