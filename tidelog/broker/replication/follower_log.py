"""Applies the actions of a follower's state machine to its log: append, truncate, restart.

Batches are appended unchanged. The high watermark is the leader's, but at most our log end offset. The log
start offset is the leader's. After a restart from remote storage, the log starts with the leader epochs and
producers that were stored there.

I/O: through the log. Errors: KafkaError; CORRUPT_MESSAGE if the bytes are not whole batches.
Source: ReplicaFetcherThread.processPartitionData and Partition of Apache Kafka.
"""

from __future__ import annotations

import logging

from tidelog.cluster.replication.follower_state import Append, LogAction, RestartAt, RestartFromRemote
from tidelog.protocol.batch import BATCH_OVERHEAD, read_header
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.truncation import RemoteState

logger = logging.getLogger(__name__)


def apply_action(action: LogAction, log: PartitionLog, now_ms: int) -> bool:
    """Apply `action`; return whether the high watermark advanced. `now_ms` is wall time."""
    if isinstance(action, Append):
        return _append(action, log, now_ms)
    name = action.partition.topic_partition
    if isinstance(action, RestartAt):
        logger.warning("Restarting the log of %s at offset %d: %s", name, action.offset, action.reason)
        log.truncate_fully_and_start_at(action.offset, now_ms)
        return False
    if isinstance(action, RestartFromRemote):
        _restart_from_remote(action, log, now_ms)
        return False
    if action.offset < log.log_end_offset:
        # After an unclean election this may remove records that consumers have read.
        level = logging.WARNING if action.offset < log.high_watermark else logging.INFO
        logger.log(
            level,
            "Truncating the log of %s in leader epoch %d from offset %d to %d, high watermark %d: %s",
            name,
            action.partition.leader_epoch,
            log.log_end_offset,
            action.offset,
            log.high_watermark,
            action.reason,
        )
    log.truncate_to(action.offset, now_ms, below_high_watermark=True)
    return False


def _restart_from_remote(action: RestartFromRemote, log: PartitionLog, now_ms: int) -> None:
    logger.info(
        "Restarting the log of %s at offset %d, with %d leader epochs from remote offset %d on: %s",
        action.partition.topic_partition,
        action.offset,
        len(action.leader_epochs),
        action.log_start_offset,
        action.reason,
    )
    log.restart_from_remote(
        RemoteState(
            log_start_offset=action.log_start_offset,
            local_log_start_offset=action.offset,
            leader_epochs=action.leader_epochs,
            producer_snapshot=action.producer_snapshot,
        ),
        now_ms,
    )
    for epoch, start_offset in action.leader_epochs:
        if start_offset == action.offset:
            # This epoch has no record in the local log yet.
            log.epoch_file.note(epoch, start_offset)


def _append(action: Append, log: PartitionLog, now_ms: int) -> bool:
    if len(action.records):
        _start_at_first_batch(action, log, now_ms)
        info = log.append_as_follower(action.records, now_ms, leader_epoch=action.partition.leader_epoch)
        if info is None:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{len(action.records)} bytes from offset {action.offset} contain no whole batch "
                f"of leader epoch {action.partition.leader_epoch} or lower",
            )
    has_advanced = log.advance_high_watermark(action.high_watermark)
    if action.log_start_offset > log.log_start_offset:
        log.advance_log_start_offset(min(action.log_start_offset, log.high_watermark))
    return has_advanced


def _start_at_first_batch(action: Append, log: PartitionLog, now_ms: int) -> None:
    """Restart an empty log at the start of the first batch if its start offset is within the batch.

    The leader's log start offset is within a batch after DeleteRecords.
    """
    if log.log_start_offset != log.log_end_offset or len(action.records) < BATCH_OVERHEAD:
        return
    try:
        header = read_header(action.records)
    except DecodeError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if header.base_offset < log.log_end_offset < header.next_offset:
        log.truncate_fully_and_start_at(header.base_offset, now_ms)
