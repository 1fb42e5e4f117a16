"""How a node becomes a broker of its cluster: it registers, is let in, and leads its partitions anew."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from uuid import UUID

from broker.listeners import Listener
from broker.metadata.store import MetadataStore
from cluster.controller.brokers import (
    lead_again,
    register_single_broker,
    supported_features,
    unfence_broker,
)
from cluster.controller.result import ControllerResult
from cluster.image import MetadataImage
from protocol.ids import BrokerId
from protocol.messages import broker_registration
from protocol.messages.broker_registration import BrokerRegistrationRequest
from protocol.schema import MetadataRecord


def registration_request(
    *,
    node_id: BrokerId,
    cluster_id: str,
    incarnation_id: UUID,
    advertised: Iterable[Listener],
    rack: str | None,
    directory_ids: Iterable[UUID],
) -> BrokerRegistrationRequest:
    """What a node says of itself; `incarnation_id` is new at every start."""
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=tuple(
            broker_registration.Listener(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in advertised
        ),
        features=supported_features(),
        rack=rack,
        log_dirs=tuple(directory_ids),
    )


async def join_cluster(store: MetadataStore, request: BrokerRegistrationRequest) -> int:
    """Register and be let in; the reply is the broker epoch. Errors: KafkaError of the registration."""
    broker = request.broker_id
    epoch = await store.submit(lambda image: register_single_broker(image, request))
    await store.submit(lambda image: unfence_broker(image, broker, epoch))
    for records in lead_again(store.image, broker):
        await store.submit(partial(_as_they_are, records))
    return epoch


def _as_they_are(records: tuple[MetadataRecord, ...], image: MetadataImage) -> ControllerResult[None]:
    return ControllerResult(records, None)
