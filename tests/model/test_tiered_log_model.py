"""A tiered log compared with a list of records and a dictionary as remote storage."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.log_checks import check_log
from tests.support.logs.partition_logs import all_records, batch, open_log
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.truncation import RemoteState
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

CONFIG = log_config(
    segment_bytes=400,
    index_interval_bytes=120,
    file_delete_delay_ms=0,
    remote_storage_enable=True,
    retention_ms=-1,
    local_retention_bytes=0,
)
PART = st.floats(0, 1)
RARELY = st.sampled_from([False, False, False, True])


def border_of(log: PartitionLog) -> tuple[int, int, int, list[EpochEntry]]:
    """Return the offsets that opening must restore; an epoch without records is not kept."""
    epochs = [entry for entry in log.leader_epochs.entries if entry.start_offset < log.log_end_offset]
    return log.log_start_offset, log.local_log_start_offset, log.log_end_offset, epochs


class TieredLogMachine(RuleBasedStateMachine):
    """A log whose records are copied, deleted locally, truncated and deleted in any order.

    `records` has epoch and value by offset in the log's lineage; `remote` has the copied records.
    """

    def __init__(self) -> None:
        super().__init__()
        self.disk = CrashFileSystem()
        self.log: PartitionLog = open_log(self.disk, CONFIG)
        self.records: dict[int, tuple[int, str]] = {}
        self.remote: dict[int, tuple[int, str]] = {}
        self.numbers = count()
        self.epoch = 0

    @property
    def is_tiered(self) -> bool:
        return self.log.remote_log_enabled

    @rule(values=st.integers(1, 3), is_committed=st.booleans(), is_sealed=st.booleans())
    def append(self, values: int, is_committed: bool, is_sealed: bool) -> None:
        texts = [f"{next(self.numbers)}{'x' * 40}" for _ in range(values)]
        info = self.log.append_as_leader(batch(texts), self.epoch, NOW_MS)
        for index, text in enumerate(texts):
            self.records[info.first_offset + index] = (self.epoch, text)
        if is_committed:
            self.log.advance_high_watermark(self.log.log_end_offset)
        if is_sealed:
            self.log.roll(NOW_MS)

    @rule()
    def commit(self) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)

    @precondition(lambda self: self.is_tiered)
    @rule(how_much=PART)
    def copy(self, how_much: float) -> None:
        """Copy complete committed segments and report it, possibly not all of them."""
        bases = [base for base in self.log.segments.base_offsets if base <= self.log.high_watermark]
        if not bases:
            return
        end = bases[int(how_much * (len(bases) - 1))]
        for offset in range(self.log.local_log_start_offset, end):
            self.remote[offset] = self.records[offset]
        self.log.remote_border.raise_highest_offset(max(end - 1, -1))

    @rule()
    def change_role(self) -> None:
        self.log.remote_border.forget()

    @rule()
    def retain(self) -> None:
        log, start = self.log, self.log.log_start_offset
        was_known, local_start = log.remote_border.is_remote_log_known, log.local_log_start_offset
        log.retention.apply(NOW_MS)
        if self.is_tiered and not log.config.remote_log_copy_disable:
            assert log.log_start_offset == start, "local retention leaves the log start where it is"
            if not was_known:
                assert log.local_log_start_offset == local_start

    @rule(how_far=PART)
    def delete_records(self, how_far: float) -> None:
        start, end = self.log.log_start_offset, self.log.high_watermark
        self.log.advance_log_start_offset(start + int(how_far * (end - start)))

    @precondition(lambda self: self.is_tiered)
    @rule(how_far=PART)
    def expire_remote(self, how_far: float) -> None:
        start, end = self.log.log_start_offset, self.log.local_log_start_offset
        target = start + int(how_far * (end - start))
        self.log.advance_log_start_offset_from_remote(target)
        self.remote = {offset: record for offset, record in self.remote.items() if offset >= target}

    @rule(how_far=PART)
    def truncate(self, how_far: float) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        self.log.truncate_to(start + int(how_far * (end - start)), NOW_MS, below_high_watermark=True)
        end = self.log.log_end_offset
        assert self.log.log_start_offset == min(start, end), "what is remote stays"
        self.records = {offset: record for offset, record in self.records.items() if offset < end}
        # Another lineage: copies beyond it do not belong to this log.
        self.remote = {offset: record for offset, record in self.remote.items() if offset < end}
        self.epoch += 1

    @precondition(lambda self: self.is_tiered)
    @rule(more=st.integers(0, 5), how_far=PART)
    def restart_from_remote(self, more: int, how_far: float) -> None:
        self.epoch += 1
        log = self.log
        start = log.log_start_offset + int(how_far * (log.log_end_offset - log.log_start_offset))
        end = log.log_end_offset + more
        for offset in range(log.log_end_offset, end):
            self.records[offset] = (self.epoch, f"of the leader {offset}")
        for offset in range(start, end):
            self.remote[offset] = self.records[offset]
        epochs = LeaderEpochCache.of(log.leader_epochs.entries)
        if more:
            epochs.assign(self.epoch, log.log_end_offset)
        log.restart_from_remote(
            RemoteState(
                log_start_offset=start,
                local_log_start_offset=end,
                leader_epochs=epochs.entries,
                producer_snapshot=None,
            ),
            NOW_MS,
        )
        assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (start, end, end)

    @rule(is_disabled=RARELY)
    def copying(self, is_disabled: bool) -> None:
        limits = -2 if is_disabled else 0
        config = replace(
            self.log.config,
            remote_log_copy_disable=is_disabled,
            local_retention_bytes=limits,
            retention_bytes=500 if is_disabled else -1,
        )
        self.log.update_config(config)

    @rule(is_disabled=RARELY)
    def tiering(self, is_disabled: bool) -> None:
        local_start = self.log.local_log_start_offset
        self.log.update_config(replace(self.log.config, remote_storage_enable=not is_disabled))
        if is_disabled:
            assert self.log.log_start_offset == local_start
            self.remote.clear()

    @rule(is_clean=st.booleans())
    def reopen(self, is_clean: bool) -> None:
        log = self.log
        log.close(clean=True, now_ms=NOW_MS)
        before = border_of(log)
        high_watermark = log.high_watermark
        self.log = open_log(
            self.disk,
            log.config,
            log_start_offset=log.log_start_offset,
            recovery_point=log.durability.recovery_point,
            clean=is_clean,
        )
        log = self.log
        assert border_of(log) == before
        log.advance_high_watermark(high_watermark)

    @invariant()
    def offsets_are_in_order(self) -> None:
        log = self.log
        assert log.log_start_offset <= log.local_log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.segments.first.base_offset <= log.local_log_start_offset
        assert log.highest_offset_in_remote_storage < log.log_end_offset
        if not self.is_tiered:
            assert log.log_start_offset == log.local_log_start_offset
            assert log.highest_offset_in_remote_storage == -1

    @invariant()
    def every_offset_is_local_or_in_remote_storage(self) -> None:
        log = self.log
        for offset in range(log.log_start_offset, log.local_log_start_offset):
            epoch, _ = self.records[offset]
            assert self.remote[offset] == self.records[offset]
            assert log.leader_epochs.epoch_for_offset(offset) == epoch
            try:
                log.read(offset, 1)
            except KafkaError as error:
                assert error.code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
            else:
                raise AssertionError(f"offset {offset} was read below the local start")
        local_values = {
            record.offset: (record.value or b"").decode()
            for record in all_records(log, log.local_log_start_offset)
            if record.offset >= log.local_log_start_offset
        }
        local_offsets = range(log.local_log_start_offset, log.log_end_offset)
        assert local_values == {offset: self.records[offset][1] for offset in local_offsets}

    @invariant()
    def offsets_reported_as_remote_are_in_remote_storage(self) -> None:
        log = self.log
        for offset in range(log.log_start_offset, log.highest_offset_in_remote_storage + 1):
            assert self.remote.get(offset) == self.records[offset], offset

    def teardown(self) -> None:
        check_log(self.log)


TestTieredLog = TieredLogMachine.TestCase
TestTieredLog.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
