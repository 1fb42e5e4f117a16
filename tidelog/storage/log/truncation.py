"""Cutting a log's end off, so that a follower can go on where its leader does.

The order makes every crash on the way harmless: first the lowered recovery point becomes durable, so
that the region is verified again; then segments go, the newest first and each durably, so that no gap
can stay; then the last segment is cut and synced, so that old bytes cannot come back behind new ones.

A step that finds no descriptor is done later (`LogState.perform`), so that each may be called again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset
from tidelog.storage.disk.errors import is_descriptor_shortage
from tidelog.storage.leader_epoch import EpochEntry, LeaderEpochCache
from tidelog.storage.log.roll import create_segment
from tidelog.storage.producers.producer_snapshot import decode_snapshot
from tidelog.storage.recovery.recovery import replay_producers
from tidelog.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from tidelog.storage.log.partition_log import PartitionLog

Step: TypeAlias = Callable[[], object]


def truncate_to(log: PartitionLog, offset: Offset, now_ms: int, below_high_watermark: bool) -> bool:
    """See PartitionLog.truncate_to."""
    assert offset >= 0, f"{log.topic_partition} cannot be truncated to {offset}"
    if offset >= log.log_end_offset:
        if log.leader_epochs.truncate_from_end(log.log_end_offset):
            log.write_leader_epochs()
        return False
    segment = log.segments.floor(offset)
    end_offset = offset if segment is None else segment.end_offset_when_cut_to(offset)
    if end_offset < log.high_watermark and not below_high_watermark:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{log.topic_partition} is not truncated to {offset}: its high watermark is {log.high_watermark}",
        )
    if segment is None:
        _truncate_to_remote_part(log, offset, now_ms)
        return True
    segment.open_for_appending()
    log_start_offset = min(log.log_start_offset, end_offset)
    log.perform(
        "truncation",
        [
            *_checkpoint_steps(log, log_start_offset, end_offset),
            *_removal_steps(log, log.segments.starting_above(offset), now_ms),
            partial(segment.truncate_to, offset),
            partial(_end_at, log, end_offset),
            partial(_reload_producers, log, now_ms),
        ],
    )
    return True


def truncate_fully_and_start_at(log: PartitionLog, offset: Offset, now_ms: int) -> None:
    """See PartitionLog.truncate_fully_and_start_at."""

    def start() -> None:
        log.segments.add(create_segment(log, offset, now_ms))
        _end_all_at(log, offset)
        has_epochs = log.leader_epochs.clear()
        log.producers.truncate_fully_and_start_at(offset)
        log.update_first_unstable_offset()
        if has_epochs:
            _write_leader_epochs_soon(log)

    log.perform(
        "truncation",
        [
            *_checkpoint_steps(log, offset, offset),
            *_removal_steps(log, log.segments, now_ms),
            start,
            partial(log.fs.fsync_dir, log.directory),
        ],
    )


def _truncate_to_remote_part(log: PartitionLog, offset: Offset, now_ms: int) -> None:
    """Drop all that is local, as `offset` is below it; a remote part goes on up to there.

    Kafka lets a tiered log start at `offset` then and forgets its epochs, so that a replica that is
    elected next no longer finds what is in remote storage.
    """
    if not log.remote_log_enabled or offset < log.log_start_offset:
        truncate_fully_and_start_at(log, offset, now_ms)
        return
    epochs = log.leader_epochs.entries_in_range(log.log_start_offset, offset)
    restart_from_remote(log, log.log_start_offset, offset, epochs, None, now_ms)


def restart_from_remote(
    log: PartitionLog,
    log_start_offset: Offset,
    local_log_start_offset: Offset,
    leader_epochs: Sequence[EpochEntry],
    producer_snapshot: bytes | None,
    now_ms: int,
) -> None:
    """See PartitionLog.restart_from_remote.

    The old records go before the new epochs come, which would vouch for them; the epochs, the start and
    the producers are there before the segment that goes on behind them. A crash in between leaves a log
    that is shorter than it was, or an empty one that starts where remote storage does.
    """
    assert 0 <= log_start_offset <= local_log_start_offset, (log_start_offset, local_log_start_offset)
    if not log.remote_log_enabled:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{log.topic_partition} has no remote storage here")
    producers = [] if producer_snapshot is None else decode_snapshot(producer_snapshot, "a remote snapshot")
    recovery_point = min(log.segments.first.base_offset, local_log_start_offset)

    def take_over_epochs() -> None:
        log.producers.truncate_fully_and_start_at(local_log_start_offset)
        log.log_start_offset = log_start_offset
        log.leader_epochs = LeaderEpochCache.of(leader_epochs)
        log.leader_epochs.truncate_from_end(local_log_start_offset)
        log.leader_epochs.truncate_from_start(log_start_offset)
        log.write_leader_epochs()

    def take_over_producers() -> None:
        for entry in producers:
            log.producers.load_entry(entry)
        log.producers.take_snapshot(sync=True)

    def start() -> None:
        log.segments.add(create_segment(log, local_log_start_offset, now_ms))
        _end_all_at(log, local_log_start_offset)
        log.update_first_unstable_offset()

    log.perform(
        "restart behind remote storage",
        [
            *_checkpoint_steps(log, log.log_start_offset, recovery_point),
            *_removal_steps(log, log.segments, now_ms),
            take_over_epochs,
            take_over_producers,
            partial(log.observer.log_start_offset_changed, log),
            start,
            partial(log.fs.fsync_dir, log.directory),
        ],
    )


def _removal_steps(log: PartitionLog, segments: Iterable[LogSegment], now_ms: int) -> list[Step]:
    """Remove segments, the newest first and each durably."""
    steps: list[Step] = []
    for segment in reversed(list(segments)):
        steps.append(partial(log.remove_segment, segment, now_ms))
        steps.append(partial(log.fs.fsync_dir, log.directory))
    return steps


def _end_at(log: PartitionLog, end_offset: Offset) -> None:
    """The log ends at `end_offset`."""
    log.log_end_offset = end_offset
    log.high_watermark = min(log.high_watermark, end_offset)
    _end_remote_part_at(log, end_offset)
    if log.leader_epochs.truncate_from_end(end_offset):
        _write_leader_epochs_soon(log)


def _write_leader_epochs_soon(log: PartitionLog) -> None:
    """Make the epochs durable: now, or without a descriptor with the next append.

    Those that are too much in the file until then are dropped when the log is opened.
    """
    try:
        log.write_leader_epochs()
    except OSError as error:
        if not is_descriptor_shortage(error):
            raise


def _end_all_at(log: PartitionLog, offset: Offset) -> None:
    """Nothing is local any more: the next record is that of `offset`."""
    log.high_watermark = log.log_end_offset = log.local_log_start_offset = offset
    _end_remote_part_at(log, offset)


def _end_remote_part_at(log: PartitionLog, end_offset: Offset) -> None:
    """What was cut off is written anew, and remote storage has not got that."""
    log.local_log_start_offset = min(log.local_log_start_offset, end_offset)
    highest = min(log.highest_offset_in_remote_storage, end_offset - 1)
    log.highest_offset_in_remote_storage = highest


def _checkpoint_steps(log: PartitionLog, log_start_offset: Offset, recovery_point: Offset) -> list[Step]:
    """Make the new start and the lowered recovery point durable before anything is cut.

    A checkpoint that is above the log's new end would later hide, or vouch for, records that are written
    there again.
    """
    steps: list[Step] = []
    log.generation += 1
    if log.log_start_offset != log_start_offset:

        def move_start() -> None:
            log.log_start_offset = log_start_offset
            log.observer.log_start_offset_changed(log)

        steps.append(move_start)
    if log.recovery_point > recovery_point:

        def lower_recovery_point() -> None:
            log.recovery_point = recovery_point
            log.observer.recovery_point_lowered(log)

        steps.append(lower_recovery_point)
    if log.first_dirty_offset is not None and log.first_dirty_offset > recovery_point:

        def lower_first_dirty_offset() -> None:
            log.first_dirty_offset = recovery_point
            log.observer.first_dirty_offset_lowered(log)

        steps.append(lower_first_dirty_offset)
    return steps


def _reload_producers(log: PartitionLog, now_ms: int) -> None:
    log.producers.truncate_and_reload(log.log_start_offset, log.log_end_offset, now_ms)
    replay_producers(log.producers, log.segments, log.log_end_offset)
    log.producers.map_end_offset = log.log_end_offset
    snapshot = log.producers.take_snapshot(sync=False)
    if snapshot is not None:
        log.unsynced_paths.append(snapshot)
    # Deleted snapshots must not come back: a later crash could take their state for that of new records.
    log.fs.fsync_dir(log.directory)
    log.update_first_unstable_offset()
