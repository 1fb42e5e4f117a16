"""The metadata topic in memory, for managers of remote log metadata that share it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.log_ports import LogBounds, LogRecord, MetadataTopic, ReadRecords


class MemoryTopic(MetadataTopic):
    """A topic in memory with faults that the test sets.

    `is_down`: all calls fail. `is_held`: readers get no records. `is_broken`: readers raise AssertionError.
    `lacks_brokers`: the topic cannot be created yet. `wrong`: `ensure` raises this error.
    `starts_over`: a position after the end is read from the start. `attempts` counts the calls of `ensure`,
    `refused` all calls while the topic is down, and `read_count` the returned records by partition.
    `fetching` has the partitions that each open reader fetches.
    """

    def __init__(self, partitions: int) -> None:
        self.logs: list[list[bytes]] = [[] for _ in range(partitions)]
        self.starts = [0] * partitions
        self.is_down = False
        self.lacks_brokers = False
        self.attempts = 0
        self.refused = 0
        self.wrong: Exception | None = None
        self.read_count = [0] * partitions
        self.openings = 0
        self.is_held = False
        self.is_broken = False
        self.starts_over = False
        self.fetching: dict[MemoryReader, frozenset[int]] = {}
        self._arrived = asyncio.Event()

    async def ensure(self) -> None:
        self.attempts += 1
        self.require_up()
        if self.lacks_brokers:
            text = "replication factor 3 needs more than the 1 broker(s) there are"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        if self.wrong is not None:
            raise self.wrong

    async def open_writer(self) -> MemoryWriter:
        self.require_up()
        return MemoryWriter(self)

    async def open_reader(self) -> MemoryReader:
        self.require_up()
        self.openings += 1
        return MemoryReader(self)

    def require_up(self) -> None:
        if self.is_down:
            self.refused += 1
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the topic is down")

    def put(self, partition: int, value: bytes) -> Offset:
        self.logs[partition].append(value)
        self._arrived.set()
        return len(self.logs[partition]) - 1

    async def arrival(self, max_wait_ms: int) -> None:
        self._arrived.clear()
        try:
            async with asyncio.timeout(max_wait_ms / 1000):
                await self._arrived.wait()
        except TimeoutError:
            pass


class MemoryWriter:
    """Appends at once."""

    def __init__(self, topic: MemoryTopic) -> None:
        self._topic = topic

    async def append(self, metadata_partition: int, value: bytes) -> Offset:
        self._topic.require_up()
        offset = self._topic.put(metadata_partition, value)
        await asyncio.sleep(0)  # a reader may get the record before the writer gets its offset
        return offset

    async def close(self) -> None:
        pass


class MemoryReader:
    """Returns at most three records of a metadata partition at a time."""

    def __init__(self, topic: MemoryTopic) -> None:
        self._topic = topic

    async def bounds(self, metadata_partitions: Sequence[int]) -> dict[int, LogBounds]:
        self._topic.require_up()
        return {
            number: LogBounds(self._topic.starts[number], len(self._topic.logs[number]))
            for number in metadata_partitions
        }

    async def read(self, positions: Mapping[int, Offset], max_wait_ms: int) -> list[ReadRecords]:
        topic = self._topic
        topic.fetching[self] = frozenset(positions)
        for is_last in (False, True):
            topic.require_up()
            assert not topic.is_broken
            batches = []
            for number, position in positions.items() if not topic.is_held else ():
                first = max(position, topic.starts[number])
                if topic.starts_over and first > len(topic.logs[number]):
                    first = topic.starts[number]
                values = topic.logs[number][first : first + 3]
                if values:
                    records = [LogRecord(first + index, value) for index, value in enumerate(values)]
                    topic.read_count[number] += len(values)
                    batches.append(ReadRecords(number, records, first + len(values)))
            if batches or is_last:
                await asyncio.sleep(0)
                return batches
            await topic.arrival(max_wait_ms)
        return []

    def stop_fetching(self) -> None:
        self._topic.fetching.pop(self, None)

    async def close(self) -> None:
        self.stop_fetching()
