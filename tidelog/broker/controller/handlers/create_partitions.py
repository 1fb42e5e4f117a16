"""CreatePartitions (key 37), versions 0-3: add partitions to topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.base.randomness import Randomness
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.quotas.mutation_quotas import MutationQuotas
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.access import accessible_names
from tidelog.broker.security.authorization.authorizer import ALLOW_EVERYTHING, Authorizer
from tidelog.cluster.controller.create_partitions import create_partitions
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

_FIRST_STRICT_VERSION: Final = 3
"""Before this version a client that exceeds its quota is throttled, but gets no error (KIP-599)."""


class CreatePartitionsHandler:
    """Submits the request to the controller."""

    def __init__(
        self,
        store: MetadataStore,
        settings: ControllerSettings,
        randomness: Randomness,
        quotas: MutationQuotas,
        slices: Slices,
        authorizer: Authorizer = ALLOW_EVERYTHING,
    ) -> None:
        self._slices = slices
        self._authorizer = authorizer
        self._store = store
        self._settings = settings
        self._quotas = quotas
        self._randomness = randomness

    async def handle(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> CreatePartitionsResponse:
        """Return the outcome of each topic when its partitions are durable and in this node's image."""
        quota = self._quotas.of(context, _FIRST_STRICT_VERSION)
        alterable = await self._slices.complete(
            accessible_names(
                self._authorizer,
                context,
                (AclOperation.ALTER, AclResourceType.TOPIC),
                [topic.name for topic in request.topics],
            )
        )
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        denied = tuple(
            CreatePartitionsTopicResult(name=name, error_code=code, error_message=code.text)
            for name in dict.fromkeys(topic.name for topic in request.topics)
            if name not in alterable
        )
        allowed = request
        if denied:
            topics = tuple(topic for topic in request.topics if topic.name in alterable)
            allowed = replace(request, topics=topics)
        response = await self._store.submit(
            lambda image: create_partitions(image, self._settings, allowed, self._randomness, quota.charge)
        )
        results, throttle_time_ms = (*response.results, *denied), quota.throttle_time_ms()
        return replace(response, results=results, throttle_time_ms=throttle_time_ms)
