"""Reads the end offsets of partitions from their leaders, for the lag of share groups.

Source: NetworkPartitionMetadataClient of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from tidelog.broker.channels.broker_channel import BrokerChannel
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId, Offset, TopicPartition
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.steps import Steps

_LATEST_TIMESTAMP: Final = -1
_CONSUMER_REPLICA: Final = -1


class EndOffsets:
    """Sends one ListOffsets request to each leader. A failed request is not repeated."""

    def __init__(self, brokers: BrokerChannel, image: Callable[[], MetadataImage], slices: Slices) -> None:
        self._brokers = brokers
        self._image = image
        self._slices = slices

    async def of_partitions(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset | ErrorCode]:
        """Return the high watermark of each partition, or the error."""
        by_leader = await self._slices.complete(self._by_leader(partitions))
        results: dict[TopicPartition, Offset | ErrorCode] = {}
        for part in await bounded_gather(self._request(leader, each) for leader, each in by_leader.items()):
            results |= part
        return results

    def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> Steps[Mapping[BrokerId, list[TopicPartition]]]:
        by_leader: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            by_leader[self._leader(partition)].append(partition)
            yield None
        return by_leader

    def _leader(self, partition: TopicPartition) -> BrokerId:
        topic = self._image().topics_by_name.get(partition.topic)
        image = None if topic is None else topic.partitions.get(partition.partition)
        return NO_LEADER if image is None else image.leader

    async def _request(
        self, leader: BrokerId, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, Offset | ErrorCode]:
        if leader == NO_LEADER:
            return dict.fromkeys(partitions, ErrorCode.LEADER_NOT_AVAILABLE)
        request = await self._slices.complete(_request_of(partitions))
        try:
            response = await self._brokers.request(leader, request, ListOffsetsResponse)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        return await self._slices.complete(_results_of(partitions, response))


def _request_of(partitions: Iterable[TopicPartition]) -> Steps[ListOffsetsRequest]:
    """Return the request for the latest offsets of `partitions`."""
    topics: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for topic, index in partitions:
        topics[topic].append(ListOffsetsPartition(partition_index=index, timestamp=_LATEST_TIMESTAMP))
        yield None
    return ListOffsetsRequest(
        replica_id=_CONSUMER_REPLICA,
        topics=tuple(
            ListOffsetsTopic(name=topic, partitions=tuple(entries)) for topic, entries in topics.items()
        ),
    )


def _results_of(
    partitions: Iterable[TopicPartition], response: ListOffsetsResponse
) -> Steps[dict[TopicPartition, Offset | ErrorCode]]:
    """Return the results in a response; UNKNOWN_SERVER_ERROR for a partition that it does not have."""
    results: dict[TopicPartition, Offset | ErrorCode] = dict.fromkeys(
        partitions, ErrorCode.UNKNOWN_SERVER_ERROR
    )
    for described in response.topics:
        for entry in described.partitions:
            code = ErrorCode(entry.error_code)
            partition = TopicPartition(described.name, entry.partition_index)
            results[partition] = code if code else entry.offset
            yield None
    return results
