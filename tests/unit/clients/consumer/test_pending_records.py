from __future__ import annotations

from tidelog.clients.consumer.consumer_types import ConsumerRecord, FetchPosition, TimestampType
from tidelog.clients.consumer.partition_state import AssignedPartitions, PartitionState
from tidelog.clients.consumer.pending_records import PendingRecords
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.protocol.ids import TopicPartition

P0, P1 = TopicPartition("tides", 0), TopicPartition("tides", 1)


def record(partition: TopicPartition, offset: int) -> ConsumerRecord:
    kind = TimestampType.CREATE_TIME
    return ConsumerRecord(partition.topic, partition.partition, offset, 0, kind, None, b"", (), 4)


class PendingRecordsFixture:
    def __init__(self) -> None:
        self.assigned = AssignedPartitions()
        self.assigned.set([P0, P1])
        self.pending = PendingRecords(self.assigned)
        for partition in (P0, P1):
            self.state(partition).seek(FetchPosition(0), 4)

    def state(self, partition: TopicPartition) -> PartitionState:
        state = self.assigned.get(partition)
        assert state is not None
        return state

    def fetch(self, partition: TopicPartition, *offsets: int) -> None:
        """Add records as the fetcher does, and advance the position beyond them."""
        self.pending.add([(self.state(partition), [record(partition, offset) for offset in offsets])])
        self.state(partition).advance(offsets[-1] + 1, 4)

    def next_offset(self) -> int | None:
        following = self.pending.next()
        return None if following is None else following.offset


def test_positions_count_returned_and_not_fetched_records() -> None:
    fixture = PendingRecordsFixture()
    fixture.fetch(P0, 0, 1, 2)
    assert fixture.pending.positions()[P0] == OffsetAndMetadata(0, "", 4)
    assert [fixture.next_offset(), fixture.next_offset()] == [0, 1]
    assert fixture.pending.positions()[P0].offset == 2
    assert fixture.next_offset() == 2
    assert fixture.pending.positions()[P0].offset == 3
    assert fixture.next_offset() is None


def test_a_seek_discards_buffered_records() -> None:
    fixture = PendingRecordsFixture()
    fixture.fetch(P0, 0, 1, 2)
    fixture.next_offset()
    fixture.state(P0).seek(FetchPosition(50), 4)
    assert fixture.next_offset() is None
    assert fixture.pending.positions()[P0].offset == 50


def test_buffered_records_of_a_revoked_partition_are_not_returned() -> None:
    fixture = PendingRecordsFixture()
    fixture.fetch(P0, 0, 1)
    fixture.assigned.set([P1])
    fixture.assigned.set([P0, P1])
    assert fixture.next_offset() is None
    assert P0 not in fixture.pending.positions()


def test_buffered_records_of_a_paused_partition_are_kept_while_others_continue() -> None:
    fixture = PendingRecordsFixture()
    fixture.fetch(P0, 0)
    fixture.fetch(P1, 7)
    fixture.state(P0).paused = True
    assert [fixture.next_offset(), fixture.next_offset()] == [7, None]
    fixture.state(P0).paused = False
    assert fixture.next_offset() == 0


def test_remaining_records_are_returned_at_once_up_to_the_limit() -> None:
    fixture = PendingRecordsFixture()
    fixture.fetch(P0, 0, 1, 2)
    fixture.fetch(P1, 7, 8)
    fixture.next_offset()
    first = fixture.pending.take(3)
    assert {partition: [r.offset for r in records] for partition, records in first.items()} == {
        P0: [1, 2],
        P1: [7],
    }
    assert fixture.pending.positions()[P1].offset == 8
    assert [r.offset for r in fixture.pending.take(3)[P1]] == [8]
    assert fixture.pending.take(3) == {}


def test_partitions_without_a_position_are_not_committed() -> None:
    fixture = PendingRecordsFixture()
    fixture.state(P1).await_reset(-2)
    assert list(fixture.pending.positions()) == [P0]
