"""Reads the end offsets of partitions from their leaders, for the lag of share groups.

Source: NetworkPartitionMetadataClient of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Final

from tidelog.broker.channels.broker_channel import BrokerChannel
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, Offset, TopicPartition
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_LATEST_TIMESTAMP: Final = -1
_CONSUMER_REPLICA: Final = -1


class EndOffsets:
    """Sends one ListOffsets request to each leader. A failed request is not repeated."""

    def __init__(self, brokers: BrokerChannel, image: Callable[[], MetadataImage]) -> None:
        self._brokers = brokers
        self._image = image

    async def of_partitions(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset | ErrorCode]:
        """Return the high watermark of each partition, or the error."""
        by_leader: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            by_leader[self._leader(partition)].append(partition)
        results: dict[TopicPartition, Offset | ErrorCode] = {}
        for part in await bounded_gather(self._request(leader, each) for leader, each in by_leader.items()):
            results |= part
        return results

    def _leader(self, partition: TopicPartition) -> BrokerId:
        topic = self._image().topics_by_name.get(partition.topic)
        image = None if topic is None else topic.partitions.get(partition.partition)
        return NO_LEADER if image is None else image.leader

    async def _request(
        self, leader: BrokerId, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Offset | ErrorCode]:
        if leader == NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.LEADER_NOT_AVAILABLE)
        topics: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
        for topic, index in partitions:
            topics[topic].append(ListOffsetsPartition(partition_index=index, timestamp=_LATEST_TIMESTAMP))
        request = ListOffsetsRequest(
            replica_id=_CONSUMER_REPLICA,
            topics=tuple(
                ListOffsetsTopic(name=topic, partitions=tuple(entries)) for topic, entries in topics.items()
            ),
        )
        try:
            response = await self._brokers.request(leader, request, ListOffsetsResponse)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        results: dict[TopicPartition, Offset | ErrorCode] = dict.fromkeys(
            partitions, ErrorCode.UNKNOWN_SERVER_ERROR
        )
        for described in response.topics:
            for entry in described.partitions:
                code = ErrorCode(entry.error_code)
                partition = TopicPartition(described.name, entry.partition_index)
                results[partition] = code if code else entry.offset
        return results
