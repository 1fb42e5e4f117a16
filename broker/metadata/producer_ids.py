"""Producer ids one by one, out of blocks that the controller allocates.

Source: KIP-730; RPCProducerIdManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio

from broker.metadata.store import MetadataStore
from cluster.controller.producer_ids import ProducerIdBlock, allocate_producer_ids
from cluster.controller.result import ControllerResult
from cluster.image import MetadataImage
from protocol.ids import BrokerId, ProducerId


class ProducerIds:
    """Gives out ids that no other producer of the cluster has had; what is left at a stop is lost."""

    def __init__(self, store: MetadataStore, broker: BrokerId, broker_epoch: int) -> None:
        self._store = store
        self._broker = broker
        self._broker_epoch = broker_epoch
        self._left = iter(range(0))
        self._allocating = asyncio.Lock()

    async def next(self) -> ProducerId:
        """The next id; KafkaError when a block cannot be allocated."""
        while (found := next(self._left, None)) is None:
            async with self._allocating:
                if (found := next(self._left, None)) is not None:
                    break
                block = await self._store.submit(self._allocate)
                self._left = iter(range(block.first, block.first + block.size))
        return found

    def _allocate(self, image: MetadataImage) -> ControllerResult[ProducerIdBlock]:
        return allocate_producer_ids(image, self._broker, self._broker_epoch)
