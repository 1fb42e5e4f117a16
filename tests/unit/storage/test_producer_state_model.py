"""Producer state compared with a model that keeps every batch and derives the state from them."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.batches.producer_headers import data_header, marker_header
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.transaction_marker import EndTransactionMarker
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

producer_ids = st.integers(1, 3)


class Written(NamedTuple):
    """A batch in the model's log."""

    offset: int
    header: BatchHeader
    marker: EndTransactionMarker | None

    @property
    def end(self) -> int:
        return self.offset + self.header.last_offset_delta + 1


class ProducersOfOneLog(RuleBasedStateMachine):
    """Compares the product's state in `self.real` with a model, the list `self.log`."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = CrashFileSystem()
        self.disk.makedirs("/t-0")
        self.real = self.restart()
        self.log: list[Written] = []
        self.high_watermark = 0
        self.loaded_from = 0

    def restart(self) -> ProducerStateManager:
        return ProducerStateManager(TopicPartition("t", 0), self.disk, "/t-0", 1_000_000)

    # -- derived from the log

    @property
    def end(self) -> int:
        return self.log[-1].end if self.log else 0

    def of(self, producer_id: int) -> list[Written]:
        return [one for one in self.log if one.header.producer_id == producer_id]

    def epoch(self, producer_id: int) -> int:
        own = self.of(producer_id)
        return own[-1].header.producer_epoch if own else -1

    def cached_batches(self, producer_id: int) -> list[Written]:
        """Return the last five data batches of the current epoch; after a snapshot only the last."""
        epoch = self.epoch(producer_id)
        current: list[Written] = []
        for one in self.of(producer_id):
            if one.header.producer_epoch != epoch:
                current.clear()
            elif one.marker is None:
                current.append(one)
        old = [one for one in current if one.end <= self.loaded_from]
        return (old[-1:] + current[len(old) :])[-5:]

    def transactions(self) -> list[tuple[int, int, int | None]]:
        """Return (producer id, first offset, marker's offset or None) of every transaction."""
        transactions: list[tuple[int, int, int | None]] = []
        is_open: dict[int, int] = {}
        for one in self.log:
            producer_id = one.header.producer_id
            if one.marker is not None:
                if producer_id in is_open:
                    transactions.append((producer_id, is_open.pop(producer_id), one.offset))
            elif one.header.is_transactional:
                is_open.setdefault(producer_id, one.offset)
        return transactions + [(producer_id, first, None) for producer_id, first in is_open.items()]

    def open_transaction(self, producer_id: int) -> int | None:
        open_transactions = {
            each_id: first for each_id, first, marker in self.transactions() if marker is None
        }
        return open_transactions.get(producer_id)

    def verdict(self, header: BatchHeader) -> ErrorCode | Written | None:
        producer_id, epoch = header.producer_id, header.producer_epoch
        current_epoch = self.epoch(producer_id)
        batches = self.cached_batches(producer_id)
        duplicates = [
            one
            for one in batches
            if epoch == current_epoch
            and one.header.base_sequence == header.base_sequence
            and one.header.record_count == header.record_count
        ]
        if duplicates:
            return duplicates[-1]
        if epoch < current_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if current_epoch != -1:
            last = batches[-1].header if batches and epoch == current_epoch else None
            expected = last.base_sequence + last.record_count if last else 0
            if header.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.open_transaction(producer_id) is not None and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None

    # -- events

    @rule(
        producer_id=producer_ids,
        epoch_step=st.sampled_from([0] * 12 + [1, -1]),
        sequence_step=st.sampled_from([0] * 12 + [1, -1, -2, -3, -4, -7]),
        count=st.sampled_from([1, 1, 1, 2]),
        transactional=st.booleans(),
    )
    def a_client_writes(
        self, producer_id: int, epoch_step: int, sequence_step: int, count: int, transactional: bool
    ) -> None:
        epoch = max(0, self.epoch(producer_id) + epoch_step)
        batches = self.cached_batches(producer_id)
        following = batches[-1].header.last_sequence + 1 if batches and epoch_step == 0 else 0
        header = data_header(
            producer_id, epoch, max(0, following + sequence_step), count, transactional=transactional
        )
        expected = self.verdict(header)
        try:
            duplicate = self.real.check(header, self.end, AppendOrigin.CLIENT)
        except KafkaError as error:
            assert error.code == expected
            return
        if duplicate is not None:
            assert isinstance(expected, Written)
            assert (duplicate.first_offset, duplicate.last_offset) == (expected.offset, expected.end - 1)
            return
        assert expected is None
        self.append(header, None)

    @rule(producer_id=producer_ids, raises_epoch=st.booleans(), abort=st.booleans())
    def a_transaction_ends(self, producer_id: int, raises_epoch: bool, abort: bool) -> None:
        header = marker_header(producer_id, max(0, self.epoch(producer_id)) + raises_epoch)
        marker = EndTransactionMarker(abort, 0, 0)
        assert self.real.check(header, self.end, AppendOrigin.COORDINATOR, marker) is None
        self.append(header, marker)

    def append(self, header: BatchHeader, marker: EndTransactionMarker | None) -> None:
        offset = self.end
        started = None if marker is None else self.open_transaction(header.producer_id)
        self.log.append(Written(offset, header, marker))
        self.apply(self.log[-1], started)

    def apply(self, written: Written, started: int | None) -> None:
        completed = self.real.update(written.header, written.offset, written.marker)
        self.real.update_map_end_offset(written.end)
        assert (completed.first_offset if completed else None) == started
        if completed is not None:
            others = [
                first
                for who, first, last in self.transactions()
                if first < written.offset and (last is None or last > written.offset)
            ]
            stable = self.real.transactions.last_stable_offset_after(completed)
            assert stable == min([*others, written.offset + 1])
            self.real.transactions.complete(completed)

    @rule(share=st.floats(0, 1))
    def the_high_watermark_advances(self, share: float) -> None:
        self.high_watermark += int((self.end - self.high_watermark) * share)

    @rule()
    def a_snapshot_is_taken(self) -> None:
        self.real.take_snapshot()

    @precondition(lambda self: self.log)
    @rule(data=st.data(), is_restart=st.booleans())
    def the_log_is_truncated_and_reloaded(self, data: st.DataObject, is_restart: bool) -> None:
        ends = [one.end for one in self.log if one.end >= self.high_watermark]
        if not ends:
            return
        new_end = data.draw(st.sampled_from([ends[-1], *ends]))
        self.log = [one for one in self.log if one.end <= new_end]
        if is_restart:
            self.real = self.restart()
        elif self.real.map_end_offset == new_end:
            self.real.truncate_and_reload(0, new_end, now_ms=0)
            return
        self.real.truncate_and_reload(0, new_end, now_ms=0)
        self.loaded_from = self.real.map_end_offset
        assert self.loaded_from <= new_end
        ended = {last: first for _, first, last in self.transactions() if last is not None}
        for one in self.log:
            if one.offset >= self.loaded_from:
                self.apply(one, ended.get(one.offset))

    # -- invariants

    @invariant()
    def every_producer_equals_the_log(self) -> None:
        for producer_id in (1, 2, 3):
            entry = self.real.producers.get(producer_id)
            if not self.of(producer_id):
                assert entry is None
                continue
            assert entry is not None
            assert entry.producer_epoch == self.epoch(producer_id)
            assert entry.transaction_first_offset == self.open_transaction(producer_id)
            assert [(one.first_offset, one.last_offset) for one in entry.batches] == [
                (one.offset, one.end - 1) for one in self.cached_batches(producer_id)
            ]

    @invariant()
    def stable_offsets_are_those_of_the_log(self) -> None:
        transactions = self.transactions()
        undecided = min((first for _, first, last in transactions if last is None), default=None)
        assert self.real.transactions.first_undecided_offset == undecided
        unstable = [
            first
            for _, first, last in transactions
            if last is None or (last >= self.high_watermark and last >= self.loaded_from)
        ]
        assert self.real.transactions.first_unstable_offset(self.high_watermark) == min(
            unstable, default=None
        )


TestProducersOfOneLog = ProducersOfOneLog.TestCase
TestProducersOfOneLog.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
