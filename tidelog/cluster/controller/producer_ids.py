"""Blocks of producer ids for brokers, so that every producer id is unique.

Source: KIP-730; ProducerIdControlManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.cluster.controller.brokers import current_registration, require_registration
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, ProducerId
from tidelog.protocol.metadata_records.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
_MAX_PRODUCER_ID: Final = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    """Producer ids from `first` to `first` + `size` - 1."""

    first: ProducerId
    size: int


def allocate_producer_ids(
    image: MetadataImage, broker: BrokerId, broker_epoch: int
) -> ControllerResult[ProducerIdBlock]:
    """Allocate the next block for `broker`.

    Errors: KafkaError BROKER_ID_NOT_REGISTERED; STALE_BROKER_EPOCH if its registration has another epoch.
    """
    require_registration(image, broker)
    current_registration(image, broker, broker_epoch)
    first = image.next_producer_id
    if first > _MAX_PRODUCER_ID - BLOCK_SIZE:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Exhausted all producer ids: the next block would exceed {_MAX_PRODUCER_ID}",
        )
    record = ProducerIdsRecord(
        broker_id=broker, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE
    )
    return ControllerResult((record,), ProducerIdBlock(first, BLOCK_SIZE))
