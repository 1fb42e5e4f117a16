"""Appending validated batches to the active segment of one log.

Errors: see tidelog.storage.log.partition_log.
Source: UnifiedLog.append of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.protocol.batch import ATTRIBUTE_TRANSACTIONAL, BatchHeader
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.transaction_marker import EndTransactionMarker
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.disk.errors import CorruptFile, StorageFailure
from tidelog.storage.log.append import AppendInfo, read_markers
from tidelog.storage.log.failures import LogFailures
from tidelog.storage.log.leader_epoch_file_cache import LeaderEpochFileCache
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.log_segments import LogSegments
from tidelog.storage.log.settings import LogSettings
from tidelog.storage.producers.producer_entry import BatchMetadata
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.storage.producers.verification import Verification
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.txn_index import AbortedTransaction


class LogAppender:
    """Appends batches whose offsets and leader epochs are assigned, and updates epochs and producers."""

    __slots__ = ("_epochs", "_failures", "_log_segments", "_offsets", "_producers", "_segments", "_settings")

    def __init__(
        self,
        settings: LogSettings,
        failures: LogFailures,
        offsets: LogOffsets,
        segments: LogSegments,
        epochs: LeaderEpochFileCache,
        producers: ProducerStateManager,
    ) -> None:
        self._settings = settings
        self._failures = failures
        self._offsets = offsets
        self._log_segments = segments
        self._segments = segments.segments
        self._epochs = epochs
        self._producers = producers

    def append_data(
        self,
        data: bytearray | memoryview,
        header: BatchHeader,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: AppendOrigin,
        verification: Verification | None,
    ) -> AppendInfo:
        """Append one batch that is not a control batch: `append` without what only other batches need.

        `data` starts at the log end and has `leader_epoch`; `header` may still have the client's values.
        """
        size_bytes, settings, newest = len(data), self._settings, header.max_timestamp
        if size_bytes > settings.rules.segment_bytes:
            raise self._too_large(size_bytes)
        offsets, producers = self._offsets, self._producers
        first_offset, has_producer = offsets.log_end_offset, header.producer_id >= 0
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
            if leader_epoch != self._epochs.current_epoch:
                self._epochs.assign(leader_epoch, first_offset)
            segment = self._segments.active
            if segment.is_due_to_roll(settings.config, size_bytes, last_offset, newest, now_ms):
                segment = self._roll(first_offset, now_ms)
            segment.append_batch(data, first_offset, last_offset, newest)
        except (OSError, StorageFailure, CorruptFile) as error:
            raise self._failures.storage_error("append", error) from error
        offsets.advance_log_end(last_offset + 1)
        if has_producer:
            producers.update(header, first_offset)
            if is_transactional:
                offsets.update_first_unstable_offset()
        log_append_time = newest if settings.rules.log_append_time else -1
        return AppendInfo(
            first_offset, last_offset, log_append_time, offsets.log_start_offset, size_bytes, False
        )

    def append(
        self,
        data: bytes | bytearray | memoryview,
        batches: list[BatchHeader],
        now_ms: int,
        origin: AppendOrigin,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append `data`, which consists of `batches`; their offsets continue the log.

        `transaction_version` is that of a coordinator's marker, 0 if it is unknown.
        """
        size_bytes, settings, offsets = len(data), self._settings, self._offsets
        if size_bytes > settings.rules.segment_bytes:
            raise self._too_large(size_bytes)
        first, last = batches[0], batches[-1]
        last_offset = last.base_offset + last.last_offset_delta
        newest = first.max_timestamp if first is last else max(h.max_timestamp for h in batches)
        markers: list[EndTransactionMarker | None] | None = None
        if first.producer_id >= 0 or first is not last:
            markers = read_markers(data, batches)
            duplicate = None
            if first.producer_id >= 0:
                duplicate = self._producers.check(
                    first, first.base_offset, origin, markers[0], transaction_version=transaction_version
                )
            if duplicate is not None:
                return self._duplicate_info(duplicate, size_bytes)
        try:
            for header in batches:
                if header.partition_leader_epoch != self._epochs.current_epoch:
                    self._epochs.assign(header.partition_leader_epoch, header.base_offset)
            segment = self._segments.active
            if segment.is_due_to_roll(settings.config, size_bytes, last_offset, newest, now_ms):
                segment = self._roll(first.base_offset, now_ms)
            segment.append(data, batches)
        except (OSError, StorageFailure, CorruptFile) as error:
            raise self._failures.storage_error("append", error) from error
        offsets.advance_log_end(last_offset + 1)
        if markers is not None:
            self._update_producers(segment, batches, markers, transaction_version)
        log_append_time = newest if settings.rules.log_append_time else -1
        return AppendInfo(
            first.base_offset,
            last_offset,
            log_append_time,
            offsets.log_start_offset,
            size_bytes,
            False,
        )

    def _roll(self, base_offset: Offset, now_ms: int) -> LogSegment:
        log_end_offset = self._offsets.log_end_offset
        with self._failures.storage_errors("roll"):
            return self._log_segments.roll(max(base_offset, log_end_offset), log_end_offset, now_ms)

    def _too_large(self, size_bytes: int) -> KafkaError:
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{size_bytes} bytes to append, segment.bytes is {self._settings.rules.segment_bytes}",
        )

    def _duplicate_info(self, duplicate: BatchMetadata, size_bytes: int) -> AppendInfo:
        return AppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,  # like Kafka, for both types of timestamps
            self._offsets.log_start_offset,
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
        producers, are_transactional = self._producers, False
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
                stable = producers.transactions.last_stable_offset_after(completed)
                aborted = AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, stable
                )
                with self._failures.storage_errors("append", is_final=True):
                    segment.txn_index.append(aborted)
            producers.transactions.complete(completed)
        if are_transactional:
            self._offsets.update_first_unstable_offset()
