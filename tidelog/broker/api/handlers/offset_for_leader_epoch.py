"""OffsetForLeaderEpoch (key 23): where a leader epoch ended in our log (versions 2-4).

A reader that remembers the epoch of its last record learns here whether that record is still
in the log; followers that lag behind an election cut theirs by it. Only the leader answers.

Source: KIP-101, KIP-279, KIP-320.
"""

from __future__ import annotations

from functools import partial

from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from tidelog.protocol.steps import Steps, each


class OffsetForLeaderEpochHandler:
    """Answers from the leader-epoch cache: the largest epoch not above the one asked, and its end."""

    def __init__(self, replicas: ReplicaManager) -> None:
        self._replicas = replicas

    def handle(
        self, context: RequestContext, request: OffsetForLeaderEpochRequest
    ) -> Steps[OffsetForLeaderEpochResponse]:
        """Answer every partition; an epoch we never saw is epoch -1, offset -1."""
        topics = []
        for topic in request.topics:
            partitions = yield from each(partial(self._answer, topic.topic), topic.partitions)
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
            yield None
        return OffsetForLeaderEpochResponse(topics=tuple(topics))

    def _answer(self, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            partition = self._replicas.partition(TopicPartition(topic, asked.partition))
            partition.require_leader(asked.current_leader_epoch)
        except KafkaError as error:
            return EpochEndOffset(partition=asked.partition, error_code=error.code)
        log = partition.log
        epoch, end_offset = log.leader_epochs.end_offset_for(asked.leader_epoch, log.log_end_offset)
        return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
