"""A partition log compared with a list of batches: appends, rolls, truncations, deletions and crashes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.log_checks import check_log
from tests.support.logs.partition_logs import append_marker, batch, end_marker, open_log
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.compression import Compression
from tidelog.protocol.record import read_records
from tidelog.protocol.steps import run_steps
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

CONFIG = log_config(
    segment_bytes=700,
    index_interval_bytes=150,
    retention_bytes=1_500,
    retention_ms=-1,
    file_delete_delay_ms=0,
)
MARKER_BYTES = len(end_marker(2))
PART = st.floats(0, 1)
Row = tuple[int, int, str]
"""Offset, timestamp and value of a record."""


@dataclass
class ModelBatch:
    """A batch in the model's list."""

    base_offset: int
    rows: list[Row]
    size_bytes: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.rows)


@pytest.fixture(autouse=True)
def quiet_storage() -> Iterator[None]:
    """Silence the warnings of thousands of repaired logs; other tests check the warnings."""
    logger = logging.getLogger("tidelog.storage")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


class LogMachine(RuleBasedStateMachine):
    """Performs the same operations on the log and the list, and compares what readers get."""

    disk: CrashFileSystem
    log: PartitionLog

    @initialize()
    def open(self) -> None:
        self.disk = CrashFileSystem()
        self.log = open_log(self.disk, CONFIG)
        self.batches: list[ModelBatch] = []
        self.log_start = 0
        self.log_end = 0
        self.numbers = count()
        self.leader_epoch = 0
        self.sequences: dict[int, int] = {}
        self.last_sent: tuple[bytes, int] | None = None
        self.open_transaction_start: int | None = None

    def rows(self) -> list[Row]:
        return [row for model_batch in self.batches for row in model_batch.rows if row[0] >= self.log_start]

    # -- changes

    @rule(
        sizes=st.lists(st.integers(0, 90), min_size=1, max_size=5),
        lateness=st.integers(-50, 50),
        codec=st.sampled_from(list(Compression)),
        producer_id=st.sampled_from([-1, -1, 1, 2]),
    )
    def append(self, sizes: list[int], lateness: int, codec: Compression, producer_id: int) -> None:
        values = [f"{next(self.numbers)}{'x' * size}" for size in sizes]
        timestamps = [NOW_MS + self.log_end + lateness - index for index in range(len(values))]
        data = batch(
            values,
            timestamps=timestamps,
            compression=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id > 0 else -1,
            base_sequence=self.sequences.get(producer_id, 0) if producer_id > 0 else -1,
            is_transactional=producer_id == 2,
        )
        sent = bytes(data)
        info = self.log.append_as_leader(data, self.leader_epoch, NOW_MS)
        assert (info.first_offset, info.is_duplicate) == (self.log_end, False)
        self.remember(list(zip(timestamps, values, strict=True)), info.size_bytes)
        if producer_id > 0:
            self.sequences[producer_id] = self.sequences.get(producer_id, 0) + len(values)
            self.last_sent = (sent, info.first_offset)
        if producer_id == 2 and self.open_transaction_start is None:
            self.open_transaction_start = info.first_offset

    def remember(self, rows: list[tuple[int, str]], size_bytes: int) -> None:
        numbered = [(self.log_end + index, *row) for index, row in enumerate(rows)]
        self.batches.append(ModelBatch(self.log_end, numbered, size_bytes))
        self.log_end += len(rows)
        self.log.advance_high_watermark(self.log_end)

    @precondition(lambda self: self.last_sent is not None)
    @rule()
    def send_again(self) -> None:
        assert self.last_sent is not None
        data, first_offset = self.last_sent
        info = self.log.append_as_leader(bytearray(data), self.leader_epoch, NOW_MS)
        assert (info.first_offset, info.is_duplicate) == (first_offset, True)

    @precondition(lambda self: self.open_transaction_start is not None)
    @rule(is_abort=st.booleans())
    def end_transaction(self, is_abort: bool) -> None:
        append_marker(self.log, 2, is_abort=is_abort, leader_epoch=self.leader_epoch)
        self.remember([(NOW_MS, "")], MARKER_BYTES)
        self.open_transaction_start = None

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        self.log.flush(NOW_MS)
        assert self.log.durability.recovery_point == self.log_end

    @rule(part=PART)
    def truncate(self, part: float) -> None:
        target = self.log_start + round(part * (self.log_end - self.log_start))
        self.log.truncate_to(target, NOW_MS, below_high_watermark=True)
        self.truncate_model(target)
        self.leader_epoch += 1

    def truncate_model(self, end: int) -> None:
        """Remove batches that extend beyond `end`."""
        self.batches = [model_batch for model_batch in self.batches if model_batch.next_offset <= end]
        self.log_end = min(self.log_end, end)
        if self.batches:
            self.log_end = min(self.log_end, self.batches[-1].next_offset)
        elif self.log.segments.first.base_offset <= end:
            self.log_end = self.log.log_end_offset
        self.log_start = min(self.log_start, self.log_end)
        self.follow_producers()

    def follow_producers(self) -> None:
        producers = self.log.producers.producers
        self.sequences = {key: entry.last_sequence + 1 for key, entry in producers.items()}
        self.last_sent = None
        self.open_transaction_start = producers[2].transaction_first_offset if 2 in producers else None

    @rule(part=PART)
    def delete_records(self, part: float) -> None:
        target = self.log_start + round(part * (self.log_end - self.log_start))
        self.log.advance_log_start_offset(target)
        self.log_start = max(self.log_start, target)

    @rule()
    def retain(self) -> None:
        self.log.retention.apply(NOW_MS)
        self.log.retention.delete_expired_files(NOW_MS)
        assert self.log.log_start_offset >= self.log_start
        assert self.log.log_start_offset in [self.log_start, *self.log.segments.base_offsets]
        assert self.log.size_bytes <= CONFIG.retention_bytes + CONFIG.segment_bytes
        self.log_start = self.log.log_start_offset

    @rule()
    def restart(self) -> None:
        self.log.close(clean=True, now_ms=NOW_MS)
        self.log = open_log(self.disk, CONFIG, log_start_offset=self.log_start, clean=True)
        self.log.advance_high_watermark(self.log_end)
        if self.log_start:  # as in Kafka, a snapshot at or below the log start is not used
            self.follow_producers()

    @rule(part=PART, zeros=st.booleans())
    def crash_and_lose_a_part_of_the_tail(self, part: float, zeros: bool) -> None:
        active = self.log.segments.active
        flushed = active.position_of(max(self.log.durability.recovery_point, active.base_offset))
        size = flushed + round(part * (active.size_bytes - flushed))
        written = active.file.pread(active.size_bytes, 0)
        while zeros and size < len(written) and written[size] == 0:
            size += 1  # a zero replaced by a zero is no loss: a batch may end with zeros
        end = active.base_offset
        for position, header in active.batches():
            if position + header.size_bytes <= size:
                end = header.next_offset
        lost = active.size_bytes - size
        active.file.truncate(size)
        if zeros:
            active.file.append(bytes(lost))
        recovery_point = self.log.durability.recovery_point
        self.log.close(clean=False)
        self.log = open_log(
            self.disk, CONFIG, recovery_point=recovery_point, log_start_offset=self.log_start, clean=False
        )
        if end < self.log_start:  # everything that readers could get is deleted
            end = self.log_start
            self.batches = []
        self.truncate_after_crash(end)

    def truncate_after_crash(self, end: int) -> None:
        self.batches = [model_batch for model_batch in self.batches if model_batch.next_offset <= end]
        self.log_end = end
        self.log.advance_high_watermark(end)
        self.follow_producers()

    # -- comparisons

    @rule(part=PART, max_bytes=st.integers(0, 900), limit=st.floats(0, 1), at_least_one=st.booleans())
    def read(self, part: float, max_bytes: int, limit: float, at_least_one: bool) -> None:
        offset = self.log_start + round(part * (self.log_end - self.log_start))
        upper_bound = self.log_start + round(limit * (self.log_end - self.log_start))
        expected_sizes = [b.size_bytes for b in self.batches if offset < b.next_offset <= upper_bound]
        assert self.log.readable_bytes(offset, upper_bound) == sum(expected_sizes)
        result = self.log.read(offset, max_bytes, upper_bound=upper_bound, at_least_one=at_least_one)
        readable = [b for b in self.batches if b.next_offset > offset and b.next_offset <= upper_bound]
        if result.records is None:
            assert not readable or not at_least_one
            return
        data = result.records.read()
        headers = [header for _, header in iterate_headers(data)]
        assert headers[0].base_offset == readable[0].base_offset
        assert [header.base_offset for header in headers] == [b.base_offset for b in readable[: len(headers)]]
        assert len(data) <= max_bytes or len(headers) == 1
        rows = [
            (record.offset, record.timestamp, (record.value or b"").decode())
            for position, header in iterate_headers(data)
            if not header.is_control
            for record in read_records(data, position, header)
        ]
        expected = [row for model_batch in readable[: len(headers)] for row in model_batch.rows if row[2]]
        assert rows == expected

    @rule(timestamp=st.integers(NOW_MS - 60, NOW_MS + 200))
    def look_up_timestamp(self, timestamp: int) -> None:
        record = run_steps(self.log.timestamps.first_record_from(timestamp))
        expected = next((row for row in self.rows() if row[1] >= timestamp), None)
        assert (record and (record.offset, record.timestamp)) == (expected and expected[:2])

    @invariant()
    def offsets_agree(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.log_start, self.log_end)
        expected = self.log_end if self.open_transaction_start is None else self.open_transaction_start
        assert log.last_stable_offset == max(expected, self.log_start)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            check_log(self.log)


TestLogModel = LogMachine.TestCase
TestLogModel.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
