"""`__consumer_offsets` in memory, in real record batches, with commits that can be held back or fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.state_log import AppendedRecords
from tidelog.protocol.batch import read_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode, KafkaError


class MemoryStateLog:
    """Partitions as lists of batches.

    `append_error`: appends fail with this error. `holds_commits`: appends wait for `commit_all` or
    `fail_commits`. `read_gate`: reads wait for this event. `uncommitted`: the batches of these partitions
    are committed when the event is set. `is_cut_off`: no follower has fetched recently. `is_succeeded`:
    another node is the leader, although followers have fetched from this one. `lost`: the error of every
    access, as after the failure of a disk.
    """

    def __init__(self, partition_count: int = 3) -> None:
        self.batches: dict[int, list[bytes]] = {index: [] for index in range(partition_count)}
        self.append_error: ErrorCode | None = None
        self.largest_batch_bytes = 2**31
        self.read_error: Exception | None = None
        self.read_gate: asyncio.Event | None = None
        self.uncommitted: dict[int, asyncio.Event] = {}
        self.holds_commits = False
        self.held: list[asyncio.Future[None]] = []
        self.chunk_batches = 1
        self.is_cut_off = False
        self.is_succeeded = False
        self.lost: ErrorCode | None = None

    def partition_count(self) -> int:
        return len(self.batches)

    def is_likely_leader(self, partition: int) -> bool:
        self._check_here()
        return not self.is_cut_off

    def _check_here(self) -> None:
        if self.lost is not None:
            raise KafkaError(self.lost, "the log is lost")

    async def confirm_leadership(self, partition: int) -> None:
        self._check_here()
        if self.is_succeeded:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another node leads")

    def end_offset(self, partition: int) -> int:
        batches = self.batches[partition]
        return read_header(batches[-1]).next_offset if batches else 0

    def batch_bytes_max(self, partition: int) -> int:
        self._check_here()
        return self.largest_batch_bytes

    def check_size(self, partition: int, size_bytes: int) -> None:
        self._check_here()
        if size_bytes > self.largest_batch_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{size_bytes} bytes")

    def append(self, partition: int, encoded: EncodedRecords) -> AppendedRecords:
        self._check_here()
        if self.append_error is not None:
            raise KafkaError(self.append_error, "defined by the test")
        self.check_size(partition, encoded.size_bytes)
        base_offset = self.end_offset(partition)
        builder = BatchBuilder(base_offset=base_offset)
        for key, value in encoded.records:
            builder.append(1, key, value)
        self.batches[partition].append(bytes(builder.build()))
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.holds_commits:
            self.held.append(committed)
        else:
            committed.set_result(None)
        return AppendedRecords(base_offset, committed)

    def append_batch(self, partition: int, builder: Callable[[int], BatchBuilder]) -> None:
        """Append the batch that `builder` builds for the next offset, as another producer."""
        self.batches[partition].append(bytes(builder(self.end_offset(partition)).build()))

    def commit_all(self) -> None:
        held, self.held = self.held, []
        for committed in held:
            committed.set_result(None)

    def fail_commits(self, error: ErrorCode) -> None:
        held, self.held = self.held, []
        for committed in held:
            committed.set_exception(KafkaError(error))

    async def read(self, partition: int) -> AsyncIterator[bytes | memoryview]:
        if self.read_gate is not None:
            await self.read_gate.wait()
        if self.read_error is not None:
            raise self.read_error
        batches = list(self.batches[partition])
        for start in range(0, len(batches), self.chunk_batches):
            yield b"".join(batches[start : start + self.chunk_batches])

    async def wait_until_committed(self, partition: int, end_offset: int) -> None:
        if partition in self.uncommitted:
            await self.uncommitted[partition].wait()
