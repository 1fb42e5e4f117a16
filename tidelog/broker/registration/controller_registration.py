"""Keeps this controller's registration in the metadata up to date.

It follows the metadata. While that does not contain this incarnation, it sends registrations to the active
controller, with a pause after each.

Source: KIP-919; ControllerRegistrationManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_channel import ControllerChannel
from tidelog.broker.config.listeners import Listener
from tidelog.broker.metadata.store import MetadataStore
from tidelog.clients.transport.failures import raise_for
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.features import SUPPORTED_FEATURES
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.messages import controller_registration
from tidelog.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

logger = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 60_000
_PAUSE_S: Final = 0.5


class ControllerRegistration:
    """Registers one incarnation of a controller: `start` begins to follow the metadata, `close` ends it."""

    def __init__(
        self,
        channel: ControllerChannel,
        store: MetadataStore,
        clock: Clock,
        *,
        node_id: BrokerId,
        incarnation_id: UUID,
        listeners: Iterable[Listener],
    ) -> None:
        self._channel = channel
        self._store = store
        self._clock = clock
        self._request = ControllerRegistrationRequest(
            controller_id=node_id,
            incarnation_id=incarnation_id,
            listeners=tuple(
                controller_registration.Listener(
                    name=listener.name,
                    host=listener.host,
                    port=listener.port,
                    security_protocol=listener.security_protocol,
                )
                for listener in listeners
            ),
            features=tuple(
                controller_registration.Feature(
                    name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest
                )
                for name, levels in SUPPORTED_FEATURES.items()
            ),
        )
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def start(self) -> None:
        """Follow the metadata; a task sends the registration when it is missing."""
        self._store.subscribe(self._on_metadata)

    async def close(self) -> None:
        """Send no more requests."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if not self._is_closed and self._task is None and not self._is_registered(image):
            task = asyncio.get_running_loop().create_task(self._register(), name="controller-registration")
            self._task = task
            task.add_done_callback(self._on_task_ended)

    def _is_registered(self, image: MetadataImage) -> bool:
        registration = image.controllers.get(self._request.controller_id)
        return registration is not None and registration.incarnation_id == self._request.incarnation_id

    async def _register(self) -> None:
        while not self._is_registered(self._store.image):
            try:
                deadline = self._clock.monotonic_ms() + _TIMEOUT_MS
                response = await self._channel.request(
                    self._request, ControllerRegistrationResponse, deadline=deadline
                )
                raise_for(response.error_code, "the controller's response", response.error_message)
            except KafkaError as error:
                logger.warning(
                    "Registration of controller %d failed: %s; retrying", self._request.controller_id, error
                )
            if not self._is_registered(self._store.image):
                await asyncio.sleep(_PAUSE_S)

    def _on_task_ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("The registration task of this controller failed", exc_info=error)
