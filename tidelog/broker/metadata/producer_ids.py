"""Producer ids from blocks that the controller allocates.

Source: KIP-730; RPCProducerIdManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_channel import ControllerChannel
from tidelog.clients.transport.failures import raise_for
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, ProducerId
from tidelog.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

logger = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 10_000


class ProducerIds:
    """Returns ids that are unique in the cluster; unused ids of a block are lost when the broker stops."""

    def __init__(
        self, channel: ControllerChannel, broker: BrokerId, broker_epoch: Callable[[], int], clock: Clock
    ) -> None:
        self._channel = channel
        self._broker = broker
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._unused: Iterator[ProducerId] = iter(range(0))
        self._allocation_lock = asyncio.Lock()

    async def next(self) -> ProducerId:
        """Return the next id. Raise KafkaError COORDINATOR_LOAD_IN_PROGRESS, after which producers retry."""
        while (producer_id := next(self._unused, None)) is None:
            async with self._allocation_lock:
                if (producer_id := next(self._unused, None)) is not None:
                    break
                self._unused = await self._allocate()
        return producer_id

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Discard unused ids if a restored topic may have producers with the same ids."""
        if delta.invalidates_producer_ids:
            self._unused = iter(range(0))

    async def _allocate(self) -> Iterator[ProducerId]:
        request = AllocateProducerIdsRequest(broker_id=self._broker, broker_epoch=self._broker_epoch())
        deadline = self._clock.monotonic_ms() + _TIMEOUT_MS
        try:
            block = await self._channel.request(request, AllocateProducerIdsResponse, deadline=deadline)
            raise_for(block.error_code, "allocating producer ids")
        except KafkaError as error:
            logger.warning("Cannot allocate a block of producer ids: %s", error)
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        return iter(range(block.producer_id_start, block.producer_id_start + block.producer_id_len))
