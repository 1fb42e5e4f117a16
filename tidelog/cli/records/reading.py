"""The start offsets and the end conditions of a consumer on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.base.count_text import count_text
from tidelog.cli.failures import UsageFailure, complain
from tidelog.cli.records.offset_choice import OffsetChoice, Start
from tidelog.clients.consumer.consumer import Consumer
from tidelog.clients.consumer.consumer_types import ConsumerRecord
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition

# Long enough for the metadata of a topic that was just created.
EXISTENCE_TIMEOUT_MS: Final = 1_000


async def wait_for_topics(consumer: Consumer, topics: Iterable[str]) -> None:
    """Wait until all topics exist; print a line for each topic that does not exist yet."""
    for topic in dict.fromkeys(topics):
        is_reported = False
        while not await _exists(consumer, topic):
            if not is_reported:
                complain(f"topic {topic!r} does not exist; waiting until it is created")
            is_reported = True


async def _exists(consumer: Consumer, topic: str) -> bool:
    try:
        await consumer.partitions_for(topic, EXISTENCE_TIMEOUT_MS)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return False
        if error.code is not ErrorCode.REQUEST_TIMED_OUT:
            raise
        # The brokers did not respond in this short time: they get the usual one.
        await consumer.partitions_for(topic)
    return True


async def topics_partitions(
    consumer: Consumer, topics: Iterable[str], numbers: Sequence[int]
) -> list[TopicPartition]:
    """Return the partitions of the topics, or only `numbers` of each; KafkaError if one is missing."""
    partitions: list[TopicPartition] = []
    for topic in dict.fromkeys(topics):
        existing = sorted(await consumer.partitions_for(topic))
        for number in numbers:
            if number not in existing:
                count = count_text(len(existing), "partition")
                raise UsageFailure(f"topic {topic!r} has no partition {number}: it has {count}")
        partitions += [TopicPartition(topic, number) for number in (sorted(set(numbers)) or existing)]
    return partitions


async def start_at(consumer: Consumer, assignment: Sequence[TopicPartition], choice: OffsetChoice) -> None:
    """Seek each assigned partition to the offset of `choice`.

    A partition that ends before the offset is read from its end. Raise UsageFailure if all of them do.
    """
    beginnings = await consumer.beginning_offsets(assignment)
    ends = await consumer.end_offsets(assignment)
    last_end = max(ends.values(), default=0)
    if choice.start is Start.OFFSET and choice.number > last_end:
        raise UsageFailure(f"offset {choice.number} is after the end offset {last_end}")
    at_times: dict[TopicPartition, Offset | None] = dict.fromkeys(assignment)
    if choice.start is Start.TIMESTAMP:
        offsets = await consumer.offsets_for_times(dict.fromkeys(assignment, choice.number))
        at_times = {
            partition: None if position is None else position.offset
            for partition, position in offsets.items()
        }
    for partition in assignment:
        consumer.seek(partition, choice.resolve(beginnings[partition], ends[partition], at_times[partition]))


class Bounds:
    """When to stop reading; each condition is optional.

    After `count` records, before a timestamp, at the end, or when no record arrives for `idle_ms`.

    Invariant: `_done` has the partitions of which no more records are read.
    """

    def __init__(
        self, *, count: int | None, stop_at_timestamp: int | None, at_end: bool, idle_ms: int | None = None
    ) -> None:
        self._left = count
        self._idle_ms_max = idle_ms
        self._idle_ms = 0
        self._stop_at_timestamp = stop_at_timestamp
        self.at_end = at_end
        self._ends: dict[TopicPartition, Offset] = {}
        self._done: set[TopicPartition] = set()
        self._excess: dict[TopicPartition, Offset] = {}

    async def fetch_ends(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """Fetch the end offsets of new partitions, at which reading stops."""
        new = [partition for partition in partitions if partition not in self._ends]
        if self.at_end and new:
            self._ends |= await consumer.end_offsets(new)

    def records_left(self, most: int) -> int:
        """Return how many records the next poll may return."""
        return most if self._left is None else min(most, self._left)

    def take(self, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        """Return the records of one poll that are within the bounds."""
        count = len(records)
        end, limit = self._ends.get(partition), self._stop_at_timestamp
        if partition in self._done:
            count = 0
        elif limit is not None or (end is not None and records[-1].offset >= end):
            count = next(
                (index for index, record in enumerate(records) if _is_beyond(record, end, limit)), count
            )
        if count < len(records):
            self._done.add(partition)
            self._excess[partition] = records[count].offset
        if self._left is not None:
            self._left -= count
        return records[:count]

    def rewind(self, consumer: Consumer) -> None:
        """Seek back before polled records that are outside the bounds, so that they are not committed."""
        for partition, offset in self._excess.items():
            consumer.seek(partition, offset)
            consumer.pause(partition)
        self._excess.clear()

    def on_poll(self, has_records: bool, waited_ms: int) -> None:
        """Record a poll, which waited this time if it returned no records."""
        self._idle_ms = 0 if has_records else self._idle_ms + waited_ms

    async def are_reached(self, consumer: Consumer) -> bool:
        """Return whether no more records are read."""
        if self._left == 0 or (self._idle_ms_max is not None and self._idle_ms >= self._idle_ms_max):
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
