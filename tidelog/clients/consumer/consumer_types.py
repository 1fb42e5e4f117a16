"""The values that a consumer hands out and takes."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.record import RecordHeader


class TimestampType(IntEnum):
    """Who set a record's timestamp: its producer or the broker."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ConsumerRecord(NamedTuple):
    """One record; `timestamp` in ms since 1970, `leader_epoch` -1 when unknown."""

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
        """The partition it was read from."""
        return TopicPartition(self.topic, self.partition)


class OffsetAndTimestamp(NamedTuple):
    """Where a timestamp was found: the record's offset and its own timestamp."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class FetchPosition(NamedTuple):
    """Where to read next.

    `offset_epoch`: leader epoch of the record before; `leader_epoch`: the leader epoch under which the
    position was last found to be right. -1 stands for "not known".
    """

    offset: Offset
    offset_epoch: LeaderEpoch = NO_LEADER_EPOCH
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
