"""The requests of a share consumer to one broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tests.support.waiting import eventually
from tidelog.clients.config.share_config import ShareConsumerConfig
from tidelog.clients.consumer.consumer_types import ConsumerRecord, TimestampType
from tidelog.clients.metadata.cluster_client import ClusterClient
from tidelog.clients.share_consumer.acquired_records import AcquiredOffsets, AcquiredRange
from tidelog.clients.share_consumer.share_broker import AcknowledgementResults, ShareBroker
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages import share_acknowledge
from tidelog.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from tidelog.protocol.messages.share_fetch import ShareFetchResponse
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType

TOPIC_ID = UUID(int=1)
PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]


class Broker:
    """A cluster with one broker, which rejects acknowledgements of partition 1."""

    def __init__(self) -> None:
        self.network = self
        self.metadata = SimpleNamespace(topic_id=lambda _: TOPIC_ID, topic_name=lambda _: "t")

    async def connection(self, node_id: int) -> Broker:
        return self

    def version_of(self, api: object) -> int:
        return 2

    async def request(self, request: object, response: type, timeout_ms: int = 0) -> Any:
        if not isinstance(request, ShareAcknowledgeRequest):
            return ShareFetchResponse()
        lost = share_acknowledge.PartitionData(
            partition_index=1, error_code=ErrorCode.INVALID_RECORD_STATE, error_message="expired"
        )
        topic = share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=(lost,))
        return ShareAcknowledgeResponse(responses=(topic,))


def record_of(partition: TopicPartition) -> ConsumerRecord:
    return ConsumerRecord(*partition, 0, 5, TimestampType.CREATE_TIME, None, b"value", (), 0)


async def test_records_whose_renewal_is_rejected_are_not_delivered_again() -> None:
    results: AcknowledgementResults = {}
    changed = asyncio.Event()
    config = ShareConsumerConfig(group_id="g")
    broker = ShareBroker(1, "m", cast(ClusterClient, Broker()), config, changed.set, results.update)
    broker.fetch(PARTITIONS)
    await changed.wait()
    renewed = {}
    for partition in PARTITIONS:
        acquired = AcquiredRange(AcquiredOffsets(0, 0, 1), [record_of(partition)])
        acquired.decide(0, AcknowledgeType.RENEW)
        broker.decide(partition, [acquired])
        renewed[partition] = acquired.renewed()
    await broker.acknowledge(renewed)
    assert list(broker.take()) == PARTITIONS[:1]
    assert [error and error.code for error in results.values()] == [None, ErrorCode.INVALID_RECORD_STATE]


async def test_acknowledgements_are_sent_without_a_fetch_while_records_of_other_brokers_are_returned() -> (
    None
):
    results: AcknowledgementResults = {}
    changed = asyncio.Event()
    config = ShareConsumerConfig(group_id="g")
    broker = ShareBroker(1, "m", cast(ClusterClient, Broker()), config, changed.set, results.update)
    broker.fetch(PARTITIONS)
    await changed.wait()
    broker.send_decided()
    broker.decide(PARTITIONS[0], [AcquiredRange(AcquiredOffsets(0, 0, 1), [record_of(PARTITIONS[0])])])
    broker.send_decided()
    await eventually(lambda: PARTITIONS[0] in results)
    assert results[PARTITIONS[0]] is None
