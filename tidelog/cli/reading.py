"""Where a consumer of the command line begins, and how it knows that it is done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.cli.failures import UsageFailure
from tidelog.cli.offset_choice import OffsetChoice, Start
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.protocol.ids import Offset, TopicPartition


async def topics_partitions(
    consumer: Consumer, topics: Iterable[str], numbers: Sequence[int]
) -> list[TopicPartition]:
    """The partitions of the topics, only `numbers` if any are given; KafkaError for a missing topic."""
    found: list[TopicPartition] = []
    for topic in dict.fromkeys(topics):
        known = sorted(await consumer.partitions_for(topic))
        for number in numbers:
            if number not in known:
                raise UsageFailure(f"topic {topic!r} has no partition {number}, only {len(known)}")
        found += [TopicPartition(topic, number) for number in (sorted(set(numbers)) or known)]
    return found


async def start_at(consumer: Consumer, assigned: Sequence[TopicPartition], choice: OffsetChoice) -> None:
    """Seek every assigned partition to where `choice` says.

    A partition that ends before the offset is read from its end on; UsageFailure when all of them do.
    """
    beginnings = await consumer.beginning_offsets(assigned)
    ends = await consumer.end_offsets(assigned)
    last_end = max(ends.values(), default=0)
    if choice.start is Start.OFFSET and choice.number > last_end:
        raise UsageFailure(f"offset {choice.number} is behind the end, {last_end}")
    at_times: dict[TopicPartition, Offset | None] = dict.fromkeys(assigned)
    if choice.start is Start.TIMESTAMP:
        found = await consumer.offsets_for_times(dict.fromkeys(assigned, choice.number))
        at_times = {partition: None if at is None else at.offset for partition, at in found.items()}
    for partition in assigned:
        consumer.seek(partition, choice.resolve(beginnings[partition], ends[partition], at_times[partition]))


class Bounds:
    """When to stop: after `count` records, before a timestamp, at the end; each may be absent.

    Invariant: `_done` holds partitions of which nothing more is wanted.
    """

    def __init__(self, *, count: int | None, stop_at_timestamp: int | None, at_end: bool) -> None:
        self._left = count
        self._stop_at_timestamp = stop_at_timestamp
        self._at_end = at_end
        self._ends: dict[TopicPartition, Offset] = {}
        self._done: set[TopicPartition] = set()
        self._unwanted: dict[TopicPartition, Offset] = {}

    async def learn_ends(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """Take the present ends of partitions that are new as their ends."""
        new = [partition for partition in partitions if partition not in self._ends]
        if self._at_end and new:
            self._ends |= await consumer.end_offsets(new)

    def records_left(self, most: int) -> int:
        """How many records the next poll may give."""
        return most if self._left is None else min(most, self._left)

    def take(self, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        """Those of the partition's next records that are within the bounds."""
        wanted = len(records)
        end, limit = self._ends.get(partition), self._stop_at_timestamp
        if partition in self._done:
            wanted = 0
        elif limit is not None or (end is not None and records[-1].offset >= end):
            wanted = next(
                (index for index, record in enumerate(records) if _is_beyond(record, end, limit)), wanted
            )
        if wanted < len(records):
            self._done.add(partition)
            self._unwanted[partition] = records[wanted].offset
        if self._left is not None:
            self._left -= wanted
        return records[:wanted]

    def give_back(self, consumer: Consumer) -> None:
        """Go back before records that were handed out but are not wanted, so as not to commit them."""
        for partition, offset in self._unwanted.items():
            consumer.seek(partition, offset)
            consumer.pause(partition)
        self._unwanted.clear()

    async def reached(self, consumer: Consumer) -> bool:
        """Whether nothing more is wanted."""
        if self._left == 0:
            return True
        assigned = consumer.assignment()
        if not assigned:
            return False
        for partition in assigned:
            if partition in self._done:
                continue
            end = self._ends.get(partition)
            if end is None or await consumer.position(partition) < end:
                return False
            self._done.add(partition)
        return True


def _is_beyond(record: ConsumerRecord, end: Offset | None, timestamp: int | None) -> bool:
    return (end is not None and record.offset >= end) or (
        timestamp is not None and record.timestamp >= timestamp
    )
