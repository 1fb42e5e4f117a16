"""DeleteTopics (key 20), versions 1-6: delete topics by name, from version 6 also by id."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.broker.controller.handlers.topic_changes import TopicChangeServices
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.security.authorization.access import may_access_cluster
from tidelog.cluster.controller.delete_topics import delete_topics
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.protocol.steps import Steps

_FIRST_STRICT_VERSION: Final = 5
"""Before this version a client that exceeds its quota is throttled, but gets no error (KIP-599)."""


class DeleteTopicsHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, services: TopicChangeServices) -> None:
        self._services = services

    async def handle(self, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        """Return the outcome of each topic when the deletion is durable. Errors: TOPIC_DELETION_DISABLED."""
        version = context.header.api_version
        services = self._services
        quota = services.quotas.of(context, _FIRST_STRICT_VERSION)
        allowed, denied = await services.slices.complete(self._allowed(context, request))
        response = await services.store.submit(
            lambda image: delete_topics(image, services.settings, allowed, version, quota.charge)
        )
        responses, throttle_time_ms = (*response.responses, *denied), quota.throttle_time_ms()
        return replace(response, responses=responses, throttle_time_ms=throttle_time_ms)

    def _allowed(
        self, context: RequestContext, request: DeleteTopicsRequest
    ) -> Steps[tuple[DeleteTopicsRequest, tuple[DeletableTopicResult, ...]]]:
        """Return the request without topics that the client may not delete, and the results of these."""
        if may_access_cluster(self._services.authorizer, context, AclOperation.DELETE, logs_denial=False):
            return request, ()
        image = self._services.store.controller_image
        denied: dict[DeletableTopicResult, None] = {}
        targets = []
        for target in (*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)):
            yield None
            topic = image.topics_by_id.get(target.topic_id)
            name = target.name if target.name is not None else topic.name if topic is not None else None
            # Without a name there is no topic with this id. The command has the error.
            denial = None if name is None else self._denial(context, target, name, image)
            if denial is None:
                targets.append(target)
            else:
                denied[denial] = None
        return replace(request, topics=tuple(targets), topic_names=()), tuple(denied)

    def _denial(
        self, context: RequestContext, target: DeleteTopicState, name: str, image: MetadataImage
    ) -> DeletableTopicResult | None:
        """Return the result of a topic that the client may not delete.

        A topic that it may not describe is denied whether it exists or not.
        """
        is_authorized, code = self._services.authorizer.is_authorized, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topic_type = AclResourceType.TOPIC
        denial = DeletableTopicResult(
            name=target.name, topic_id=target.topic_id, error_code=code, error_message=code.text
        )
        if not is_authorized(context, AclOperation.DESCRIBE, topic_type, name):
            return denial
        if name in image.topics_by_name and not is_authorized(context, AclOperation.DELETE, topic_type, name):
            return replace(denial, name=name)
        return None
