"""DescribeProducers (key 61): the idempotent producers that a partition stores (version 0).

Source: KIP-664.
"""

from __future__ import annotations

from functools import partial

from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.protocol.access_control import AclOperation, AclResourceType
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import NO_SEQUENCE, TopicPartition
from tidelog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tidelog.protocol.steps import Steps, map_items, map_steps
from tidelog.storage.producers.producer_entry import ProducerEntry


class DescribeProducersHandler:
    """Returns the producers in the producer state of the logs."""

    def __init__(self, replicas: ReplicaManager, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._replicas = replicas

    def handle(
        self, context: RequestContext, request: DescribeProducersRequest
    ) -> Steps[DescribeProducersResponse]:
        """Return the producers of every distinct partition in the request."""
        topics = []
        for topic, indexes in (yield from _named_once(request)).items():
            if self._authorizer.is_authorized(context, AclOperation.READ, AclResourceType.TOPIC, topic):
                partitions = yield from map_steps(partial(self._describe, topic), indexes)
            else:
                partitions = yield from map_items(_denied, indexes)
            topics.append(TopicResponse(name=topic, partitions=partitions))
            yield None
        return DescribeProducersResponse(topics=tuple(topics))

    def _describe(self, topic: str, index: int) -> Steps[PartitionResponse]:
        try:
            partition = self._replicas.partition(TopicPartition(topic, index))
        except KafkaError as error:
            return PartitionResponse(partition_index=index, error_code=error.code, error_message=str(error))
        entries = list(partition.log.producers.producers.values())
        producers = yield from map_items(_state, entries)
        return PartitionResponse(partition_index=index, active_producers=producers)


def _named_once(request: DescribeProducersRequest) -> Steps[dict[str, dict[int, None]]]:
    """Return each partition once, because the response may have thousands of producers for an index."""
    topics: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        topics.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        yield None
    return topics


def _denied(index: int) -> PartitionResponse:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return PartitionResponse(partition_index=index, error_code=code, error_message=code.text)


def _state(entry: ProducerEntry) -> ProducerState:
    first_offset = entry.transaction_first_offset
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=-1 if first_offset is None else first_offset,
    )
