"""Truncating a log's end, so that a follower can continue where its leader does.

The order makes a crash between two steps harmless. First the lowered recovery point becomes durable, so
that the part above it is verified again. Then segments are removed, the newest first and each durably, so
that no gap can remain. Then the last segment is truncated and synced, so that old bytes cannot come back
after new ones.

A step that finds no file descriptor is executed later (`LogFailures.perform`), so each step can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.durability import Durability
from tidelog.storage.log.failures import LogFailures
from tidelog.storage.log.leader_epoch_file_cache import LeaderEpochFileCache
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.log_segments import LogSegments
from tidelog.storage.log.remote_border import RemoteBorder
from tidelog.storage.producers.producer_snapshot import decode_snapshot
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.storage.recovery.recovery import replay_producers
from tidelog.storage.segment.segment import LogSegment

Step: TypeAlias = Callable[[], object]


class RemoteState(NamedTuple):
    """What remote storage holds of a log up to `local_log_start_offset`, where the local log restarts.

    `leader_epochs` are those of the records from `log_start_offset` to there. `producer_snapshot` has the
    bytes of a `.snapshot` file with the producers' state there; None if there are no producers.
    """

    log_start_offset: Offset
    local_log_start_offset: Offset
    leader_epochs: Sequence[EpochEntry]
    producer_snapshot: bytes | None


class LogTruncation:
    """Truncates one log; each operation is a list of steps of the parts of the log."""

    __slots__ = ("_border", "_durability", "_epochs", "_failures", "_offsets", "_producers", "_segments")

    def __init__(
        self,
        failures: LogFailures,
        offsets: LogOffsets,
        segments: LogSegments,
        durability: Durability,
        border: RemoteBorder,
        epochs: LeaderEpochFileCache,
        producers: ProducerStateManager,
    ) -> None:
        self._failures = failures
        self._offsets = offsets
        self._segments = segments
        self._durability = durability
        self._border = border
        self._epochs = epochs
        self._producers = producers

    def truncate_to(
        self, topic_partition: TopicPartition, offset: Offset, now_ms: int, *, below_high_watermark: bool
    ) -> bool:
        """Truncate the log; see PartitionLog.truncate_to."""
        assert offset >= 0, f"{topic_partition} cannot be truncated to {offset}"
        offsets, segments = self._offsets, self._segments.segments
        if offset >= offsets.log_end_offset:
            if self._epochs.truncate_from_end(offsets.log_end_offset):
                self._epochs.write()
            return False
        segment = segments.floor(offset)
        end_offset = offset if segment is None else segment.end_offset_when_cut_to(offset)
        if end_offset < offsets.high_watermark and not below_high_watermark:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{topic_partition} is not truncated to {offset}: "
                f"its high watermark is {offsets.high_watermark}",
            )
        if segment is None:
            self._truncate_to_remote_part(offset, now_ms)
            return True
        segment.files.open_for_appending()
        self._failures.perform(
            "truncation",
            [
                *self._checkpoint_steps(min(offsets.log_start_offset, end_offset), end_offset),
                *self._removal_steps(segments.starting_above(offset), now_ms),
                partial(segment.truncate_to, offset),
                partial(self._end_at, end_offset),
                partial(self._reload_producers, now_ms),
            ],
        )
        return True

    def truncate_fully_and_start_at(self, offset: Offset, now_ms: int) -> None:
        """Remove all records; see PartitionLog.truncate_fully_and_start_at."""

        def start() -> None:
            self._segments.add_new(offset, now_ms)
            self._restart_at(offset)
            had_epochs = self._epochs.clear()
            self._producers.truncate_fully_and_start_at(offset)
            self._offsets.update_first_unstable_offset()
            if had_epochs:
                self._epochs.write_if_possible()

        self._failures.perform(
            "truncation",
            [
                *self._checkpoint_steps(offset, offset),
                *self._removal_steps(self._segments.segments, now_ms),
                start,
                self._segments.sync_directory,
            ],
        )

    def restart_from_remote(self, state: RemoteState, now_ms: int) -> None:
        """Restart a tiered log after its remote part; see PartitionLog.restart_from_remote.

        The old records are removed before the new epochs are written, which would confirm them. The epochs,
        the start and the producers are written before the segment that continues after them. A crash in
        between leaves a log that is shorter than it was, or an empty one with the start of remote storage.
        """
        log_start_offset, local_log_start_offset, leader_epochs, producer_snapshot = state
        assert 0 <= log_start_offset <= local_log_start_offset, (log_start_offset, local_log_start_offset)
        producers = (
            [] if producer_snapshot is None else decode_snapshot(producer_snapshot, "a remote snapshot")
        )
        recovery_point = min(self._segments.segments.first.base_offset, local_log_start_offset)

        def restore_epochs() -> None:
            self._producers.truncate_fully_and_start_at(local_log_start_offset)
            self._offsets.reset_log_start(log_start_offset)
            self._epochs.replace(leader_epochs, log_start_offset, local_log_start_offset)

        def restore_producers() -> None:
            self._producers.load_entries(producers)
            self._producers.take_snapshot(sync=True)

        def start() -> None:
            self._segments.add_new(local_log_start_offset, now_ms)
            self._restart_at(local_log_start_offset)
            self._offsets.update_first_unstable_offset()

        self._failures.perform(
            "restart from remote storage",
            [
                *self._checkpoint_steps(self._offsets.log_start_offset, recovery_point),
                *self._removal_steps(self._segments.segments, now_ms),
                restore_epochs,
                restore_producers,
                self._offsets.checkpoint_log_start,
                start,
                self._segments.sync_directory,
            ],
        )

    def _truncate_to_remote_part(self, offset: Offset, now_ms: int) -> None:
        """Remove all local records, as `offset` is below them; a remote part continues up to `offset`.

        Kafka then lets a tiered log start at `offset`, and removes its epochs. If the replica is elected
        next, it does not find the records in remote storage.
        """
        log_start_offset = self._offsets.log_start_offset
        if not self._border.remote_log_enabled or offset < log_start_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        epochs = self._epochs.cache.entries_in_range(log_start_offset, offset)
        self.restart_from_remote(RemoteState(log_start_offset, offset, epochs, None), now_ms)

    # -- steps

    def _checkpoint_steps(self, log_start_offset: Offset, recovery_point: Offset) -> list[Step]:
        """Make the new start and the lowered recovery point durable before anything is removed.

        A checkpoint above the log's new end would later hide, or confirm, records that are written there
        again.
        """
        steps: list[Step] = []
        self._durability.on_truncation()
        offsets = self._offsets
        if offsets.log_start_offset != log_start_offset:
            steps.append(partial(offsets.reset_log_start, log_start_offset))
            steps.append(offsets.checkpoint_log_start)
        if self._durability.recovery_point > recovery_point:
            steps.append(partial(self._durability.lower_recovery_point, recovery_point))
        if offsets.first_dirty_offset is not None and offsets.first_dirty_offset > recovery_point:
            steps.append(partial(offsets.lower_first_dirty_offset, recovery_point))
        return steps

    def _removal_steps(self, segments: Iterable[LogSegment], now_ms: int) -> list[Step]:
        """Remove segments, the newest first and each durably."""
        steps: list[Step] = []
        for segment in reversed(list(segments)):
            steps.append(partial(self._segments.remove, segment, now_ms))
            steps.append(self._segments.sync_directory)
        return steps

    def _end_at(self, end_offset: Offset) -> None:
        self._offsets.truncate_to(end_offset)
        self._border.truncate_to(end_offset)
        if self._epochs.truncate_from_end(end_offset):
            self._epochs.write_if_possible()

    def _restart_at(self, offset: Offset) -> None:
        """Let the local log be empty; the next record gets `offset`."""
        self._offsets.restart_at(offset)
        self._border.truncate_to(offset)

    def _reload_producers(self, now_ms: int) -> None:
        offsets, producers, segments = self._offsets, self._producers, self._segments
        producers.truncate_and_reload(offsets.log_start_offset, offsets.log_end_offset, now_ms)
        replay_producers(producers, segments.segments, offsets.log_end_offset)
        segments.take_producer_snapshot(offsets.log_end_offset)
        # Deleted snapshots must not come back: recovery could use their state for new records.
        segments.sync_directory()
        offsets.update_first_unstable_offset()
