"""Opening a partition directory: complete interrupted operations, recover after a crash, load the state.

Errors: CorruptLog and UnsupportedFormat name the segment file that cannot be used; OSError, StorageFailure.
I/O: after a clean shutdown a few preads per segment; otherwise every byte above the recovery point.
Source: org.apache.kafka.storage.internals.log.LogLoader of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import BATCH_OVERHEAD, read_header
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.checkpoints import LeaderEpochCheckpoint
from tidelog.storage.disk.errors import CorruptCheckpoint, CorruptIndex
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.log_files import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    base_offset_of,
    file_name,
    is_index,
    is_segment_log,
)
from tidelog.storage.leader_epoch import LeaderEpochCache
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.storage.recovery.interrupted_swaps import finish_interrupted_swaps
from tidelog.storage.recovery.recovery import (
    TailRecovery,
    assign_seen_epoch,
    check_distance,
    replay_producer,
    replay_producers,
)
from tidelog.storage.segment.batch_scan import CorruptLog, checked_batches
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segments import Segments

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LoadedLog:
    """The parts of a log that were loaded from a partition directory."""

    segments: Segments
    log_start_offset: Offset
    local_log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    leader_epochs: LeaderEpochCache
    leader_epoch_checkpoint: LeaderEpochCheckpoint
    producers: ProducerStateManager


@dataclass(slots=True)
class LogLoader:
    """Loads one partition directory, once."""

    fs: FileSystem
    directory: str
    topic_partition: TopicPartition
    config: LogConfig
    now_ms: int
    recovery_point: Offset
    log_start_offset: Offset
    clean: bool
    """Whether the last shutdown was clean, so that nothing needs recovery."""
    producer_id_expiration_ms: int
    may_have_gaps: bool
    """Whether compaction may have left gaps between segments."""
    has_remote_part: bool
    """Whether remote storage may have the records from the log start offset to the first segment."""

    def load(self) -> LoadedLog:
        """Open the log; see the module for errors."""
        finish_interrupted_swaps(self.fs, self.directory)
        segments = Segments()
        try:
            return self._load_into(segments)
        except BaseException:
            segments.close()
            raise

    def _load_into(self, segments: Segments) -> LoadedLog:
        self._open_segments(segments)
        is_new = not len(segments)
        producers = ProducerStateManager(
            self.topic_partition, self.fs, self.directory, self.producer_id_expiration_ms
        )
        checkpoint = LeaderEpochCheckpoint(self.fs, f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}")
        epochs, epochs_changed = self._read_leader_epochs(checkpoint, segments)
        before = epochs.entries
        log_end_offset = self._find_end(segments, epochs, producers)
        log_end_offset = self._require_start_within(segments, log_end_offset)
        local_log_start_offset = max(self.log_start_offset, segments.first.base_offset)
        epochs.truncate_from_end(log_end_offset)
        log_start_offset = local_log_start_offset
        if self.has_remote_part:
            log_start_offset = self._start_of_remote_part(epochs, epochs_changed, local_log_start_offset)
        epochs.truncate_from_start(log_start_offset)
        if epochs_changed or epochs.entries != before:
            checkpoint.write(epochs.entries)
        self._load_producers(producers, segments, log_start_offset, log_end_offset)
        if not self.clean and not is_new:
            self.fs.fsync_dir(self.directory)
        return LoadedLog(
            segments=segments,
            log_start_offset=log_start_offset,
            local_log_start_offset=local_log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=log_end_offset if self.clean else min(self.recovery_point, log_end_offset),
            leader_epochs=epochs,
            leader_epoch_checkpoint=checkpoint,
            producers=producers,
        )

    # -- segments

    def _open_segments(self, segments: Segments) -> None:
        names = self.fs.listdir(self.directory)
        present = set(names)
        missing: dict[Offset, list[str]] = {}
        for name in names:
            offset = base_offset_of(name)
            if offset is None:
                continue
            if is_segment_log(name):
                indexes = [file_name(offset, suffix) for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
                missing[offset] = [index for index in indexes if index not in present]
                segments.add(self._new_segment(offset, create=False))
            elif is_index(name) and file_name(offset, LOG_SUFFIX) not in present:
                _log.warning("%s/%s is removed: its segment does not exist", self.directory, name)
                self.fs.unlink(f"{self.directory}/{name}")
        for segment in segments:
            if self._is_recovered_later(segments, segment):
                break
            self._check_indexes(segments, segment, missing[segment.base_offset])

    def _is_recovered_later(self, segments: Segments, segment: LogSegment) -> bool:
        """Return whether recovery will read the segment and rebuild its indexes anyway."""
        following = segments.higher(segment.base_offset)
        return not self.clean and (following is None or following.base_offset > self.recovery_point)

    def _check_indexes(self, segments: Segments, segment: LogSegment, missing: list[str]) -> None:
        damage = ", ".join(f"{name} is missing" for name in missing) or self._index_damage(segment)
        if damage and segment.size_bytes:
            _log.warning("%s: %s; the indexes are rebuilt", segment.file.path, damage)
            self._rebuild_indexes(segments, segment)
        elif damage and not missing:
            # Otherwise entries of removed batches would precede those of new ones.
            _log.warning("%s is empty, but %s; the index entries are removed", segment.file.path, damage)
            segment.forget_indexes()
            segment.files.sync_indexes()

    def _new_segment(self, offset: Offset, *, create: bool) -> LogSegment:
        return LogSegment(
            self.fs,
            self.directory,
            offset,
            self.config,
            self.now_ms,
            create=create,
        )

    def _index_damage(self, segment: LogSegment) -> str | None:
        """Return the damage of a segment's indexes that a few reads can find; None if there is none."""
        try:
            segment.offset_index.sanity_check()
            segment.time_index.sanity_check()
            segment.txn_index.sanity_check()
            if segment.offset_index.entry_count:
                offset, position = segment.offset_index.entry(segment.offset_index.entry_count - 1)
                header = read_header(segment.file.pread(BATCH_OVERHEAD, position))
                if header.last_offset != offset:
                    return f"{segment.offset_index.file.path} places offset {offset} at {position}"
            if segment.time_index.entry_count:
                timestamp, offset = segment.time_index.last_entry
                place = segment.find(offset)
                if place is None or place.header.max_timestamp != timestamp:
                    return f"{segment.time_index.file.path} places timestamp {timestamp} at offset {offset}"
            elif (segment.first_timestamp or -1) >= 0:
                return f"{segment.time_index.file.path} is empty"
        except (CorruptIndex, CorruptLog) as damage:
            return str(damage)
        except DecodeError as damage:
            return f"{segment.offset_index.file.path} points to no batch: {damage}"
        return None

    def _rebuild_indexes(self, segments: Segments, segment: LogSegment) -> None:
        """Rebuild the indexes of a sealed, flushed segment; raise CorruptLog for damaged records."""
        producers = ProducerStateManager(
            self.topic_partition, self.fs, self.directory, self.producer_id_expiration_ms
        )
        for earlier in segments:
            if earlier is segment:
                break
            for position, header in earlier.batches():
                data = earlier.file.pread(header.size_bytes, position) if header.is_control else b""
                replay_producer(producers, header, data, 0, None)
        segment.forget_indexes()
        for position, header, batch in checked_batches(segment.file):
            check_distance(segment, header, position)
            replay_producer(producers, header, batch, 0, segment)
            segment.reindex(header, position)
        segment.seal()
        segment.files.sync()

    # -- where the log ends and starts

    def _find_end(
        self, segments: Segments, epochs: LeaderEpochCache, producers: ProducerStateManager
    ) -> Offset:
        if not len(segments):
            segments.add(self._new_segment(self.log_start_offset, create=True))
            return self.log_start_offset
        if self.clean:
            return segments.active.next_offset()
        first_unflushed = segments.from_offset(self.recovery_point)[0].base_offset
        # The snapshot of the first local segment has the producers of the remote part.
        local_start = max(self.log_start_offset, segments.first.base_offset)
        start = min(self.log_start_offset if self.has_remote_part else local_start, first_unflushed)
        producers.snapshots.remove_strays(segments.base_offsets)
        producers.truncate_and_reload(start, first_unflushed, self.now_ms)
        replay_producers(producers, segments, first_unflushed)
        # A log start that was raised over unflushed records raises Kafka's recovery point with it.
        promised = self.recovery_point if self.recovery_point > self.log_start_offset else 0
        recovery = TailRecovery(
            self.fs, segments, self.recovery_point, promised, self.may_have_gaps, epochs, producers
        )
        log_end_offset = recovery.run()
        if log_end_offset < self.recovery_point:
            _log.error(
                "%s ends at offset %d, though everything below %d had been flushed",
                segments.active.file.path,
                log_end_offset,
                self.recovery_point,
            )
        return log_end_offset

    def _require_start_within(self, segments: Segments, log_end_offset: Offset) -> Offset:
        """Create an empty log at the log start if it ends before that; return the log end."""
        if self.log_start_offset <= log_end_offset:
            return log_end_offset
        _log.error(
            "%s ends at offset %d, before its log start offset %d: its segments are removed",
            self.directory,
            log_end_offset,
            self.log_start_offset,
        )
        for segment in reversed(list(segments)):
            segments.remove(segment)
            segment.files.close()
            for path in segment.files.rename(self.fs, "", ".deleted"):
                self.fs.unlink(path)
            self.fs.fsync_dir(self.directory)
        segments.add(self._new_segment(self.log_start_offset, create=True))
        return self.log_start_offset

    def _start_of_remote_part(
        self, epochs: LeaderEpochCache, are_rebuilt: bool, local_log_start_offset: Offset
    ) -> Offset:
        """Return the log start offset of the checkpoint, or a later one that the epochs show.

        The epochs may be written before a log start that has risen within the remote part. Remote records
        below the first epoch cannot be found. Epochs that are lost or were rebuilt, now or at an earlier
        start, do not show the log start: they begin in the local part.
        """
        is_lost = not self.fs.exists(f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}")
        if are_rebuilt or is_lost:
            return self.log_start_offset
        earliest = epochs.earliest_entry
        if earliest is None or earliest.start_offset >= local_log_start_offset:
            return self.log_start_offset
        return max(self.log_start_offset, earliest.start_offset)

    # -- derived state

    def _read_leader_epochs(
        self, checkpoint: LeaderEpochCheckpoint, segments: Segments
    ) -> tuple[LeaderEpochCache, bool]:
        """Return the epochs, and whether they had to be rebuilt because the checkpoint is damaged or lost.

        The checkpoint lacks epochs that begin at or above the recovery point; recovery adds them.
        """
        try:
            entries = checkpoint.read()
            if entries or self._is_recovered_from_start(segments) or not self._has_epochs(segments):
                return LeaderEpochCache.of(entries), False
            _log.error("%s is empty, but the log is not; it is rebuilt from the log", checkpoint.path)
        except CorruptCheckpoint as damage:
            _log.error("%s; it is rebuilt from the log", damage)
        epochs = LeaderEpochCache()
        with suppress(CorruptLog):  # recovery removes an incomplete tail
            for segment in segments:
                for _, header in segment.batches():
                    assign_seen_epoch(epochs, header)
        return epochs, True

    def _is_recovered_from_start(self, segments: Segments) -> bool:
        """Return whether recovery will read all batches of the log."""
        return not self.clean and len(segments) > 0 and self.recovery_point <= segments.first.base_offset

    def _has_epochs(self, segments: Segments) -> bool:
        with suppress(CorruptLog):
            for segment in segments:
                for _, header in segment.batches():
                    return header.partition_leader_epoch >= 0
        return False

    def _load_producers(
        self,
        producers: ProducerStateManager,
        segments: Segments,
        log_start_offset: Offset,
        log_end_offset: Offset,
    ) -> None:
        if self.clean or log_end_offset != producers.map_end_offset:
            producers.snapshots.remove_strays(segments.base_offsets)
            producers.truncate_and_reload(log_start_offset, log_end_offset, self.now_ms)
            replay_producers(producers, segments, log_end_offset)
        producers.update_map_end_offset(log_end_offset)
        producers.take_snapshot(sync=False)
