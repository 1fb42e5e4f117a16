"""The values that a consumer returns and accepts."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.record import RecordHeader


class TimestampType(IntEnum):
    """Whether the producer or the broker set a record's timestamp."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ConsumerRecord(NamedTuple):
    """One record; `timestamp` is in ms since 1970, `leader_epoch` is -1 if unknown."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]
    leader_epoch: LeaderEpoch

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)


class OffsetAndTimestamp(NamedTuple):
    """The offset and timestamp of the record that was found for a timestamp."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class FetchPosition(NamedTuple):
    """The position of the next fetch.

    `offset_epoch`: the leader epoch of the previous record. `leader_epoch`: the leader epoch in which the
    position was last validated. -1 means unknown.
    """

    offset: Offset
    offset_epoch: LeaderEpoch = NO_LEADER_EPOCH
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
