"""Compaction compared with a naive model: the last committed record of each key, after events in any order.

After every event the records that readers get are checked: no latest record is missing, all records were
appended, and offsets increase.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.compaction import COMPACTED, append_keyed, compact, latest_of, read_log, roll
from tests.support.logs.log_checks import check_indexes, check_offsets
from tests.support.logs.partition_logs import append_marker, open_log
from tidelog.protocol.compression import Compression
from tidelog.protocol.record import Record, read_records
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

CONFIG = replace(COMPACTED, index_interval_bytes=100, segment_bytes=1500, delete_retention_ms=10)
KEYS = st.sampled_from(["a", "b", "long " * 20])
VALUES = st.one_of(st.none(), st.text("xyz", max_size=30))
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5)
CODECS = st.sampled_from([Compression.NONE, Compression.NONE, Compression.GZIP, Compression.ZSTD])
PRODUCERS = (11, 12)


class CompactionModel(RuleBasedStateMachine):
    """One log; `written` has every record by offset, `aborted` are offsets of aborted transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = CrashFileSystem()
        self.log: PartitionLog = open_log(self.disk, CONFIG)
        self.written: dict[int, tuple[int, bytes, bytes | None]] = {}
        self.open: dict[int, list[int]] = {}
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.aborted: set[int] = set()
        self.now_ms = NOW_MS

    def _write(self, records: list[tuple[str, str | None]], **options: Any) -> list[int]:
        timestamps = [NOW_MS + self.log.log_end_offset * 7 + delta * 3 for delta in range(len(records))]
        first = append_keyed(self.log, *records, timestamps=timestamps, **options)
        for delta, (key, value) in enumerate(records):
            encoded = None if value is None else value.encode()
            self.written[first + delta] = (timestamps[delta], key.encode(), encoded)
        return list(range(first, first + len(records)))

    @rule(records=RECORDS, codec=CODECS, seals=st.booleans())
    def append(self, records: list[tuple[str, str | None]], codec: Compression, seals: bool) -> None:
        self._write(records, compression=codec)
        if seals:
            self.seal()

    @rule(records=RECORDS, producer_id=st.sampled_from(PRODUCERS), seals=st.booleans())
    def append_in_transaction(
        self, records: list[tuple[str, str | None]], producer_id: int, seals: bool
    ) -> None:
        offsets = self._write(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.sequences[producer_id],
            is_transactional=True,
        )
        self.sequences[producer_id] += len(records)
        self.open.setdefault(producer_id, []).extend(offsets)
        if seals:
            self.seal()

    @precondition(lambda self: self.open)
    @rule(is_abort=st.booleans(), data=st.data())
    def end_transaction(self, is_abort: bool, data: st.DataObject) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.open)))
        append_marker(self.log, producer_id, is_abort=is_abort)
        offsets = self.open.pop(producer_id)
        if is_abort:
            self.aborted.update(offsets)

    @rule()
    def seal(self) -> None:
        roll(self.log, self.now_ms)

    @rule(passed_ms=st.sampled_from([1, 20]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(key_count_max=st.sampled_from([1, 2, 1000]), again=st.booleans())
    def clean(self, key_count_max: int, again: bool) -> None:
        if again:
            self.log.set_first_dirty_offset(None)
        if len(self.log.segments) > 1 and self._has_cleanable():
            compact(self.log, self.now_ms, key_count_max=key_count_max, io_buffer_bytes=300)

    def _has_cleanable(self) -> bool:
        end = self.log.segments.higher(self.log.segments.first.base_offset)
        return end is not None and end.base_offset <= min(
            self.log.last_stable_offset, self.log.durability.recovery_point
        )

    @rule(clean=st.booleans())
    def open_again(self, clean: bool) -> None:
        dirty = self.log.first_dirty_offset
        self.log.close(clean=True, now_ms=self.now_ms)
        self.log = open_log(self.disk, CONFIG, now_ms=self.now_ms, clean=clean)
        self.log.set_first_dirty_offset(dirty)
        if not clean:
            self.log.flush(self.now_ms)
        self.log.advance_high_watermark(self.log.log_end_offset)

    @invariant()
    def readers_get_the_latest_committed_records(self) -> None:
        for committed in (True, False):
            self._check(read_log(self.log, committed=committed), committed)

    def _check(self, records: list[Record], committed: bool) -> None:
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        assert all(
            self.written[record.offset] == (record.timestamp, record.key, record.value) for record in records
        )
        if committed:
            assert not self.aborted.intersection(offsets)
        end = self.log.last_stable_offset if committed else self.log.high_watermark
        expected: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, (_, key, value) in self.written.items():
            if offset < end and offset not in self.aborted:
                expected[key] = (offset, value)
        latest = latest_of(record for record in records if record.offset not in self.aborted)
        for key, (offset, value) in expected.items():
            # A tombstone may be removed together with all records of its key.
            assert latest.get(key, (offset, None)) == (offset, value)

    @invariant()
    def files_agree(self) -> None:
        segments = list(self.log.segments)
        for segment in segments:
            check_indexes(segment, is_sealed=segment is not segments[-1])
            for position, header in segment.batches():
                records = read_records(segment.file.pread(header.size_bytes, position))
                assert not records or header.max_timestamp == max(one.timestamp for one in records)
        check_offsets(self.log)

    @invariant()
    def sequences_survive(self) -> None:
        for producer_id, next_sequence in self.sequences.items():
            if next_sequence:
                assert self.log.producers.producers[producer_id].last_sequence == next_sequence - 1


TestCompactionModel = CompactionModel.TestCase
TestCompactionModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
