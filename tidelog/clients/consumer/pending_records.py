"""The records that were taken from the fetcher and not yet returned, and the resulting positions.

Pure. The fetcher moves a partition's position after all records that it returns. While some of them are still
pending here, the position for commits and `position` is that of the next pending record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidelog.clients.consumer.consumer_types import ConsumerRecord, FetchPosition
from tidelog.clients.consumer.partition_state import AssignedPartitions, FetchState, PartitionState
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.protocol.ids import TopicPartition


class _Chunk:
    """Records of one partition; `at` is the index of the next one to return."""

    __slots__ = ("at", "generation", "records", "state")

    def __init__(self, state: PartitionState, records: list[ConsumerRecord]) -> None:
        self.state = state
        self.generation = state.generation
        self.records = records
        self.at = 0


class PendingRecords:
    """The pending records of one consumer.

    A chunk is dropped if its partition was revoked, reset or sought since; it is kept while its partition is
    paused.
    """

    def __init__(self, assigned: AssignedPartitions) -> None:
        self._assigned = assigned
        self._chunks: deque[_Chunk] = deque()

    def add(self, taken: Iterable[tuple[PartitionState, list[ConsumerRecord]]]) -> None:
        """Add records that are returned one by one."""
        self._chunks.extend(_Chunk(state, records) for state, records in taken)

    def next(self) -> ConsumerRecord | None:
        """Remove and return one record; None if there is none."""
        for _ in range(len(self._chunks)):
            chunk = self._chunks[0]
            if not self._is_current(chunk):
                self._chunks.popleft()
            elif chunk.state.paused:
                self._chunks.rotate(-1)
            else:
                record = chunk.records[chunk.at]
                chunk.at += 1
                if chunk.at == len(chunk.records):
                    self._chunks.popleft()
                return record
        return None

    def take(self, max_records: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Remove and return at most `max_records` records."""
        result: dict[TopicPartition, list[ConsumerRecord]] = {}
        for _ in range(len(self._chunks)):
            chunk = self._chunks[0]
            if not self._is_current(chunk):
                self._chunks.popleft()
            elif chunk.state.paused:
                self._chunks.rotate(-1)
            elif max_records > 0:
                records = chunk.records[chunk.at : chunk.at + max_records]
                chunk.at += len(records)
                max_records -= len(records)
                result.setdefault(chunk.state.topic_partition, []).extend(records)
                if chunk.at == len(chunk.records):
                    self._chunks.popleft()
        return result

    def position(self, state: PartitionState) -> FetchPosition:
        """Return the position after the returned records of a partition that has a position."""
        assert state.position is not None
        for chunk in self._chunks:
            if chunk.state is state and self._is_current(chunk):
                following = chunk.records[chunk.at]
                return FetchPosition(following.offset, following.leader_epoch, state.position.leader_epoch)
        return state.position

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions to commit: those of all assigned partitions that have one."""
        result = {}
        for state in self._assigned:
            if state.position is not None and state.state in (
                FetchState.FETCHING,
                FetchState.AWAIT_VALIDATION,
            ):
                at = self.position(state)
                result[state.topic_partition] = OffsetAndMetadata(at.offset, "", at.offset_epoch)
        return result

    def _is_current(self, chunk: _Chunk) -> bool:
        state = chunk.state
        return chunk.generation == state.generation and self._assigned.get(state.topic_partition) is state
