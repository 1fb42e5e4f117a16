"""Recovery of segments after a crash: keep complete batches, truncate the tail, rebuild derived state.

Records below the recovery point were flushed. Above it a crash may have lost, torn or zero-filled any bytes,
so the log is truncated at the first damage there. Damage below it means that durable bytes have changed. They
are never removed, which would spread the loss to replicas: the log is not opened, the error names the file,
and other partitions are not affected.

A segment that does not start where the previous one ends shows that a file between them was lost. The log
is truncated there too, unless compaction may have left the gap.

Source: LogSegment.recover and LogLoader.recoverLog of Apache Kafka 4.3, which truncate in both cases.
"""

from __future__ import annotations

import logging

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.protocol.transaction_marker import read_end_transaction_marker
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.leader_epoch import LeaderEpochCache
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.storage.segment.batch_scan import CorruptLog, checked_batches
from tidelog.storage.segment.offset_index import MAX_RELATIVE_OFFSET
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segments import Segments
from tidelog.storage.segment.txn_index import AbortedTransaction

_log = logging.getLogger(__name__)


def replay_producer(
    producers: ProducerStateManager,
    header: BatchHeader,
    buffer: bytes | bytearray | memoryview,
    position: int,
    segment: LogSegment | None,
) -> None:
    """Apply a batch of the log to the producers' state.

    An aborted transaction is added to the index of `segment`, unless that is None.
    Errors: DecodeError for a control batch that is not a transaction marker.
    """
    if header.producer_id >= 0:
        marker = read_end_transaction_marker(buffer, position, header) if header.is_control else None
        completed = producers.update(header, header.base_offset, marker)
        if completed is not None:
            if completed.is_aborted and segment is not None:
                stable = producers.transactions.last_stable_offset_after(completed)
                segment.txn_index.append(
                    AbortedTransaction(
                        completed.producer_id, completed.first_offset, completed.last_offset, stable
                    )
                )
            producers.transactions.complete(completed)
    producers.update_map_end_offset(header.next_offset)


def replay_producers(producers: ProducerStateManager, segments: Segments, end_offset: Offset) -> None:
    """Update the producers' state from `map_end_offset` to `end_offset` by reading headers and markers."""
    if not len(segments) or producers.map_end_offset >= end_offset:
        return
    for segment in segments.from_offset(producers.map_end_offset):
        if segment.base_offset >= end_offset:
            break
        start = segment.position_of(producers.map_end_offset)
        for position, header in segment.batches(start):
            if header.base_offset >= end_offset:
                break
            if header.next_offset <= producers.map_end_offset:
                continue
            data = segment.file.pread(header.size_bytes, position) if header.is_control else b""
            replay_producer(producers, header, data, 0, None)
    producers.update_map_end_offset(end_offset)


def check_distance(segment: LogSegment, header: BatchHeader, position: int) -> None:
    """Raise CorruptLog for a batch whose offsets cannot be in an index of its segment.

    The checksum does not cover the base offset, which may have any value if a disk returns other bytes.
    """
    if not 0 <= header.last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET:
        reason = f"offset {header.last_offset} is too far from {segment.base_offset}"
        raise CorruptLog(segment.file.path, position, reason)


def assign_seen_epoch(leader_epochs: LeaderEpochCache, header: BatchHeader) -> None:
    """Assign the epoch of a batch in the log, if it is newer than all known ones."""
    epoch, latest = header.partition_leader_epoch, leader_epochs.latest_epoch
    if epoch >= 0 and (latest is None or epoch > latest):
        leader_epochs.assign(epoch, header.base_offset)


@dataclass(slots=True)
class TailRecovery:
    """Recovers the segments from the recovery point on; `expected_offset` is the current end of the log."""

    fs: FileSystem
    segments: Segments
    recovery_point: Offset
    promised_offset: Offset
    """Everything below it was flushed, so that damage there was not caused by a crash."""
    may_have_gaps: bool
    leader_epochs: LeaderEpochCache
    producers: ProducerStateManager
    expected_offset: Offset = 0

    def run(self) -> Offset:
        """Recover every segment that may have unflushed bytes; return the log end offset.

        Errors: CorruptLog for damage below the recovery point, UnsupportedFormat, OSError.
        """
        unflushed = self.segments.from_offset(self.recovery_point)
        self.expected_offset = unflushed[0].base_offset
        for index, segment in enumerate(unflushed):
            if not self._continues(segment):
                _log.error(
                    "%s starts at offset %d, expected %d: it and all later segments are removed",
                    segment.file.path,
                    segment.base_offset,
                    self.expected_offset,
                )
                self._remove(unflushed[index:])
                break
            following = unflushed[index + 1 :]
            if self._recover(segment):
                self._remove(following)
                break
            if following:
                # Synced now: thousands of segments must not keep descriptors until the next flush.
                segment.seal()
                segment.files.sync()
            if following or not segment.size_bytes:
                segment.files.release_descriptors()
        return self.expected_offset

    def _continues(self, segment: LogSegment) -> bool:
        if self.may_have_gaps:
            return segment.base_offset >= self.expected_offset
        return segment.base_offset == self.expected_offset

    def _recover(self, segment: LogSegment) -> bool:
        """Rebuild one segment's indexes from its batches; return whether its tail was truncated."""
        segment.forget_indexes()
        segment.files.open_for_appending()
        self.expected_offset = segment.base_offset
        self.producers.update_map_end_offset(segment.base_offset)
        self.producers.take_snapshot(sync=False)
        damage = self._read(segment)
        if damage is not None:
            self._cut(segment, damage)
        return damage is not None

    def _read(self, segment: LogSegment) -> CorruptLog | None:
        position = 0
        try:
            for position, header, data in checked_batches(segment.file):
                if header.base_offset < self.expected_offset:
                    reason = f"offset {header.base_offset} follows {self.expected_offset - 1}"
                    return CorruptLog(segment.file.path, position, reason)
                check_distance(segment, header, position)
                replay_producer(self.producers, header, data, 0, segment)
                segment.reindex(header, position)
                assign_seen_epoch(self.leader_epochs, header)
                self.expected_offset = header.next_offset
        except CorruptLog as damage:
            return damage
        except DecodeError as error:
            return CorruptLog(segment.file.path, position, str(error))
        return None

    def _cut(self, segment: LogSegment, damage: CorruptLog) -> None:
        if self.expected_offset < self.promised_offset:
            _log.error(
                "%s: damaged at offset %d, though everything below %d had been flushed",
                damage,
                self.expected_offset,
                self.promised_offset,
            )
            raise damage
        _log.warning(
            "%s: the log is truncated there, at offset %d (recovery point %d)",
            damage,
            self.expected_offset,
            self.recovery_point,
        )
        segment.file.truncate(damage.position)
        # Old bytes that come back after newer ones in another crash would look like records.
        segment.file.fsync()

    def _remove(self, segments: list[LogSegment]) -> None:
        """Remove segments, the newest first and each durably, so that a crash here leaves no gap."""
        for segment in reversed(segments):
            if segment.size_bytes:
                _log.warning("%s is removed: it follows the damage", segment.file.path)
            self.segments.remove(segment)
            segment.files.close()
            for path in segment.files.rename(self.fs, "", ".deleted"):
                self.fs.unlink(path)
            self.fs.fsync_dir(segment.files.directory)
