"""The requests for offsets to partition leaders: by timestamp, and by leader epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.clients.consumer.consumer_types import OffsetAndTimestamp
from tidelog.clients.metadata.cluster_metadata import ClusterMetadata, partitions_by_topic
from tidelog.protocol.ids import LeaderEpoch, TopicPartition
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER_REPLICA_ID = -1


class OffsetsByTimestamp:
    """The ListOffsets request: the first offset whose record is not older than a timestamp.

    Negative timestamps: -1 latest, -2 earliest, -3 largest timestamp, -4 earliest local, -5 latest tiered.
    The result has offset -1 if there is no such record.
    """

    name = "ListOffsets"
    response = ListOffsetsResponse

    def __init__(
        self,
        timestamps: Mapping[TopicPartition, int],
        metadata: ClusterMetadata,
        *,
        read_committed: bool,
        timeout_ms: int,
    ) -> None:
        self._timestamps = timestamps
        self._metadata = metadata
        self._read_committed = read_committed
        self._timeout_ms = timeout_ms

    def request(self, topic_partitions: list[TopicPartition]) -> ListOffsetsRequest:
        """Return the request for partitions that one broker leads."""
        topics = []
        for topic, numbers in partitions_by_topic(topic_partitions).items():
            partitions = tuple(
                ListOffsetsPartition(
                    partition_index=number,
                    current_leader_epoch=self._metadata.leader_epoch(TopicPartition(topic, number)),
                    timestamp=self._timestamps[TopicPartition(topic, number)],
                )
                for number in numbers
            )
            topics.append(ListOffsetsTopic(name=topic, partitions=partitions))
        return ListOffsetsRequest(
            replica_id=_CONSUMER_REPLICA_ID,
            isolation_level=int(self._read_committed),
            topics=tuple(topics),
            timeout_ms=self._timeout_ms,
        )

    def results(
        self, response: ListOffsetsResponse
    ) -> Iterator[tuple[TopicPartition, int, OffsetAndTimestamp]]:
        """Return partition, error code and offset of each entry."""
        for topic in response.topics:
            for entry in topic.partitions:
                found = OffsetAndTimestamp(entry.offset, entry.timestamp, entry.leader_epoch)
                yield TopicPartition(topic.name, entry.partition_index), entry.error_code, found


class EpochEndOffsets:
    """The OffsetForLeaderEpoch request: the end of a leader epoch in the leader's log.

    Source: KIP-320.
    """

    name = "OffsetForLeaderEpoch"
    response = OffsetForLeaderEpochResponse

    def __init__(self, epochs: Mapping[TopicPartition, LeaderEpoch], metadata: ClusterMetadata) -> None:
        self._epochs = epochs
        self._metadata = metadata

    def request(self, topic_partitions: list[TopicPartition]) -> OffsetForLeaderEpochRequest:
        """Return the request for partitions that one broker leads."""
        topics = []
        for topic, numbers in partitions_by_topic(topic_partitions).items():
            partitions = tuple(
                OffsetForLeaderPartition(
                    partition=number,
                    current_leader_epoch=self._metadata.leader_epoch(TopicPartition(topic, number)),
                    leader_epoch=self._epochs[TopicPartition(topic, number)],
                )
                for number in numbers
            )
            topics.append(OffsetForLeaderTopic(topic=topic, partitions=partitions))
        return OffsetForLeaderEpochRequest(replica_id=_CONSUMER_REPLICA_ID, topics=tuple(topics))

    def results(
        self, response: OffsetForLeaderEpochResponse
    ) -> Iterator[tuple[TopicPartition, int, EpochEndOffset]]:
        """Return partition, error code and end offset of each entry."""
        for topic in response.topics:
            for entry in topic.partitions:
                yield TopicPartition(topic.topic, entry.partition), entry.error_code, entry
