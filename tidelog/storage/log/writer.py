"""Appending to a log, as its leader, as a follower or as a voter of the quorum, and rolling its segments.

Errors: see tidelog.storage.log.partition_log.
Source: UnifiedLog.append and LocalLog.roll of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from tidelog.protocol.batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    LOG_OVERHEAD,
    BatchHeader,
    stamp,
    stamped,
)
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.steps import Steps, completed
from tidelog.storage.disk.errors import CorruptFile, StorageFailure
from tidelog.storage.log.append import AppendInfo, read_given_batches, read_markers
from tidelog.storage.log.reader import ReadableLog
from tidelog.storage.log.roll import roll_segment
from tidelog.storage.log.validation import AppendOrigin, read_single_batch, validation
from tidelog.storage.log.validation_rules import ValidatedBatch
from tidelog.storage.producers.producer_entry import BatchMetadata
from tidelog.storage.producers.transaction_marker import EndTransactionMarker
from tidelog.storage.producers.verification import Verification
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.txn_index import AbortedTransaction

_RAFT: Final = AppendOrigin.RAFT


class WritableLog(ReadableLog):
    """A log that can be appended to."""

    # -- appending

    def validate(self, records: bytearray | memoryview, now_ms: int) -> Steps[ValidatedBatch]:
        """Check a producer's batch in steps, as `append_as_leader` does at once; return what to append.

        For logs whose rules say `may_open_batches`. `records` must not change before the last step. It
        changes nothing in the log: where the batch goes, and whether its producer may append it, is decided
        by the append.
        """
        header = read_single_batch(records)
        steps = validation(records, header, self.rules, AppendOrigin.CLIENT, now_ms)
        return ValidatedBatch(records, header) if steps is None else (yield from steps)

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = None,
        validated: ValidatedBatch | None = None,
    ) -> AppendInfo:
        """Check one batch, give it the next offsets and the epoch (in place), and append it.

        With `AppendOrigin.RAFT` there may be several batches, which have their offsets and epoch already.
        `transaction_version` is the transaction.version by which a coordinator ended a transaction, 0 when it
        is unknown. `verification` is the one that began for a batch of a transaction, see
        `ProducerStateManager.check_transactional` (KIP-890).
        `validated` is what `validate` returned for `records`, which are not checked again then.
        Errors: KafkaError, see tidelog.storage.log.validation, tidelog.storage.producers.producer_entry and
        the module.
        """
        if self.failure is not None:
            self.refuse_after_failure()
        if origin is _RAFT:
            return self._append_of_quorum(records, leader_epoch, now_ms)
        if validated is None:
            header = read_single_batch(records)
            steps = validation(records, header, self.rules, origin, now_ms)
            if steps is not None:
                records, header = completed(steps)
        else:
            records, header = validated
        size_bytes = header.batch_length + LOG_OVERHEAD
        if size_bytes != len(records):
            records = memoryview(records)[:size_bytes]
        first_offset = self.log_end_offset
        stamp(records, 0, first_offset, leader_epoch)
        if not header.attributes & ATTRIBUTE_CONTROL:
            return self._append_data(
                records, header, first_offset, leader_epoch, now_ms, origin, verification
            )
        header = stamped(header, first_offset, leader_epoch)
        return self._append(records, [header], now_ms, origin, transaction_version)

    def append_as_follower(
        self, records: bytes | bytearray | memoryview, now_ms: int, *, leader_epoch: LeaderEpoch | None = None
    ) -> AppendInfo | None:
        """Append the whole batches of a leader's answer as they are; None when there is not one.

        Batches of an epoch above `leader_epoch`, when that is given, are left out.
        Errors: KafkaError CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE when offsets do not continue the log.
        """
        self.refuse_after_failure()
        given = read_given_batches(records, self.topic_partition, self.log_end_offset, leader_epoch)
        if not given.batches:
            return None
        data = memoryview(records)[: given.size_bytes]
        return self._append(data, given.batches, now_ms, AppendOrigin.REPLICATION)

    def _append_of_quorum(
        self, records: bytearray | memoryview, leader_epoch: LeaderEpoch, now_ms: int
    ) -> AppendInfo:
        given = read_given_batches(records, self.topic_partition, self.log_end_offset, None)
        if not given.batches or given.size_bytes != len(records):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{self.topic_partition}: no whole batches to append")
        for header in given.batches:
            if header.partition_leader_epoch != leader_epoch:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD,
                    f"batch at offset {header.base_offset} has epoch {header.partition_leader_epoch}, "
                    f"the leader's is {leader_epoch}",
                )
        return self._append(records, given.batches, now_ms, AppendOrigin.RAFT)

    def _append_data(
        self,
        data: bytearray | memoryview,
        header: BatchHeader,
        first_offset: Offset,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: AppendOrigin,
        verification: Verification | None,
    ) -> AppendInfo:
        """What `_append` comes to for one batch that is no control batch, without what only others need.

        Offset and epoch are those that were stamped; `header` may still have the client's.
        """
        size_bytes, rules, newest = len(data), self.rules, header.max_timestamp
        if size_bytes > rules.segment_bytes:
            raise self._too_large(size_bytes)
        producers, has_producer = self.producers, header.producer_id >= 0
        is_transactional = has_producer and header.attributes & ATTRIBUTE_TRANSACTIONAL
        if has_producer:
            if is_transactional:
                duplicate = producers.check_transactional(header, first_offset, origin, verification)
            else:
                duplicate = producers.check(header, first_offset, origin)
            if duplicate is not None:
                return self._duplicate_info(duplicate, size_bytes)
        last_offset = first_offset + header.last_offset_delta
        try:
            if leader_epoch != self.written_epoch:
                self.assign_leader_epoch(leader_epoch, first_offset)
            segment = self.segments.active
            if segment.is_due_to_roll(self.config, size_bytes, last_offset, newest, now_ms):
                segment = self.roll(now_ms, first_offset)
            segment.append_batch(data, first_offset, last_offset, newest)
        except (OSError, StorageFailure, CorruptFile) as error:
            raise self.storage_error("append", error) from error
        self.log_end_offset = producers.map_end_offset = last_offset + 1
        if has_producer:
            producers.update(header, first_offset)
            if is_transactional:
                self.update_first_unstable_offset()
        log_append_time = newest if rules.log_append_time else -1
        return AppendInfo(
            first_offset, last_offset, newest, log_append_time, self.log_start_offset, size_bytes, False
        )

    def _append(
        self,
        data: bytes | bytearray | memoryview,
        batches: list[BatchHeader],
        now_ms: int,
        origin: AppendOrigin,
        transaction_version: int = 0,
    ) -> AppendInfo:
        size_bytes, rules = len(data), self.rules
        if size_bytes > rules.segment_bytes:
            raise self._too_large(size_bytes)
        first, last = batches[0], batches[-1]
        last_offset = last.base_offset + last.last_offset_delta
        newest = first.max_timestamp if first is last else max(h.max_timestamp for h in batches)
        markers: list[EndTransactionMarker | None] | None = None
        if first.producer_id >= 0 or first is not last:
            markers = read_markers(data, batches)
            duplicate = None
            if first.producer_id >= 0:
                duplicate = self.producers.check(
                    first, first.base_offset, origin, markers[0], transaction_version=transaction_version
                )
            if duplicate is not None:
                return self._duplicate_info(duplicate, size_bytes)
        try:
            for header in batches:
                if header.partition_leader_epoch != self.written_epoch:
                    self.assign_leader_epoch(header.partition_leader_epoch, header.base_offset)
            segment = self.segments.active
            if segment.is_due_to_roll(self.config, size_bytes, last_offset, newest, now_ms):
                segment = self.roll(now_ms, first.base_offset)
            segment.append(data, batches)
        except (OSError, StorageFailure, CorruptFile) as error:
            raise self.storage_error("append", error) from error
        self.log_end_offset = self.producers.map_end_offset = last_offset + 1
        if markers is not None:
            self._update_producers(segment, batches, markers, transaction_version)
        log_append_time = newest if rules.log_append_time else -1
        return AppendInfo(
            first.base_offset, last_offset, newest, log_append_time, self.log_start_offset, size_bytes, False
        )

    def _too_large(self, size_bytes: int) -> KafkaError:
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{size_bytes} bytes to append, segment.bytes is {self.rules.segment_bytes}",
        )

    def _duplicate_info(self, duplicate: BatchMetadata, size_bytes: int) -> AppendInfo:
        return AppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,
            duplicate.timestamp,  # as Kafka, whatever the topic's timestamps are
            self.log_start_offset,
            size_bytes,
            True,
        )

    def _update_producers(
        self,
        segment: LogSegment,
        batches: list[BatchHeader],
        markers: list[EndTransactionMarker | None],
        transaction_version: int,
    ) -> None:
        producers, are_transactional = self.producers, False
        for header, marker in zip(batches, markers, strict=True):
            if header.producer_id < 0:
                continue
            are_transactional = are_transactional or header.is_transactional or header.is_control
            completed = producers.update(
                header, header.base_offset, marker, transaction_version=transaction_version
            )
            if completed is None:
                continue
            if completed.is_aborted:
                stable = producers.last_stable_offset_after(completed)
                aborted = AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, stable
                )
                with self.storage_errors("append", is_final=True):
                    segment.txn_index.append(aborted)
            producers.complete_transaction(completed)
        if are_transactional:
            self.update_first_unstable_offset()

    # -- segments

    def roll(self, now_ms: int, next_offset: Offset | None = None) -> LogSegment:
        """Seal the active segment and start another at the log end, or at `next_offset` above it.

        An active segment that is empty and already starts there stays the active one.
        """
        base_offset = max(self.log_end_offset, next_offset or 0)
        with self.storage_errors("roll"):
            return roll_segment(self, base_offset, now_ms)

    def maybe_roll(self, now_ms: int) -> bool:
        """Roll a segment that has been the active one for longer than segment.ms, however old its records."""
        if self.failure is not None:
            return False
        active = self.segments.active
        age_ms = now_ms - active.created_ms
        if active.size_bytes == 0 or age_ms <= self.config.max_segment_ms - active.roll_jitter_ms:
            return False
        self.roll(now_ms)
        return True
