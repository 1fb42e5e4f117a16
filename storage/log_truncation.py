"""Cutting a log's end off, so that a follower can go on where its leader does.

The order makes every crash on the way harmless: first the lowered recovery point becomes durable, so
that the region is verified again; then segments go, the newest first and each durably, so that no gap
can stay; then the last segment is cut and synced, so that old bytes cannot come back behind new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.ids import Offset
from storage.log_roll import create_segment
from storage.recovery import replay_producers

if TYPE_CHECKING:
    from storage.log import PartitionLog


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
        truncate_fully_and_start_at(log, offset, now_ms)
        return True
    _prepare_checkpoints(log, min(log.log_start_offset, end_offset), end_offset)
    for above in reversed(log.segments.starting_above(offset)):
        log.remove_segment(above, now_ms)
        log.fs.fsync_dir(log.directory)
    segment.truncate_to(offset)
    log.log_end_offset = end_offset
    log.high_watermark = min(log.high_watermark, end_offset)
    if log.leader_epochs.truncate_from_end(end_offset):
        log.write_leader_epochs()
    _reload_producers(log, now_ms)
    return True


def truncate_fully_and_start_at(log: PartitionLog, offset: Offset, now_ms: int) -> None:
    """See PartitionLog.truncate_fully_and_start_at."""
    _prepare_checkpoints(log, offset, offset)
    for segment in reversed(list(log.segments)):
        log.remove_segment(segment, now_ms)
        log.fs.fsync_dir(log.directory)
    log.segments.add(create_segment(log, offset, now_ms))
    log.high_watermark = offset
    log.log_end_offset = offset
    if log.leader_epochs.clear():
        log.write_leader_epochs()
    log.producers.truncate_fully_and_start_at(offset)
    log.fs.fsync_dir(log.directory)
    log.update_first_unstable_offset()


def _prepare_checkpoints(log: PartitionLog, log_start_offset: Offset, recovery_point: Offset) -> None:
    """Make the new start and the lowered recovery point durable before anything is cut.

    A checkpoint that is above the log's new end would later hide, or vouch for, records that are written
    there anew.
    """
    log.generation += 1
    if log.log_start_offset != log_start_offset:
        log.log_start_offset = log_start_offset
        log.observer.log_start_offset_changed(log)
    if log.recovery_point > recovery_point:
        log.recovery_point = recovery_point
        log.observer.recovery_point_lowered(log)


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
